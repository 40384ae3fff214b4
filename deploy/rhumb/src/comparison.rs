//! A comparison of two crawls: which URLs only one of them found, and which ended in another way or
//! have another title.
//!
//! In: two crawl logs. Out: how many URLs differ in which way, and some of them. Where a URL ended
//! several times, the last time counts.
//!
//! Memory: 48 bytes for each URL of both crawls, and the URLs that are shown.

use crate::crawl_log::{CrawlLog, Line};
use rhumb_url::fingerprint;
use serde::Serialize;
use std::collections::BTreeMap;

/// How a URL ended in one crawl.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Ending {
    pub(crate) outcome: String,
    pub(crate) status: u16,
    pub(crate) title: String,
}

/// A URL that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Difference {
    pub(crate) url: String,
    /// None: the crawl did not find it.
    pub(crate) a: Option<Ending>,
    pub(crate) b: Option<Ending>,
}

/// What differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Comparison {
    /// URLs of each crawl.
    pub(crate) urls_a: u64,
    pub(crate) urls_b: u64,
    pub(crate) only_a: u64,
    pub(crate) only_b: u64,
    /// URLs of both whose outcomes differ.
    pub(crate) outcomes: u64,
    /// URLs of both with the same outcome and another status.
    pub(crate) statuses: u64,
    /// URLs of both whose titles differ, whatever else does.
    pub(crate) titles: u64,
    /// URLs that differ in any way.
    pub(crate) differing: u64,
    /// Some of them, in the order of their URLs.
    pub(crate) differences: Vec<Difference>,
}

/// The last line of a URL, as little of it as is needed to see a difference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry {
    url: u64,
    order: (u64, u64),
    outcome: u64,
    status: u16,
    title: u64,
}

impl Comparison {
    /// Compares two crawls; names at most `limit` URLs.
    ///
    /// # Errors
    /// A log cannot be read.
    pub(crate) fn of(a: &CrawlLog, b: &CrawlLog, limit: usize) -> anyhow::Result<Comparison> {
        let left = entries(a)?;
        let right = entries(b)?;
        let mut comparison = Comparison {
            urls_a: left.len() as u64,
            urls_b: right.len() as u64,
            ..Comparison::default()
        };
        // The URLs to be named, by their fingerprints.
        let mut named: BTreeMap<u64, Difference> = BTreeMap::new();
        let mut a_at = left.iter().peekable();
        let mut b_at = right.iter().peekable();
        loop {
            let next = [a_at.peek(), b_at.peek()]
                .into_iter()
                .flatten()
                .map(|entry| entry.url)
                .min();
            let Some(url) = next else { break };
            let entry_a = a_at.next_if(|entry| entry.url == url);
            let entry_b = b_at.next_if(|entry| entry.url == url);
            if comparison.counts(entry_a, entry_b) {
                comparison.differing += 1;
                if named.len() < limit {
                    named.insert(
                        url,
                        Difference {
                            url: String::new(),
                            a: None,
                            b: None,
                        },
                    );
                }
            }
        }
        for (log, entries, is_a) in [(a, &left, true), (b, &right, false)] {
            log.read(|line| {
                let url = fingerprint(&line.url);
                let Some(difference) = named.get_mut(&url) else {
                    return;
                };
                let last = entries
                    .binary_search_by_key(&url, |entry| entry.url)
                    .map(|at| entries[at].order);
                if last == Ok(line.order()) {
                    let side = if is_a {
                        &mut difference.a
                    } else {
                        &mut difference.b
                    };
                    *side = Some(Ending {
                        outcome: line.outcome,
                        status: line.status,
                        title: line.title,
                    });
                    difference.url = line.url;
                }
            })?;
        }
        comparison.differences = named.into_values().collect();
        comparison
            .differences
            .sort_by(|one, other| one.url.cmp(&other.url));
        Ok(comparison)
    }

    /// Counts a URL. Returns whether it differs.
    fn counts(&mut self, a: Option<&Entry>, b: Option<&Entry>) -> bool {
        let (Some(a), Some(b)) = (a, b) else {
            self.only_a += u64::from(b.is_none());
            self.only_b += u64::from(a.is_none());
            return true;
        };
        let outcome = a.outcome != b.outcome;
        let title = a.title != b.title;
        let status = !outcome && a.status != b.status;
        self.outcomes += u64::from(outcome);
        self.statuses += u64::from(status);
        self.titles += u64::from(title);
        outcome || status || title
    }

    /// Returns whether nothing differs.
    pub(crate) fn is_equal(&self) -> bool {
        self.differing == 0
    }
}

