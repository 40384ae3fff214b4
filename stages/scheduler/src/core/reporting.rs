//! What a scheduler tells for a report: what its partitions counted, and the hosts and servers that
//! stand out.
//!
//! In: a question, and how far an earlier answer came. Out: the sums, in the first answer; who
//! stands out of the next rows, and where to go on.
//!
//! Invariant: a question changes nothing, brings no server into memory, and costs a bounded time
//! and memory. Who asks goes on from where the answer ended. The bound is a number of rows: a core
//! reads no clock.

use crate::budget::hosts::{HOSTS, HostCounts};
use crate::core::idle::Inquiry;
use crate::keys::server_key::ServerKey;
use crate::servers::partition::Partition;
use crate::servers::server::{SERVERS, Server};
use crate::store::clock::Clock;
use crate::store::rows::corrupt;
use rhumb_stage::report::NAMED_MAX;
use rhumb_stage::store::{StoreError, Table};
use rhumb_stage::{HostTold, Leaders, Reported, ServerTold};
use rhumb_url::host_of;
use rhumb_url::time::millis;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Rows that one answer looks at: some 20 milliseconds. In tests few, so that they go on.
const PIECE: usize = if cfg!(test) { 5 } else { 20_000 };
/// Names that one list of a sum has, at most.
const NAMES_MAX: usize = 64;
/// The tables that are looked at, in this order, with how a place in each begins.
const LOOKED_AT: [(Table, u8); 2] = [(HOSTS, b'h'), (SERVERS, b's')];

/// Those of which there is most, so many at most.
struct Most<T> {
    max: usize,
    heap: BinaryHeap<Reverse<(u64, T)>>,
}

impl<T: Ord> Most<T> {
    fn new(max: usize) -> Self {
        Most {
            max,
            heap: BinaryHeap::new(),
        }
    }

    /// Takes one in of which there is so much. One of which there is nothing stands out in nothing.
    fn offer(&mut self, measured: u64, one: impl FnOnce() -> T) {
        let is_full = self.heap.len() >= self.max;
        if measured == 0
            || is_full
                && self
                    .heap
                    .peek()
                    .is_some_and(|Reverse((least, _))| *least >= measured)
        {
            return;
        }
        self.heap.push(Reverse((measured, one())));
        if is_full {
            self.heap.pop();
        }
    }

    /// All of them, the one with most at the head.
    fn into_list(self) -> impl Iterator<Item = T> {
        self.heap
            .into_sorted_vec()
            .into_iter()
            .map(|Reverse((_, one))| one)
    }
}

/// Who stands out of the rows that were looked at; hosts by their hashes.
struct Standouts {
    by_pages: Most<(u64, HostCounts)>,
    by_bytes: Most<(u64, HostCounts)>,
    by_errors: Most<(u64, HostCounts)>,
    slowest: Most<ServerTold>,
    troubled: Most<ServerTold>,
}

impl Standouts {
    fn new(max: usize) -> Self {
        Standouts {
            by_pages: Most::new(max),
            by_bytes: Most::new(max),
            by_errors: Most::new(max),
            slowest: Most::new(max),
            troubled: Most::new(max),
        }
    }

    /// Looks at a row of one of the tables; none when it is not understood.
    fn look_at(&mut self, table: Table, key: &[u8], row: &[u8], clock: Clock) -> Option<()> {
        if table == HOSTS {
            let host = u64::from_be_bytes(key.try_into().ok()?);
            let counts = HostCounts::from_row(row)?;
            self.by_pages.offer(counts.fetched, || (host, counts));
            self.by_bytes.offer(counts.bytes, || (host, counts));
            self.by_errors.offer(counts.errors, || (host, counts));
        } else {
            let server = Server::from_row(row, clock)?;
            let response_us = server.response_us;
            let failures = server.failures();
            let told = || ServerTold {
                server: server.name.to_string(),
                response_us,
                failures,
            };
            self.slowest.offer(response_us.into(), told);
            self.troubled.offer(failures.into(), told);
        }
        Some(())
    }
}

