//! The heart of the archiver: what is written together, what waits for what, what was written
//! before.
//!
//! In: pages, documents, outcomes. Out: batches to write, one at a time; an input is finished when
//! its batch is written. An outcome of a page waits a little for what the page's document says of
//! itself, so that its line has the title.

use crate::crawl_log;
use crate::folder::batch::Batch;
use crate::folder::found::{Found, page_key};
use crate::folder::log::last_line_of;
use crate::originals::Originals;
use crate::page;
use crate::recent::Recent;
use crate::record::Writer;
use crate::settings::{DOCUMENT_WAIT, Settings, pages_remembered};
use crate::time::date;
use crate::usage::Reader;
use foldhash::{HashMap, HashMapExt as _};
use rhumb_config::{Pipeline, is_name};
use rhumb_stage::store::StoreError;
use rhumb_stage::{Core, Count, Event, Output, Ticket};
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{
    Change, Document, Documents, Edge, Outcome, OutcomeEntry, Outcomes, Page, Undecodable, decode,
};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// A batch is written at once when it has this many bytes.
const BATCH_BYTES: usize = 4 << 20;
/// A batch is also written when it has this many inputs: fewer than a broker gives out before one
/// is acked.
const BATCH_INPUTS: usize = 64;
/// No input is taken while this many bytes wait to be written.
const WAITING_BYTES_MAX: usize = 16 << 20;
/// At most this many outcomes wait for their documents; the oldest go first.
const WAITING_OUTCOMES_MAX: usize = 50_000;
/// At most this many documents wait for their outcomes; the oldest go first.
const WAITING_DOCUMENTS_MAX: usize = 20_000;
/// Topics that have files of their own, at most: as many as can be configured.
const SERIES_MAX: usize = 200;
/// How long after a failure the same is tried again.
const RETRY_WAIT: Duration = Duration::from_secs(1);

/// What comes in.
#[derive(Debug)]
pub enum Input {
    /// A response.
    Page(Box<Page>),
    /// What documents say of themselves.
    Documents(Documents),
    /// How URLs ended.
    Outcomes(Outcomes),
}

/// What the folder is to do.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Write and sync; answered by [`Answer::Written`].
    Write(Arc<Batch>),
    /// Finish the open file; answered by [`Answer::Finished`].
    Finish,
}

/// What came of it.
#[derive(Debug)]
pub enum Answer {
    /// The batch is on the disk, and the open file has this many bytes. None when the batch could
    /// not be written.
    Written(Option<u64>),
    /// Returns whether the open file is finished.
    Finished(bool),
    /// The folder failed in a way that it should not; what was asked for is asked for again.
    Broken,
}

/// What waits for the folder.
#[derive(Default)]
struct Gathered {
    batch: Batch,
    tickets: Vec<Ticket>,
    since: Timestamp,
}

impl Gathered {
    fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }

    fn bytes(&self) -> usize {
        self.batch.bytes()
    }
}

/// What the folder is at.
enum Work {
    Idle,
    Writing(Arc<Batch>, Vec<Ticket>),
    /// A write failed: the same again then.
    Failed(Arc<Batch>, Vec<Ticket>, Timestamp),
    Finishing,
    /// The same for the end of a file.
    Unfinished(Timestamp),
}

/// A page: URL fingerprint and when it came.
type PageKey = (u64, u64);

/// The core.
pub struct Archiver {
    settings: Settings,
    writer: Writer,
    originals: Originals,
    pages_written: Recent<u64>,
    outcomes_written: Recent<u64>,
    gathered: Gathered,
    /// Topics that have had files of their own in this life.
    series: BTreeSet<String>,
    work: Work,
    /// When the open file was begun.
    file_since: Option<Timestamp>,
    file_bytes: u64,
    draining: bool,
    /// The last write failed.
    is_failing: bool,
    /// Documents that wait for an outcome.
    documents: HashMap<PageKey, (Document, Ticket)>,
    documents_until: VecDeque<(Timestamp, PageKey)>,
    /// Outcomes that wait for a document.
    outcomes: HashMap<PageKey, (Timestamp, OutcomeEntry, Ticket)>,
    outcomes_since: BTreeSet<(Timestamp, PageKey)>,
    /// When the last document came.
    last_document: Timestamp,
    /// Pages whose outcomes did not wait for a document, or not long enough.
    logged_without: Recent<PageKey>,
    /// Entries of an input that wait.
    entries_left: HashMap<Ticket, usize>,
    tally: Tally,
}

