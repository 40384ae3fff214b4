//! What must hold after every step: P3, budgets, and jobs in circles.

use super::world::World;
use crate::frontier::rows::{URLS, read_url};
use crate::keys::circle::Circle;
use crate::keys::room::Room;
use crate::keys::slot::topic_of;
use crate::keys::topic::TopicIndex;
use crate::known::record::{KNOWN, Record};
use crate::known::table::VISITS;
use crate::ranking::ready_queue::QueuePlace;
use crate::servers::counts::visits_metric;
use crate::servers::server::Server;
use crate::store::rows::Rows;
use rhumb_stage::Core as _;
use rhumb_stage::store::Store as _;
use rhumb_url::{host_of, registered_domain};
use rhumb_wire::message::{Change, JobKind, Outcome};
use std::collections::BTreeMap;

impl World {
    /// P3, by the counts and by the rows of the store.
    pub(crate) fn check(&self) {
        let waiting = self.count("waiting");
        let in_flight = self.count("in_flight");
        let ended: u64 = self
            .core
            .counts()
            .iter()
            .filter(|(name, _)| name.starts_with("outcome_"))
            .map(|(_, count)| count)
            .sum();
        assert_eq!(
            self.count("new_total") + self.count("visits_out"),
            ended + self.count("pages_given_total") + waiting + in_flight,
            "P3"
        );
        self.check_visits();
        assert_eq!(
            ended,
            (self.outcomes.len() + self.forgotten.len()) as u64,
            "P3: outcomes counted and published"
        );
        let tallied = self.core.servers.tallied();
        let in_slots = tallied
            .pace
            .slots
            .iter()
            .map(|slot| slot.pages + slot.others)
            .sum();
        assert_eq!(
            [tallied.counted(), in_slots],
            [ended; 2],
            "what ended is tallied"
        );
        let mut rows = 0;
        self.store
            .scan(URLS, &[], &[0xff; 20], &mut |_, _| {
                rows += 1;
                true
            })
            .unwrap();
        assert_eq!(
            rows,
            waiting + in_flight,
            "P3: each URL that has not ended is in the store"
        );
        let limits = [
            (self.settings.limits.pages_per_host, "pages per host"),
            (self.settings.limits.pages_per_domain, "pages per domain"),
        ];
        for (budget, limit) in limits {
            if budget > 0 {
                self.check_budget(budget, limit);
            }
        }
        self.check_circles();
        self.check_topics();
    }

    /// Jobs for pages yield or run, by the priorities of their topics; and a server that may be
    /// contacted stands for one at least.
    fn check_topics(&self) {
        let topics = &self.settings.topics;
        for (key, server, lease) in self
            .core
            .servers
            .connected()
            .filter(|(_, _, lease)| lease.kind() == JobKind::Pages)
        {
            let known = self
                .core
                .dispatcher
                .doors
                .yields
                .knows(topics.priority(lease.topic), key);
            assert!(known, "the job of {} is out", server.name);
        }
        let mut open: BTreeMap<TopicIndex, u64> = BTreeMap::new();
        for key in self.core.servers.keys() {
            let (Some(server), Some(partition)) = (
                self.core.servers.get(key),
                self.core.servers.partition_of(key),
            ) else {
                continue;
            };
            let waiting = server
                .queues
                .waiting()
                .map(|queue| (queue.topic(), queue.len()));
            let in_flight = server
                .lease
                .iter()
                .flat_map(|lease| &lease.slots)
                .map(|slot| (topic_of(*slot), 1));
            for (number, urls) in waiting.chain(in_flight) {
                *open.entry(partition.topics.index_of(number)).or_default() += urls;
            }
        }
        let known = self.known();
        for (topic, counts) in self.core.servers.totals_by_topic() {
            let open = open.get(&topic).copied().unwrap_or_default();
            let of_topic = |page: &&Record| {
                let of = self.settings.topics.of_name(&page.origin.topic);
                page.is_planned && of == topic
            };
            let visits = known.iter().filter(of_topic).count() as u64;
            assert_eq!(
                counts.new + visits,
                counts.ended + open,
                "P3 of a topic: {topic:?} {counts:?}"
            );
        }
        for server in self.core.servers.all() {
            if let QueuePlace::Ready(standing, _) | QueuePlace::Troubled(standing, _) =
                &server.place
            {
                assert!(
                    !standing.ranks.is_empty(),
                    "{} stands for no topic",
                    server.name
                );
            }
        }
    }

