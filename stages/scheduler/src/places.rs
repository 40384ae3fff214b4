//! Keeps each server in the place where it belongs, and ends the URLs of servers that will not be contacted.

use crate::frontier::End;
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
            let Some(server) = self.servers.get_mut(&key) else { return Ok(()) };
            let to = match server.todo(now, &self.settings) {
                Todo::Nothing => {
                    staged.idle.insert(key);
                    Move::Idle
                }
                Todo::Wait(until) => Move::Until(until),
                Todo::Job => Move::Ready,
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
                Todo::End if !server.errands.is_empty() => {
                    for task in std::mem::take(&mut server.errands) {
                        self.deliver(now, &task.asker, None, staged)?;
                    }
                    continue;
                }
                Todo::End => Move::Ending,
            };
            self.queue.place(key, &mut server.place, to);
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
        let Some((outcome, reason)) = server.verdict(now, &self.settings) else { return Ok(()) };
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