/// The last line of each URL, sorted by fingerprint.
fn entries(log: &CrawlLog) -> anyhow::Result<Vec<Entry>> {
    let mut entries = Vec::new();
    log.read(|line| entries.push(entry(&line)))?;
    entries.sort_unstable_by(|one: &Entry, other| other.cmp(one));
    // Of each URL the last one is first.
    entries.dedup_by_key(|entry| entry.url);
    entries.reverse();
    entries.shrink_to_fit();
    Ok(entries)
}

fn entry(line: &Line) -> Entry {
    Entry {
        url: fingerprint(&line.url),
        order: line.order(),
        outcome: fingerprint(&line.outcome),
        status: line.status,
        title: fingerprint(&line.title),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn line(
        url: &str,
        outcome: &str,
        status: u16,
        title: &str,
        second: u32,
        serial: u64,
    ) -> String {
        let time = format!("2026-01-31T12:00:{second:02}.000Z");
        serde_json::json!({
            "time": time, "url": url, "outcome": outcome, "status": status, "title": title, "serial": serial, "depth": 1
        })
        .to_string()
            + "\n"
    }

    fn write(dir: &Path, name: &str, lines: &[String]) {
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join(name), lines.concat()).unwrap();
    }

    #[test]
    fn what_differs_is_counted_and_named() {
        let folder = tempfile::tempdir().unwrap();
        let a = folder.path().join("a");
        let b = folder.path().join("b");
        let same = line("http://a.test/same", "fetched", 200, "S", 1, 1);
        write(
            &a.join("archive"),
            "crawl.jsonl",
            &[
                line("http://a.test/again", "failed", 500, "", 1, 2),
                same.clone(),
                line("http://a.test/title", "fetched", 200, "old", 1, 3),
                line("http://a.test/1", "fetched", 200, "", 1, 4),
            ],
        );
        // A second archiver, and a URL that ended twice.
        write(
            &a.join("archive"),
            "crawl-1.jsonl",
            &[line("http://a.test/again", "fetched", 200, "", 9, 5)],
        );
        write(
            &b,
            "crawl.jsonl",
            &[
                line("http://a.test/again", "fetched", 203, "", 2, 1),
                line("http://a.test/2", "gone", 404, "", 2, 2),
                same,
                line("http://a.test/title", "gone", 0, "new", 2, 3),
            ],
        );
        write(&b, "crawl-x.jsonl", &["no log".to_owned()]);
        let compare = |a: &Path, b: &Path, limit| {
            Comparison::of(
                &CrawlLog::find(a).unwrap(),
                &CrawlLog::find(b).unwrap(),
                limit,
            )
            .unwrap()
        };
        let found = compare(&a, &b, 10);
        let counts = [
            found.urls_a,
            found.urls_b,
            found.only_a,
            found.only_b,
            found.outcomes,
            found.statuses,
            found.titles,
        ];
        assert_eq!(counts, [4, 4, 1, 1, 1, 1, 1]);
        let urls: Vec<&str> = found
            .differences
            .iter()
            .map(|difference| difference.url.as_str())
            .collect();
        assert_eq!(
            urls,
            [
                "http://a.test/1",
                "http://a.test/2",
                "http://a.test/again",
                "http://a.test/title"
            ]
        );
        let again = &found.differences[2];
        let statuses = (
            again.a.as_ref().unwrap().status,
            again.b.as_ref().unwrap().status,
        );
        assert_eq!(statuses, (200, 203), "the last line of each");
        assert!(found.differences[0].b.is_none() && found.differences[1].a.is_none());
        assert_eq!(
            (
                compare(&a, &b, 2).differences.len(),
                compare(&a, &b, 2).only_a
            ),
            (2, 1)
        );
        assert!(compare(&a, &a, 10).is_equal() && !found.is_equal());
    }

    #[test]
    fn a_folder_without_a_log_and_a_line_that_is_none_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = CrawlLog::find(folder.path()).err().unwrap().to_string();
        assert!(
            error.contains("no crawl log") && error.contains("stages.archiver.replicas=1"),
            "{error}"
        );
        write(
            folder.path(),
            "crawl.jsonl",
            &[
                line("http://a.test/", "fetched", 200, "", 1, 1),
                "{}\n".to_owned(),
            ],
        );
        let error = CrawlLog::find(folder.path())
            .unwrap()
            .read(drop)
            .unwrap_err()
            .to_string();
        assert!(error.contains("line 2 of"), "{error}");
    }
}
