//! The URL-seen test: which of the found URLs were never met before?
//!
//! In: [`SplitUrls`]. Out: [`NewUrls`](rhumb_wire::message::NewUrls), each of one partition, and
//! the counts of all found URLs. Beside it, the content-seen test: in [`ContentAsk`], out
//! [`ContentReply`].
//!
//! Invariants: a URL is new exactly once, up to collisions of full 64-bit fingerprints (P4); the
//! new URLs of a partition are numbered 1, 2, 3, … without a gap, in each generation of the crawl
//! anew; found = filtered + repeated + new + misrouted in every commit (P3). Fingerprints, numbers,
//! counts and outputs of a step are in one commit. So a step that is repeated after a crash finds
//! the store as it was before the step or after it, never in between.
//!
//! A URL that was injected again ([`Origin::again`]) is new once more for each injection. The test
//! then asks for a fingerprint of injection and URL together, and keeps it like that of a URL. So
//! the messages of an injection may come any number of times. The URL itself becomes known besides:
//! links to it are repeats.
//!
//! A partition that was split is still addressed for a while. What comes for it is of its halves:
//! what is of a half of this instance is tested at once, the rest is passed on to the half. The
//! counts of a batch count here, once.
//!
//! The URL cache is asked first: a hit there is certain. Then the URL-seen store is asked, which
//! answers at once or later. An input is finished, and so acked, when all its URLs are decided.
//!
//! Sources: Heydon and Najork 1999, section 3.2 (URL-seen test with a cache before the disk);
//! Broder, Najork and Wiener 2003 (which cache).

use crate::content::{CONTENT, first};
use crate::counters::Counters;
use crate::held::{Answered, HeldInputs, Waiting};
use crate::meta::{META, SEEN};
use crate::moving::MovingKeys;
use crate::news::{NewUrlsOf, News};
use crate::owned::OwnedPartitions;
use crate::passed_on::PassedOn;
use crate::seen::{self, Novelty};
use crate::sizes::Sizes;
use foldhash::{HashMap, HashMapExt as _};
use rhumb_config::Pipeline;
use rhumb_partition::Directory;
use rhumb_stage::store::{Store, StoreError, Table};
use rhumb_stage::{Beside, Core, Count, Event, Figures, Keyed, Output, Ticket};
use rhumb_url::time::Timestamp;
use rhumb_url::url_cache::UrlCache;
use rhumb_url::{fingerprint, host_hash, host_of};
use rhumb_wire::message::{
    ContentAsk, ContentReply, Edge, Origin, Place, SplitUrls, Trace, Undecodable, decode,
};
use std::collections::hash_map::Entry;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

/// Tables of the state, with how their keys begin.
pub const TABLES: [(Table, Keyed); 2] = [(CONTENT, Keyed::ByHash), (META, Keyed::ByPartition)];
/// After this time without input the URL-seen store is flushed before its time.
const IDLE: Duration = Duration::from_millis(50);

/// What the core is configured with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which partition each hash belongs to.
    pub directory: Directory,
    /// Generation of the crawl: serials tell it.
    pub generation: u32,
    /// A partition with more known URLs is to be split; 0: none is.
    pub partition_urls_max: u64,
    /// The URL-seen store.
    pub seen: seen::Settings,
}

impl From<&Pipeline> for Settings {
    fn from(pipeline: &Pipeline) -> Self {
        let directory = Directory::new(pipeline.partitions);
        let partition_urls_max = pipeline.stages.dedup.partition_urls_max;
        Settings {
            directory,
            generation: 1,
            partition_urls_max,
            seen: pipeline.into(),
        }
    }
}

/// The URL-seen test of an instance.
pub struct Dedup {
    store: Arc<dyn Store>,
    owned: OwnedPartitions,
    seen: MovingKeys,
    cache: UrlCache,
    held: HeldInputs,
    /// When held inputs take more memory than this, in bytes, the URL-seen store is flushed.
    held_bytes_max: usize,
    /// When the URL-seen store is flushed although nothing is due.
    idle_at: Timestamp,
    draining: bool,
    /// Bodies that were asked about and belong to another instance.
    bodies_misrouted: u64,
    sizes: Sizes,
}

