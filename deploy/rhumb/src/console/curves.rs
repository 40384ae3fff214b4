//! Curves: what is remembered of the looks at a crawl.
//!
//! In: a point for each look. Out: the last quarter of an hour, and the whole crawl in fewer
//! points. Invariant: both are bounded.

use crate::status::rates::{BROKER, Rates};
use crate::status::{Snapshot, Summary};
use rhumb_stage::{Pace, Slot};
use rhumb_wire::message::Outcome;
use rhumb_wire::topology::STAGES;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// The recent points cover this time, in seconds.
const RECENT_S: u64 = 15 * 60;
/// Points of the whole crawl, at most.
const WHOLE_MAX: usize = 1000;

/// Numbers at one moment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Point {
    /// Seconds since 1970.
    t: u64,
    /// Values by the key of their series; one that is not known is left out.
    v: BTreeMap<String, f64>,
}

impl Point {
    /// What ended in a slot of so many seconds, at its end.
    fn of_slot(t: u64, slot: &Slot, slot_s: u64) -> Self {
        let a_second = |n: u64| n as f64 / slot_s as f64;
        let values = [
            ("pages_s", a_second(slot.pages)),
            ("bytes_s", a_second(slot.bytes)),
        ];
        Point {
            t,
            v: values.map(|(name, value)| (name.to_owned(), value)).into(),
        }
    }
}

/// Series that share an axis.
#[derive(Debug, Serialize)]
struct Chart {
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    series: Vec<Series>,
}

#[derive(Debug, Serialize)]
struct Series {
    key: String,
    label: String,
}

fn chart(
    name: &'static str,
    title: &'static str,
    unit: &'static str,
    series: &[(&str, &str)],
) -> Chart {
    let series = series.iter().map(|(key, label)| Series {
        key: (*key).to_owned(),
        label: (*label).to_owned(),
    });
    Chart {
        name,
        title,
        unit,
        series: series.collect(),
    }
}

/// A series for each stage, and one for the broker.
fn by_stage(name: &'static str, title: &'static str, unit: &'static str) -> Chart {
    let stages = STAGES.iter().map(|row| row.name).chain([BROKER]);
    let series = stages.map(|stage| Series {
        key: format!("{name}.{stage}"),
        label: stage.to_owned(),
    });
    Chart {
        name,
        title,
        unit,
        series: series.collect(),
    }
}

fn charts() -> Vec<Chart> {
    let outcomes = Outcome::ALL.iter().map(|outcome| outcome.name());
    let outcomes = outcomes.map(|name| Series {
        key: format!("outcome.{name}"),
        label: name.to_owned(),
    });
    vec![
        chart(
            "speed",
            "Pages a second",
            "pages/s",
            &[("pages_s", "pages")],
        ),
        chart("traffic", "Bytes a second", "B/s", &[("bytes_s", "bytes")]),
        Chart {
            name: "outcomes",
            title: "Outcomes a second",
            unit: "URLs/s",
            series: outcomes.collect(),
        },
        chart(
            "urls",
            "URLs a second",
            "URLs/s",
            &[("found_s", "found"), ("new_s", "new")],
        ),
        chart(
            "frontier",
            "URLs in the frontier",
            "URLs",
            &[("waiting", "waiting"), ("in_flight", "in flight")],
        ),
        chart(
            "servers",
            "Servers",
            "servers",
            &[("ready", "ready"), ("connected", "connected")],
        ),
        by_stage("cpu", "CPU time a page", "ms"),
        by_stage("rss", "Memory, at its peak", "B"),
    ]
}

/// What is remembered.
#[derive(Debug, Default)]
pub(super) struct Curves {
    recent: VecDeque<Point>,
    whole: Vec<Point>,
    /// So many seconds lie between two points of the whole, at least.
    step_s: u64,
    has_beginning: bool,
}

impl Curves {
    /// The point of a look.
    pub(super) fn point(t: u64, snapshot: &Snapshot, summary: &Summary, rates: &Rates) -> Point {
        let mut v: BTreeMap<String, f64> = BTreeMap::new();
        for (name, rate) in &rates.totals {
            v.insert(format!("{name}_s"), *rate);
        }
        for (outcome, rate) in rates
            .outcomes
            .iter()
            .filter(|(outcome, _)| summary.outcomes[*outcome] > 0)
        {
            v.insert(format!("outcome.{outcome}"), *rate);
        }
        let levels = [
            ("waiting", summary.waiting),
            ("in_flight", summary.in_flight),
            ("ready", snapshot.total("scheduler", "servers_ready")),
            (
                "connected",
                snapshot.total("scheduler", "connections_in_use"),
            ),
        ];
        v.extend(levels.map(|(name, level)| (name.to_owned(), level as f64)));
        v.extend(
            rates
                .cpu_ms_per_page
                .iter()
                .map(|(stage, ms)| (format!("cpu.{stage}"), *ms)),
        );
        for process in &summary.processes {
            *v.entry(format!("rss.{}", process.stage)).or_default() +=
                process.peak_rss_bytes as f64;
        }
        Point { t, v }
    }

