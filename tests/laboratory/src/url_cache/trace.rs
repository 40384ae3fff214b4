//! Trace: the links a crawler process found, in the order in which it found them.
//!
//! In: a file with a link per line, `source-host<TAB>url` or just `url`; blank lines are skipped.
//! Out: a [`Trace`].
//!
//! As in the paper, four processes share the hosts. The hash that decides a host's partition in a
//! crawl also decides its process. A link leaves its process when its host and the host of the page
//! it stands on belong to different ones. A line without a source counts in the full stream only.

use super::stream::{Stream, StreamName};
use anyhow::{Context as _, bail, ensure};
use rhumb_url::{canonical, fingerprint, host_of, partition};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Processes that share the hosts (Broder, Najork and Wiener 2003, section 4).
const PROCESSES: u16 = 4;

/// Which of the processes a host belongs to.
pub(super) fn process_of(host: &str) -> u16 {
    partition(host, PROCESSES)
}

/// Links in the order in which they were found.
#[derive(Default)]
pub(super) struct Trace {
    /// The fingerprint of each link's URL.
    pub(super) fingerprints: Vec<u64>,
    /// Says for each link whether it leaves its process.
    pub(super) leaves: Vec<bool>,
    /// Hosts served at once; unknown of a recorded trace.
    pub(super) hosts_in_flight: Option<usize>,
    /// Pages with these links; unknown of a recorded trace.
    pub(super) pages: Option<u64>,
}

impl Trace {
    pub(super) fn push(&mut self, fingerprint: u64, leaves: bool) {
        self.fingerprints.push(fingerprint);
        self.leaves.push(leaves);
    }

    /// Links per page, where pages are known.
    pub(super) fn links_per_page(&self) -> Option<f64> {
        self.pages
            .map(|pages| self.fingerprints.len() as f64 / pages.max(1) as f64)
    }

    /// The full stream and, if it has a link, the cross stream. Each is prepared when its turn
    /// comes.
    ///
    /// # Errors
    /// When there are more links than places can be numbered in 32 bits.
    pub(super) fn streams(self) -> anyhow::Result<impl Iterator<Item = Stream>> {
        let links = self.fingerprints.len();
        ensure!(
            links < u32::MAX as usize,
            "{links} links are too many for one trace: at most {}",
            u32::MAX - 1
        );
        let names = [StreamName::Full, StreamName::Cross];
        let streams = names.into_iter().filter_map(move |name| {
            let fingerprints: Vec<u64> = match name {
                StreamName::Full => self.fingerprints.clone(),
                StreamName::Cross => {
                    let leaving = self
                        .fingerprints
                        .iter()
                        .zip(&self.leaves)
                        .filter(|(_, leaves)| **leaves);
                    leaving.map(|(&fingerprint, _)| fingerprint).collect()
                }
            };
            let known = !fingerprints.is_empty();
            known.then(|| {
                Stream::new(
                    name,
                    self.hosts_in_flight,
                    self.links_per_page(),
                    fingerprints,
                )
            })
        });
        Ok(streams)
    }
}

/// Reads a recorded trace.
///
/// # Errors
/// When the file cannot be read, has no link, or has a bad line; the error names file and line.
pub(super) fn read(file: &Path) -> anyhow::Result<Trace> {
    let open =
        File::open(file).with_context(|| format!("failed to open the trace {}", file.display()))?;
    let mut trace = Trace::default();
    for (line, number) in BufReader::new(open).lines().zip(1u64..) {
        let at = || format!("{}, line {number}", file.display());
        let line = line.with_context(at)?;
        if !line.trim().is_empty() {
            let (fingerprint, leaves) = link(&line).with_context(at)?;
            trace.push(fingerprint, leaves);
        }
    }
    ensure!(
        !trace.fingerprints.is_empty(),
        "{} has no link",
        file.display()
    );
    Ok(trace)
}

