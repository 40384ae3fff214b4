//! Sources: the project's files of Rust, and what of them is code.
//!
//! In: the folder of the repository. Out: a [`Source`] for each file, whose `code` is the file with
//! comments and the insides of literals blanked, so that braces and words found there are those of
//! the program.
//!
//! Invariant: `code` has the lines of the file, and each character stands at its place.
//!
//! The reading is by characters, not by grammar: it copes with what rustfmt leaves behind, not with
//! every macro.

use std::fs;
use std::path::{Path, PathBuf};

/// A file of Rust.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// Path below the repository, with `/`.
    pub(crate) path: String,
    /// Its lines.
    pub(crate) lines: usize,
    /// Its text without comments and without the insides of literals.
    pub(crate) code: String,
}

impl Source {
    pub(crate) fn new(path: impl Into<String>, text: &str) -> Source {
        Source {
            path: path.into(),
            lines: text.lines().count(),
            code: code_of(text),
        }
    }
}

/// The folder of the repository: the nearest one above this crate that has a `Cargo.lock`.
pub(crate) fn repository() -> PathBuf {
    let crate_folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = crate_folder
        .ancestors()
        .find(|folder| folder.join("Cargo.lock").exists());
    root.expect("a Cargo.lock above the tests").to_owned()
}

/// All files of Rust below a folder, in order of their paths; not those that a build left.
pub(crate) fn read_all(root: &Path) -> Vec<Source> {
    let mut sources = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)
            .expect("a folder of sources")
            .flatten()
        {
            let path = entry.path();
            let name = entry.file_name();
            let is_built = name == "target" || name.as_encoded_bytes().starts_with(b".");
            if path.is_dir() && !is_built {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let below = path
                    .strip_prefix(root)
                    .expect("a path below the root")
                    .display()
                    .to_string();
                sources.push(Source::new(
                    below,
                    &fs::read_to_string(&path).expect("a file of sources"),
                ));
            }
        }
    }
    sources.sort_by(|one, other| one.path.cmp(&other.path));
    sources
}

/// The line of a place in a text, from 1.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text[..at].matches('\n').count() + 1
}

/// A word of code and where it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word<'a> {
    pub(crate) at: usize,
    pub(crate) text: &'a str,
}

impl Word<'_> {
    pub(crate) fn end(&self) -> usize {
        self.at + self.text.len()
    }
}

/// The identifiers and keywords of code.
pub(crate) fn words(code: &str) -> impl Iterator<Item = Word<'_>> {
    let mut rest = 0;
    std::iter::from_fn(move || {
        let at = rest + code[rest..].find(is_of_word)?;
        let length = code[at..]
            .find(|letter| !is_of_word(letter))
            .unwrap_or(code.len() - at);
        rest = at + length;
        Some(Word {
            at,
            text: &code[at..rest],
        })
    })
}

pub(crate) fn is_of_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Where the first of some characters stands outside of brackets, from `from` on.
///
/// A wanted bracket is found before it opens.
pub(crate) fn find_outside_brackets(code: &str, from: usize, wanted: &[char]) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, letter) in code[from..].char_indices() {
        match letter {
            _ if depth == 0 && wanted.contains(&letter) => return Some(from + at),
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    None
}

/// The end of the item that begins at `from`: after its closing brace, or after its semicolon.
pub(crate) fn item_end(code: &str, from: usize) -> usize {
    match find_outside_brackets(code, from, &['{', ';']) {
        Some(at) if code[at..].starts_with('{') => {
            find_outside_brackets(code, at + 1, &['}']).map_or(code.len(), |end| end + 1)
        }
        Some(at) => at + 1,
        None => code.len(),
    }
}

/// Code without a part, whose lines stay.
pub(crate) fn blanked(code: &str, from: usize, to: usize) -> String {
    let hidden: String = code[from..to].chars().map(blank).collect();
    [&code[..from], &hidden, &code[to..]].concat()
}

/// As many bytes as the character has, so that places stay.
fn blank(letter: char) -> &'static str {
    match (letter, letter.len_utf8()) {
        ('\n', _) => "\n",
        (_, 1) => " ",
        (_, 2) => "  ",
        (_, 3) => "   ",
        _ => "    ",
    }
}

/// Blanks comments and the insides of literals.
fn code_of(text: &str) -> String {
    let mut code = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        let is_inside_word = code.ends_with(is_of_word);
        let hidden = comment(rest)
            .or_else(|| literal(rest, is_inside_word))
            .unwrap_or(0);
        if hidden == 0 {
            code.push(letter);
            rest = &rest[letter.len_utf8()..];
        } else {
            code.extend(rest[..hidden].chars().map(blank));
            rest = &rest[hidden..];
        }
    }
    code
}

/// The length of the comment with which a text begins.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if !text.starts_with("/*") {
        return None;
    }
    let mut depth = 0;
    let mut at = 0;
    loop {
        let step = &text[at..];
        match step {
            _ if step.starts_with("/*") => (depth, at) = (depth + 1, at + 2),
            _ if step.starts_with("*/") => (depth, at) = (depth - 1, at + 2),
            "" => return Some(at),
            _ => at += step.chars().next().map_or(0, char::len_utf8),
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

/// The length of the literal, of a string or a character, with which a text begins.
fn literal(text: &str, is_inside_word: bool) -> Option<usize> {
    if text.starts_with('"') {
        return Some(quoted(text, '"'));
    }
    if let Some(rest) = text.strip_prefix('\'') {
        let mut letters = rest.chars();
        let first = letters.next()?;
        let second = letters.next()?;
        // Otherwise it is a lifetime.
        return (first == '\\' || second == '\'').then(|| quoted(text, '\''));
    }
    if is_inside_word {
        return None;
    }
    let raw = ["r", "br", "cr"]
        .into_iter()
        .find_map(|prefix| text.strip_prefix(prefix))?;
    let hashes = raw.len() - raw.trim_start_matches('#').len();
    let body = raw[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let length = body.find(&end).map_or(body.len(), |at| at + end.len());
    Some(text.len() - body.len() + length)
}

/// The length of a quoted text in which a backslash takes the next character with it.
fn quoted(text: &str, quote: char) -> usize {
    let mut letters = text.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            _ if letter == quote => return at + 1,
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_literals_are_no_code() {
        for (text, code) in [
            ("a // {\nb", "a     \nb"),
            ("a /* { /* } */ { */ b", "a                     b"),
            (
                "f(\"{ \\\" }\", 'x', '\\'', '{')",
                "f(         ,    ,     ,    )",
            ),
            ("fn f<'a>(b: &'a str) {}", "fn f<'a>(b: &'a str) {}"),
            (
                "let a = r#\"{ \" \"#; b",
                "let a =         ; b".trim_start(),
            ),
            ("let bar = br\"\\\";}", "let bar =      ;}"),
            ("\"ü\"{", "    {"),
        ] {
            assert_eq!(
                code_of(text).split_whitespace().collect::<Vec<_>>(),
                code.split_whitespace().collect::<Vec<_>>()
            );
            assert_eq!(
                (code_of(text).len(), code_of(text).lines().count()),
                (text.len(), text.lines().count()),
                "{text}"
            );
        }
    }

    #[test]
    fn an_item_ends_after_its_brace_or_semicolon() {
        for item in [
            "fn f(a: [u8; 4]) -> [u8; 2] { { a } }",
            "mod tests;",
            "use a::b;",
        ] {
            assert_eq!(
                item_end(&format!("{item} fn g() {{}}"), 0),
                item.len(),
                "{item}"
            );
        }
    }
}
