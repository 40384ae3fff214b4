//! Keeps each server in the place where it belongs, and ends the URLs of servers that will not be contacted.

use crate::frontier::End;
use crate::hosts::Budget;
use crate::ready_queue::Move;
use crate::scheduler::Scheduler;
use crate::server::{ServerKey, Todo};
use crate::staged::Staged;
use shared::stage::store::StoreError;
use shared::time::Timestamp;

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
            let budget = partition.hosts.budget(server.host);
            let to = match server.todo(now, &self.settings, budget) {
                Todo::Nothing => {
                    staged.idle.insert(key);
                    Move::Idle
                }
                Todo::Wait(until) => Move::Until(until),
                Todo::Hold => Move::Held(server.host),
                Todo::Job => Move::Ready(server.rank(staged, key, &self.settings, &self.speeds)?),
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
            if !matches!(to, Move::Ready(_))
                && matches!(budget, Budget::Left(_))
                && let Some(held) = self.queue.first_held(server.host)
            {
                staged.unsettle(held);
            }
            return Ok(());
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
        let urls = server.queue.take(staged, key, end_of_time, |stored| clock.restore(stored), limit)?;
        staged.endings_left -= urls.len();
        for (slot, url) in urls {
            partition.end(staged, key, slot, url, End::without_response(outcome, reason));
        }
        staged.touch(key);
        Ok(())
    }
}
