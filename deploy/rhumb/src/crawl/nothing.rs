//! Why a crawl ended without one page: what became of its URLs, and which rules left seeds out.
//!
//! In: what processes counted, and the seeds of this run. Out: a sentence. Invariant: it is one
//! line, however much was counted.

use crate::report::Gathered;
use crate::status::Snapshot;
use rhumb_config::Pipeline;
use rhumb_config::topics::Topics;
use rhumb_url::host_of;
use rhumb_wire::message::FilterReason;
use std::collections::{BTreeMap, BTreeSet};

/// Reasons that are told, of URLs that ended, and hosts that are named.
const REASONS_MAX: usize = 5;
const HOSTS_MAX: usize = 3;

/// A crawl that has ended without a page.
pub(super) struct Nothing<'a> {
    pub(super) pipeline: &'a Pipeline,
    /// The seeds of this run; none of one that was resumed without any.
    pub(super) seeds: &'a [String],
    /// Their topic.
    pub(super) topic: &'a str,
    pub(super) snapshot: &'a Snapshot,
    /// What the schedulers told in the end, if they did.
    pub(super) gathered: Option<&'a Gathered>,
}

impl Nothing<'_> {
    /// Says why.
    pub(super) fn why(&self) -> String {
        let ended = self.ended();
        let left_out = self.left_out();
        let mut parts = Vec::new();
        if !ended.is_empty() {
            parts.push(format!("{}{}", ended.join(", "), self.such_as()));
        }
        if !left_out.is_empty() {
            parts.push(format!("left out were {}", left_out.join(", ")));
        }
        let summary = self.snapshot.summary();
        if summary.waiting > 0 {
            parts.push(format!(
                "{} wait for a larger budget",
                urls(summary.waiting)
            ));
        }
        match parts.is_empty() {
            true => "no URL came".to_owned(),
            false => parts.join("; "),
        }
    }

    /// How URLs ended, and why, those of most URLs first.
    fn ended(&self) -> Vec<String> {
        let counted = self
            .gathered
            .map(|gathered| &gathered.tallied.ends)
            .filter(|ends| !ends.is_empty());
        let mut ends: Vec<(u64, String)> = match counted {
            Some(ends) => {
                let told = |(outcome, reason): (&String, &String)| {
                    format!("{outcome} ({})", in_words(reason))
                };
                let of_outcome = ends.iter().flat_map(|(outcome, reasons)| {
                    reasons
                        .iter()
                        .map(move |(reason, n)| (*n, told((outcome, reason))))
                });
                of_outcome.collect()
            }
            None => self
                .snapshot
                .summary()
                .outcomes
                .into_iter()
                .map(|(outcome, n)| (n, outcome))
                .collect(),
        };
        ends.retain(|(n, _)| *n > 0);
        ends.sort_by(|(one, _), (other, _)| other.cmp(one));
        ends.into_iter()
            .take(REASONS_MAX)
            .map(|(n, how)| format!("{} ended as {how}", urls(n)))
            .collect()
    }

    /// Names hosts: those with failures, or those of the seeds.
    fn such_as(&self) -> String {
        let failing = self
            .gathered
            .map(|gathered| &gathered.leaders.by_errors[..])
            .unwrap_or_default();
        let mut hosts: Vec<&str> = failing.iter().map(|told| told.host.as_str()).collect();
        if hosts.is_empty() {
            hosts = self.seeds.iter().map(|seed| host_of(seed)).collect();
        }
        let mut named = BTreeSet::new();
        hosts.retain(|host| named.insert(*host));
        hosts.truncate(HOSTS_MAX);
        if hosts.is_empty() {
            String::new()
        } else {
            format!(", such as of {}", hosts.join(", "))
        }
    }

    /// The rules that left URLs out, each with how many.
    fn left_out(&self) -> Vec<String> {
        let mut by_rule: BTreeMap<String, u64> = BTreeMap::new();
        for reason in FilterReason::ALL {
            let mut left_out = self
                .snapshot
                .total("dedup", &format!("filtered_{}_total", reason.name()));
            if reason == FilterReason::Pattern {
                for (list, n) in self.lists_against_seeds() {
                    let n = n.min(left_out);
                    left_out -= n;
                    *by_rule.entry(list.to_owned()).or_default() += n;
                }
            }
            *by_rule.entry(self.rule(reason)).or_default() += left_out;
        }
        by_rule.retain(|_, n| *n > 0);
        by_rule
            .into_iter()
            .map(|(rule, n)| format!("{} by {rule}", urls(n)))
            .collect()
    }

    /// How many of the seeds each of the operator's lists leaves out.
    fn lists_against_seeds(&self) -> BTreeMap<&'static str, u64> {
        let topics = Topics::from(self.pipeline);
        let filters = &topics.of(self.topic).filters;
        let mut lists = BTreeMap::new();
        for list in self
            .seeds
            .iter()
            .filter_map(|seed| filters.list_against(seed, false))
        {
            *lists.entry(list).or_default() += 1;
        }
        lists
    }

    /// The key, or the keys, of a reason.
    fn rule(&self, reason: FilterReason) -> String {
        let key = match reason {
            FilterReason::Scope => "scope.follow",
            FilterReason::Depth => "scope.max_depth",
            FilterReason::Redirects => "limits.redirects",
            FilterReason::Form => "their form (limits.url_bytes_max)",
            FilterReason::Segments => "limits.segment_repeats",
            FilterReason::Parameters => "limits.query_parameters",
            FilterReason::Pattern => {
                let scope = self.pipeline.scope_of(self.topic);
                let lists = [
                    ("scope.prefixes", scope.prefixes.is_empty()),
                    ("scope.accept", scope.accept.is_empty()),
                    ("scope.reject", scope.reject.is_empty()),
                ];
                let set: Vec<&str> = lists
                    .iter()
                    .filter(|(_, is_empty)| !is_empty)
                    .map(|(key, _)| *key)
                    .collect();
                return if set.is_empty() {
                    "scope.prefixes, accept or reject".to_owned()
                } else {
                    set.join(" or ")
                };
            }
        };
        key.to_owned()
    }
}

