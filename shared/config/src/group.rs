//! Groups of hosts that count as one for politeness.

use super::keys::{Form, Value, choice, section};
use rhumb_url::{address_literal, is_name};
use serde::{Deserialize, Deserializer, de};
use std::time::Duration;

section! {
    /// Hosts that share a limit of jobs and a delay.
    #[derive(PartialEq, Eq)]
    pub struct Group {
        /// What makes hosts one group, in the place of `hosts`.
        #[key(default = "null")]
        pub by: Option<GroupedBy>,
        /// The hosts of one group: a host, or `*.name` for all hosts below that name, which is not
        /// one of them itself.
        #[key(default = "[]")]
        pub hosts: Vec<HostPattern>,
        /// Jobs for the group that are out at once, at most.
        #[key(default = "1", range = "1..10000")]
        pub jobs_max: u32,
        /// Time between any two contacts of the group. While it is not 0s, one job is out at a time.
        #[key(default = "0s", range = "0s..1h")]
        pub delay: Duration,
    }
}

choice! {
    /// What makes the hosts of a group one.
    pub enum GroupedBy {
        /// Every registered domain is a group of its own.
        #[serde(rename = "registered-domain")]
        RegisteredDomain,
    }
}

/// `a.example`: that host; `*.a.example`: all hosts below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostPattern {
    /// One host.
    Host(String),
    /// Hosts that end with this, which begins with a dot.
    Below(String),
}

impl Group {
    /// Returns whether a host, in lower case, belongs to it.
    pub fn has(&self, host: &str) -> bool {
        self.by.is_some() || self.hosts.iter().any(|pattern| pattern.matches(host))
    }

    /// Jobs that may be out at once. Contacts that keep apart from each other need no second
    /// connection.
    pub fn jobs_at_once(&self) -> u32 {
        if self.delay.is_zero() {
            self.jobs_max
        } else {
            1
        }
    }
}

impl HostPattern {
    fn matches(&self, host: &str) -> bool {
        match self {
            HostPattern::Host(name) => name == host,
            HostPattern::Below(suffix) => {
                host.len() > suffix.len() && host.ends_with(suffix.as_str())
            }
        }
    }
}

impl Value for HostPattern {
    const FORM: Form = Form::Text;
}

impl<'de> Deserialize<'de> for HostPattern {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let text = String::deserialize(input)?;
        match text.strip_prefix("*.") {
            Some(name) if is_name(name) => Ok(HostPattern::Below(format!(".{name}"))),
            None if is_name(&text) || address_literal(&text).is_some() => {
                Ok(HostPattern::Host(text))
            }
            _ => Err(de::Error::custom(format!(
                "'{text}' is no host in lower case such as a.example, or *.a.example for all hosts \
                 below it"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::defaults::default_section;
    use super::*;

    fn pattern(text: &str) -> Result<HostPattern, serde_json::Error> {
        serde_json::from_value(text.into())
    }

    #[test]
    fn a_pattern_is_a_host_or_all_below_one() {
        let of = |text: &str, host: &str| pattern(text).unwrap().matches(host);
        assert!(of("a.example", "a.example") && !of("a.example", "b.a.example"));
        assert!(of("*.a.example", "b.a.example") && of("*.a.example", "c.b.a.example"));
        assert!(!of("*.a.example", "a.example") && !of("*.a.example", "ba.example"));
        assert!(of("192.0.2.1", "192.0.2.1") && of("[2001:db8::1]", "[2001:db8::1]"));
        for nonsense in [
            "",
            "*",
            "*.",
            "a.*",
            "A.example",
            "http://a.example",
            "a.example/",
            "*.*.a",
        ] {
            let error = pattern(nonsense).unwrap_err().to_string();
            assert!(
                error.contains(nonsense) && error.contains("is no host"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_group_with_a_delay_has_one_job_out() {
        let group = Group {
            by: Some(GroupedBy::RegisteredDomain),
            jobs_max: 3,
            ..default_section()
        };
        assert_eq!((group.jobs_at_once(), group.has("any.example")), (3, true));
        assert_eq!(
            Group {
                delay: Duration::from_millis(1),
                ..group
            }
            .jobs_at_once(),
            1
        );
    }
}