#[derive(Default)]
struct Tally {
    pages: u64,
    revisits: u64,
    withheld: u64,
    body_bytes: u64,
    repeated: u64,
    outcomes: u64,
    documents: u64,
    files: u64,
    failures: u64,
}

impl Archiver {
    /// An archiver that goes on from what was found.
    pub fn new(settings: Settings, found: Found) -> Self {
        let mut originals = Originals::new(settings.digests, settings.pages);
        for (body, original) in found.bodies {
            originals.insert_body(body, original);
        }
        for record in found.page_records {
            originals.insert_page(record);
        }
        Archiver {
            writer: Writer::new(settings.format, settings.compression),
            settings,
            originals,
            pages_written: found.pages.into_iter().collect(),
            outcomes_written: found.outcomes.into_iter().collect(),
            gathered: Gathered::default(),
            series: BTreeSet::new(),
            work: Work::Idle,
            file_since: None,
            file_bytes: 0,
            draining: false,
            is_failing: false,
            documents: HashMap::new(),
            documents_until: VecDeque::new(),
            outcomes: HashMap::new(),
            outcomes_since: BTreeSet::new(),
            last_document: Timestamp::ZERO,
            logged_without: Recent::default(),
            entries_left: HashMap::new(),
            tally: Tally::default(),
        }
    }

    /// The input is finished with the batch that is being gathered.
    fn finish_with_batch(&mut self, now: Timestamp, ticket: Ticket) {
        if self.gathered.is_empty() {
            self.gathered.since = now;
        }
        self.gathered.tickets.push(ticket);
    }