    /// Remembers a point.
    pub(super) fn push(&mut self, point: Point) {
        let oldest = point.t.saturating_sub(RECENT_S);
        while self.recent.front().is_some_and(|first| first.t < oldest) {
            self.recent.pop_front();
        }
        if self.recent.back().is_none_or(|last| last.t < point.t) {
            if self
                .whole
                .last()
                .is_none_or(|last| point.t >= last.t + self.step_s)
            {
                self.whole.push(point.clone());
            }
            self.recent.push_back(point);
        }
        if self.whole.len() > WHOLE_MAX {
            let mut keep = false;
            self.whole.retain(|_| {
                keep = !keep;
                keep
            });
            self.step_s = (2 * self.step_s).max(2);
        }
    }

    /// Returns whether it is known what was before the first look.
    pub(super) fn has_beginning(&self) -> bool {
        self.has_beginning
    }

    /// Remembers what was before the first look, of a crawl that has run for so long at `t`: the
    /// pace that its schedulers counted. The slot that goes on is left out.
    pub(super) fn begin_with(&mut self, t: u64, ran: Duration, pace: &Pace) {
        self.has_beginning = true;
        let began = t.saturating_sub(ran.as_secs());
        let slot_s = pace.slot_s();
        let first = self.whole.first().map_or(t, |first| first.t);
        let over = pace.slots.iter().take(pace.slots.len().saturating_sub(1));
        let ends = (1..)
            .map(|slot| began + slot * slot_s)
            .take_while(|end| *end < first);
        let before: Vec<Point> = ends
            .zip(over)
            .map(|(end, slot)| Point::of_slot(end, slot, slot_s))
            .collect();
        for point in before
            .iter()
            .rev()
            .take_while(|point| point.t + RECENT_S >= t)
        {
            self.recent.push_front(point.clone());
        }
        self.whole.splice(0..0, before);
    }

    /// All of it, in JSON.
    pub(super) fn json(&self) -> String {
        serde_json::json!({ "charts": charts(), "recent": self.recent, "whole": self.whole })
            .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_is_bounded_and_covers_all_of_the_crawl() {
        let mut curves = Curves::default();
        for t in 0..50_000 {
            curves.push(Point {
                t,
                v: [("pages_s".to_owned(), t as f64)].into(),
            });
        }
        assert_eq!(
            (curves.recent.len() as u64, curves.recent[0].t),
            (RECENT_S + 1, 49_999 - RECENT_S)
        );
        let first = &curves.whole[0];
        let last = &curves.whole[curves.whole.len() - 1];
        assert!(
            first.t == 0 && last.t > 49_900 && (400..=WHOLE_MAX).contains(&curves.whole.len()),
            "{}",
            last.t
        );
        curves.push(Point {
            t: 49_999,
            v: BTreeMap::new(),
        });
        assert_eq!(
            curves.recent.back().unwrap().v.len(),
            1,
            "one point a second"
        );
    }

    #[test]
    fn what_was_before_the_first_look_is_told_by_the_schedulers() {
        let mut curves = Curves::default();
        let slots = (0..200)
            .map(|n| Slot {
                pages: 10 * n,
                bytes: 20 * n,
                others: 0,
            })
            .collect();
        curves.push(Point {
            t: 5001,
            v: [("waiting".to_owned(), 1.0)].into(),
        });
        assert!(!curves.has_beginning());
        curves.begin_with(
            5001,
            Duration::from_secs(1995),
            &Pace {
                doublings: 0,
                slots,
            },
        );
        assert!(curves.has_beginning());
        let times: Vec<u64> = curves.whole.iter().map(|point| point.t).collect();
        assert_eq!(
            (times.len(), times[0], &times[197..]),
            (200, 3016, [4986, 4996, 5001].as_slice())
        );
        assert_eq!(
            curves.whole[198].v,
            [("bytes_s".to_owned(), 396.0), ("pages_s".to_owned(), 198.0)].into()
        );
        assert_eq!(curves.recent.front().map(|point| point.t), Some(4106));
    }

    #[test]
    fn every_value_of_a_point_is_in_a_chart() {
        let process = serde_json::json!({ "stage": "fetcher", "pid": 1, "cpu_s": 1.0, "peak_rss_bytes": 7,
            "ready": true, "busy": 0.0, "waiting": 0.0, "held_back": {} });
        let summary = Summary {
            processes: vec![serde_json::from_value(process).unwrap()],
            outcomes: Outcome::ALL
                .iter()
                .map(|outcome| (outcome.name().to_owned(), 1))
                .collect(),
            ..Summary::default()
        };
        let rates = Rates {
            totals: ["pages", "bytes", "found", "new"]
                .map(|name| (name, 1.0))
                .into(),
            outcomes: summary
                .outcomes
                .keys()
                .map(|name| (name.clone(), 1.0))
                .collect(),
            cpu_ms_per_page: [("parser".to_owned(), 0.5)].into(),
            ..Rates::default()
        };
        let point = Curves::point(1, &Snapshot::default(), &summary, &rates);
        let keys: Vec<String> = charts()
            .into_iter()
            .flat_map(|chart| chart.series)
            .map(|series| series.key)
            .collect();
        let unknown: Vec<_> = point.v.keys().filter(|key| !keys.contains(key)).collect();
        assert!(
            unknown.is_empty() && point.v.len() == 4 + Outcome::ALL.len() + 4 + 2,
            "{unknown:?} {}",
            point.v.len()
        );
    }
}
