//! The host-splitter's core: filters found URLs and regroups the others by partition.
//!
//! In: [`FoundUrls`], and the entries of the shared scope. Out:
//! [`SplitUrls`](rhumb_wire::message::SplitUrls), each of one partition.
//!
//! Invariants: every found URL is either placed in a batch or counted, as repeated or under one
//! [`FilterReason`], and both leave in messages caused by the input (P3). URLs of one host always
//! go to the same partition. A URL is judged only when the shared scope is known, and a seed only
//! when its hosts have joined it. A URL that the cache knows is counted as repeated instead of
//! being placed, unless it is to be fetched again; it enters the cache only when a batch with it is
//! stored.
//!
//! Sources: Heydon and Najork 1999, section 3.5 (URL filters) and Najork and Heydon 2001, section 3
//! (the host splitter); Broder, Najork and Wiener 2003, section 7 (a cache before it saves the
//! messages of repeats).

use crate::batches::Batches;
use crate::boosts::{Boosts, Target};
use crate::effect::{Answer, Effect};
use crate::elsewhere::Elsewhere;
use crate::followed::{Followed, Learning};
use crate::form::checked_host;
use crate::worths::Worths;
use rhumb_config::Pipeline;
use rhumb_config::scope_entry::ScopeEntry;
use rhumb_config::topics::{Rules, Topics};
use rhumb_partition::{Directory, Owners};
use rhumb_stage::store::StoreError;
use rhumb_stage::{Core, Count, Event, Output, Ticket};
use rhumb_url::time::Timestamp;
use rhumb_url::url_cache::UrlCache;
use rhumb_url::{fingerprint, host_hash};
use rhumb_wire::message::{
    Edge, FilterReason, FilteredUrls, FoundUrls, Undecodable, UrlList, decode,
};
use rhumb_wire::topology::StageName;
use rhumb_wire::topology::Token;
use std::time::Duration;

/// Seeds that wait for their hosts to join the scope; with more, no further input is taken.
const PARKED_MAX: usize = 64;

/// What the core is configured with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Partitions with which the crawl began.
    pub partitions: u16,
    /// Which hosts each topic follows, and which of their URLs pass.
    pub topics: Topics,
    /// URLs in one batch.
    pub batch_urls_max: usize,
    /// How long a URL waits for company.
    pub linger: Duration,
    /// What links are worth to URLs that were found before.
    pub worths: Worths,
    /// Memory in which that is added up, in bytes.
    pub boost_bytes: u64,
}

impl From<&Pipeline> for Settings {
    fn from(pipeline: &Pipeline) -> Self {
        Settings {
            partitions: pipeline.partitions,
            topics: Topics::from(pipeline),
            batch_urls_max: pipeline.stages.host_splitter.batch_urls_max,
            linger: pipeline.stages.host_splitter.linger,
            worths: Worths::from(pipeline),
            boost_bytes: pipeline.stages.scheduler.boost_bytes.0,
        }
    }
}

/// The host-splitter's core.
pub struct Splitter {
    settings: Settings,
    followed: Followed,
    batches: Batches,
    cache: UrlCache,
    boosts: Boosts,
    draining: bool,
    found_total: u64,
    filtered_total: [u64; FilterReason::ALL.len()],
    repeated_total: u64,
}

impl Splitter {
    /// A core with nothing in hand. `life` is a random number of this life of the process: batches
    /// are numbered from there.
    pub fn new(settings: Settings, cache: UrlCache, life: u64) -> Self {
        let Settings {
            partitions,
            batch_urls_max,
            linger,
            ..
        } = settings;
        Splitter {
            followed: Followed::new(&settings.topics),
            boosts: Boosts::new(settings.boost_bytes),
            settings,
            batches: Batches::new(Directory::new(partitions), batch_urls_max, linger, life),
            cache,
            draining: false,
            found_total: 0,
            filtered_total: [0; FilterReason::ALL.len()],
            repeated_total: 0,
        }
    }

    /// Places the URLs of an input, after its seeds have joined the scope.
    fn receive(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        found: FoundUrls,
        out: &mut Output<Effect>,
    ) {
        self.hear_of_page(&found);
        let rules = self.settings.topics.of(&found.origin.topic);
        if rules.rejection_of_all(&found.origin).is_none() {
            let missing = self.followed.missing(&found, rules);
            if !missing.is_empty() {
                self.followed.park(ticket, found, missing, out);
                return;
            }
        }
        self.place(now, ticket, &found, out);
    }

