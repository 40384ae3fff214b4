//! What is to be done for a server next. Its place, its jobs and the answer of `rhumb why` follow
//! from this one decision.

use crate::keys::budget::Budgets;
use crate::keys::circle::Circle;
use crate::keys::room::Room;
use crate::keys::server_key::ServerKey;
use crate::keys::wait_for::WaitFor;
use crate::politeness::circles::Circles;
use crate::robots::state::{Next, Rules};
use crate::servers::address::Need;
use crate::servers::server::Server;
use crate::settings::Settings;
use rhumb_config::OverBudget;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::Outcome;

/// Why URLs end that were kept back until nothing else waited.
const TRAP: &str = "pages of its shape repeat themselves without end";

/// What is to be done for a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Todo {
    /// Nothing.
    Nothing,
    /// Nothing before that time.
    Wait(Timestamp, WaitFor),
    /// Nothing before there is room.
    Hold(Room),
    /// Its address is to be asked for.
    Resolve,
    /// Its robots.txt is to be asked for on another server.
    Errand(String),
    /// A job is to be granted.
    Job,
    /// Errands for it cannot be done.
    Refuse,
    /// Its waiting URLs end, without a contact.
    End,
}

impl Server {
    /// The outcome and the reason with which all its waiting URLs end, while that holds; none when
    /// they do not end.
    pub(crate) fn why_urls_end(
        &self,
        now: Timestamp,
        settings: &Settings,
        budgets: Budgets,
    ) -> Option<(Outcome, &'static str)> {
        if let Some(limit) = budgets
            .used_up()
            .filter(|_| settings.limits.over_budget == OverBudget::End && !self.has_visits_alone())
        {
            return Some((Outcome::OverBudget, limit));
        }
        if self.ends_trapped() {
            return Some((Outcome::Trapped, TRAP));
        }
        let unreachable = settings.politeness.respect_robots
            && self.robots.rules(now) == Some(Rules::Unreachable);
        self.out_of_reach(now)
            .or(unreachable.then_some((Outcome::Disallowed, "robots.txt unreachable")))
    }

    /// Returns whether all that waits are planned visits, which count for no budget.
    fn has_visits_alone(&self) -> bool {
        self.visits_out > 0 && u64::from(self.visits_out) == self.queues.len()
    }

    /// The time until which its URLs end, if that is known.
    pub(crate) fn urls_end_until(
        &self,
        now: Timestamp,
        settings: &Settings,
        budgets: Budgets,
    ) -> Option<Timestamp> {
        match self.address.missing(now) {
            _ if self.ends_trapped() => None,
            _ if budgets.used_up().is_some() && settings.limits.over_budget == OverBudget::End => {
                None
            }
            Some(_) => Some(self.address.until()),
            None => self.dead_until(now).or(self.robots.until()),
        }
    }

    /// Returns whether its URLs of traps end now, whatever else waits for a larger budget.
    pub(crate) fn ends_trapped(&self) -> bool {
        self.traps_end && self.queues.trapped() > 0 && !self.is_paused
    }

