//! Keeps each server in the place where it belongs, and ends the URLs of servers that will not be contacted.

use crate::budget::{Budget, Budgets};
use crate::frontier::End;
use crate::jobs::Lease;
use crate::policy::Rank;
use crate::ready_queue::{Move, Room};
use crate::scheduler::Scheduler;
use crate::server::{ServerKey, Todo};
use crate::staged::Staged;
use shared::stage::store::StoreError;
use shared::time::Timestamp;
use std::net::IpAddr;

impl Scheduler {
    /// Puts a server where it belongs, and asks the questions that have to be answered first.
    pub(crate) fn find_place(
        &mut self,
        now: Timestamp,
        key: ServerKey,
        staged: &mut Staged<'_>,
    ) -> Result<(), StoreError> {
        self.account(key);
        // Each round but the last takes away what made it: a question asked, errands refused, robots given up.
        loop {
            let budgets = self.budgets(key);
            let Some(server) = self.servers.get_mut(&key) else { return Ok(()) };
            let (host, domain) = (server.host, server.domain);
            let to = match server.todo(now, &self.settings, budgets, &self.connections) {
                Todo::Nothing => {
                    staged.idle.insert(key);
                    Move::Idle
                }
                Todo::Wait(until, _) => Move::Until(until),
                Todo::Hold(room) => Move::Held(room),
                Todo::Job => {
                    // Others wait for errands, which are served even when no pages are left.
                    let rank = match server.errands.is_empty() {
                        true => server.rank(staged, key, &self.settings, &self.speeds)?,
                        false => Rank::FIRST,
                    };
                    if server.is_in_trouble() { Move::Troubled(rank) } else { Move::Ready(rank) }
                }
                Todo::Resolve => {
                    server.address.asked(now, &self.settings);
                    staged.refresh(key.partition, server.name.to_string());
                    continue;
                }
                Todo::Errand(url) => {
                    server.robots.asked(now, &self.settings);
                    let asker = server.name.to_string();
                    self.want(url, asker, staged)?;
                    continue;
                }
                Todo::Refuse => {
                    for task in std::mem::take(&mut server.errands) {
                        self.deliver(now, &task.asker, None, staged)?;
                    }
                    continue;
                }
                Todo::End => Move::Ending,
            };
            self.queue.place(key, &mut server.place, to);
            // Room that this server does not take now goes to one that is held, which passes it on the same way.
            let heir_of =
                server.address.first().filter(|_| matches!(to, Move::Ready(_) | Move::Held(Room::Address(_))));
            let heir_before = std::mem::replace(&mut server.heir_of, heir_of);
            self.shares.want_for_domain(now, domain);
            if !matches!(to, Move::Ready(_)) {
                for (budget, room) in [(budgets.host, Room::Host(host)), (budgets.domain, Room::Domain(domain))] {
                    if matches!(budget, Budget::Left(_)) {
                        self.pass_on(room, staged);
                    }
                }
            }
            if let Some(address) = heir_before.filter(|_| heir_of != heir_before) {
                self.pass_on_address(address, staged);
            }
            return Ok(());
        }
    }

    /// What is left for the pages of a server.
    pub(crate) fn budgets(&self, key: ServerKey) -> Budgets {
        match (self.servers.get(&key), self.partitions.get(&key.partition)) {
            (Some(server), Some(partition)) => {
                Budgets { host: partition.hosts.budget(server.host), domain: self.shares.domain(server.domain) }
            }
            _ => Budgets { host: Budget::UNLIMITED, domain: Budget::UNLIMITED },
        }
    }

    /// The connection of a lease is closed.
    pub(crate) fn close_connection(&mut self, lease: &Lease, staged: &mut Staged<'_>) {
        self.connections.close(lease.address);
        self.pass_on_address(lease.address, staged);
    }

    /// Room for a connection goes to a server that is held for want of it.
    fn pass_on_address(&self, address: IpAddr, staged: &mut Staged<'_>) {
        if self.connections.has_room(address) {
            self.pass_on(Room::Address(address), staged);
        }
    }

    /// Room goes to the server that has been held for longest for want of it.
    pub(crate) fn pass_on(&self, room: Room, staged: &mut Staged<'_>) {
        if let Some(held) = self.queue.first_held(room) {
            staged.unsettle(held);
        }
    }

    /// Ends waiting URLs of a server that will not be contacted, as many as the step may.
    pub(crate) fn end_waiting(
        &mut self,
        now: Timestamp,
        key: ServerKey,
        staged: &mut Staged<'_>,
    ) -> Result<(), StoreError> {
        staged.unsettle(key);
        let budgets = self.budgets(key);
        let (Some(server), Some(partition)) = (self.servers.get_mut(&key), self.partitions.get_mut(&key.partition))
        else {
            return Ok(());
        };
        let Some((outcome, reason)) = server.verdict(now, &self.settings, budgets) else { return Ok(()) };
        let (clock, limit) = (partition.clock, staged.endings_left);
        let end_of_time = Timestamp::from_micros(u64::MAX);
        let urls = server.queue.take(staged, key, end_of_time, |stored| clock.restore(stored), limit, false)?;
        staged.endings_left -= urls.len();
        for (slot, url) in urls {
            partition.end(staged, key, slot, url, End::without_response(outcome, reason));
        }
        staged.touch(key);
        Ok(())
    }
}
