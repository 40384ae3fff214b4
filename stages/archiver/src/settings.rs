//! What the core is configured with: the stage's part of the configuration, and how long things
//! wait for each other.

use crate::usage::Reader;
use rhumb_config::{Pipeline, WarcFormat};
use std::path::PathBuf;
use std::time::Duration;

/// How long an outcome waits for the document of its page, and for any document: a parser that is
/// behind gives others.
pub(crate) const DOCUMENT_WAIT: Duration = Duration::from_secs(3);
/// How long it waits while documents come: less than outcomes may stay without an ack.
pub(crate) const DOCUMENT_WAIT_MAX: Duration = Duration::from_secs(20);
/// How long a document is kept for an outcome: longer than a job takes to report it.
pub(crate) const OUTCOME_WAIT: Duration = Duration::from_secs(30);

/// What the core is configured with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// A file is finished when it has this many bytes.
    pub file_bytes_max: u64,
    /// A file is finished when it is this old.
    pub file_age_max: Duration,
    /// How long a page waits for others.
    pub linger: Duration,
    /// How records are compressed.
    pub format: WarcFormat,
    /// How hard, from 0 to 12.
    pub compression: u8,
    /// Returns whether each topic has files of its own.
    pub by_topic: bool,
    /// How long a document is kept for an outcome.
    pub outcome_wait: Duration,
    /// How long an outcome waits for its document while others come.
    pub document_wait_max: Duration,
    /// Reads what owners say of the use of their pages.
    pub(crate) usage: Reader,
    /// Bodies remembered.
    pub digests: usize,
    /// Pages whose own records are remembered.
    pub pages: usize,
    /// The log of outcomes, in which an operator's question is looked up, and where in it the
    /// crawl's own lines begin, in bytes.
    pub log: (PathBuf, u64),
    /// The time since 1970 at the origin of the process's own, in milliseconds.
    pub origin_ms: u64,
}

impl Settings {
    /// From the configuration.
    pub fn new(pipeline: &Pipeline, log: (PathBuf, u64), origin_ms: u64) -> Self {
        let archiver = &pipeline.stages.archiver;
        Settings {
            file_bytes_max: archiver.file_bytes_max.0,
            file_age_max: archiver.file_age_max,
            linger: archiver.linger,
            format: archiver.format,
            compression: archiver.compression,
            by_topic: archiver.by_topic,
            // Among several, the outcome came to another as likely as not.
            outcome_wait: if archiver.replicas > 1 {
                DOCUMENT_WAIT
            } else {
                OUTCOME_WAIT
            },
            document_wait_max: if archiver.replicas > 1 {
                DOCUMENT_WAIT
            } else {
                DOCUMENT_WAIT_MAX
            },
            usage: Reader::from(pipeline),
            digests: archiver.digests,
            pages: pages_remembered(pipeline),
            log,
            origin_ms,
        }
    }
}

/// Pages whose own records are remembered: none where no page is visited again, else as many as
/// bodies.
pub fn pages_remembered(pipeline: &Pipeline) -> usize {
    match pipeline.visits_again() {
        true => pipeline.stages.archiver.digests,
        false => 0,
    }
}