    /// The series of the files of a topic. What cannot be part of the name of a file, and what is
    /// one topic too many, goes with what has no topic: each series has files open.
    fn series_of<'t>(&mut self, topic: &'t str) -> &'t str {
        if !self.settings.by_topic || !is_name(topic) {
            return "";
        }
        if !self.series.contains(topic) {
            if self.series.len() >= SERIES_MAX {
                return "";
            }
            self.series.insert(topic.to_owned());
        }
        topic
    }

    fn page(&mut self, now: Timestamp, ticket: Ticket, page: &Page) {
        // One that comes again may be in a batch that is not written yet: it is finished after
        // that.
        self.finish_with_batch(now, ticket);
        if !self
            .pages_written
            .insert(page_key(&page.url, &date(page.fetched_at_ms)))
        {
            self.tally.repeated += 1;
            return;
        }
        let usage = self.settings.usage.read(page);
        let series = self.series_of(&page.origin.topic).to_owned();
        let records = self.gathered.batch.records.entry(series).or_default();
        if records.members.is_empty() && !self.settings.by_topic {
            // At once: a buffer that grows is copied each time.
            records.members.reserve(BATCH_BYTES + page.body.len());
        }
        let written = page::write(
            page,
            &usage,
            &mut self.originals,
            &mut self.writer,
            &mut records.members,
        );
        records.entries.push((written.line, written.response));
        tracing::debug!(trace = %page.trace(), url = page.url, is_revisit = written.is_revisit, "a page is in the next batch");
        self.tally.pages += 1;
        self.tally.revisits += u64::from(written.is_revisit);
        self.tally.withheld += u64::from(usage.verdict.withholds());
        self.tally.body_bytes += page.body.len() as u64;
    }

    fn documents(&mut self, now: Timestamp, ticket: Ticket, documents: Documents) {
        self.entries_left
            .insert(ticket, documents.entries.len() + 1);
        self.last_document = now;
        for document in documents.entries {
            self.tally.documents += 1;
            let key = (
                rhumb_url::fingerprint(&document.url),
                document.fetched_at_ms,
            );
            if self.logged_without.contains(&key) {
                // Too late.
            } else if let Some((since, entry, outcome_ticket)) = self.outcomes.remove(&key) {
                self.outcomes_since.remove(&(since, key));
                self.log(now, &entry, Some(&document));
                self.entry_done(now, outcome_ticket);
            } else if let Some((_, repeated)) = self.documents.insert(key, (document, ticket)) {
                self.entry_done(now, repeated);
                continue;
            } else {
                self.documents_until
                    .push_back((now + self.settings.outcome_wait, key));
                continue;
            }
            self.entry_done(now, ticket);
        }
        self.entry_done(now, ticket);
    }

    fn outcomes(&mut self, now: Timestamp, ticket: Ticket, outcomes: Outcomes) {
        self.entries_left.insert(ticket, outcomes.entries.len() + 1);
        for entry in outcomes.entries {
            let key = (rhumb_url::fingerprint(&entry.url), entry.fetched_at_ms);
            if let Some((document, document_ticket)) = self.documents.remove(&key) {
                self.log(now, &entry, Some(&document));
                self.entry_done(now, document_ticket);
            } else if may_be_document(&entry) && !self.draining && !self.outcomes.contains_key(&key)
            {
                self.outcomes_since.insert((now, key));
                self.outcomes.insert(key, (now, entry, ticket));
                continue;
            } else {
                self.log_without(now, &entry, key);
            }
            self.entry_done(now, ticket);
        }
        self.entry_done(now, ticket);
    }

    /// One entry of an input is in the batch; the input is finished with its last.
    fn entry_done(&mut self, now: Timestamp, ticket: Ticket) {
        let Some(left) = self.entries_left.get_mut(&ticket) else {
            return;
        };
        *left -= 1;
        if *left == 0 {
            self.entries_left.remove(&ticket);
            self.finish_with_batch(now, ticket);
        }
    }

    fn log(&mut self, now: Timestamp, entry: &OutcomeEntry, document: Option<&Document>) {
        if !self
            .outcomes_written
            .insert(crawl_log::key(&entry.url, entry.serial, entry.visit))
        {
            self.tally.repeated += 1;
            return;
        }
        let now_ms = self.settings.origin_ms + now.as_micros() / 1000;
        self.gathered.batch.lines.push_str(&crawl_log::line(
            entry,
            document,
            &self.settings.usage.usages,
            now_ms,
        ));
        let OutcomeEntry { url, outcome, .. } = entry;
        tracing::debug!(trace = %entry.trace(), url, outcome = outcome.name(), "an outcome is in the next batch");
        self.tally.outcomes += 1;
    }

    fn log_without(&mut self, now: Timestamp, entry: &OutcomeEntry, key: PageKey) {
        self.log(now, entry, None);
        self.logged_without.insert(key);
    }

    /// When an outcome that has waited since then goes on without its document.
    fn outcome_goes_at(&self, since: Timestamp) -> Timestamp {
        (self.last_document.max(since) + DOCUMENT_WAIT).min(since + self.settings.document_wait_max)
    }

    /// What has waited long enough goes on without what it waited for; all of it when the end has
    /// come.
    fn stop_waiting(&mut self, now: Timestamp) {
        while let Some(&(since, key)) = self.outcomes_since.first()
            && (self.outcome_goes_at(since) <= now
                || self.draining
                || self.outcomes.len() > WAITING_OUTCOMES_MAX)
        {
            self.outcomes_since.pop_first();
            if let Some((_, entry, ticket)) = self.outcomes.remove(&key) {
                self.log_without(now, &entry, key);
                self.entry_done(now, ticket);
            }
        }
        while let Some(&(until, key)) = self.documents_until.front()
            && (until <= now || self.draining || self.documents.len() > WAITING_DOCUMENTS_MAX)
        {
            self.documents_until.pop_front();
            if let Some((_, ticket)) = self.documents.remove(&key) {
                self.entry_done(now, ticket);
            }
        }
    }

    fn answered(&mut self, now: Timestamp, answer: Answer, out: &mut Output<Effect>) {
        self.is_failing = !matches!(answer, Answer::Written(Some(_)) | Answer::Finished(true));
        match (answer, std::mem::replace(&mut self.work, Work::Idle)) {
            (Answer::Written(Some(bytes)), Work::Writing(_, tickets)) => {
                out.finished.extend(tickets);
                self.file_bytes = bytes;
                if bytes > 0 && self.file_since.is_none() {
                    self.file_since = Some(now);
                    self.tally.files += 1;
                }
            }
            (Answer::Written(None) | Answer::Broken, Work::Writing(batch, tickets)) => {
                self.tally.failures += 1;
                self.work = Work::Failed(batch, tickets, now + RETRY_WAIT);
            }
            (Answer::Finished(true), Work::Finishing) => {
                (self.file_since, self.file_bytes) = (None, 0)
            }
            (Answer::Finished(false) | Answer::Broken, Work::Finishing) => {
                self.tally.failures += 1;
                self.work = Work::Unfinished(now + RETRY_WAIT);
            }
            (_, work) => self.work = work,
        }
    }

    /// Gives the folder its next work, if it is time for any.
    fn go_on(&mut self, now: Timestamp, out: &mut Output<Effect>) {
        match &self.work {
            Work::Failed(_, _, at) if now >= *at => {
                let Work::Failed(batch, tickets, _) = std::mem::replace(&mut self.work, Work::Idle)
                else {
                    return;
                };
                self.write(batch, tickets, out);
            }
            Work::Unfinished(at) if now >= *at => self.finish_file(out),
            Work::Idle
                if self.file_is_full(now)
                    || (self.draining && self.is_written() && self.file_since.is_some()) =>
            {
                self.finish_file(out);
            }
            Work::Idle if self.batch_is_due(now) => {
                let Gathered { batch, tickets, .. } = std::mem::take(&mut self.gathered);
                self.write(Arc::new(batch), tickets, out);
            }
            _ => {}
        }
    }

    fn finish_file(&mut self, out: &mut Output<Effect>) {
        self.work = Work::Finishing;
        out.effect(Effect::Finish);
    }

    fn write(&mut self, batch: Arc<Batch>, tickets: Vec<Ticket>, out: &mut Output<Effect>) {
        out.effect(Effect::Write(batch.clone()));
        self.work = Work::Writing(batch, tickets);
    }

    fn file_is_full(&self, now: Timestamp) -> bool {
        self.file_since.is_some_and(|since| {
            self.file_bytes >= self.settings.file_bytes_max
                || now >= since + self.settings.file_age_max
        })
    }

    fn batch_is_due(&self, now: Timestamp) -> bool {
        let has_waited = now >= self.gathered.since + self.settings.linger;
        let is_full =
            self.gathered.bytes() >= BATCH_BYTES || self.gathered.tickets.len() >= BATCH_INPUTS;
        !self.gathered.is_empty() && (has_waited || is_full || self.draining)
    }

    /// Returns whether all that came is on the disk.
    fn is_written(&self) -> bool {
        self.gathered.is_empty() && self.entries_left.is_empty()
    }
}