impl Dedup {
    /// Opens the test over the instance's store and the URL-seen store beside it, for the
    /// partitions that the instance owns.
    ///
    /// # Errors
    /// The store cannot be read, or does not fit what was committed.
    pub fn open(
        settings: &Settings,
        cache: UrlCache,
        partitions: &[u16],
        store: Arc<dyn Store>,
        mut seen: MovingKeys,
    ) -> Result<Self, StoreError> {
        let owned = OwnedPartitions::open(
            settings.directory.clone(),
            settings.generation,
            partitions,
            store.as_ref(),
        )?;
        let live: Vec<u16> = owned.live().collect();
        seen.store.serve(&live);
        Ok(Dedup {
            store,
            owned,
            seen,
            cache,
            held: HeldInputs::default(),
            held_bytes_max: settings.seen.buffer_bytes,
            idle_at: Timestamp::ZERO,
            draining: false,
            bodies_misrouted: 0,
            sizes: Sizes::new(settings.partition_urls_max),
        })
    }

    fn receive(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        batch: SplitUrls,
        news: &mut News,
        out: &mut Output<Infallible>,
    ) -> Result<(), StoreError> {
        let mut waiting = 0;
        let mut onward = PassedOn::default();
        let mut last_host = "";
        let mut host_fingerprint = 0;
        let mut slot = None;
        for (index, (url, &origin)) in batch.urls.iter().zip(&batch.origin_of).enumerate() {
            let host = host_of(url);
            if host != last_host {
                last_host = host;
                host_fingerprint = host_hash(host);
                slot = self.owned.slot_of_hash(host_fingerprint);
            }
            let Some(slot) = slot else {
                match self.owned.passed_on_to(host_fingerprint) {
                    Some(partition) => onward.push(partition, url, &batch.origins[origin as usize]),
                    None => self.owned.count(None, Counters::misroute),
                }
                continue;
            };
            let origin = &batch.origins[origin as usize];
            let number = self.owned.number(slot);
            let fingerprint = match origin.again {
                0 => fingerprint(url),
                again => of_injected(url, again),
            };
            if self.cache.contains(fingerprint) {
                self.owned.count(Some(slot), Counters::repeat);
                continue;
            }
            if origin.again != 0 {
                waiting += usize::from(self.make_known(
                    now,
                    slot,
                    host_fingerprint,
                    url,
                    index,
                    ticket,
                )?);
            }
            let token = self.held.next_token();
            match self
                .seen
                .store
                .ask(now, number, host_fingerprint, fingerprint, token)?
            {
                Novelty::Later => {
                    self.held.wait(Waiting {
                        slot,
                        fingerprint,
                        index,
                        ticket,
                        decides: true,
                    });
                    waiting += 1;
                }
                novelty => self.decide(
                    novelty == Novelty::New,
                    slot,
                    fingerprint,
                    url,
                    origin,
                    ticket,
                    news,
                ),
            }
        }
        onward.publish(batch.number, ticket, out);
        if waiting == 0 {
            self.finish(ticket, &batch, out);
        } else {
            self.held.hold(ticket, batch, waiting);
        }
        self.idle_at = now + IDLE;
        Ok(())
    }

    /// Makes a URL known that is new because of its injection. Returns whether its input has to
    /// wait for that.
    fn make_known(
        &mut self,
        now: Timestamp,
        slot: u16,
        host: u64,
        url: &str,
        index: usize,
        ticket: Ticket,
    ) -> Result<bool, StoreError> {
        let fingerprint = fingerprint(url);
        let number = self.owned.number(slot);
        let token = self.held.next_token();
        let novelty = self.seen.store.ask(now, number, host, fingerprint, token)?;
        if novelty != Novelty::Later {
            return Ok(false);
        }
        self.held.wait(Waiting {
            slot,
            fingerprint,
            index,
            ticket,
            decides: false,
        });
        Ok(true)
    }

