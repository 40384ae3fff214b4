//! What a crawl waits for while nothing moves, in a line.
//!
//! In: looks at the crawl. Out: [`News`], if there are any. A crawl whose processes doubt their
//! network says so at once. One in which nothing moves says what it waits for, once: what was given
//! to a process that may be gone, jobs whose leases go on, servers that are left alone. A delay
//! between two requests is no news.
//!
//! Invariant: the same is said again only when it has lasted long.

use crate::status::words::{short, stages};
use crate::status::{Snapshot, StreamUse};
use rhumb_config::Pipeline;
use rhumb_wire::topology::StageName;
use std::time::{Duration, Instant};

/// Nothing has moved for so long: it is said what is waited for.
const STILL: Duration = Duration::from_secs(1);
/// How long until the same is said again.
const SAY_AGAIN: Duration = Duration::from_secs(60);
/// A lease of a job ends at the scheduler so much later than it says.
const LEASE_GRACE: Duration = Duration::from_secs(2);

/// What is to be said.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum News {
    /// The crawl waits, for this.
    Waits(String),
    /// It moves again, after it was said that it waits.
    GoesOn,
}

/// What is said of waiting.
#[derive(Debug, Default)]
pub(super) struct Waits {
    /// What showed that something moved, and when it did last.
    moved: Option<(Moved, Instant)>,
    /// What it waits for now.
    now: Option<String>,
    /// What was said last, its numbers aside, and when.
    said: Option<(String, Instant)>,
    /// That it waits was said, and not that it goes on.
    is_awaited: bool,
}

/// Numbers that grow while a crawl moves.
#[derive(Debug, PartialEq, Eq)]
struct Moved {
    outcomes: u64,
    new: u64,
    published: u64,
    acked: u64,
}

impl Moved {
    fn of(snapshot: &Snapshot) -> Moved {
        let summary = snapshot.summary();
        let published = snapshot.last_sequences.values().sum::<u64>();
        let behind: u64 = snapshot.backlog.values().sum();
        Moved {
            outcomes: summary.outcomes.values().sum(),
            new: summary.urls_new,
            published,
            acked: published.saturating_sub(behind),
        }
    }
}

impl Waits {
    /// Takes a look in. `is_over`: nothing is left to do.
    pub(super) fn learn(
        &mut self,
        now: Instant,
        snapshot: &Snapshot,
        pipeline: &Pipeline,
        is_over: bool,
    ) -> Option<News> {
        let moved = Moved::of(snapshot);
        let before = self.moved.take().filter(|(before, _)| *before == moved);
        let moved_at = before.map_or(now, |(_, at)| at);
        self.moved = Some((moved, moved_at));
        let is_still = now.saturating_duration_since(moved_at) >= STILL;
        self.now = match doubt(snapshot) {
            _ if is_over => None,
            Some(doubt) => Some(doubt),
            None if is_still => waited_for(snapshot, pipeline),
            None => None,
        };
        let Some(why) = &self.now else {
            let goes_on = std::mem::take(&mut self.is_awaited) && !is_over;
            // What begins again after that is news.
            self.said = self.said.take().filter(|_| !goes_on);
            return goes_on.then_some(News::GoesOn);
        };
        let kind: String = why.chars().filter(|char| !char.is_ascii_digit()).collect();
        let is_said = self.said.as_ref().is_some_and(|(said, at)| {
            *said == kind && now.saturating_duration_since(*at) < SAY_AGAIN
        });
        if is_said {
            return None;
        }
        self.said = Some((kind, now));
        self.is_awaited = true;
        Some(News::Waits(why.clone()))
    }

    /// What it waits for; nothing while it moves.
    pub(super) fn now(&self) -> Option<&str> {
        self.now.as_deref()
    }
}

/// Why processes doubt that anything can be reached.
fn doubt(snapshot: &Snapshot) -> Option<String> {
    let doubts = snapshot
        .processes
        .iter()
        .filter(|process| process.counts.get("in_doubt") == Some(&1));
    let told =
        doubts.map(|process| format!("{}.{}: {}", process.stage, process.instance, process.reason));
    told.reduce(|told, more| format!("{told}; {more}"))
}

/// What a crawl waits for in which nothing moves.
fn waited_for(snapshot: &Snapshot, pipeline: &Pipeline) -> Option<String> {
    let mut waited = Vec::new();
    for (edge, StreamUse { behind, .. }) in &snapshot.streams {
        let ack_wait = pipeline
            .edges
            .streams()
            .into_iter()
            .find(|(key, _)| key == edge)
            .map(|(_, edge)| edge.ack_wait);
        if let (1.., Some(ack_wait)) = (behind.unacked, ack_wait) {
            waited.push(format!(
                "{} of {edge} in the hand of a process; what a process that is gone had is given \
                 out again within {} s (edges.{edge}.ack_wait)",
                counted(behind.unacked, "message"),
                ack_wait.as_secs()
            ));
        }
    }
    let summary = snapshot.summary();
    if summary.in_flight > 0 && snapshot.total(StageName::Fetcher.name(), "jobs") == 0 {
        let lease = pipeline.stages.scheduler.job_lease + LEASE_GRACE;
        waited.push(format!(
            "{} are in jobs of a fetcher that is gone or does not answer; they are free when its \
             leases are over, within {} s (stages.scheduler.job_lease)",
            counted(summary.in_flight, "URL"),
            lease.as_secs()
        ));
    }
    if !waited.is_empty() {
        return Some(waited.join("; "));
    }
    if summary.going() > 0 {
        let stages = stages(snapshot, pipeline);
        let is_delay = snapshot.total(StageName::Scheduler.name(), "servers_waiting_delay") > 0;
        let short = short(&stages, snapshot, false).filter(|_| !is_delay)?;
        return Some(format!("{}: {}", short.stage, short.reason));
    }
    // Jobs that are under way keep the delay of their servers by themselves.
    if summary.in_flight > 0 {
        return None;
    }
    let under_way = snapshot.under_way(pipeline);
    (!under_way.is_empty() && summary.urls_found > 0).then(|| under_way.join("; "))
}