    /// Decides what is to be done for it now. `budgets` is what is left for its pages.
    pub(crate) fn todo(
        &mut self,
        key: ServerKey,
        now: Timestamp,
        settings: &Settings,
        budgets: Budgets,
        circles: &Circles,
    ) -> Todo {
        if let Some(lease) = &self.lease {
            return Todo::Wait(lease.deadline, WaitFor::Lease);
        }
        if self.ends_trapped() {
            return Todo::End;
        }
        let urls = !self.queues.has_none_to_go();
        let errands = !self.errands.is_empty();
        if !urls && !errands {
            return self.without_urls(now);
        }
        if self.is_paused {
            return Todo::Hold(Room::Paused);
        }
        if errands && self.out_of_reach(now).is_some() {
            return Todo::Refuse;
        }
        if urls && self.why_urls_end(now, settings, budgets).is_some() {
            return Todo::End;
        }
        let room = self.room_wanted(key, budgets);
        if let Some(room) = room.filter(|_| !errands && self.visits_out == 0) {
            return Todo::Hold(room);
        }
        if self.next_contact > now {
            let set_aside = self.was_set_aside();
            return Todo::Wait(
                self.next_contact,
                if set_aside {
                    WaitFor::BackOff
                } else {
                    WaitFor::Contact
                },
            );
        }
        if !errands && self.queues.ready_at() > now {
            return Todo::Wait(self.queues.ready_at(), WaitFor::Retry);
        }
        match self.address.need(now, settings) {
            Need::Ask => return Todo::Resolve,
            Need::Wait(until) => return Todo::Wait(until, WaitFor::Address),
            Need::Nothing if self.address.missing(now).is_none() => {}
            Need::Nothing if errands => return Todo::Refuse,
            Need::Nothing => return Todo::End,
        }
        if !errands && self.needs_robots(now, settings) {
            match self.robots.next(now) {
                Next::Own => {}
                Next::Errand(url) => return Todo::Errand(url),
                Next::Wait(until) => return Todo::Wait(until, WaitFor::Robots),
            }
        }
        let is_full = |circle: &Circle| !circles.has_room(*circle, now, settings);
        match self.circles(settings).into_iter().flatten().find(is_full) {
            Some(circle) => Todo::Hold(Room::Circle(circle)),
            None => Todo::Job,
        }
    }

    /// What is to be done when nothing waits but what is kept back.
    fn without_urls(&self, now: Timestamp) -> Todo {
        if self.queues.trapped() > 0 {
            return Todo::Hold(if self.is_paused {
                Room::Paused
            } else {
                Room::Trap
            });
        }
        let is_over = self.next_contact <= now;
        if is_over {
            Todo::Nothing
        } else {
            Todo::Wait(self.next_contact, WaitFor::Nobody)
        }
    }

    /// Returns whether its robots.txt has to be got before its URLs.
    pub(crate) fn needs_robots(&self, now: Timestamp, settings: &Settings) -> bool {
        settings.politeness.respect_robots
            && !self.queues.has_none_to_go()
            && self.robots.rules(now).is_none()
    }

    /// The room that its pages have to wait for, by what is left of their budgets.
    fn room_wanted(&self, key: ServerKey, budgets: Budgets) -> Option<Room> {
        match (budgets.host.left(), budgets.domain.left()) {
            (0, _) => Some(Room::Host(key.host)),
            (_, 0) => Some(Room::Domain(self.domain)),
            _ => budgets.topics_are_used_up.then_some(Room::Topics),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::budget::Budget;
    use crate::politeness::trouble::Trouble;
    use crate::settings::tests::settings;

    const BUDGETS: Budgets = Budgets {
        host: Budget::Left(1),
        domain: Budget::UNLIMITED,
        topics_are_used_up: false,
    };

    const fn at(seconds: u64) -> Timestamp {
        Timestamp::from_micros(seconds * 1_000_000)
    }

    #[test]
    fn a_server_that_cannot_be_connected_to_is_dead_after_so_many_failures_in_a_row() {
        let settings = settings();
        let mut server = Server::new("http://a.test");
        for _ in 1..settings.scheduler.server_failures_max {
            server.set_aside(at(0), Trouble::Connect, None, &settings);
        }
        server.answered();
        for _ in 1..settings.scheduler.server_failures_max {
            assert_eq!(server.why_urls_end(at(1), &settings, BUDGETS), None);
            server.set_aside(at(0), Trouble::Connect, None, &settings);
        }
        server.set_aside(at(0), Trouble::Connect, None, &settings);
        assert_eq!(
            server.why_urls_end(at(1), &settings, BUDGETS),
            Some((Outcome::Failed, "connect"))
        );
        // After that time one more connection decides.
        let later = server.next_contact;
        assert_eq!(server.why_urls_end(later, &settings, BUDGETS), None);
        server.set_aside(later, Trouble::Connect, None, &settings);
        assert!(server.why_urls_end(later, &settings, BUDGETS).is_some());
    }
}
