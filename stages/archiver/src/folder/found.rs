//! What is in the archive already when a process starts.
//!
//! In: the indexes of finished files, and the end of the log. Out: the pages, outcomes and bodies
//! that the core starts with, so that it writes nothing twice and refers to bodies that are there.
//! Limits: the latest pages and outcomes ([`KEPT`] each), and as many bodies as
//! `stages.archiver.digests` says.

use super::directory::names;
use crate::digests::Original;
use crate::index::{Line, REVISIT};
use crate::recent::KEPT;
use crate::record::Digest;
use anyhow::Context as _;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::Path;

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
        dir: &Path,
        crawl: &str,
        left: &[String],
        digests: usize,
    ) -> anyhow::Result<()> {
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
        Ok(())
    }
}