fn urls(n: u64) -> String {
    if n == 1 {
        "1 URL".to_owned()
    } else {
        format!("{n} URLs")
    }
}

/// The reason of an outcome as a person says it.
fn in_words(reason: &str) -> &str {
    match reason {
        "connect" => "no connection",
        "tls" => "no TLS",
        "certificate" => "no valid certificate",
        "timeout" => "no answer in time",
        "reset" => "the connection broke",
        "protocol" => "no HTTP",
        "" => "no reason",
        reason => reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_config::Layers;
    use rhumb_stage::HostTold;
    use serde_json::json;

    fn pipeline(set: &[&str]) -> Pipeline {
        let local = ["network.allow_private_addresses=true"];
        let set = local
            .iter()
            .chain(set)
            .map(|set| (*set).to_owned())
            .collect();
        Layers {
            file: Some("/dev/null".into()),
            set,
        }
        .load_with(std::iter::empty())
        .unwrap()
    }

    fn look(stage: &str, counts: serde_json::Value) -> Snapshot {
        let process = json!({
            "stage": stage, "instance": 0, "pid": 1, "life": 1, "listen": "", "cpu_s": 0.0, "peak_rss_bytes": 0,
            "ready": true, "idle": true, "counts": counts,
        });
        Snapshot {
            processes: vec![serde_json::from_value(process).unwrap()],
            ..Snapshot::default()
        }
    }

    fn why(
        pipeline: &Pipeline,
        seeds: &[&str],
        snapshot: &Snapshot,
        gathered: Option<&Gathered>,
    ) -> String {
        let seeds: Vec<String> = seeds.iter().map(|seed| (*seed).to_owned()).collect();
        Nothing {
            pipeline,
            seeds: &seeds,
            topic: "default",
            snapshot,
            gathered,
        }
        .why()
    }

    #[test]
    fn the_rules_that_left_the_seeds_out_are_named() {
        let pipeline = pipeline(&[
            r#"scope.prefixes=["http://(test,a,"]"#,
            r#"scope.reject=["\\.pdf$"]"#,
        ]);
        let snapshot = look(
            "dedup",
            json!({ "filtered_pattern_total": 3, "filtered_parameters_total": 1 }),
        );
        let seeds = [
            "http://a.test/x.pdf",
            "http://b.test/",
            "http://c.test/",
            "http://a.test/?many",
        ];
        let told = why(&pipeline, &seeds, &snapshot, None);
        let expected = "left out were 1 URL by limits.query_parameters, 2 URLs by scope.prefixes, \
                        1 URL by scope.reject";
        assert_eq!(told, expected);
        // Nobody knows the seeds of an earlier run.
        let told = why(&pipeline, &[], &snapshot, None);
        assert!(
            told.ends_with("3 URLs by scope.prefixes or scope.reject"),
            "{told}"
        );
    }

    #[test]
    fn what_could_not_be_reached_is_named() {
        let mut gathered = Gathered::default();
        gathered.tallied.add_end("failed", "connect", 2);
        gathered.tallied.add_end("unresolvable", "no such name", 7);
        let host = HostTold {
            host: "a.test".into(),
            errors: 2,
            ..HostTold::default()
        };
        gathered.leaders.by_errors.push(host);
        let told = why(&pipeline(&[]), &[], &Snapshot::default(), Some(&gathered));
        let expected = "7 URLs ended as unresolvable (no such name), 2 URLs ended as failed (no \
                        connection), such as of a.test";
        assert_eq!(told, expected);
        let silent = look("scheduler", json!({ "outcome_disallowed_total": 1 }));
        assert_eq!(
            why(&pipeline(&[]), &["http://b.test/"], &silent, None),
            "1 URL ended as disallowed, such as of b.test"
        );
    }

    #[test]
    fn a_crawl_to_which_nothing_came_says_so() {
        assert_eq!(
            why(&pipeline(&[]), &[], &Snapshot::default(), None),
            "no URL came"
        );
        let waits = look(
            "scheduler",
            json!({ "waiting": 4, "waiting_over_budget": 4 }),
        );
        assert_eq!(
            why(&pipeline(&[]), &[], &waits, None),
            "4 URLs wait for a larger budget"
        );
    }
}
