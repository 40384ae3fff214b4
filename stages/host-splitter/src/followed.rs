//! The shared scope: which hosts, or registered domains, each topic follows; and the seeds that
//! wait to join it.
//!
//! In: entries of the shared scope; seeds. Out: entries to add; the seeds whose entries are all
//! there.
//!
//! Invariant: inputs with seeds wait until the scope that all instances share has the hosts of
//! these seeds.

use crate::effect::Effect;
use crate::form::checked_host;
use foldhash::{HashMap, HashMapExt as _, HashSet};
use rhumb_config::Follow;
use rhumb_config::scope_entry::{ScopeEntry, followed};
use rhumb_config::topics::{Rules, Topics};
use rhumb_stage::{Output, Ticket};
use rhumb_wire::message::FoundUrls;
use std::collections::BTreeSet;

/// How far the shared scope is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Learning {
    /// Every topic follows any host.
    NotNeeded,
    NotBegun,
    Underway,
    CaughtUp,
}

/// An input with seeds that have yet to join the scope.
struct Parked {
    ticket: Ticket,
    found: FoundUrls,
    /// Entries that it waits for.
    missing: usize,
}

/// The scope, as far as it is known here.
pub(crate) struct Followed {
    pub(crate) learning: Learning,
    /// The hosts or registered domains that each topic follows.
    entries: HashMap<String, HashSet<String>>,
    /// Inputs that wait for entries to join, by ticket.
    parked: HashMap<Ticket, Parked>,
    /// The inputs that wait for each entry that is joining.
    joining: HashMap<ScopeEntry, Vec<Ticket>>,
}

impl Followed {
    /// A scope without entries.
    pub(crate) fn new(topics: &Topics) -> Self {
        let mut followed = Followed {
            learning: Learning::NotNeeded,
            entries: HashMap::new(),
            parked: HashMap::new(),
            joining: HashMap::new(),
        };
        followed.configure(topics);
        followed
    }

    /// The rules are these from now on. Topics that follow any host have nothing to learn.
    pub(crate) fn configure(&mut self, topics: &Topics) {
        let is_needed = topics.all().any(|(_, rules)| rules.follow != Follow::Any);
        if is_needed && self.learning == Learning::NotNeeded {
            self.learning = Learning::NotBegun;
        }
    }

    /// Returns whether a topic follows a host.
    pub(crate) fn follows(&self, topic: &str, follow: Follow, host: &str) -> bool {
        follow == Follow::Any
            || self
                .entries
                .get(topic)
                .is_some_and(|entries| entries.contains(followed(follow, host)))
    }

    /// Returns whether a topic follows a host, or one of those that are not configured.
    pub(crate) fn is_followed(
        &self,
        topic: Option<&str>,
        topics: &Topics,
        rules: &Rules,
        host: &str,
    ) -> bool {
        let follow = rules.follow;
        let others = || self.entries.keys().filter(|topic| !topics.has(topic));
        !rules.is_removed
            && match topic {
                Some(topic) => self.follows(topic, follow, host),
                None => {
                    follow == Follow::Any || others().any(|topic| self.follows(topic, follow, host))
                }
            }
    }

    /// The entries of seeds that are not yet in the scope, each once.
    pub(crate) fn missing(&self, found: &FoundUrls, rules: &Rules) -> BTreeSet<ScopeEntry> {
        let origin = &found.origin;
        let follow = rules.follow;
        if !origin.seed || follow == Follow::Any {
            return BTreeSet::new();
        }
        let known = self.entries.get(&origin.topic);
        let mut missing = BTreeSet::new();
        for host in found.urls.iter().filter_map(|url| checked_host(url, rules)) {
            if !known.is_some_and(|known| known.contains(followed(follow, host))) {
                missing.insert(ScopeEntry::of(follow, &origin.topic, host));
            }
        }
        missing
    }

    /// An input waits for these entries, and those that nobody waits for yet are to join.
    pub(crate) fn park(
        &mut self,
        ticket: Ticket,
        found: FoundUrls,
        missing: BTreeSet<ScopeEntry>,
        out: &mut Output<Effect>,
    ) {
        self.parked.insert(
            ticket,
            Parked {
                ticket,
                found,
                missing: missing.len(),
            },
        );
        for entry in missing {
            let waiting = self.joining.entry(entry.clone()).or_default();
            if waiting.is_empty() {
                out.effect(Effect::Join(entry));
            }
            waiting.push(ticket);
        }
    }

    /// The entry is in the scope. Returns the inputs that waited for it alone.
    pub(crate) fn learn(&mut self, entry: ScopeEntry) -> Vec<(Ticket, FoundUrls)> {
        let waiting = self.joining.remove(&entry);
        let ScopeEntry { topic, entry } = entry;
        self.entries.entry(topic).or_default().insert(entry);
        let mut complete = Vec::new();
        for ticket in waiting.unwrap_or_default() {
            let Some(parked) = self.parked.get_mut(&ticket) else {
                debug_assert!(
                    false,
                    "P3: an input is parked as long as an entry of it is missing"
                );
                continue;
            };
            parked.missing -= 1;
            if parked.missing == 0
                && let Some(Parked { ticket, found, .. }) = self.parked.remove(&ticket)
            {
                complete.push((ticket, found));
            }
        }
        complete
    }

    /// Inputs that wait.
    pub(crate) fn parked(&self) -> usize {
        self.parked.len()
    }
}
