//! Entries of the scope that all host-splitters share: the hosts, or registered domains, that each
//! topic follows.
//!
//! Each entry is a key of its own in the crawl's scope bucket, so that joining is idempotent and
//! needs no reading before writing. Whoever injects seeds adds the entries of their hosts first: a
//! link to one of them cannot be judged before its host has joined. A host-splitter adds those of
//! seeds' redirects.

use crate::Follow;
use rhumb_url::{fingerprint, registered_domain};

/// A host, or registered domain, that a topic follows.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ScopeEntry {
    /// The topic.
    pub topic: String,
    /// The host; with `scope.follow: domain` the registered domain.
    pub entry: String,
}

impl ScopeEntry {
    /// The entry that stands for a host in a topic.
    pub fn of(follow: Follow, topic: &str, host: &str) -> ScopeEntry {
        ScopeEntry {
            topic: topic.to_owned(),
            entry: followed(follow, host).to_owned(),
        }
    }

    /// Its key in the bucket. Topic and host may hold any character, a key only some: the value
    /// tells.
    pub fn key(&self) -> String {
        format!("{:016x}", fingerprint(&self.value()))
    }

    /// Its value in the bucket.
    pub fn value(&self) -> String {
        format!("{}\n{}", self.topic, self.entry)
    }

    /// Reads a value of the bucket; none when it is no entry.
    pub fn read(value: &[u8]) -> Option<ScopeEntry> {
        let (topic, entry) = std::str::from_utf8(value).ok()?.split_once('\n')?;
        Some(ScopeEntry {
            topic: topic.to_owned(),
            entry: entry.to_owned(),
        })
    }
}

/// What stands for a host in the scope.
pub fn followed(follow: Follow, host: &str) -> &str {
    match follow {
        Follow::Domain => registered_domain(host),
        Follow::Host | Follow::Any => host,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written_and_each_has_a_key_of_its_own() {
        let host = ScopeEntry::of(Follow::Host, "news", "www.a.co.uk");
        let domain = ScopeEntry::of(Follow::Domain, "news", "www.a.co.uk");
        assert_eq!(
            (host.entry.as_str(), domain.entry.as_str()),
            ("www.a.co.uk", "a.co.uk")
        );
        for entry in [&host, &domain] {
            assert_eq!(
                ScopeEntry::read(entry.value().as_bytes()).as_ref(),
                Some(entry)
            );
        }
        assert_ne!(host.key(), domain.key());
        assert_ne!(
            host.key(),
            ScopeEntry::of(Follow::Host, "sport", "www.a.co.uk").key()
        );
        assert_eq!(ScopeEntry::read(b"no entry"), None);
    }
}
