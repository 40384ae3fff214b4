//! Quotas: what several schedulers divide between them.
//!
//! In: claims of the core. Out: the ledger of a quota with the claim in it. [`ledger`] has the rules
//! by which a quota is divided, `requests` the questions of one scheduler; `budget`,
//! `politeness::circles` and `core::recrawl` know how much of it there is use for.

pub mod ledger;
pub(crate) mod requests;

use crate::keys::circle::Circle;

/// Something that schedulers divide, as the key of its ledger and calls between schedulers name it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quota {
    /// Pages of the crawl: `limits.max_pages`.
    Crawl,
    /// Pages of a registered domain: `limits.pages_per_domain`.
    Domain(String),
    /// Pages of a topic: `topics.*.pages_max`.
    Topic(String),
    /// Jobs in a circle.
    Circle(Circle),
    /// Visits of known pages, in thousandths a second: `recrawl.requests_per_second`, or that of the
    /// topic of this name.
    Visits(String),
}

impl Quota {
    /// The name of the domain or the topic; none is of the crawl.
    pub(crate) fn name(&self) -> &str {
        match self {
            Quota::Crawl | Quota::Circle(_) => "",
            Quota::Domain(name) | Quota::Topic(name) | Quota::Visits(name) => name,
        }
    }

    /// The key of its ledger in the bucket, of letters that are allowed there.
    pub fn key(&self) -> String {
        match self {
            Quota::Crawl => "crawl".to_owned(),
            Quota::Domain(domain) => format!(
                "domain.{}",
                domain.replace(['[', ']'], "").replace(':', "=")
            ),
            Quota::Topic(topic) => format!("topic.{topic}"),
            Quota::Circle(circle) => circle.to_string(),
            Quota::Visits(topic) if topic.is_empty() => "visits".to_owned(),
            Quota::Visits(topic) => format!("visits.{topic}"),
        }
    }

    /// The quota whose ledger has this key; none when it is no such key.
    pub fn of_key(key: &str) -> Option<Self> {
        match key.split_once('.') {
            None if key == "visits" => Some(Quota::Visits(String::new())),
            None => (key == "crawl").then_some(Quota::Crawl),
            Some(("domain", address)) if address.contains('=') => {
                Some(Quota::Domain(format!("[{}]", address.replace('=', ":"))))
            }
            Some(("domain", domain)) => Some(Quota::Domain(domain.to_owned())),
            Some(("topic", topic)) => Some(Quota::Topic(topic.to_owned())),
            Some(("visits", topic)) => Some(Quota::Visits(topic.to_owned())),
            Some(_) => key.parse().ok().map(Quota::Circle),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_of_letters_that_a_bucket_takes_and_are_read_again() {
        for (quota, key) in [
            (Quota::Crawl, "crawl"),
            (
                Quota::Domain("example.co.uk".into()),
                "domain.example.co.uk",
            ),
            (Quota::Domain("[2001:db8::1]".into()), "domain.2001=db8==1"),
            (Quota::Topic("news".into()), "topic.news"),
            (Quota::Visits(String::new()), "visits"),
            (Quota::Visits("news".into()), "visits.news"),
            (
                Quota::Circle("address.192.0.2.1".parse().unwrap()),
                "address.192.0.2.1",
            ),
        ] {
            assert_eq!(quota.key(), key);
            assert_eq!(Quota::of_key(key), Some(quota));
        }
        for nonsense in ["", "domains", "circle.a", "address.x"] {
            assert_eq!(Quota::of_key(nonsense), None);
        }
    }
}
