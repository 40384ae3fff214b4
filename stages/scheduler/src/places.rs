//! Keeps each server in the place where it belongs, and ends the URLs of servers that will not be contacted.

use crate::frontier::End;
use crate::hosts::Budget;
use crate::jobs::Lease;
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
            let (Some(server), Some(partition)) = (self.servers.get_mut(&key), self.partitions.get(&key.partition))
            else {
                return Ok(());
            };
            let host = server.host;
            let budget = partition.hosts.budget(host);
            let to = match server.todo(now, &self.settings, budget, &self.connections) {
                Todo::Nothing => {
                    staged.idle.insert(key);
                    Move::Idle
                }
                Todo::Wait(until, _) => Move::Until(until),
                Todo::Hold(room) => Move::Held(room),
                Todo::Job => {
                    let rank = server.rank(staged, key, &self.settings, &self.speeds)?;
                    if server.is_in_trouble() { Move::Troubled(rank) } else { Move::Ready(rank) }
                }
                Todo::Resolve => {
                    server.address.asked(now, &self.settings);
                    staged.refresh(key.partition, server.name.clone());
                    continue;
                }
                Todo::Errand(url) => {
                    server.robots.asked(now, &self.settings);
                    let asker = server.name.clone();
                    self.want(url, asker, staged)?;
                    continue;
                }
                Todo::GiveUpRobots => {
                    server.robots.give_up(now, &self.settings);
                    staged.dirty.insert(key);
                    staged.partitions.insert(key.partition);
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
            if matches!(budget, Budget::Left(_)) && !matches!(to, Move::Ready(_)) {
                self.pass_on(Room::Budget(host), staged);
            }
            if let Some(address) = heir_before.filter(|_| heir_of != heir_before) {
                self.pass_on_address(address, staged);
            }
            return Ok(());
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

    fn pass_on(&self, room: Room, staged: &mut Staged<'_>) {
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
        let (Some(server), Some(partition)) = (self.servers.get_mut(&key), self.partitions.get_mut(&key.partition))
        else {
            return Ok(());
        };
        let budget = partition.hosts.budget(server.host);
        let Some((outcome, reason)) = server.verdict(now, &self.settings, budget) else { return Ok(()) };
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