/// The link of a line: the fingerprint of its URL, and whether it leaves its process.
fn link(line: &str) -> anyhow::Result<(u64, bool)> {
    let (source, url) = match line.split_once('\t') {
        Some((source, url)) => (Some(source), url),
        None => (None, line),
    };
    ensure!(!url.contains('\t'), "more than one tab: {line:?}");
    let url = canonical(url, None, None).with_context(|| format!("bad URL {url:?}"))?;
    let leaves = match source {
        Some(source) => process_of(&host(source)?) != process_of(host_of(&url)),
        None => false,
    };
    Ok((fingerprint(&url), leaves))
}

/// A source host in its canonical form, if it is one and nothing else.
fn host(source: &str) -> anyhow::Result<String> {
    let page = canonical(&format!("http://{source}/"), None, None);
    let page = page.with_context(|| format!("bad source host {source:?}"))?;
    let host = host_of(&page);
    if !host.eq_ignore_ascii_case(source) {
        bail!("bad source host {source:?}");
    }
    Ok(host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn read_text(text: &[u8]) -> anyhow::Result<Trace> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("links.txt");
        fs::write(&file, text)?;
        read(&file)
    }

    #[test]
    fn a_line_is_a_url_perhaps_with_its_source() {
        let home = (0..)
            .map(|n| format!("h{n}.example"))
            .find(|host| process_of(host) == 0)
            .unwrap();
        let same = (0..)
            .map(|n| format!("s{n}.example"))
            .find(|host| process_of(host) == 0)
            .unwrap();
        let other = (0..)
            .map(|n| format!("o{n}.example"))
            .find(|host| process_of(host) == 1)
            .unwrap();
        let text = format!(
            "{home}\thttp://{same}/a\n\n{home}\thttp://{other}/b\r\n  \
             \nhttp://{other}/b\n{}\thttp://{other}/c#d",
            home.to_uppercase()
        );
        let trace = read_text(text.as_bytes()).unwrap();
        assert_eq!(trace.leaves, [false, true, false, true]);
        assert_eq!(
            trace.fingerprints[0],
            fingerprint(&format!("http://{same}/a"))
        );
        assert_eq!(trace.fingerprints[1], trace.fingerprints[2]);
        assert_eq!(
            trace.fingerprints[3],
            fingerprint(&format!("http://{other}/c"))
        );
        assert_eq!((trace.hosts_in_flight, trace.pages), (None, None));
        let streams: Vec<_> = trace
            .streams()
            .unwrap()
            .map(|stream| (stream.name, stream.fingerprints.len()))
            .collect();
        assert_eq!(streams, [(StreamName::Full, 4), (StreamName::Cross, 2)]);
    }

    #[test]
    fn a_trace_without_sources_has_no_cross_stream() {
        let trace = read_text(b"http://a.example/\nhttp://b.example/\n").unwrap();
        assert_eq!(
            trace
                .streams()
                .unwrap()
                .map(|stream| stream.name)
                .collect::<Vec<_>>(),
            [StreamName::Full]
        );
    }

    #[test]
    fn a_bad_line_is_an_error_that_names_file_and_line() {
        let bad: [&[u8]; 7] = [
            b"mailto:a@b.example",
            b"/relative",
            b"\thttp://a.example/",
            b"a.example/page\thttp://a.example/",
            b"a.example:80\thttp://a.example/",
            b"a.example\thttp://a.example/\tmore",
            b"http://\xff.example/",
        ];
        for line in bad {
            let text = [b"http://a.example/\n\n", line, b"\nhttp://b.example/\n"].concat();
            let error = format!("{:#}", read_text(&text).err().unwrap());
            assert!(error.contains("links.txt, line 3: "), "{error}");
        }
    }

    #[test]
    fn a_trace_without_links_or_that_is_not_there_is_an_error() {
        assert!(
            read_text(b"\n\n")
                .err()
                .unwrap()
                .to_string()
                .contains("links.txt has no link")
        );
        let error = read(Path::new("/nowhere/links.txt")).err().unwrap();
        assert!(error.to_string().contains("/nowhere/links.txt"), "{error}");
    }
}