/// Returns whether a document may be known of it: the parser tells of what it reads, and of whose
/// use something is said. A sitemap or a feed may be packed. A redirect without a target has
/// failed, and its body is read.
fn may_be_document(entry: &OutcomeEntry) -> bool {
    // Nothing is read in it again.
    if entry.outcome == Outcome::Fetched && entry.change == Change::Unchanged {
        return false;
    }
    let media_type = entry.media_type.as_str();
    let is_text = matches!(media_type, "" | "application/xhtml+xml" | "application/xml")
        || media_type.starts_with("text/")
        || media_type.ends_with("+xml");
    let is_packed = matches!(media_type, "application/gzip" | "application/x-gzip");
    let is_read = match entry.outcome {
        Outcome::Fetched => true,
        Outcome::Failed => matches!(entry.status, 300..=399),
        _ => false,
    };
    entry.says_usage || is_read && (is_text || is_packed || entry.origin.sitemap_of().is_some())
}

impl Core for Archiver {
    type Input = Input;
    type Effect = Effect;
    type Answer = Answer;

    fn decode(edge: Edge, payload: &[u8]) -> Result<Input, Undecodable> {
        match edge {
            Edge::Documents => decode(payload).map(Input::Documents),
            Edge::Outcomes => decode(payload).map(Input::Outcomes),
            _ => decode(payload).map(|page| Input::Page(Box::new(page))),
        }
    }

