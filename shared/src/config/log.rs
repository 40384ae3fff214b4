//! The section `log`: how log lines look, which there are, and how often one comes again.

use super::check::Check;
use super::units::duration;
use serde::Deserialize;
use std::time::Duration;

/// How log lines look, which there are, and how often one comes again.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "pipeline.yaml documents every key")]
pub struct Log {
    pub format: LogFormat,
    pub level: String,
    pub repeats_max: u32,
    #[serde(deserialize_with = "duration")]
    pub repeats_interval: Duration,
}

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LogFormat {
    /// For people.
    Human,
    /// One JSON object.
    Json,
}

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

impl Default for Log {
    /// The defaults of `pipeline.yaml`, for programs that read no configuration.
    fn default() -> Self {
        Log {
            format: LogFormat::Human,
            level: "info,async_nats=error".to_owned(),
            repeats_max: 20,
            repeats_interval: Duration::from_secs(30),
        }
    }
}

impl Log {
    /// The directives of `level` as the filter takes them: modules are spelled with underscores.
    pub fn directives(&self) -> String {
        self.level.replace('-', "_")
    }

    pub(super) fn check(&self, check: &mut Check) {
        let is_module = |name: &str| {
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_:".contains(&byte))
        };
        // A word that is no level would pass for the name of a module, of which all is logged.
        let is_good = |directive: &str| match directive.split_once('=') {
            None => LEVELS.contains(&directive),
            Some((module, level)) => is_module(module) && LEVELS.contains(&level),
        };
        if let Some(wrong) = self.level.split(',').map(str::trim).find(|directive| !is_good(directive)) {
            check.0.push(format!(
                "configuration key log.level = '{}': '{wrong}' is neither a level nor MODULE=LEVEL; accepted are such with \
                 commas between them, for instance 'warn,fetcher=debug'; levels are {}",
                self.level,
                LEVELS.join(", ")
            ));
        }
        check.within("log.repeats_max", self.repeats_max, 0, 1_000_000);
        let (low, high) = (Duration::from_secs(1), Duration::from_secs(3600));
        check.lasting("log.repeats_interval", self.repeats_interval, low, high);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Layers;

    #[test]
    fn programs_without_a_configuration_log_as_pipeline_yaml_says() {
        let set = vec!["network.allow_private_addresses=true".to_owned()];
        let shipped = Layers { file: None, set }.load_with(std::iter::empty()).unwrap().log;
        assert_eq!(format!("{shipped:?}"), format!("{:?}", Log::default()));
    }

    #[test]
    fn a_level_is_a_level_or_one_of_a_module() {
        let complaints = |level: &str| {
            let mut check = Check::default();
            Log { level: level.to_owned(), ..Log::default() }.check(&mut check);
            check.0
        };
        for good in ["off", "warn,fetcher=debug", "info, host-splitter=trace,shared::stage::run=error"] {
            assert!(complaints(good).is_empty(), "{good}");
        }
        for bad in ["", "debgu", "info,", "fetcher=", "=debug", "info,fetcher=loud", "fetcher[x]=debug"] {
            assert!(complaints(bad).concat().contains("log.level"), "{bad}");
        }
    }
}