    /// Settles whether a URL is new. The cache knows it before it is committed: if the commit
    /// fails, the process ends.
    #[expect(
        clippy::too_many_arguments,
        reason = "a URL with all that belongs to it"
    )]
    fn decide(
        &mut self,
        is_new: bool,
        slot: u16,
        fingerprint: u64,
        url: &str,
        origin: &Origin,
        ticket: Ticket,
        news: &mut News,
    ) {
        self.cache.insert(fingerprint);
        tracing::debug!(trace = %Trace::of(url), url, from = origin.found_on(), is_new, "a link is tested");
        if is_new {
            self.owned.count(Some(slot), Counters::new_url);
            news.push(slot, url, origin, ticket);
        } else {
            self.owned.count(Some(slot), Counters::repeat);
        }
    }

    /// Finishes an input whose URLs are all decided. What was counted upstream counts in the
    /// partition of its URLs.
    fn finish(&mut self, ticket: Ticket, batch: &SplitUrls, out: &mut Output<Infallible>) {
        let slot = batch
            .urls
            .iter()
            .next()
            .and_then(|url| self.owned.slot_of_hash(host_hash(host_of(url))));
        self.owned.count(slot, |counters| counters.take_over(batch));
        out.finish(ticket);
    }

    /// Takes the URL-seen store's answers.
    fn flush(
        &mut self,
        now: Timestamp,
        all: bool,
        news: &mut News,
        out: &mut Output<Infallible>,
    ) -> Result<(), StoreError> {
        let mut answers = Vec::new();
        self.seen.store.flush(now, all, &mut answers)?;
        for (token, is_new) in answers {
            let Some(Answered {
                url,
                batch,
                is_last,
            }) = self.held.answered(token)
            else {
                continue;
            };
            let Waiting {
                slot,
                fingerprint,
                index,
                ticket,
                decides,
            } = url;
            if decides {
                let origin = &batch.origins[batch.origin_of[index] as usize];
                self.decide(
                    is_new,
                    slot,
                    fingerprint,
                    batch.urls.get(index),
                    origin,
                    ticket,
                    news,
                );
            }
            if is_last {
                self.finish(ticket, &batch, out);
            }
        }
        Ok(())
    }

    /// Returns whether the URL-seen store is to be flushed now, and if so whether all of it.
    fn flush_due(&self, now: Timestamp) -> Option<bool> {
        let is_idle = self.draining || now >= self.idle_at;
        let all =
            (is_idle || self.held.bytes() > self.held_bytes_max) && !self.seen.store.is_idle();
        (all || self.seen.store.flush_at().is_some_and(|at| at <= now)).then_some(all)
    }

    /// Says of each body who had it first.
    fn look_up(
        &mut self,
        ticket: Ticket,
        ask: &ContentAsk,
        out: &mut Output<Infallible>,
    ) -> Result<(), StoreError> {
        let mut reply = ContentReply::default();
        let mut met: HashMap<u64, Place> = HashMap::new();
        for body in &ask.bodies {
            if self.owned.slot_of_hash(body.fingerprint).is_none() {
                self.bodies_misrouted += 1;
                reply.first.push(None);
                continue;
            }
            // Twice in one ask: what the first put is not in the store yet.
            let place = match met.entry(body.fingerprint) {
                Entry::Occupied(entry) => *entry.get(),
                Entry::Vacant(entry) => {
                    *entry.insert(first(self.store.as_ref(), body, &mut out.changes)?)
                }
            };
            reply
                .first
                .push((place.url != body.at.url).then_some(place));
        }
        out.reply(ticket, &reply);
        out.finish(ticket);
        Ok(())
    }

    /// Numbers the new URLs and hands everything over to be committed.
    fn stage(&mut self, news: News, out: &mut Output<Infallible>) -> Result<(), StoreError> {
        for NewUrlsOf {
            slot,
            mut message,
            causes,
            ..
        } in news.messages
        {
            message.partition = self.owned.number(slot);
            message.first_serial =
                self.owned
                    .take_serials(slot, message.urls.len() as u64, &mut out.changes);
            out.publish(self.owned.token(slot), &message, causes);
        }
        if let Some(seen) = self.seen.store.stage()? {
            out.put(META, SEEN, seen);
        }
        self.owned.save_counts(&mut out.changes);
        Ok(())
    }
}

/// The fingerprint of a URL of an injection; no URL has a space.
fn of_injected(url: &str, again: u64) -> u64 {
    fingerprint(&format!("{again} {url}"))
}

