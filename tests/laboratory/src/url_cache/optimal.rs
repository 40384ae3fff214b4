//! MIN: the most hits that any policy can have with a number of entries.
//!
//! In: for each link, when the same URL is met next. Out: hits.
//!
//! Whenever there is one entry too many, the URL goes that is met again last (Belady 1966). Because
//! MIN is a limit to all policies, it may also turn away the URL that it was just asked for, and it
//! looks only at links that are counted.
//!
//! Invariant: MIN keeps stretches of time between two links to a URL, each of which ends with a hit
//! that is counted. No moment lies within more stretches than there are entries. Whatever a cache
//! of the crawler does keeps to that too, so none can have more hits.

use super::stream::NEVER;
use std::collections::BinaryHeap;

/// Hits with that many entries, given [`Stream::next`](super::stream::Stream::next).
pub(super) fn hits(next: &[u32], entries: usize) -> u64 {
    let mut hits = 0;
    // For each place: whether the URL met there is kept until then. A URL is known by where it is
    // met next.
    let mut kept = vec![false; next.len()];
    let mut n_kept = 0;
    // All places that are kept, the last one on top. Below them are some that were passed
    // meanwhile.
    let mut last = BinaryHeap::new();
    for (place, &next) in next.iter().enumerate() {
        if kept[place] {
            hits += 1;
            n_kept -= 1;
        }
        if next == NEVER {
            continue;
        }
        kept[next as usize] = true;
        last.push(next);
        n_kept += 1;
        if n_kept > entries {
            // At least one is kept, and those met meanwhile are smaller: this is one of the kept.
            if let Some(given_up) = last.pop() {
                kept[given_up as usize] = false;
                n_kept -= 1;
            }
        }
        if last.len() > 2 * n_kept + 1_024 {
            last.retain(|&next| next as usize > place);
        }
    }
    hits
}

#[cfg(test)]
mod tests {
    use super::super::stream::tests::stream;
    use super::*;
    use proptest::prelude::*;

    /// The most counted hits of any cache: tries every content the cache could have after each
    /// link.
    fn by_trial(links: &[u64], warm_up: usize, entries: u32) -> u64 {
        let contents = 1usize << 6;
        let mut most = vec![None; contents];
        most[0] = Some(0u64);
        for (place, &link) in links.iter().enumerate() {
            let asked = 1 << link;
            let mut after = vec![None; contents];
            for (before, hits) in most.iter().enumerate() {
                let Some(hits) = *hits else { continue };
                let hits = hits + u64::from(before & asked != 0 && place >= warm_up);
                for (content, best) in after.iter_mut().enumerate() {
                    // Nothing enters but what was asked for.
                    if content & !(before | asked) == 0 && content.count_ones() <= entries {
                        *best = (*best).max(Some(hits));
                    }
                }
            }
            most = after;
        }
        most.into_iter().flatten().max().unwrap_or(0)
    }

    #[test]
    fn what_is_met_last_gives_way() {
        // Two URLs, then two others that come once, then the first two again.
        let next = [4, 5, NEVER, NEVER, NEVER, NEVER];
        assert_eq!(
            [0, 1, 2, 3].map(|entries| hits(&next, entries)),
            [0, 1, 2, 2]
        );
    }

    #[test]
    fn the_heap_is_cleaned_and_the_hits_stay() {
        // One URL met 10,000 times, in between others that are not met again.
        let links: Vec<u64> = (0..20_000)
            .map(|place| if place % 2 == 0 { 0 } else { place })
            .collect();
        let stream = stream(links);
        assert_eq!(
            hits(&stream.next, 1),
            (stream.warm_up..20_000)
                .filter(|place| place % 2 == 0)
                .count() as u64
        );
    }

    proptest! {
        #[test]
        fn no_cache_can_have_more_hits_and_one_has_as_many(
            links in proptest::collection::vec(0u64..6, 0..24),
            entries in 0u32..5,
        ) {
            let stream = stream(links.clone());
            prop_assert_eq!(hits(&stream.next, entries as usize), by_trial(&links, stream.warm_up, entries));
        }
    }
}
