//! Chained cache: the paper's cache of addresses.
//!
//! A table of chains, and one list of all nodes. A name that is found changes places with the one
//! before it in the list (transposition, which the paper calls LRU). A new name comes to the head.
//! When all nodes are taken it takes the place of the tail. A name that was resolved longer ago
//! than the refresh period is asked for again when it is next wanted, and is refreshed where it is.
//! Record lifetimes are ignored.
//!
//! The list is a ring here. Only two things ever happen to it: neighbours change places, and a node
//! is put before the head. In a full ring that is where the tail is.
//!
//! Invariants: never more than `nodes` names; every name in a chain is in the list once.
//!
//! Source: the cached, non-blocking resolver for crawlers (2008): node, hash and table 2. Its text
//! takes the bucket from first character and length, its listing takes it from the whole name. The
//! listing counts here.

use super::work::Work;
use std::time::Duration;

/// Nodes of the paper's table 2.
pub(super) const NODES: usize = 50_000;
/// Buckets, a prime.
pub(super) const BUCKETS: usize = 21_911;
/// Refresh period.
pub(super) const REFRESH: Duration = Duration::from_secs(1_800);

/// Ends a chain.
const NONE: u32 = u32::MAX;

struct Node {
    name: Box<str>,
    /// The next node of the chain.
    next: u32,
    /// The node's place in the ring.
    place: u32,
    resolved_at: Duration,
}

/// The cache.
pub(super) struct ChainedCache {
    /// The first node of each chain.
    buckets: Vec<u32>,
    nodes: Vec<Node>,
    /// The list: nodes from the head on, round the end.
    ring: Vec<u32>,
    head: usize,
    refresh: Option<Duration>,
}

impl ChainedCache {
    /// An empty cache of this many nodes, with as many buckets for them as the paper has. Without a
    /// refresh period names stay good.
    pub(super) fn new(nodes: usize, refresh: Option<Duration>) -> Self {
        let buckets = (nodes * BUCKETS).div_ceil(NODES);
        ChainedCache {
            buckets: vec![NONE; buckets],
            nodes: Vec::with_capacity(nodes),
            ring: vec![NONE; nodes],
            head: 0,
            refresh,
        }
    }

    /// Returns whether a name is known and still good. If so, it has moved up.
    pub(super) fn get(&mut self, name: &str, now: Duration) -> bool {
        let (Some(node), _) = self.find(name) else {
            return false;
        };
        let age = now.saturating_sub(self.nodes[node as usize].resolved_at);
        if self.refresh.is_some_and(|refresh| age > refresh) {
            return false;
        }
        self.move_up(node);
        true
    }

    /// Remembers a name, or that it was resolved again.
    pub(super) fn insert(&mut self, name: &str, now: Duration) {
        if let (Some(node), _) = self.find(name) {
            self.nodes[node as usize].resolved_at = now;
            return;
        }
        let capacity = self.ring.len();
        let place = (self.head + capacity - 1) % capacity;
        let bucket = self.bucket(name);
        let fresh = Node {
            name: name.into(),
            next: self.buckets[bucket],
            place: place as u32,
            resolved_at: now,
        };
        let node = if self.nodes.len() < capacity {
            self.nodes.push(fresh);
            self.nodes.len() as u32 - 1
        } else {
            let tail = self.ring[place];
            self.unchain(tail);
            // The tail may have been the chain's first.
            let next = self.buckets[bucket];
            self.nodes[tail as usize] = Node { next, ..fresh };
            tail
        };
        self.buckets[bucket] = node;
        self.ring[place] = node;
        self.head = place;
    }

    /// The node of a name, and what it took to find it.
    pub(super) fn find(&self, name: &str) -> (Option<u32>, Work) {
        let mut work = Work::default();
        let mut at = self.buckets[self.bucket(name)];
        while at != NONE {
            let node = &self.nodes[at as usize];
            if work.compare(node.name.as_bytes(), name.as_bytes()) {
                return (Some(at), work);
            }
            at = node.next;
        }
        (None, work)
    }

    /// Bytes of memory, strings included.
    pub(super) fn bytes(&self) -> usize {
        let text: usize = self.nodes.iter().map(|node| node.name.len()).sum();
        text + self.nodes.len() * size_of::<Node>()
            + (self.buckets.len() + self.ring.len()) * size_of::<u32>()
    }

