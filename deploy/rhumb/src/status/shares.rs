//! The shares of processes with state, also while one is silent: the sums of a crawl are sums of
//! their numbers.
//!
//! In: what each of them told last, as the conductor of the crawl knows it. Out: a snapshot with
//! their numbers. Invariant: a share that is known counts once, whether its process answers now or
//! not. So sums do not fall.

use super::known::{Known, LastKnown, Silent};
use super::snapshot::Snapshot;
use crate::stages::owns_partitions;
use rhumb_stage::ProcessStatus;

impl Snapshot {
    /// Takes over what the conductor knows of processes with state. One that it does not know has
    /// no share of the sums: what it counts is counted as that of the process from which its
    /// partitions come.
    pub(crate) fn take_over(&mut self, last: LastKnown) {
        if last.processes.is_empty() {
            return;
        }
        let is_known = |of: &ProcessStatus| {
            last.processes
                .iter()
                .any(|known| (&known.told.stage, known.told.instance) == (&of.stage, of.instance))
        };
        self.processes.retain(|process| !is_known(process));
        for process in self
            .processes
            .iter_mut()
            .filter(|process| owns_partitions(&process.stage))
        {
            process.counts.clear();
            process.topics.clear();
        }
        self.silent = last.processes.iter().filter_map(Known::silent).collect();
        self.are_moving = last.are_moving;
        self.processes
            .extend(last.processes.into_iter().map(Known::status));
        self.processes
            .sort_by(|a, b| (&a.stage, a.instance).cmp(&(&b.stage, b.instance)));
    }

    /// Names processes of a stage with state that do not answer, and of which nobody knows what
    /// they counted.
    pub(crate) fn miss(&mut self, stage: &str, instances: impl IntoIterator<Item = u16>) {
        for instance in instances {
            let is_there = self
                .processes
                .iter()
                .any(|of| (of.stage.as_str(), of.instance) == (stage, instance));
            if !is_there {
                self.silent.push(Silent {
                    stage: stage.to_owned(),
                    instance,
                    age_s: None,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dedup(instance: u16, found: u64) -> ProcessStatus {
        let json = serde_json::json!({
            "stage": "dedup", "instance": instance, "pid": 1, "life": 1, "listen": "", "cpu_s": 0.0, "peak_rss_bytes": 0,
            "ready": true, "idle": true, "counts": { "found_total": found },
        });
        serde_json::from_value(json).expect("a status")
    }

    fn known(told: ProcessStatus, age_s: Option<f64>) -> Known {
        Known { told, age_s }
    }

    #[test]
    fn a_silent_process_keeps_its_share_and_is_named_with_its_age() {
        let mut snapshot = Snapshot {
            processes: vec![dedup(0, 40)],
            ..Snapshot::default()
        };
        assert_eq!(snapshot.summary().urls_found, 40);
        let known = vec![known(dedup(1, 60), Some(3.2)), known(dedup(0, 41), None)];
        snapshot.take_over(LastKnown {
            processes: known,
            are_moving: false,
        });
        let summary = snapshot.summary();
        assert_eq!(summary.urls_found, 101, "what both told last");
        assert_eq!(
            summary.silent,
            [Silent {
                stage: "dedup".to_owned(),
                instance: 1,
                age_s: Some(3.2)
            }]
        );
        let silent = &snapshot.processes[1];
        assert!(
            !silent.ready && !silent.idle && silent.reason.contains("for 3 s"),
            "{}",
            silent.reason
        );
    }

    #[test]
    fn a_process_that_is_back_counts_once_and_one_that_nobody_knows_not_yet() {
        let mut snapshot = Snapshot {
            processes: vec![dedup(0, 40), dedup(1, 60), dedup(2, 7)],
            ..Snapshot::default()
        };
        let known = vec![known(dedup(0, 40), None), known(dedup(1, 61), None)];
        snapshot.take_over(LastKnown {
            processes: known,
            are_moving: true,
        });
        assert_eq!(
            (
                snapshot.summary().urls_found,
                snapshot.summary().silent.len()
            ),
            (101, 0)
        );
        assert!(snapshot.are_moving && snapshot.processes.len() == 3);
    }

    #[test]
    fn without_a_conductor_what_answers_counts_and_what_is_missing_is_named() {
        let mut snapshot = Snapshot {
            processes: vec![dedup(0, 40)],
            ..Snapshot::default()
        };
        snapshot.take_over(LastKnown::default());
        snapshot.miss("dedup", [0, 1]);
        let summary = snapshot.summary();
        assert_eq!((summary.urls_found, summary.silent.len()), (40, 1));
        assert_eq!(
            summary.silent[0].to_string(),
            "dedup.1 does not answer, and what it counted is not known: the sums lack it"
        );
    }
}