    /// The entry is in the scope; inputs that waited for it alone are placed.
    fn learn(&mut self, now: Timestamp, entry: ScopeEntry, out: &mut Output<Effect>) {
        for (ticket, found) in self.followed.learn(entry) {
            self.place(now, ticket, &found, out);
        }
    }

    /// Puts each URL of an input into the batch of its partition, or counts that and why not.
    fn place(
        &mut self,
        now: Timestamp,
        ticket: Ticket,
        found: &FoundUrls,
        out: &mut Output<Effect>,
    ) {
        // The input is held until all of it has left: acked before, it would be lost with the
        // process (P3).
        self.batches.hold(ticket);
        let rules = self.settings.topics.of(&found.origin.topic);
        let rejection_of_all = rules.rejection_of_all(&found.origin);
        let worth = self.settings.worths.of(found);
        let mut elsewhere = Elsewhere::of(found, rules, &self.followed);
        // Neighbouring links often lead to the same host: the host's partition is looked up once
        // for all of them.
        let mut last_host = "";
        let mut last_partition = Err(FilterReason::Form);
        let mut filtered = FilteredUrls {
            origin: found.origin.clone(),
            urls: UrlList::default(),
            reasons: Vec::new(),
        };
        for url in found.urls.iter() {
            let partition = match (checked_host(url, rules), rejection_of_all) {
                (None, _) => Err(FilterReason::Form),
                (_, Some(reason)) => Err(reason),
                (Some(host), None) => {
                    if host != last_host {
                        last_host = host;
                        last_partition = self.partition_in_scope(
                            &found.origin.topic,
                            rules,
                            host,
                            &mut elsewhere,
                        );
                    }
                    last_partition.and_then(|partition| {
                        let rejection = rules.filters.rejection(url, elsewhere.are_sitemaps);
                        rejection
                            .or_else(|| elsewhere.surplus(host))
                            .map_or(Ok(partition), Err)
                    })
                }
            };
            match partition {
                Ok(partition) => {
                    let fingerprint = fingerprint(url);
                    // A URL that is to be fetched again is known; dedup knows whether it was let
                    // pass already.
                    let is_repeated = found.origin.again == 0 && self.cache.contains(fingerprint);
                    if let Some(worth) = worth {
                        let target = Target {
                            url: fingerprint,
                            host: host_hash(last_host),
                            is_repeated,
                        };
                        self.boosts.add(now, worth, target, |host| {
                            self.batches.partition_of_hash(host)
                        });
                    }
                    if is_repeated {
                        self.repeated_total += 1;
                        self.batches.dropped(now, ticket, found).repeated += 1;
                    } else {
                        self.batches
                            .append(now, ticket, found, url, fingerprint, partition, out);
                    }
                }
                Err(reason) => {
                    self.filtered_total[reason as usize] += 1;
                    self.batches.dropped(now, ticket, found).filtered[reason as usize] += 1;
                    filtered.urls.push(url);
                    filtered.reasons.push(reason);
                }
            }
        }
        tell_placed(found, filtered.reasons.len());
        self.found_total += found.urls.len() as u64;
        if !filtered.reasons.is_empty() {
            out.send(Token::None, &filtered);
        }
        self.batches.release(ticket, out);
    }

    /// A page was fetched, or some are to be fetched again.
    fn hear_of_page(&mut self, found: &FoundUrls) {
        self.boosts.fetched(found.origin.found_on());
        if found.origin.again > 0 && found.origin.last_visit().is_none() {
            found
                .urls
                .iter()
                .for_each(|url| self.boosts.waits_again(url));
        }
    }

    /// The partition of a host that the topic follows, or on which a sitemap may lie all the same.
    fn partition_in_scope<'h>(
        &self,
        topic: &str,
        rules: &Rules,
        host: &'h str,
        elsewhere: &mut Elsewhere<'h>,
    ) -> Result<u16, FilterReason> {
        if self.followed.follows(topic, rules.follow, host) || elsewhere.has(host) {
            Ok(self.batches.partition_of(host))
        } else {
            Err(FilterReason::Scope)
        }
    }
}

impl Core for Splitter {
    type Input = FoundUrls;
    type Effect = Effect;
    type Answer = Answer;

    fn decode(_edge: Edge, payload: &[u8]) -> Result<FoundUrls, Undecodable> {
        decode(payload)
    }

