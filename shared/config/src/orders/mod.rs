//! Orders: what operators have asked of a crawl, for as long as they do not take it back.
//!
//! They lie at the broker, in one value that all processes read, so they outlive every process and
//! every move of a partition.

mod author;
mod drop;
mod hold;
mod pause;
mod release;
mod setting;

pub use self::author::Author;
pub use self::drop::{BadExpression, DropOrder, Selection, Selector};
pub use self::hold::{HOLD_LASTS, Hold};
pub use self::pause::{Pause, Target};
pub use self::release::Release;
pub use self::setting::Setting;
use serde::{Deserialize, Serialize};

/// The orders of a crawl.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Orders {
    /// What is paused: each target once, in order.
    #[serde(default)]
    pub paused: Vec<Pause>,
    /// What is dropped, in the order in which it was asked for.
    #[serde(default)]
    pub drops: Vec<DropOrder>,
    /// Which keys of the configuration have other values: each key once, in order.
    #[serde(default)]
    pub set: Vec<Setting>,
    /// What is not kept back as a trap, in the order in which it was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub released: Vec<Release>,
    /// The crawl stands still for a moment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold>,
}

impl Orders {
    /// Pauses something. A later order takes the place of an earlier one about the same.
    pub fn pause(&mut self, pause: Pause) {
        match self
            .paused
            .binary_search_by(|known| known.what.cmp(&pause.what))
        {
            Ok(at) => self.paused[at] = pause,
            Err(at) => self.paused.insert(at, pause),
        }
    }

    /// Takes a pause back. Gives it, if there was one.
    pub fn unpause(&mut self, what: &Target) -> Option<Pause> {
        let at = self
            .paused
            .binary_search_by(|known| known.what.cmp(what))
            .ok()?;
        Some(self.paused.remove(at))
    }

    /// Drops something. A later order takes the place of an earlier one about the same; what is
    /// dropped later as well stays so. Gives the earlier one.
    pub fn drop(&mut self, mut order: DropOrder) -> Option<DropOrder> {
        let earlier = self.take_back(&order.what);
        order.and_later |= earlier.as_ref().is_some_and(|earlier| earlier.and_later);
        self.drops.push(order);
        earlier
    }

    /// Takes a drop back. Gives it, if there was one.
    pub fn take_back(&mut self, what: &Selection) -> Option<DropOrder> {
        let at = self.drops.iter().position(|known| known.what == *what)?;
        Some(self.drops.remove(at))
    }

    /// Releases something. A later order takes the place of an earlier one about the same. Gives
    /// the earlier one.
    pub fn release(&mut self, release: Release) -> Option<Release> {
        let earlier = self.unrelease(&release.host, release.shape.as_deref());
        self.released.push(release);
        earlier
    }

    /// Takes a release back. Gives it, if there was one.
    pub fn unrelease(&mut self, host: &str, shape: Option<&str>) -> Option<Release> {
        let is_same = |known: &Release| known.host == host && known.shape.as_deref() == shape;
        let at = self.released.iter().position(is_same)?;
        Some(self.released.remove(at))
    }

    /// Sets a key. Gives what it was set to before, if it was.
    pub fn set(&mut self, setting: Setting) -> Option<Setting> {
        let before = self.unset(&setting.key);
        let at = self.set.partition_point(|known| known.key < setting.key);
        self.set.insert(at, setting);
        before
    }

    /// Takes a setting back. Gives it, if there was one.
    pub fn unset(&mut self, key: &str) -> Option<Setting> {
        let at = self.set.iter().position(|known| known.key == key)?;
        Some(self.set.remove(at))
    }

    /// Returns whether a server, `scheme://host[:port]`, is left alone: it is paused, or the crawl
    /// is held.
    pub fn leaves_alone(&self, server: &str) -> bool {
        self.hold.is_some() || self.pause_of(server).is_some()
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
        Pause {
            what,
            author: Author {
                by: "anna@desk".into(),
                since_s: 1_700_000_000,
                note: note.into(),
            },
        }
    }