fn counted(n: u64, noun: &str) -> String {
    if n == 1 {
        format!("1 {noun}")
    } else {
        format!("{n} {noun}s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::backlog::Behind;
    use rhumb_config::Layers;
    use rhumb_stage::ProcessStatus;
    use serde_json::json;

    fn pipeline() -> Pipeline {
        let set = vec!["network.allow_private_addresses=true".to_owned()];
        Layers {
            file: Some("/dev/null".into()),
            set,
        }
        .load_with(std::iter::empty())
        .unwrap()
    }

    fn process(stage: &str, reason: &str, counts: serde_json::Value) -> ProcessStatus {
        let process = json!({
            "stage": stage, "instance": 0, "pid": 1, "life": 1, "listen": "", "cpu_s": 0.0, "peak_rss_bytes": 0,
            "ready": reason.is_empty(), "idle": true, "counts": counts, "reason": reason,
        });
        serde_json::from_value(process).unwrap()
    }

    fn look(processes: Vec<ProcessStatus>) -> Snapshot {
        Snapshot {
            processes,
            ..Snapshot::default()
        }
    }

    #[test]
    fn doubt_is_said_at_once_and_the_same_doubt_once_a_minute() {
        let mut waits = Waits::default();
        let pipeline = pipeline();
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let doubt = |lasts: u64| {
            let reason = format!("no name server answers for {lasts} s");
            look(vec![process("resolver", &reason, json!({ "in_doubt": 1 }))])
        };
        let told = waits.learn(at(0), &doubt(0), &pipeline, false);
        assert_eq!(
            told,
            Some(News::Waits(
                "resolver.0: no name server answers for 0 s".into()
            ))
        );
        for second in 1..60 {
            assert_eq!(
                waits.learn(at(second), &doubt(second), &pipeline, false),
                None
            );
        }
        assert_eq!(
            waits.now(),
            Some("resolver.0: no name server answers for 59 s")
        );
        assert!(waits.learn(at(60), &doubt(60), &pipeline, false).is_some());
        assert_eq!(
            waits.learn(at(61), &look(Vec::new()), &pipeline, false),
            Some(News::GoesOn)
        );
        assert_eq!(waits.now(), None);
        assert_eq!(
            waits.learn(at(62), &look(Vec::new()), &pipeline, false),
            None
        );
    }

    #[test]
    fn a_crawl_that_stands_still_says_what_it_was_given_and_what_leases_go_on() {
        let mut waits = Waits::default();
        let pipeline = pipeline();
        let begun = Instant::now();
        let at = |ms| begun + Duration::from_millis(ms);
        let unacked = Behind {
            waiting: 0,
            unacked: 3,
            redelivered: 0,
        };
        let mut left = look(vec![
            process("scheduler", "", json!({ "in_flight": 2, "waiting": 0 })),
            process("fetcher", "", json!({ "jobs": 0 })),
        ]);
        left.streams.insert(
            "pages".into(),
            StreamUse {
                behind: unacked,
                ..StreamUse::default()
            },
        );
        assert_eq!(waits.learn(at(0), &left, &pipeline, false), None);
        assert_eq!(waits.learn(at(900), &left, &pipeline, false), None);
        let Some(News::Waits(told)) = waits.learn(at(1000), &left, &pipeline, false) else {
            panic!("nothing is said")
        };
        for words in [
            "3 messages of pages",
            "within 60 s",
            "2 URLs are in jobs",
            "within 22 s",
        ] {
            assert!(told.contains(words), "{words}: {told}");
        }
        // One that is asked for again moves it.
        left.last_sequences.insert("pages".into(), 7);
        assert_eq!(
            waits.learn(at(1200), &left, &pipeline, false),
            Some(News::GoesOn)
        );
        assert_eq!(
            waits.learn(at(2500), &left, &pipeline, true),
            None,
            "it is over"
        );
    }

    #[test]
    fn servers_that_are_left_alone_are_said_and_a_mere_delay_is_not() {
        let pipeline = pipeline();
        let begun = Instant::now();
        let told = |count: &str| {
            let mut waits = Waits::default();
            let all = rhumb_wire::topology::STAGES
                .iter()
                .filter(|row| !row.is_optional)
                .map(|row| {
                    let counts = json!({ "waiting": 4, "servers": 1, count: 1 });
                    process(
                        row.name,
                        "",
                        if row.name == "scheduler" {
                            counts
                        } else {
                            json!({})
                        },
                    )
                });
            let left = look(all.collect());
            waits.learn(begun, &left, &pipeline, false);
            waits.learn(begun + STILL, &left, &pipeline, false)
        };
        assert_eq!(told("servers_waiting_delay"), None);
        let waits =
            "scheduler: no server may be contacted now; 1 wait because they refused or did not \
             answer"
                .to_owned();
        assert_eq!(told("servers_waiting_back_off"), Some(News::Waits(waits)));
    }
}
