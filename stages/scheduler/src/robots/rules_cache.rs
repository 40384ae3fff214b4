//! Rules of servers in play, parsed, so that up to 500 KiB of robots.txt are not parsed again for
//! every job.
//!
//! Invariants: the rules here are those of the stored text, because each store of a text puts its
//! rules here too; the bytes kept are bounded by configuration (P6); the rules whose last use is
//! the longest ago go first.
//!
//! No library keeps them. Two libraries (`quick_cache`, `moka`) weigh entries and are compiled
//! already. They evict by heuristics and not in the order of use, and are made for many threads;
//! what a core evicts must follow from its inputs alone. Neither was measured.

use crate::keys::server_key::ServerKey;
use foldhash::{HashMap, HashMapExt as _};
use rhumb_robots::Robots;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Parsed rules, by server.
#[derive(Debug)]
pub(crate) struct RulesCache {
    /// Limit of the bytes of all rules kept.
    bytes_max: usize,
    bytes: usize,
    rules: HashMap<ServerKey, Kept>,
    /// The servers by the turn in which their rules were used last.
    turns: BTreeMap<u64, ServerKey>,
    turn: u64,
}

#[derive(Debug)]
struct Kept {
    robots: Arc<Robots>,
    turn: u64,
}

impl RulesCache {
    pub(crate) fn new(bytes_max: usize) -> Self {
        RulesCache {
            bytes_max,
            bytes: 0,
            rules: HashMap::new(),
            turns: BTreeMap::new(),
            turn: 0,
        }
    }

    /// The rules of a server, if they are here.
    pub(crate) fn get(&mut self, server: ServerKey) -> Option<Arc<Robots>> {
        let kept = self.rules.get_mut(&server)?;
        self.turn += 1;
        self.turns.remove(&kept.turn);
        self.turns.insert(self.turn, server);
        kept.turn = self.turn;
        Some(Arc::clone(&kept.robots))
    }

    /// Keeps the rules of a server instead of what it had.
    pub(crate) fn put(&mut self, server: ServerKey, robots: Arc<Robots>) {
        self.remove(server);
        self.turn += 1;
        self.bytes += robots.bytes();
        self.rules.insert(
            server,
            Kept {
                robots,
                turn: self.turn,
            },
        );
        self.turns.insert(self.turn, server);
        while self.bytes > self.bytes_max
            && let Some((_, &oldest)) = self.turns.first_key_value()
        {
            self.remove(oldest);
        }
    }

    fn remove(&mut self, server: ServerKey) {
        if let Some(kept) = self.rules.remove(&server) {
            self.turns.remove(&kept.turn);
            self.bytes -= kept.robots.bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn server(id: u64) -> ServerKey {
        ServerKey::numbered(id)
    }

    fn rules(text: &str) -> Arc<Robots> {
        Arc::new(Robots::parse(
            format!("User-agent: *\nDisallow: /{text}\n").as_bytes(),
            "rhumb",
        ))
    }

    #[test]
    fn the_rules_used_longest_ago_make_room() {
        let mut cache = RulesCache::new(3 * rules("a").bytes());
        for id in 0..3 {
            cache.put(server(id), rules("a"));
        }
        assert!(cache.get(server(0)).is_some());
        cache.put(server(3), rules("a"));
        let kept = [0, 1, 2, 3].map(|id| cache.get(server(id)).is_some());
        assert_eq!(kept, [true, false, true, true]);
    }

    #[test]
    fn new_rules_take_the_place_of_the_old_and_what_is_too_large_is_not_kept() {
        let mut cache = RulesCache::new(2 * rules("a").bytes());
        cache.put(server(0), rules("a"));
        cache.put(server(0), rules("b"));
        assert_eq!(cache.get(server(0)), Some(rules("b")));
        assert_eq!(cache.bytes, rules("b").bytes());
        cache.put(server(0), rules(&"long".repeat(1000)));
        assert_eq!(cache.get(server(0)), None);
        assert_eq!((cache.bytes, cache.turns.len()), (0, 0));
    }
}
