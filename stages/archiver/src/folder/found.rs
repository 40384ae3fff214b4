//! What is in the archive already when a process starts.
//!
//! In: the indexes of finished files, and the end of the log. Out: the pages, outcomes and bodies
//! that the core starts with, so that it writes nothing twice and refers to records that are there.
//! Limits: the latest pages and outcomes ([`KEPT`] each), as many bodies as
//! `stages.archiver.digests` says, and the records of pages among the lines read for these.

use super::FolderSettings;
use super::directory::names;
use crate::index::{Line, REVISIT};
use crate::originals::{Original, PageRecord};
use crate::recent::KEPT;
use crate::record::Digest;
use crate::time::millis;
use anyhow::Context as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader};

/// Lines of indexes that are read at a start, for each body to be remembered.
const LINES_PER_BODY: usize = 4;

/// What earlier lives left.
#[derive(Default)]
pub struct Found {
    // The pages may be of an earlier crawl in the same folder: their keys hold when they came.
    /// Keys of the pages written last.
    pub(crate) pages: Vec<u64>,
    /// Keys of the outcomes written last.
    pub(crate) outcomes: Vec<u64>,
    /// Bodies, the oldest first.
    pub(crate) bodies: Vec<(Digest, Original)>,
    /// How pages were written, the oldest first.
    pub(crate) page_records: Vec<PageRecord>,
}

/// Identity of a page: its URL and when it came.
pub(crate) fn page_key(url: &str, date: &str) -> u64 {
    rhumb_url::fingerprint(&format!("{url} {date}"))
}

impl Found {
    /// Reads the indexes of finished files of all instances until enough is known: first those of
    /// the files that an earlier life left open, which have the pages that may come again, and then
    /// the newest.
    pub(super) fn read_indexes(
        &mut self,
        settings: &FolderSettings,
        left: &[String],
    ) -> anyhow::Result<()> {
        let FolderSettings {
            dir,
            crawl,
            digests,
            pages: pages_max,
            ..
        } = settings;
        let digests = *digests;
        let lines_max = digests.saturating_mul(LINES_PER_BODY);
        let mut pages: Vec<(String, u64)> = Vec::new();
        let mut lines = 0;
        let was_left = |name: &String| {
            left.iter()
                .any(|left| name.strip_suffix(".cdxj") == Some(left))
        };
        let (left, others): (Vec<String>, Vec<String>) =
            names(dir, crawl, ".cdxj")?.into_iter().partition(was_left);
        let left_count = left.len();
        for (number, name) in left.iter().chain(others.iter().rev()).enumerate() {
            let is_enough = lines >= KEPT && (self.bodies.len() >= digests || lines >= lines_max);
            if is_enough && number >= left_count {
                break;
            }
            let file = File::open(dir.join(name)).with_context(|| format!("cannot read {name}"))?;
            for line in BufReader::new(file).lines() {
                let Some(line) = Line::parse(&line.with_context(|| format!("cannot read {name}"))?)
                else {
                    continue;
                };
                lines += 1;
                pages.push((line.date.clone(), page_key(&line.url, &line.date)));
                if *pages_max > 0 {
                    self.page_records.extend(page_record(&line));
                }
                let is_original = line.mime != REVISIT && self.bodies.len() < digests;
                if let Some(digest) = Digest::parse(&line.digest).filter(|_| is_original) {
                    self.bodies.push((
                        digest,
                        Original {
                            url: line.url,
                            date: line.date,
                        },
                    ));
                }
            }
            pages.sort_unstable();
            pages.drain(..pages.len().saturating_sub(KEPT));
        }
        self.pages = pages.into_iter().map(|(_, key)| key).collect();
        self.bodies
            .sort_unstable_by(|(_, a), (_, b)| a.date.cmp(&b.date));
        self.page_records
            .sort_unstable_by_key(|record| record.fetched_at_ms);
        Ok(())
    }
}

/// How a page was written; none of what may be a challenge in its place: those that are no errors
/// have other statuses.
fn page_record(line: &Line) -> Option<PageRecord> {
    matches!(line.status.as_str(), "200" | "203").then(|| PageRecord {
        page: rhumb_url::fingerprint(&line.url),
        fetched_at_ms: millis(&line.date),
        body: Digest::parse(&line.digest),
        is_revisit: line.mime == REVISIT,
        version: None,
    })
}
