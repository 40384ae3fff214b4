//! Orders: what operators have asked of a crawl, for as long as they do not take it back.
//!
//! They lie at the broker, in one value that all processes read, so they outlive every process and every move of a
//! partition.

use crate::url::{host_of, registered_domain};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What an order is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// All of the crawl.
    Crawl,
    /// The servers of a registered domain, and of all names below it.
    Domain(String),
    /// The servers of a host.
    Host(String),
}

impl Target {
    /// Says whether it has this server, `scheme://host[:port]`.
    pub fn has(&self, server: &str) -> bool {
        let host = host_of(server);
        match self {
            Target::Crawl => true,
            Target::Domain(domain) => registered_domain(host) == domain,
            Target::Host(name) => host == name,
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Crawl => f.write_str("the crawl"),
            Target::Domain(domain) => write!(f, "domain {domain}"),
            Target::Host(host) => write!(f, "host {host}"),
        }
    }
}

/// An order that something is to be left alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// What is left alone.
    pub what: Target,
    /// Who has asked for it.
    pub by: String,
    /// When, in seconds since 1970.
    pub since_s: u64,
    /// Why, in the words of who asked; empty when nothing was said.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl fmt::Display for Pause {
    /// Who asked for it, when and why.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Pause { what, by, since_s, note } = self;
        write!(f, "{what} is paused by {by} since {}", humantime::format_rfc3339_seconds(since(*since_s)))?;
        if note.is_empty() { Ok(()) } else { write!(f, ": {note}") }
    }
}

fn since(seconds: u64) -> std::time::SystemTime {
    // Far enough for any date that can be written.
    const LATEST_S: u64 = 253_402_300_799;
    std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds.min(LATEST_S))
}

/// The orders of a crawl.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orders {
    /// What is paused: each target once, in order.
    #[serde(default)]
    pub paused: Vec<Pause>,
}

impl Orders {
    /// Pauses something. A later order takes the place of an earlier one about the same.
    pub fn pause(&mut self, pause: Pause) {
        match self.paused.binary_search_by(|known| known.what.cmp(&pause.what)) {
            Ok(at) => self.paused[at] = pause,
            Err(at) => self.paused.insert(at, pause),
        }
    }

    /// Takes a pause back. Gives it, if there was one.
    pub fn unpause(&mut self, what: &Target) -> Option<Pause> {
        let at = self.paused.binary_search_by(|known| known.what.cmp(what)).ok()?;
        Some(self.paused.remove(at))
    }

    /// The first pause that holds for a server, `scheme://host[:port]`.
    pub fn pause_of(&self, server: &str) -> Option<&Pause> {
        self.paused.iter().find(|pause| pause.what.has(server))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(what: Target, note: &str) -> Pause {
        Pause { what, by: "anna@desk".to_owned(), since_s: 1_700_000_000, note: note.to_owned() }
    }

    #[test]
    fn a_target_has_its_servers_and_no_others() {
        let (host, domain) = (Target::Host("www.example.org".into()), Target::Domain("example.org".into()));
        for (server, of_host, of_domain) in [
            ("https://www.example.org", true, true),
            ("http://www.example.org:8080", true, true),
            ("https://a.www.example.org", false, true),
            ("https://example.org", false, true),
            ("https://badexample.org", false, false),
            ("https://example.org.test", false, false),
        ] {
            assert_eq!((host.has(server), domain.has(server)), (of_host, of_domain), "{server}");
            assert!(Target::Crawl.has(server));
        }
        let address = Target::Host("[2001:db8::1]".into());
        assert!(address.has("http://[2001:db8::1]") && address.has("http://[2001:db8::1]:8080"));
        assert!(!address.has("http://[2001:db8::2]"));
    }

    #[test]
    fn a_target_is_paused_once_and_the_later_order_holds() {
        let mut orders = Orders::default();
        let hosts = ["b.test", "a.test", "b.test"].map(|host| Target::Host(host.into()));
        for (n, host) in hosts.iter().enumerate() {
            orders.pause(pause(host.clone(), &n.to_string()));
        }
        orders.pause(pause(Target::Crawl, "all"));
        let said: Vec<_> = orders.paused.iter().map(|pause| (pause.what.to_string(), pause.note.as_str())).collect();
        assert_eq!(
            said.iter().map(|(what, note)| (what.as_str(), *note)).collect::<Vec<_>>(),
            [("the crawl", "all"), ("host a.test", "1"), ("host b.test", "2")]
        );
        assert_eq!(orders.unpause(&Target::Crawl).map(|pause| pause.note), Some("all".to_owned()));
        assert_eq!(orders.unpause(&Target::Crawl), None);
        assert_eq!(orders.pause_of("http://b.test:81").map(|pause| pause.note.as_str()), Some("2"));
        assert_eq!(orders.pause_of("http://c.test"), None);
    }

    #[test]
    fn orders_are_written_so_that_people_can_read_them() {
        let mut orders = Orders::default();
        orders.pause(pause(Target::Host("a.test".into()), "asked by mail"));
        let text = serde_json::to_string(&orders).unwrap();
        assert_eq!(
            text,
            r#"{"paused":[{"what":{"host":"a.test"},"by":"anna@desk","since_s":1700000000,"note":"asked by mail"}]}"#
        );
        assert_eq!(serde_json::from_str::<Orders>(&text).unwrap(), orders);
        assert_eq!(
            orders.paused[0].to_string(),
            "host a.test is paused by anna@desk since 2023-11-14T22:13:20Z: asked by mail"
        );
    }
}
