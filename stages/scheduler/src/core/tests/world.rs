//! A world around the core: it steps the core and commits, gives it URLs, and lets it crash.
//! `fetching` is its fetcher, `checks` looks at every step.

use super::fetching::Held;
use super::twin::Twin;
use super::two::Ledgers;
use super::web::{addresses, origin};
use crate::core::dispatcher::Input;
use crate::core::scheduler::Scheduler;
use crate::quota::ledger::{Claim, ClaimAnswer};
use crate::settings::Settings;
use crate::settings::tests::settings;
use rhumb_stage::store::{MemoryStore, Store as _};
use rhumb_stage::{Core as _, Event, Output, Ticket};
use rhumb_url::time::Timestamp;
use rhumb_url::{fingerprint, host_hash, host_of, partition, server_of};
use rhumb_wire::lane_of;
use rhumb_wire::message::{
    Ask, AskReply, DnsRefresh, Edge, Errand, FoundUrls, Origin, Outcome, OutcomeEntry, Outcomes,
    ReadyUrls, Resolution, ServerResolution, ToFetcher, decode,
};
use rhumb_wire::topology::Token;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

pub(crate) const FETCHER: &str = "fetcher-0";
const LIFE: u64 = 7;

/// A server in another partition than that of `server`.
pub(crate) fn elsewhere(server: &str) -> String {
    let home = partition(host_of(server), 4);
    (0..)
        .map(|n| format!("http://e{n}.test"))
        .find(|other| partition(host_of(other), 4) != home)
        .unwrap()
}

pub(crate) struct World {
    pub(crate) settings: Settings,
    pub(super) instance: u16,
    pub(crate) owned: Vec<u16>,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) core: Scheduler,
    /// Does the same in batches.
    pub(crate) twin: Option<Twin>,
    pub(crate) now: Timestamp,
    pub(super) epoch: u64,
    pub(super) ticket: u64,
    pub(super) serials: BTreeMap<u16, u64>,
    /// New URLs told to the scheduler.
    pub(crate) told: BTreeMap<String, u16>,
    pub(crate) outcomes: BTreeMap<String, OutcomeEntry>,
    /// Those of URLs that were told once more.
    pub(crate) forgotten: Vec<OutcomeEntry>,
    /// Which visit was the last of each page that was given as known.
    pub(crate) given: BTreeMap<String, u32>,
    /// Outcomes of visits after a page's first, in order.
    pub(crate) visits: Vec<OutcomeEntry>,
    pub(crate) inbox: VecDeque<ToFetcher>,
    pub(crate) refreshes: VecDeque<DnsRefresh>,
    pub(crate) errands: Vec<(u16, Errand)>,
    /// Claims on ledgers, of one of several schedulers.
    pub(crate) claims: Vec<Claim>,
    /// By key, as text.
    pub(crate) ledgers: Ledgers,
    /// URLs that the scheduler found.
    pub(crate) found: Vec<FoundUrls>,
    pub(crate) held: Vec<Held>,
    /// Jobs that were to stop, and have not been reported since.
    pub(crate) revoked: Vec<Held>,
    /// The topics of the URLs that are told; a URL always has the same.
    pub(crate) topics: Vec<String>,
    pub(super) ask: u64,
    pub(super) received: u64,
    /// Contacts: the time and the URL.
    pub(crate) contacts: Vec<(Timestamp, String)>,
    pub(super) last_contact: BTreeMap<String, Timestamp>,
    /// Servers that must be left alone until then.
    pub(crate) not_before: BTreeMap<String, Timestamp>,
}

impl World {
    pub(crate) fn new(settings: Settings) -> Self {
        Self::owning(settings, &[0, 1, 2, 3])
    }

    pub(crate) fn owning(settings: Settings, owned: &[u16]) -> Self {
        Self::of(settings, 0, owned)
    }

    /// The world of one of several schedulers.
    pub(crate) fn of(settings: Settings, instance: u16, owned: &[u16]) -> Self {
        let store = Arc::new(MemoryStore::default());
        let now = Timestamp::from_micros(1_000_000);
        let core =
            Scheduler::open(settings.clone(), instance, 1, owned, store.clone(), now).unwrap();
        World {
            settings,
            instance,
            owned: owned.to_vec(),
            store,
            core,
            twin: None,
            now,
            epoch: 1,
            ticket: 0,
            serials: BTreeMap::new(),
            told: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            forgotten: Vec::new(),
            given: BTreeMap::new(),
            visits: Vec::new(),
            inbox: VecDeque::new(),
            refreshes: VecDeque::new(),
            errands: Vec::new(),
            claims: Vec::new(),
            ledgers: Ledgers::default(),
            found: Vec::new(),
            held: Vec::new(),
            revoked: Vec::new(),
            topics: vec![origin().topic],
            ask: 0,
            received: 0,
            contacts: Vec::new(),
            last_contact: BTreeMap::new(),
            not_before: BTreeMap::new(),
        }
    }

