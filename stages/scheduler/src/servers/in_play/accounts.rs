//! What servers in play have in hand, what is left of the budgets that they count for, the circles
//! of their jobs, and the numbers of their topics.

use super::Servers;
use crate::budget::shares::Pages;
use crate::keys::budget::{Budget, Budgets};
use crate::keys::circle::Circle;
use crate::keys::load::Load;
use crate::keys::server_key::ServerKey;
use crate::keys::topic::{TopicIndex, TopicNumber};
use crate::servers::lease::Lease;
use crate::servers::partition::Partition;
use crate::servers::server::Server;
use crate::step::staged::Staged;
use rhumb_config::OverBudget;
use rhumb_stage::store::StoreError;

impl Servers {
    /// Brings the sums over all servers, and over those of its host, its domain and its topics, up
    /// to date with one of them.
    pub(crate) fn account(&mut self, key: ServerKey) {
        let is_over = self.settings.limits.over_budget == OverBudget::Wait
            && self.budgets(key).used_up().is_some();
        let over_topics = self.over_topics(key);
        let Some(server) = self.in_memory.get_mut(&key) else {
            return;
        };
        let load = server.load();
        let has = Load {
            over_budget: if is_over {
                // Planned visits count for no budget.
                let visits = u64::from(server.visits_out);
                (load.waiting - load.trapped).saturating_sub(visits)
            } else {
                over_topics
            },
            ..load
        };
        let had = std::mem::replace(&mut server.accounted, has);
        let topic = server
            .lease
            .as_ref()
            .map_or(TopicIndex::OTHERS, |lease| lease.topic);
        let topic_before = std::mem::replace(&mut server.accounted_topic, topic);
        self.load.replace(had, has);
        match (had.trapped, has.trapped) {
            (0, 0) => {}
            (_, 0) => drop(self.with_traps.remove(&key)),
            _ => drop(self.with_traps.insert(key)),
        }
        if let Some(partition) = self.partitions.get_mut(&key.partition) {
            partition
                .hosts
                .account(key.host, has.in_flight, had.in_flight);
        }
        self.shares.account(server.domain, had, has);
        self.shares
            .account_topics((topic_before, had.in_flight), (topic, has.in_flight));
    }

    /// The URLs of a server that wait for a larger budget of their topics.
    fn over_topics(&self, key: ServerKey) -> u64 {
        let (Some(server), Some(partition)) = (
            self.in_memory.get(&key),
            self.partitions.get(&key.partition),
        ) else {
            return 0;
        };
        self.waits_over_topics(server, partition)
    }

    fn waits_over_topics(&self, server: &Server, partition: &Partition) -> u64 {
        let used_up = self.shares.used_up();
        if used_up.is_empty() {
            return 0;
        }
        let over = server
            .queues
            .going()
            .filter(|queue| used_up.contains(&partition.topics.index_of(queue.topic())));
        over.map(|queue| queue.len() - queue.trapped()).sum()
    }

    /// The budget of a topic may be used up since the last time: then all servers are looked after
    /// at which its URLs wait.
    pub(crate) fn look_after_topics(&mut self, staged: &mut Staged<'_>) {
        if std::mem::take(&mut staged.topics_used_up) {
            let keys = self
                .keys()
                .into_iter()
                .filter(|key| self.over_topics(*key) > 0);
            keys.for_each(|key| staged.unsettle(key));
        }
    }

    /// Takes in how many URLs of topics have come or ended, and asks for pages for those that have
    /// none left.
    pub(crate) fn take_topic_urls(&mut self, staged: &mut Staged<'_>) {
        self.shares
            .take_topic_urls(std::mem::take(&mut staged.topic_urls));
        self.shares.want_for_topics(staged.now);
    }

    /// The circles that a job of a server counts for.
    pub(crate) fn circles_of(&self, key: ServerKey, lease: &Lease) -> [Option<Circle>; 2] {
        self.get(key)
            .map_or([None; 2], |server| server.circles_of(lease, &self.settings))
    }

    /// What is left for the pages of a server in memory.
    pub(crate) fn budgets(&self, key: ServerKey) -> Budgets {
        match (
            self.in_memory.get(&key),
            self.partitions.get(&key.partition),
        ) {
            (Some(server), Some(partition)) => Budgets {
                host: partition.hosts.budget(key.host),
                domain: self.shares.budget(Pages::Domain(server.domain)),
                topics_are_used_up: self.are_topics_used_up(server, partition),
            },
            _ => Budgets {
                host: Budget::UNLIMITED,
                domain: Budget::UNLIMITED,
                topics_are_used_up: false,
            },
        }
    }

    fn are_topics_used_up(&self, server: &Server, partition: &Partition) -> bool {
        let over = self.waits_over_topics(server, partition);
        over > 0 && over == server.queues.len() - server.queues.trapped()
    }

    /// What is left for the pages of a server that may not be in memory.
    ///
    /// # Errors
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn stored_budgets(
        &self,
        key: ServerKey,
        server: &Server,
    ) -> Result<Budgets, StoreError> {
        let store = self.store.as_ref();
        let domain = self.shares.stored_domain(store, server.domain)?;
        Ok(match self.partitions.get(&key.partition) {
            Some(partition) => Budgets {
                host: partition.hosts.stored_budget(store, key.host)?,
                domain,
                topics_are_used_up: self.are_topics_used_up(server, partition),
            },
            None => Budgets {
                host: Budget::UNLIMITED,
                domain,
                topics_are_used_up: false,
            },
        })
    }

    /// The number that a topic has in a partition, or would be given.
    pub(crate) fn topic_number(&self, partition: u16, name: &str) -> TopicNumber {
        let topics = &self.settings.topics;
        let of = self.partitions.get(&partition);
        of.map_or(TopicNumber::OTHERS, |of| of.topics.number_for(name, topics))
    }
}