    fn step(
        &mut self,
        now: Timestamp,
        event: Event<FoundUrls, Answer>,
        out: &mut Output<Effect>,
    ) -> Result<(), StoreError> {
        match event {
            Event::Message { ticket, input } => self.receive(now, ticket, input, out),
            Event::Answer(Answer::Scope(entry)) => {
                self.learn(now, entry, out);
                out.effect(Effect::NextScope);
            }
            Event::Answer(Answer::ScopeCaughtUp) => {
                self.followed.learning = Learning::CaughtUp;
                out.effect(Effect::NextScope);
            }
            Event::Answer(Answer::Joined(entry)) => self.learn(now, entry, out),
            Event::Wake if self.followed.learning == Learning::NotBegun => {
                self.followed.learning = Learning::Underway;
                out.effect(Effect::NextScope);
            }
            Event::Wake | Event::HearsAgain => {}
            Event::Stored(number) => {
                for fingerprint in self.batches.stored(number) {
                    self.cache.insert(fingerprint);
                }
            }
            Event::Drain => self.draining = true,
        }
        self.batches.flush_due(now, self.draining, out);
        self.boosts.flush_due(now, self.draining, out);
        Ok(())
    }

    fn wake_at(&self) -> Option<Timestamp> {
        if self.followed.learning == Learning::NotBegun {
            return Some(Timestamp::ZERO);
        }
        [self.batches.flush_at(), self.boosts.flush_at()]
            .into_iter()
            .flatten()
            .min()
    }

    fn wants_input(&self) -> bool {
        matches!(
            self.followed.learning,
            Learning::NotNeeded | Learning::CaughtUp
        ) && self.followed.parked() < PARKED_MAX
    }

    fn is_idle(&self) -> bool {
        self.followed.parked() == 0 && self.batches.is_empty()
    }

    /// Answers for a link of the topic that lets it pass, if one does, however deep.
    fn why(&self, _: Timestamp, url: &str) -> Result<Option<String>, StoreError> {
        let rejection_by = |(name, rules): (Option<&str>, &Rules)| match checked_host(url, rules) {
            None => Some(FilterReason::Form),
            Some(host)
                if !self
                    .followed
                    .is_followed(name, &self.settings.topics, rules, host) =>
            {
                Some(FilterReason::Scope)
            }
            Some(_) => rules.filters.rejection(url, false),
        };
        let rejection = self
            .settings
            .topics
            .all()
            .map(rejection_by)
            .reduce(nearest)
            .flatten();
        Ok(rejection.map(|reason| format!("a link to it is filtered: {}", reason.name())))
    }

    fn configure(&mut self, pipeline: &Pipeline) -> bool {
        self.settings = Settings::from(pipeline);
        self.followed.configure(&self.settings.topics);
        if self.settings.worths.is_none() {
            self.boosts.forget();
        }
        true
    }

    fn owners(&mut self, _: StageName, owners: &Owners) {
        self.batches.divided_by(owners.directory());
    }

    fn counts(&self) -> Vec<Count> {
        let filtered = |reason: FilterReason| self.filtered_total[reason as usize];
        vec![
            ("found_total", self.found_total),
            ("filtered_scope_total", filtered(FilterReason::Scope)),
            ("filtered_depth_total", filtered(FilterReason::Depth)),
            (
                "filtered_redirects_total",
                filtered(FilterReason::Redirects),
            ),
            ("filtered_form_total", filtered(FilterReason::Form)),
            ("filtered_pattern_total", filtered(FilterReason::Pattern)),
            ("filtered_segments_total", filtered(FilterReason::Segments)),
            (
                "filtered_parameters_total",
                filtered(FilterReason::Parameters),
            ),
            ("repeated_total", self.repeated_total),
            ("batches_total", self.batches.sent()),
            ("pending", self.batches.urls()),
            ("boosts_total", self.boosts.sent()),
            ("boosts_dropped_total", self.boosts.dropped()),
        ]
    }
}

/// The one of two topics' rejections that is nearer to passing; none is the nearest.
fn nearest(one: Option<FilterReason>, other: Option<FilterReason>) -> Option<FilterReason> {
    one.zip(other).map(|(one, other)| {
        if one == FilterReason::Scope {
            other
        } else {
            one
        }
    })
}

fn tell_placed(found: &FoundUrls, rejected: usize) {
    tracing::debug!(
        trace = found.origin.trace().map(tracing::field::display),
        url = found.origin.found_on(),
        urls = found.urls.len(),
        rejected,
        "links of a page are placed"
    );
}

#[cfg(test)]
mod tests;