    pub(crate) fn polite() -> Self {
        Self::new(settings())
    }

    /// Steps the core without committing what it made.
    pub(crate) fn step_only(&mut self, input: Option<Input>) -> Output<Claim> {
        let mut out = Output::default();
        self.ticket += 1;
        let ticket = Ticket(self.ticket);
        let asks = matches!(input, Some(Input::Ask(_)));
        let event = match input {
            Some(input) => Event::Message { ticket, input },
            None => Event::Wake,
        };
        let message = matches!(event, Event::Message { .. });
        self.core.step(self.now, event, &mut out).unwrap();
        assert_eq!(out.finished, if message { vec![ticket] } else { vec![] });
        assert_eq!(out.replies.len(), usize::from(asks));
        out
    }

    /// The ledger answers.
    pub(crate) fn answer(&mut self, answer: ClaimAnswer) {
        let mut out = Output::default();
        self.core
            .step(self.now, Event::Answer(answer.clone()), &mut out)
            .unwrap();
        if let Some(twin) = &mut self.twin {
            twin.step(self.now, Event::Answer(answer), &out);
        }
        self.commit(out);
    }

    /// The scheduler hears again after a while.
    pub(crate) fn hear_again(&mut self) {
        let mut out = Output::default();
        self.core
            .step(self.now, Event::HearsAgain, &mut out)
            .unwrap();
        if let Some(twin) = &mut self.twin {
            twin.step(self.now, Event::HearsAgain, &out);
        }
        self.commit(out);
    }

    /// Steps the core, commits, takes what it sends, and checks P3 and budgets.
    pub(crate) fn step(&mut self, input: Option<Input>) {
        let out = self.step_only(input.clone());
        if let Some(twin) = &mut self.twin {
            let ticket = Ticket(self.ticket);
            let event = match input {
                Some(input) => Event::Message { ticket, input },
                None => Event::Wake,
            };
            twin.step(self.now, event, &out);
        }
        self.commit(out);
    }

    fn commit(&mut self, out: Output<Claim>) {
        self.store.commit(&out.changes).unwrap();
        if let Some(twin) = &mut self.twin {
            twin.committed(&self.store);
        }
        self.claims.extend(out.effects);
        let mut granted = 0;
        for send in out.sends {
            match (send.edge, send.token) {
                (Edge::FetchJobs, Token::Instance(fetcher)) => {
                    assert_eq!(fetcher, FETCHER);
                    let message = decode(&send.payload).unwrap();
                    granted += u32::from(matches!(message, ToFetcher::Job(_)));
                    self.inbox.push_back(message);
                }
                (Edge::DnsRefresh, Token::Partition(_)) => {
                    self.refreshes.push_back(decode(&send.payload).unwrap())
                }
                (Edge::Errands, Token::Partition(p)) => {
                    self.errands.push((p, decode(&send.payload).unwrap()))
                }
                other => panic!("sent on {other:?}"),
            }
        }
        for (_, reply) in out.replies {
            assert_eq!(decode::<AskReply>(&reply).unwrap().granted, granted);
        }
        for publish in out.publishes {
            if publish.edge == Edge::UrlsFound {
                let found: FoundUrls = decode(&publish.payload).unwrap();
                assert_eq!(
                    publish.token,
                    Token::Lane(lane_of(host_of(&found.origin.page)))
                );
                self.found.push(found);
                continue;
            }
            let outcomes: Outcomes = decode(&publish.payload).unwrap();
            for entry in outcomes.entries {
                assert!(
                    self.told.contains_key(&entry.url),
                    "an outcome of what was told"
                );
                let own = self
                    .settings
                    .directory
                    .partition_of(host_hash(host_of(&entry.url)));
                assert_eq!(
                    publish.token,
                    Token::Partition(own),
                    "an outcome of its partition"
                );
                if entry.visit > 1 {
                    self.check_visit(&entry);
                    self.visits.push(entry);
                    continue;
                }
                let before = self.outcomes.insert(entry.url.clone(), entry);
                assert!(before.is_none(), "P3: a second outcome: {before:?}");
            }
        }
        self.check();
        if self.settings.schedulers.count == 1 {
            for claim in std::mem::take(&mut self.claims) {
                let answer = self.ledgers.enter(&claim);
                self.answer(answer);
            }
        }
    }