impl Inquiry<'_> {
    /// What is told for a report, on from a place that an earlier answer gave; from the beginning
    /// without one.
    ///
    /// # Errors
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn report(
        &self,
        hosts: usize,
        after: Option<&[u8]>,
    ) -> Result<Reported, StoreError> {
        let mut standouts = Standouts::new(hosts.clamp(1, NAMED_MAX));
        let next = self.look(after.unwrap_or_default(), &mut standouts)?;
        let leaders = self.leaders(standouts)?;
        if after.is_some() {
            return Ok(Reported {
                leaders,
                next,
                ..Reported::default()
            });
        }
        let mut tallied = self.servers.tallied();
        tallied.bound(NAMES_MAX);
        Ok(Reported {
            tallied: Some(tallied),
            ran_ms: millis(self.servers.ran(self.now)),
            leaders,
            next,
        })
    }

    /// Looks at the next rows. Gives the place behind them, if there are more.
    fn look(&self, after: &[u8], standouts: &mut Standouts) -> Result<Option<Vec<u8>>, StoreError> {
        let of_partition =
            |(id, partition): (u16, &Partition)| Some((self.servers.keys_of(id)?, partition.clock));
        let mut ranges: Vec<_> = self.servers.partitions().filter_map(of_partition).collect();
        ranges.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
        let (&mark_after, key_after) = after.split_first().unwrap_or((&LOOKED_AT[0].1, &[]));
        let mut left = PIECE;
        let mut next = None;
        let mut is_readable = true;
        for (table, mark) in LOOKED_AT
            .into_iter()
            .filter(|(_, mark)| *mark >= mark_after)
        {
            let begin = if mark == mark_after { key_after } else { &[] };
            for ((from, to), clock) in &ranges {
                let from = begin.max(from);
                // It was looked at.
                if from >= to.as_slice() {
                    continue;
                }
                self.servers
                    .store()
                    .scan(table, from, to, &mut |key, row| {
                        if left == 0 {
                            next = Some([&[mark], key].concat());
                            return false;
                        }
                        left -= 1;
                        is_readable = standouts.look_at(table, key, row, *clock).is_some();
                        is_readable
                    })?;
                if !is_readable {
                    return Err(corrupt(table, "a row is unreadable"));
                }
                if next.is_some() {
                    return Ok(next);
                }
            }
        }
        Ok(None)
    }

    fn leaders(&self, standouts: Standouts) -> Result<Leaders, StoreError> {
        let Standouts {
            by_pages,
            by_bytes,
            by_errors,
            slowest,
            troubled,
        } = standouts;
        let hosts = |most: Most<(u64, HostCounts)>| {
            let told = |(host, counts): (u64, HostCounts)| {
                let HostCounts {
                    fetched: pages,
                    bytes,
                    errors,
                } = counts;
                Ok(HostTold {
                    host: self.name_of(host)?,
                    pages,
                    bytes,
                    errors,
                })
            };
            most.into_list()
                .map(told)
                .collect::<Result<Vec<_>, StoreError>>()
        };
        Ok(Leaders {
            by_pages: hosts(by_pages)?,
            by_bytes: hosts(by_bytes)?,
            by_errors: hosts(by_errors)?,
            slowest: slowest.into_list().collect(),
            troubled: troubled.into_list().collect(),
        })
    }

    /// The name of a host, which its servers know; its hash where none is known any more.
    fn name_of(&self, host: u64) -> Result<String, StoreError> {
        let (first, last) = ServerKey::all_of(host).into_inner();
        let mut name = None;
        let mut end = last.to_bytes();
        end.push(0);
        self.servers
            .store()
            .scan(SERVERS, &first.to_bytes(), &end, &mut |_, row| {
                name = Server::name_in(row).map(|server| host_of(server).to_owned());
                false
            })?;
        Ok(name.unwrap_or_else(|| format!("{host:016x}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_with_most_are_kept_in_order() {
        let mut most = Most::new(3);
        for n in [4, 9, 0, 1, 7, 9, 2] {
            most.offer(n, || n);
        }
        assert_eq!(most.into_list().collect::<Vec<_>>(), [9, 9, 7]);
    }
}