/// What dedup is given.
#[derive(Clone, Debug)]
pub enum Input {
    /// URLs to be tested.
    Split(SplitUrls),
    /// Bodies to be tested.
    Content(ContentAsk),
}

impl Core for Dedup {
    type Input = Input;
    type Effect = Infallible;
    type Answer = Infallible;

    fn decode(edge: Edge, payload: &[u8]) -> Result<Input, Undecodable> {
        if edge == Edge::ContentAsks {
            return decode(payload).map(Input::Content);
        }
        let batch: SplitUrls = decode(payload)?;
        let fits = batch.origin_of.len() == batch.urls.len()
            && batch
                .origin_of
                .iter()
                .all(|&origin| (origin as usize) < batch.origins.len());
        if fits {
            Ok(Input::Split(batch))
        } else {
            Err(Undecodable::Corrupt("a URL without an origin".into()))
        }
    }

    fn step(
        &mut self,
        now: Timestamp,
        event: Event<Input, Infallible>,
        out: &mut Output<Infallible>,
    ) -> Result<(), StoreError> {
        let mut news = News::default();
        match event {
            Event::Message {
                ticket,
                input: Input::Split(batch),
            } => self.receive(now, ticket, batch, &mut news, out)?,
            Event::Message {
                ticket,
                input: Input::Content(ask),
            } => self.look_up(ticket, &ask, out)?,
            Event::Drain => self.draining = true,
            Event::Answer(_) | Event::Stored(_) | Event::Wake | Event::HearsAgain => {}
        }
        if let Some(all) = self.flush_due(now) {
            self.flush(now, all, &mut news, out)?;
        }
        self.stage(news, out)
    }

    fn committed(&mut self) -> Result<(), StoreError> {
        Ok(self.seen.store.committed()?)
    }

    fn wake_at(&self) -> Option<Timestamp> {
        let idle_at = (!self.seen.store.is_idle()).then_some(self.idle_at);
        self.seen.store.flush_at().into_iter().chain(idle_at).min()
    }

    fn is_idle(&self) -> bool {
        self.held.urls() == 0
    }

    fn overfull(&mut self) -> Result<Option<u16>, StoreError> {
        Ok(self
            .sizes
            .overfull(self.owned.live(), self.seen.store.as_ref())?)
    }

    fn figures(&self) -> Vec<Figures> {
        let store = self.seen.store.as_ref();
        let figures = |(partition, handled)| Figures {
            partition,
            urls: store.known(partition),
            bytes: store.bytes(partition),
            handled,
            is_of_one_host: self.sizes.is_of_one_host(partition),
        };
        self.owned.found().map(figures).collect()
    }

    fn beside(&mut self) -> Option<&mut dyn Beside> {
        Some(&mut self.seen)
    }

    fn into_beside(mut self) -> Option<Box<dyn Beside>> {
        self.seen.store.give_up_questions();
        Some(Box::new(self.seen))
    }

    fn why(&self, _: Timestamp, url: &str) -> Result<Option<String>, StoreError> {
        let host = host_hash(host_of(url));
        let Some(slot) = self.owned.slot_of_hash(host) else {
            return Ok(None);
        };
        let number = self.owned.number(slot);
        let is_seen = self.seen.store.knows(number, host, fingerprint(url))?;
        Ok(Some(
            if is_seen {
                "seen: it passed the URL-seen test"
            } else {
                "not seen yet"
            }
            .into(),
        ))
    }

    fn counts(&self) -> Vec<Count> {
        let counters = self.owned.counters();
        let mut counts = counters.counts();
        counts.extend([
            ("bodies_misrouted_total", self.bodies_misrouted),
            ("partitions_of_one_host", self.sizes.of_one_host()),
            ("known", counters.new_urls()),
            ("new_in_generation", self.owned.numbered()),
            ("waiting", self.held.urls() as u64),
            ("waiting_bytes", self.held.bytes() as u64),
            ("seen_memory_bytes", self.seen.store.memory_bytes() as u64),
            ("seen_disk_bytes", self.seen.store.disk_bytes()),
        ]);
        counts
    }
}

#[cfg(test)]
mod tests;
