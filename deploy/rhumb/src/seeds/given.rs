//! Seeds as they are given: on the command line, and in a file.
//!
//! In: arguments; a file with a URL a line. Out: canonical URLs, or what is wrong with all that are
//! bad. Invariant: bad ones are all counted; the first [`NAMED_MAX`] are named, with their places
//! and the reasons.

use rhumb_url::{Rules, canonical};
use std::ffi::OsString;
use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

/// Bad seeds that are named.
const NAMED_MAX: usize = 20;
/// An error shows the beginning of a bad seed, up to this number of characters.
const SHOWN: usize = 200;

/// Seeds that are URLs, in canonical form, with the places where they were given.
pub(crate) struct Given {
    urls: Vec<String>,
    /// As many as URLs: the line in the file; 0 of an argument.
    lines: Vec<usize>,
    file: PathBuf,
}

impl Given {
    /// Reads seeds from the command line and from a file (one a line; empty lines and lines that
    /// start with `#` are skipped; `-` is standard input).
    ///
    /// # Errors
    /// The file cannot be read, or seeds are no URLs: all of them are named.
    pub(crate) fn read(arguments: &[OsString], file: Option<&Path>) -> Result<Given, String> {
        let text = file.map_or(Ok(Vec::new()), bytes_of)?;
        let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(&text);
        let of_file = text.split(|byte| *byte == b'\n').map(trimmed).zip(1..);
        let of_file = of_file.filter(|(seed, _)| !seed.is_empty() && !seed.starts_with(b"#"));
        let arguments = arguments
            .iter()
            .map(|argument| (argument.as_encoded_bytes(), 0));

        let file = file.map(Path::to_owned).unwrap_or_default();
        let mut given = Given {
            urls: Vec::new(),
            lines: Vec::new(),
            file,
        };
        let mut bad = Bad::default();
        for (seed, line) in arguments.chain(of_file) {
            match canonical_of(seed) {
                Ok(url) => {
                    given.urls.push(url);
                    given.lines.push(line);
                }
                Err(why) => bad.add(&given.file, line, why),
            }
        }
        if bad.count == 0 {
            Ok(given)
        } else {
            Err(bad.to_string())
        }
    }

    /// The URLs as the crawl spells them.
    ///
    /// # Errors
    /// Some are longer than the crawl takes: all of them are named.
    pub(crate) fn in_crawl(
        self,
        rules: &Rules,
        url_bytes_max: usize,
    ) -> Result<Vec<String>, String> {
        let mut bad = Bad::default();
        for (url, line) in self.urls.iter().zip(&self.lines) {
            let bytes = rules.rewrite(url).len();
            if bytes > url_bytes_max {
                let seed = shown(url);
                let why = format!(
                    "seed '{seed}' has {bytes} bytes, limits.url_bytes_max accepts {url_bytes_max}"
                );
                bad.add(&self.file, *line, why);
            }
        }
        if bad.count == 0 {
            Ok(rules.rewrite_all(self.urls))
        } else {
            Err(bad.to_string())
        }
    }
}

/// Without the white space around it, of whatever kind where it is UTF-8.
fn trimmed(line: &[u8]) -> &[u8] {
    std::str::from_utf8(line).map_or(line.trim_ascii(), |line| line.trim().as_bytes())
}

fn bytes_of(file: &Path) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let read = match file == Path::new("-") {
        true => io::stdin().read_to_end(&mut bytes).map(|_| bytes),
        false => std::fs::read(file),
    };
    read.map_err(|error| format!("cannot read seeds from {}: {error}", file.display()))
}

fn canonical_of(seed: &[u8]) -> Result<String, String> {
    let Ok(text) = std::str::from_utf8(seed) else {
        return Err(format!(
            "seed '{}' is no UTF-8",
            shown(&String::from_utf8_lossy(seed))
        ));
    };
    canonical(text, None, None).map_err(|reason| {
        format!(
            "seed '{}' is no URL that can be crawled: {reason}",
            shown(text)
        )
    })
}