    fn bucket(&self, name: &str) -> usize {
        times_33(name) as usize % self.buckets.len()
    }

    fn move_up(&mut self, node: u32) {
        let place = self.nodes[node as usize].place as usize;
        if place == self.head {
            return;
        }
        let before = (place + self.ring.len() - 1) % self.ring.len();
        let other = self.ring[before];
        self.ring.swap(before, place);
        self.nodes[node as usize].place = before as u32;
        self.nodes[other as usize].place = place as u32;
    }

    fn unchain(&mut self, node: u32) {
        let Node { ref name, next, .. } = self.nodes[node as usize];
        let bucket = self.bucket(name);
        if self.buckets[bucket] == node {
            self.buckets[bucket] = next;
            return;
        }
        let mut at = self.buckets[bucket];
        while self.nodes[at as usize].next != node {
            at = self.nodes[at as usize].next;
        }
        self.nodes[at as usize].next = next;
    }
}

/// The paper's hash, whose operators were lost in print: thirty-three times, plus the character.
fn times_33(name: &str) -> u32 {
    name.bytes().fold(0, |hash: u32, byte| {
        (hash << 5).wrapping_add(hash).wrapping_add(byte.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_hash_is_times_thirty_three() {
        assert_eq!(times_33("ab"), 97 * 33 + 98);
        assert_eq!(times_33(""), 0);
        let _ = times_33(&"z".repeat(255));
    }

    #[test]
    fn a_name_moves_up_one_place_and_the_tail_goes() {
        let mut cache = ChainedCache::new(3, None);
        for name in ["a", "b", "c"] {
            cache.insert(name, Duration::ZERO);
        }
        // c b a; a moves before b.
        assert!(cache.get("a", Duration::ZERO));
        cache.insert("d", Duration::ZERO);
        assert!(!cache.get("b", Duration::ZERO), "was the tail");
        assert!(
            ["a", "c", "d"]
                .iter()
                .all(|name| cache.get(name, Duration::ZERO))
        );
    }

    #[test]
    fn a_name_is_asked_for_again_after_the_refresh_period_and_stays_where_it_is() {
        let mut cache = ChainedCache::new(2, Some(REFRESH));
        cache.insert("a", Duration::ZERO);
        cache.insert("b", Duration::ZERO);
        assert!(cache.get("a", REFRESH));
        assert!(!cache.get("b", REFRESH + Duration::from_secs(1)));
        cache.insert("b", REFRESH + Duration::from_secs(1));
        assert!(cache.get("b", REFRESH + REFRESH));
    }

    /// The list as it is told.
    struct Naive(Vec<(u8, u64)>);

    impl Naive {
        fn get(&mut self, name: u8, now_s: u64, refresh_s: u64) -> bool {
            let Some(at) = self.0.iter().position(|&(known, _)| known == name) else {
                return false;
            };
            if now_s - self.0[at].1 > refresh_s {
                return false;
            }
            if at > 0 {
                self.0.swap(at, at - 1);
            }
            true
        }

        fn insert(&mut self, name: u8, now_s: u64, nodes: usize) {
            if let Some(known) = self.0.iter_mut().find(|(known, _)| *known == name) {
                known.1 = now_s;
                return;
            }
            if self.0.len() == nodes {
                self.0.pop();
            }
            self.0.insert(0, (name, now_s));
        }
    }

    proptest! {
        #[test]
        fn it_does_what_a_list_does(
            nodes in 1usize..12, refresh_s in 1u64..100, wanted in proptest::collection::vec((0u8..20, 0u64..5), 0..300),
        ) {
            let mut cache = ChainedCache::new(nodes, Some(Duration::from_secs(refresh_s)));
            let mut naive = Naive(Vec::new());
            let mut now_s = 0;
            for (name, pause_s) in wanted {
                now_s += pause_s;
                let text = format!("h{name}.example");
                let now = Duration::from_secs(now_s);
                let hit = cache.get(&text, now);
                prop_assert_eq!(hit, naive.get(name, now_s, refresh_s));
                if !hit {
                    cache.insert(&text, now);
                    naive.insert(name, now_s, nodes);
                }
                prop_assert_eq!(cache.nodes.len(), naive.0.len());
            }
        }
    }
}