    fn step(
        &mut self,
        now: Timestamp,
        event: Event<Input, Answer>,
        out: &mut Output<Effect>,
    ) -> Result<(), StoreError> {
        match event {
            Event::Message { ticket, input } => match input {
                Input::Page(page) => self.page(now, ticket, &page),
                Input::Documents(documents) => self.documents(now, ticket, documents),
                Input::Outcomes(outcomes) => self.outcomes(now, ticket, outcomes),
            },
            Event::Answer(answer) => self.answered(now, answer, out),
            Event::Drain => self.draining = true,
            Event::Stored(_) | Event::Wake | Event::HearsAgain => {}
        }
        self.stop_waiting(now);
        self.go_on(now, out);
        Ok(())
    }

    fn wake_at(&self) -> Option<Timestamp> {
        let work = match &self.work {
            Work::Failed(_, _, at) | Work::Unfinished(at) => Some(*at),
            Work::Idle if !self.gathered.is_empty() => {
                Some(self.gathered.since + self.settings.linger)
            }
            Work::Idle => self
                .file_since
                .map(|since| since + self.settings.file_age_max),
            Work::Writing(..) | Work::Finishing => None,
        };
        let outcome = self
            .outcomes_since
            .first()
            .map(|(since, _)| self.outcome_goes_at(*since));
        let document = self.documents_until.front().map(|(until, _)| *until);
        [work, outcome, document].into_iter().flatten().min()
    }

    fn wants_input(&self) -> bool {
        self.gathered.bytes() < WAITING_BYTES_MAX
    }

    fn is_idle(&self) -> bool {
        let is_done = matches!(self.work, Work::Idle) && self.is_written();
        is_done && (!self.draining || self.file_since.is_none())
    }

    /// How a URL ended, as far as it was written.
    fn why(&self, _now: Timestamp, url: &str) -> Result<Option<String>, StoreError> {
        let (path, begun) = &self.settings.log;
        Ok(match last_line_of(path, *begun, url) {
            Ok(line) => line.and_then(|line| crawl_log::in_words(&line)),
            Err(error) => Some(error.to_string()),
        })
    }

    /// What pages are for, and whether they are visited again.
    fn configure(&mut self, pipeline: &Pipeline) -> bool {
        self.originals.allow_pages(pages_remembered(pipeline));
        self.settings.usage = Reader::from(pipeline);
        true
    }

    fn hindrance(&self, _now: Timestamp) -> Option<String> {
        let reason = "the archive cannot be written, which is tried again every second: free \
                      space, or repair the disk";
        self.is_failing.then(|| reason.to_owned())
    }

    fn counts(&self) -> Vec<Count> {
        vec![
            ("pages_total", self.tally.pages),
            ("revisits_total", self.tally.revisits),
            ("withheld_total", self.tally.withheld),
            ("body_bytes_total", self.tally.body_bytes),
            ("outcomes_total", self.tally.outcomes),
            ("documents_total", self.tally.documents),
            ("repeated_total", self.tally.repeated),
            ("files_total", self.tally.files),
            ("write_failures_total", self.tally.failures),
            ("file_bytes", self.file_bytes),
            ("waiting_bytes", self.gathered.bytes() as u64),
        ]
    }
}

#[cfg(test)]
mod tests;
