//! The section `log`: how log lines look, which there are, and how often one comes again.

use super::defaults::default_section;
use super::keys::{choice, section};
use std::time::Duration;

section! {
    /// How log lines look, which there are, and how often one comes again.
    pub struct Log {
        /// The form of a log line.
        #[key(default = "human")]
        pub format: LogFormat,
        /// A level, or MODULE=LEVEL, or several with commas between them, such as
        /// `warn,fetcher=debug`. Levels are off, error, warn, info, debug and trace; modules are
        /// stages, rhumb, rhumb_node, rhumb_bus, and what is in them (rhumb_node::run). The
        /// environment variable `RUST_LOG` overrides it.
        #[key(default = "info")]
        pub level: String,
        /// The same event is logged this often in each `repeats_interval`; then one line says how
        /// many were left out. What debug and trace show is never left out; 0: no limit.
        #[key(default = "20", range = "0..1000000")]
        pub repeats_max: u32,
        /// Time in which repeats are counted.
        #[key(default = "30s", range = "1s..1h")]
        pub repeats_interval: Duration,
    }
}

choice! {
    /// The form of a log line.
    pub enum LogFormat {
        /// For people.
        #[serde(rename = "human")]
        Human,
        /// One object a line, with time, level, target, message, stage and instance.
        #[serde(rename = "json")]
        Json,
    }
}

/// What may be shown of a module.
pub(super) const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

impl Default for Log {
    /// For programs that read no configuration.
    fn default() -> Self {
        default_section()
    }
}

impl Log {
    /// The directives of `level` as the filter takes them: modules are spelled with underscores.
    /// What the broker's client says is said by the bus in words of its own, so of the client
    /// errors are enough, unless it is named.
    pub fn directives(&self) -> String {
        let level = self.level.replace('-', "_").replace(' ', "");
        let level = level.split(',').map(as_now).collect::<Vec<_>>().join(",");
        match level.contains("async_nats") {
            true => format!("async_nats=error,{level}"),
            // Its connector would say of every try that it was in vain.
            false => format!("async_nats=error,async_nats::connector=off,{level}"),
        }
    }

    /// A directive of `level` that is none. A word that is no level would pass for the name of a
    /// module, of which all is logged.
    pub(super) fn wrong_directive(&self) -> Option<&str> {
        let is_module = |name: &str| {
            !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_:".contains(&byte))
        };
        let is_good = |directive: &str| match directive.split_once('=') {
            None => LEVELS.contains(&directive),
            Some((module, level)) => is_module(module) && LEVELS.contains(&level),
        };
        self.level
            .split(',')
            .map(str::trim)
            .find(|directive| !is_good(directive))
    }
}

/// A directive for `shared`, which was one crate, as one for the crates that it has become.
fn as_now(directive: &str) -> String {
    let (module, level) = directive
        .split_once('=')
        .map_or((directive, ""), |(module, level)| (module, level));
    let module = match module.strip_prefix("shared") {
        Some("") => "rhumb_".to_owned(),
        Some(within) if within.starts_with("::stage") => {
            within.replacen("::stage", "rhumb_node", 1)
        }
        Some(within) if within.starts_with("::") => within.replacen("::", "rhumb_", 1),
        _ => return directive.to_owned(),
    };
    format!("{module}={level}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_one_crate_is_logged_as_its_crates() {
        for (level, now) in [
            ("warn,shared=debug", "warn,rhumb_=debug"),
            (
                "info,shared::stage::moves=info,fetcher=debug",
                "info,rhumb_node::moves=info,fetcher=debug",
            ),
            ("info,shared::bus=warn", "info,rhumb_bus=warn"),
            ("sharedness=warn", "sharedness=warn"),
        ] {
            let log = Log {
                level: level.to_owned(),
                ..Log::default()
            };
            assert!(
                log.directives().ends_with(&format!(",{now}")),
                "{}",
                log.directives()
            );
        }
    }
    use crate::Layers;

    #[test]
    fn a_level_is_a_level_or_one_of_a_module() {
        for good in [
            "off",
            "warn,fetcher=debug",
            "info, host-splitter=trace,rhumb_node::run=error",
        ] {
            assert_eq!(
                Log {
                    level: good.to_owned(),
                    ..Log::default()
                }
                .wrong_directive(),
                None,
                "{good}"
            );
        }
        for bad in [
            "",
            "debgu",
            "info,",
            "fetcher=",
            "=debug",
            "info,fetcher=loud",
            "fetcher[x]=debug",
        ] {
            assert!(
                Log {
                    level: bad.to_owned(),
                    ..Log::default()
                }
                .wrong_directive()
                .is_some(),
                "{bad}"
            );
        }
    }

    #[test]
    fn errors_name_key_value_and_what_is_accepted() {
        for (assignment, wanted) in [
            ("log.format=xml", ["log.format", "xml", "json"]),
            (
                "log.level=info,fetcher=loud",
                [
                    "log.level",
                    "'fetcher=loud' is neither a level",
                    "warn,fetcher=debug",
                ],
            ),
            (
                "log.repeats_max=1000001",
                ["log.repeats_max", "1000001", "0 to 1000000"],
            ),
            (
                "log.repeats_interval=0s",
                ["log.repeats_interval", "0s", "1s to 1h"],
            ),
        ] {
            let set = vec![
                "network.allow_private_addresses=true".to_owned(),
                assignment.to_owned(),
            ];
            let error = Layers { file: None, set }
                .load_with(std::iter::empty())
                .unwrap_err()
                .to_string();
            assert!(
                wanted.iter().all(|part| error.contains(part)),
                "{assignment}: {error}"
            );
        }
    }
}
