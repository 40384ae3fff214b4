//! What must hold after every step: P3, budgets, and jobs in circles.

use super::world::World;
use crate::frontier::rows::URLS;
use crate::keys::circle::Circle;
use crate::keys::room::Room;
use crate::keys::slot::topic_of;
use crate::keys::topic::TopicIndex;
use crate::ranking::ready_queue::QueuePlace;
use crate::servers::server::Server;
use rhumb_stage::Core as _;
use rhumb_stage::store::Store as _;
use rhumb_url::{host_of, registered_domain};
use rhumb_wire::message::{JobKind, Outcome};
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
        assert_eq!(self.count("new_total"), ended + waiting + in_flight, "P3");
        assert_eq!(
            ended,
            self.outcomes.len() as u64,
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
            (self.settings.pages_per_host, "pages per host"),
            (self.settings.pages_per_domain, "pages per domain"),
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
                .places
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
        for (topic, counts) in self.core.servers.totals_by_topic() {
            let open = open.get(&topic).copied().unwrap_or_default();
            assert_eq!(
                counts.new,
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
                .look_at()
                .is_some_and(|at| at <= self.now);
            assert!(
                is_taken || is_due || self.core.servers.all().any(takes_it),
                "{} is held for {room:?}, which is free",
                server.name
            );
        }
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
            *taken.entry(budget_of(&server.name)).or_default() += server.load().in_flight;
        }
        assert!(
            taken.values().all(|&pages| pages <= budget),
            "more than {budget} pages: {taken:?}"
        );
    }
}
