//! Simulation: resolving with few lookups at once, in simulated time, because in real time it would
//! take days.
//!
//! A program takes one name after the other, as soon as one of its lookups has ended. A name in the
//! cache costs nothing. Any other name is looked up, even while a lookup for it is under way. A
//! name without an answer costs all attempts of the crawler's resolver, and is not remembered.
//!
//! Source: the cached, non-blocking resolver for crawlers (2008).

use super::arm::{Arm, Clock, Way};
use super::chained_cache::ChainedCache;
use super::latency::{Cost, Latency, Patience};
use super::trace::Trace;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::Duration;

/// Resolves a trace with at most `window` lookups at once, each of which waits for an answer as
/// `patience` says.
pub(super) fn simulate(
    way: Way,
    trace: &Trace,
    latency: Latency,
    patience: Patience,
    window: usize,
    mut cache: Option<ChainedCache>,
) -> Arm {
    let mut asked = vec![0; trace.names.all().len()];
    // End, name, and whether there is an answer.
    let mut under_way: BinaryHeap<Reverse<(Duration, u32, bool)>> = BinaryHeap::new();
    let mut now = Duration::ZERO;
    let mut queries = 0;
    let mut sum = Duration::ZERO;
    for &draw in &trace.draws {
        if under_way.len() == window
            && let Some(Reverse((end, name, is_answered))) = under_way.pop()
        {
            now = end;
            if let Some(cache) = cache.as_mut().filter(|_| is_answered) {
                cache.insert(trace.name(name), now);
            }
        }
        if cache
            .as_mut()
            .is_some_and(|cache| cache.get(trace.name(draw), now))
        {
            continue;
        }
        let times = &mut asked[draw as usize];
        let Cost {
            took,
            is_answered,
            asked,
        } = latency.cost(draw, *times, patience);
        *times = asked;
        queries += 1;
        sum += took;
        under_way.push(Reverse((now + took, draw, is_answered)));
    }
    Arm {
        way,
        clock: Clock::Simulated,
        names: trace.draws.len() as u64,
        queries,
        elapsed: under_way
            .iter()
            .map(|Reverse((end, ..))| *end)
            .max()
            .unwrap_or(now),
        latency: sum,
        latency_modelled: sum,
        window,
        before_tail: None,
        cpu: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATENCY: Latency = Latency {
        seed: 9,
        scale: 1.0,
    };
    const PATIENCE: Patience = Patience {
        timeout: Duration::from_secs(5),
        attempts: 2,
    };

    fn trace() -> Trace {
        Trace::new(4_000, 600, 0.9, 4)
    }

    #[test]
    fn a_serial_program_takes_the_time_of_all_its_lookups() {
        let arm = simulate(Way::Serial, &trace(), LATENCY, PATIENCE, 1, None);
        assert_eq!((arm.queries, arm.elapsed), (4_000, arm.latency));
        assert!((arm.rate() / arm.bound() - 1.0).abs() < 1e-9);
        let mut asked = vec![0; 600];
        let costs = trace().draws.into_iter().map(|draw| {
            let cost = LATENCY.cost(draw, asked[draw as usize], PATIENCE);
            asked[draw as usize] = cost.asked;
            cost.took
        });
        assert_eq!(arm.elapsed, costs.sum::<Duration>());
    }

    #[test]
    fn two_lookups_at_once_take_half_and_a_little_more() {
        let serial = simulate(Way::Serial, &trace(), LATENCY, PATIENCE, 1, None);
        let few = simulate(Way::Few, &trace(), LATENCY, PATIENCE, 2, None);
        assert_eq!((few.queries, few.latency), (serial.queries, serial.latency));
        assert!(
            few.elapsed >= serial.elapsed / 2
                && few.elapsed < serial.elapsed / 2 + 2 * PATIENCE.timeout
        );
    }

    #[test]
    fn a_cache_that_holds_all_leaves_a_lookup_a_name_and_those_without_an_answer() {
        let trace = trace();
        let cache = || Some(ChainedCache::new(600, None));
        let arm = simulate(
            Way::SerialCachedUnrefreshed,
            &trace,
            LATENCY,
            PATIENCE,
            1,
            cache(),
        );
        let mut asked = vec![0; 600];
        let mut is_known = vec![false; 600];
        let mut lookups = 0;
        for draw in trace.draws.iter().map(|&draw| draw as usize) {
            if !is_known[draw] {
                let cost = LATENCY.cost(draw as u32, asked[draw], PATIENCE);
                (asked[draw], is_known[draw]) = (cost.asked, cost.is_answered);
                lookups += 1;
            }
        }
        assert_eq!(arm.queries, lookups);
        assert_eq!(arm.elapsed, arm.latency);
    }
}