    /// No circle has more jobs than allowed, and nobody waits for room that is there.
    fn check_circles(&self) {
        let circles_of = |server: &Server, lease| {
            server
                .circles_of(lease, &self.settings)
                .into_iter()
                .flatten()
        };
        let mut jobs: BTreeMap<Circle, u32> = BTreeMap::new();
        for server in self.core.servers.all() {
            for circle in server
                .lease
                .iter()
                .flat_map(|lease| circles_of(server, lease))
            {
                *jobs.entry(circle).or_default() += 1;
            }
        }
        for (&circle, &jobs) in &jobs {
            assert_eq!(
                self.core.places.circles.jobs(circle),
                jobs,
                "jobs in {circle}"
            );
            assert!(
                jobs <= self.settings.jobs_max_of(circle),
                "{jobs} jobs in {circle}"
            );
        }
        for server in self.core.servers.all() {
            let QueuePlace::Held(room @ Room::Circle(circle), _) = server.place else {
                continue;
            };
            let takes_it = |other: &Server| {
                matches!(
                    other.place,
                    QueuePlace::Ready(..) | QueuePlace::Troubled(..)
                ) && other.circles(&self.settings).contains(&Some(circle))
            };
            let is_taken = !self
                .core
                .places
                .circles
                .has_room(circle, self.now, &self.settings);
            // A wait that is over is noticed with the next step.
            let is_due = self
                .core
                .places
                .circles
                .requests
                .look_at()
                .is_some_and(|at| at <= self.now);
            assert!(
                is_taken || is_due || self.core.servers.all().any(takes_it),
                "{} is held for {room:?}, which is free",
                server.name
            );
        }
    }

    /// Each visit is counted and published.
    fn check_visits(&self) {
        let counts = Change::ALL.map(|change| self.count(visits_metric(change)));
        assert_eq!(counts.iter().sum::<u64>(), self.visits.len() as u64);
        let known = self.known();
        let mut placed = 0;
        self.store
            .scan(VISITS, &[], &[u8::MAX; 64], &mut |_, _| {
                placed += 1;
                true
            })
            .unwrap();
        let those = |holds: fn(&Record) -> bool| known.iter().filter(|page| holds(page)).count();
        assert_eq!(
            self.count("pages_known_total"),
            known.len() as u64 + self.count("pages_forgotten_total")
        );
        assert_eq!(placed, those(|page| !page.is_planned), "each has its place");
        assert_eq!(
            self.count("pages_rested_total") - self.count("pages_woken_total"),
            those(|page| page.rests) as u64
        );
    }

    /// The records of all known pages.
    fn known(&self) -> Vec<Record> {
        let mut known = Vec::new();
        self.store
            .scan(KNOWN, &[], &[u8::MAX; 64], &mut |_, row| {
                known.push(Record::from_row(row).unwrap());
                true
            })
            .unwrap();
        known
    }

    /// URLs of a server that are in flight for the first time.
    fn new_in_flight(&self, server: &Server) -> u64 {
        let Some(lease) = &server.lease else {
            return 0;
        };
        let key = self.core.key_of(&server.name);
        let rows = Rows::new(self.store.as_ref());
        let slots = lease.slots.iter();
        let urls = slots.map(|slot| read_url(&rows, key, *slot).unwrap());
        urls.filter(|url| !url.is_planned()).count() as u64
    }

    /// No budget is exceeded by the pages that are fetched or in flight. Nothing is over a budget
    /// before it is used up, where one scheduler can tell that.
    fn check_budget(&self, budget: u64, limit: &str) {
        let budget_of = |url| {
            if limit == "pages per host" {
                host_of(url)
            } else {
                registered_domain(host_of(url))
            }
        };
        let mut taken: BTreeMap<&str, u64> = BTreeMap::new();
        for entry in self
            .outcomes
            .values()
            .filter(|entry| entry.outcome == Outcome::Fetched)
        {
            *taken.entry(budget_of(&entry.url)).or_default() += 1;
        }
        for entry in self
            .outcomes
            .values()
            .filter(|entry| entry.outcome == Outcome::OverBudget)
        {
            let is_used_up = taken.get(budget_of(&entry.url)) == Some(&budget);
            assert!(
                is_used_up || self.settings.schedulers.count > 1 || entry.reason != limit,
                "{} is over budget",
                entry.url
            );
        }
        for server in self.core.servers.all() {
            *taken.entry(budget_of(&server.name)).or_default() += self.new_in_flight(server);
        }
        assert!(
            taken.values().all(|&pages| pages <= budget),
            "more than {budget} pages: {taken:?}"
        );
    }
}