    #[test]
    fn a_target_has_its_servers_and_no_others() {
        let host = Target::Host("www.example.org".into());
        let domain = Target::Domain("example.org".into());
        for (server, of_host, of_domain) in [
            ("https://www.example.org", true, true),
            ("http://www.example.org:8080", true, true),
            ("https://a.www.example.org", false, true),
            ("https://example.org", false, true),
            ("https://badexample.org", false, false),
            ("https://example.org.test", false, false),
        ] {
            assert_eq!(
                (host.has(server), domain.has(server)),
                (of_host, of_domain),
                "{server}"
            );
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
        let said: Vec<_> = orders
            .paused
            .iter()
            .map(|pause| (pause.what.to_string(), pause.author.note.as_str()))
            .collect();
        assert_eq!(
            said.iter()
                .map(|(what, note)| (what.as_str(), *note))
                .collect::<Vec<_>>(),
            [
                ("the crawl", "all"),
                ("host a.test", "1"),
                ("host b.test", "2")
            ]
        );
        assert_eq!(
            orders
                .unpause(&Target::Crawl)
                .map(|pause| pause.author.note),
            Some("all".to_owned())
        );
        assert_eq!(orders.unpause(&Target::Crawl), None);
        assert_eq!(
            orders
                .pause_of("http://b.test:81")
                .map(|pause| pause.author.note.as_str()),
            Some("2")
        );
        assert_eq!(orders.pause_of("http://c.test"), None);
        assert!(orders.leaves_alone("http://b.test") && !orders.leaves_alone("http://c.test"));
        orders.hold = Some(Hold {
            author: Author::default(),
            renewed_s: 7,
        });
        assert!(orders.leaves_alone("http://c.test"));
    }

    #[test]
    fn a_drop_of_what_is_found_later_stays_until_it_is_taken_back() {
        let order = |id, host: &str, and_later| {
            let what = Selection::Host(host.to_owned());
            DropOrder {
                id,
                what,
                and_later,
                author: Author::default(),
            }
        };
        let mut orders = Orders::default();
        assert_eq!(orders.drop(order(1, "a.test", true)), None);
        orders.drop(order(2, "b.test", false));
        assert_eq!(
            orders
                .drop(order(3, "a.test", false))
                .map(|earlier| earlier.id),
            Some(1)
        );
        let left: Vec<_> = orders
            .drops
            .iter()
            .map(|order| (order.id, order.and_later))
            .collect();
        assert_eq!(left, [(2, false), (3, true)]);
        assert_eq!(
            orders
                .take_back(&Selection::Host("a.test".into()))
                .map(|order| order.id),
            Some(3)
        );
        assert_eq!(orders.take_back(&Selection::Host("a.test".into())), None);
    }

    #[test]
    fn orders_are_written_so_that_people_can_read_them() {
        let mut orders = Orders::default();
        orders.pause(pause(Target::Host("a.test".into()), "asked by mail"));
        let text = serde_json::to_string(&orders).unwrap();
        assert_eq!(
            text,
            r#"{"paused":[{"what":{"host":"a.test"},"by":"anna@desk","since_s":1700000000,"note":"asked by mail"}],"drops":[],"set":[]}"#
        );
        assert_eq!(serde_json::from_str::<Orders>(&text).unwrap(), orders);
        let release = |shape: Option<&str>, note: &str| Release {
            host: "a.test".into(),
            shape: shape.map(str::to_owned),
            author: Author {
                note: note.into(),
                ..Author::default()
            },
        };
        assert_eq!(orders.release(release(None, "one")), None);
        assert_eq!(orders.release(release(Some("/0"), "")), None);
        assert_eq!(
            orders.release(release(None, "two")).unwrap().author.note,
            "one"
        );
        assert_eq!(orders.unrelease("a.test", Some("/1")), None);
        let text = serde_json::to_string(&orders).unwrap();
        let released = r#"{"host":"a.test","shape":"/0","by":"","since_s":0},{"host":"a.test","by":"","since_s":0,"note":"two"}"#;
        assert!(
            text.ends_with(&format!(r#","set":[],"released":[{released}]}}"#)),
            "{text}"
        );
        assert_eq!(serde_json::from_str::<Orders>(&text).unwrap(), orders);
        assert!(
            [None, Some("/0")]
                .iter()
                .all(|shape| orders.unrelease("a.test", *shape).is_some())
        );
        orders.hold = Some(Hold {
            author: Author::default(),
            renewed_s: 7,
        });
        let held = serde_json::to_string(&orders).unwrap();
        assert!(
            held.ends_with(r#","set":[],"hold":{"by":"","since_s":0,"renewed_s":7}}"#),
            "{held}"
        );
        assert_eq!(serde_json::from_str::<Orders>(&held).unwrap(), orders);
        assert_eq!(
            orders.paused[0].to_string(),
            "host a.test is paused by anna@desk since 2023-11-14T22:13:20Z: asked by mail"
        );
    }
}