    /// A URL that ended may be told once more.
    pub(crate) fn forget(&mut self, url: &str) {
        self.told.remove(url);
        self.forgotten.extend(self.outcomes.remove(url));
    }

    /// Visits of a page are numbered without a gap, and follow its first, or that with which it was
    /// given.
    fn check_visit(&self, entry: &OutcomeEntry) {
        let mut firsts = self.forgotten.iter().chain(self.outcomes.values());
        let first = firsts.find(|first| first.serial == entry.serial && first.url == entry.url);
        let first = first.map(|first| first.visit);
        let first = first.or_else(|| self.given.get(&entry.url).copied());
        let first = first.expect("a first visit of that serial");
        let before = self.visits.iter().rev();
        let before = before.map(|visit| (&visit.url, visit.visit));
        let before = before.chain([(&entry.url, first)]);
        let last = before
            .filter(|(url, _)| **url == entry.url)
            .map(|(_, visit)| visit)
            .next();
        assert_eq!(last, Some(entry.visit - 1), "{}", entry.url);
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        self.core
            .counts()
            .into_iter()
            .find(|(found, _)| *found == name)
            .expect("a count of that name")
            .1
    }

    /// A batch of new URLs, numbered, all of servers of one partition.
    pub(crate) fn batch(&mut self, urls: &[String], resolution: Option<&Resolution>) -> ReadyUrls {
        let home = partition(host_of(&urls[0]), self.settings.directory.ids());
        let origins = self
            .topics
            .iter()
            .map(|topic| Origin {
                topic: topic.clone(),
                ..origin()
            })
            .collect();
        let mut ready = ReadyUrls {
            partition: home,
            origins,
            ..ReadyUrls::default()
        };
        for url in urls {
            assert_eq!(partition(host_of(url), self.settings.directory.ids()), home);
            let server = server_of(url);
            let index = ready
                .servers
                .iter()
                .position(|known| known.server == server)
                .unwrap_or_else(|| {
                    ready.servers.push(ServerResolution {
                        server: server.to_owned(),
                        resolution: resolution.cloned(),
                    });
                    ready.servers.len() - 1
                });
            let serial = self.serials.entry(home).or_default();
            *serial += 1;
            ready.urls.push(url);
            ready
                .origin_of
                .push((fingerprint(url) % self.topics.len() as u64) as u32);
            ready.server_of.push(index as u32);
            ready.serials.push(*serial);
            assert!(
                self.told.insert(url.clone(), home).is_none(),
                "tests name each URL once"
            );
        }
        ready
    }

    pub(crate) fn tell(&mut self, urls: &[String], resolution: &Resolution) {
        let ready = self.batch(urls, Some(resolution));
        self.step(Some(Input::Ready(ready)));
    }

    /// `n` URLs of a server.
    pub(crate) fn tell_pages(&mut self, server: &str, n: usize) {
        let urls: Vec<_> = (0..n).map(|page| format!("{server}/{page}")).collect();
        self.tell(&urls, &addresses());
    }

    pub(crate) fn pass(&mut self, wait: Duration) {
        self.now = self.now + wait;
    }

    /// The process dies. Another one opens what was committed, with a clock of another origin.
    pub(crate) fn crash(&mut self) {
        self.epoch += 1;
        self.claims.clear();
        self.core = {
            let settings = self.settings.clone();
            let store = self.store.clone();
            Scheduler::open(
                settings,
                self.instance,
                self.epoch,
                &self.owned,
                store,
                self.now,
            )
            .unwrap()
        };
        if let Some(twin) = &mut self.twin {
            let begins = (self.settings.clone(), self.owned.as_slice());
            twin.crash(&self.store, self.epoch, begins, self.now);
        }
        self.check();
    }

    pub(crate) fn ask(&mut self, free: u32) {
        self.ask += 1;
        let ask = Ask {
            fetcher: FETCHER.into(),
            ask: self.ask,
            free,
            received: self.received,
            life: LIFE,
        };
        self.step(Some(Input::Ask(ask)));
        self.receive();
    }

    pub(crate) fn outcome(&self, url: &str) -> (Outcome, &str) {
        let entry = self
            .outcomes
            .get(url)
            .unwrap_or_else(|| panic!("{url} has not ended"));
        (entry.outcome, &entry.reason)
    }

    /// URLs contacted, in order.
    pub(crate) fn contacted(&self) -> Vec<&str> {
        self.contacts.iter().map(|(_, url)| url.as_str()).collect()
    }
}