fn shown(seed: &str) -> String {
    let printable = |char: char| {
        if char.is_control() {
            char::REPLACEMENT_CHARACTER
        } else {
            char
        }
    };
    let mut shown: String = seed.chars().take(SHOWN).map(printable).collect();
    if seed.chars().nth(SHOWN).is_some() {
        shown.push('…');
    }
    shown
}

/// Seeds that are bad.
#[derive(Default)]
struct Bad {
    count: usize,
    named: Vec<String>,
}

impl Bad {
    fn add(&mut self, file: &Path, line: usize, why: String) {
        self.count += 1;
        if self.named.len() < NAMED_MAX {
            self.named.push(if line == 0 {
                why
            } else {
                format!("{}:{line}: {why}", file.display())
            });
        }
    }
}

impl fmt::Display for Bad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [only] = &self.named[..] {
            return f.write_str(only);
        }
        write!(f, "{} seeds are bad:", self.count)?;
        self.named
            .iter()
            .try_for_each(|named| write!(f, "\n  {named}"))?;
        match self.count - self.named.len() {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(arguments: &[&str], text: &[u8]) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("seeds");
        std::fs::write(&file, text).unwrap();
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        let given = Given::read(&arguments, Some(&file))?;
        given.in_crawl(&Rules::default(), 60)
    }

    #[test]
    fn seeds_of_arguments_and_of_a_file_are_made_canonical() {
        let text = "\u{feff}HTTP://A.test\r\n\n  # a comment\n\thttp://b.test/x \n".as_bytes();
        let urls = read(&["http://c.test:80/"], text).unwrap();
        assert_eq!(
            urls,
            ["http://c.test/", "http://a.test/", "http://b.test/x"]
        );
        assert_eq!(
            read(&[], b"# caf\xe9\n").unwrap(),
            [""; 0],
            "what is no seed may be of any charset"
        );
    }

    #[test]
    fn all_bad_seeds_are_named_with_their_lines_and_reasons() {
        let error = read(
            &["no url"],
            b"http://a.test/\nb.test\n\nhttp://c.test/\xff\xfe\nhttp://[d\n",
        )
        .unwrap_err();
        let lines: Vec<&str> = error.lines().collect();
        assert_eq!(lines.len(), 5, "{error}");
        assert_eq!(lines[0], "4 seeds are bad:");
        assert!(
            lines[1].starts_with("  seed 'no url' is no URL that can be crawled: "),
            "{error}"
        );
        for (line, named) in [
            (2, "seeds:2: seed 'b.test'"),
            (3, "seeds:4: seed 'http://c.test/"),
            (4, "seeds:5: "),
        ] {
            assert!(lines[line].contains(named), "{error}");
        }
        assert!(lines[3].ends_with("is no UTF-8"), "{error}");
    }

    #[test]
    fn one_bad_seed_is_told_in_a_line_and_of_many_the_first_twenty() {
        let error = read(&[], b"http://a.test/\nfoo\x1b[31m\n").unwrap_err();
        assert!(
            error.lines().count() == 1 && error.contains(":2: seed 'foo\u{fffd}[31m'"),
            "{error}"
        );
        let many: String = (0..1000).map(|n| format!("host{n}\n")).collect();
        let error = read(&[], many.as_bytes()).unwrap_err();
        assert_eq!(error.lines().count(), 22, "{error}");
        assert!(
            error.starts_with("1000 seeds are bad:\n") && error.ends_with("\n  and 980 more"),
            "{error}"
        );
    }

    #[test]
    fn seeds_that_are_too_long_are_all_named() {
        let long = format!(
            "http://a.test/{}\nhttp://b.test/\nhttp://c.test/{}\n",
            "x".repeat(50),
            "y".repeat(400)
        );
        let error = read(&[], long.as_bytes()).unwrap_err();
        assert!(error.starts_with("2 seeds are bad:"), "{error}");
        assert!(
            error.contains("seeds:1: seed 'http://a.test/x") && error.contains("has 64 bytes"),
            "{error}"
        );
        assert!(
            error.contains("seeds:3: ") && error.contains("…' has 414 bytes"),
            "{error}"
        );
    }
}
