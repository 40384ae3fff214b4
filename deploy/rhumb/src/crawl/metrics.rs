//! What the conductor tells of a crawl as metrics: its edges, its URLs, its processes.
//!
//! In: a [`Picture`] of the crawl. Out: families for `/metrics`. Invariant: a label is an edge, a
//! stage or an outcome.

use crate::status::{Snapshot, StreamUse, Summary};
use rhumb_telemetry::metrics::{Exposition, PROCESS, Row, Source, tell_process};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Before the name of each metric of an edge.
const OF_EDGES: &str = "rhumb_edge";
/// Before the name of each metric of the crawl.
const OF_CRAWL: &str = "rhumb_crawl";
/// Before the name of each metric of the conductor's process.
const OF_CONDUCTOR: &str = "rhumb_conductor";

/// What does not add up for a moment is no violation: processes do not answer at the same one.
const UNACCOUNTED_FOR: Duration = Duration::from_secs(10);

/// A metric of an edge, and where its number comes from.
type OfEdge = (Row, fn(&StreamUse, Duration) -> u64);
/// A metric of the crawl, and where its number comes from.
type OfCrawl = (Row, fn(&Picture) -> u64);

const EDGES: &[OfEdge] = &[
    (
        Row::counter(
            "messages_total",
            "messages",
            "Messages that the stream of the edge has taken since it was made.",
        ),
        |of, _| of.published,
    ),
    (
        Row::gauge(
            "backlog_messages",
            "messages",
            "Messages that consumers which the crawl waits for have not acked. When it grows, the \
             stage that reads the edge is too slow: scale it, or find the instance that stands \
             still.",
        ),
        |of, _| of.behind.messages(),
    ),
    (
        Row::gauge(
            "unacked_messages",
            "messages",
            "Messages of these that were delivered and not acked. At edges.*.unacked_max nothing \
             more is delivered.",
        ),
        |of, _| of.behind.unacked,
    ),
    (
        Row::gauge(
            "redelivered_messages",
            "messages",
            "Messages of these that were delivered more than once: their first receiver died or \
             was too slow. It falls when they are acked.",
        ),
        |of, _| of.behind.redelivered,
    ),
    (
        Row::gauge(
            "bytes",
            "bytes",
            "What lies in the stream. A stream at its limit holds its publishers back.",
        ),
        |of, _| of.bytes,
    ),
    (
        Row::gauge(
            "limit_bytes",
            "bytes",
            "The limit of the stream (edges.*.bytes_max); 0: none but the disk.",
        ),
        |of, _| of.bytes_max,
    ),
    (
        Row::gauge(
            "oldest_seconds",
            "seconds",
            "Age of the oldest message in the stream. Minutes mean that nobody takes it; see \
             `rhumb status` for the stage. It takes the clocks of broker and conductor to agree.",
        ),
        |of, now| {
            of.oldest_at
                .map_or(0, |at| now.saturating_sub(at).as_secs())
        },
    ),
];

const CRAWL: &[OfCrawl] = &[
    (
        Row::counter("pages_total", "pages", "URLs that ended fetched."),
        |of| of.summary.pages,
    ),
    (
        Row::counter(
            "bytes_total",
            "bytes",
            "Bytes of their bodies, as they were sent.",
        ),
        |of| of.summary.bytes,
    ),
    (
        Row::counter(
            "found_total",
            "URLs",
            "URLs that were found: filtered + repeated + new.",
        ),
        |of| of.summary.urls_found,
    ),
    (
        Row::counter("filtered_total", "URLs", "URLs that were filtered."),
        |of| of.summary.urls_filtered,
    ),
    (
        Row::counter("repeated_total", "URLs", "Found URLs that were known."),
        |of| of.summary.urls_repeated,
    ),
    (
        Row::counter("new_total", "URLs", "Found URLs that were new."),
        |of| of.summary.urls_new,
    ),
    (
        Row::counter(
            "walls_total",
            "URLs",
            "URLs among those refused whose page was hidden by a challenge.",
        ),
        |of| of.summary.walls,
    ),
    (
        Row::gauge(
            "waiting",
            "URLs",
            "URLs that wait to be fetched: the frontier.",
        ),
        |of| of.summary.waiting,
    ),
    (
        Row::gauge(
            "waiting_trapped",
            "URLs",
            "URLs among them that are kept back in traps.",
        ),
        |of| of.summary.waiting_trapped,
    ),
    (
        Row::gauge(
            "waiting_over_budget",
            "URLs",
            "URLs among them that wait for a larger budget.",
        ),
        |of| of.summary.waiting_over_budget,
    ),
    (
        Row::gauge(
            "waiting_paused",
            "URLs",
            "URLs among them whose host or domain an operator has paused.",
        ),
        |of| of.summary.waiting_paused,
    ),
    (
        Row::gauge("in_flight", "URLs", "URLs that fetchers have."),
        |of| of.summary.in_flight,
    ),
    (
        Row::gauge(
            "dead_messages",
            "messages",
            "Messages in the dead letters: corrupt, or three processes died of them. `rhumb dead` \
             lists them.",
        ),
        |of| of.summary.dead,
    ),
    (
        Row::gauge(
            "parked_messages",
            "messages",
            "Messages of a schema version that a stage does not read. Finish the update.",
        ),
        |of| of.summary.parked.iter().map(|parked| parked.messages).sum(),
    ),
    (
        Row::gauge(
            "lost",
            "URLs",
            "New URLs whose loss was accepted (--accept-loss).",
        ),
        |of| of.summary.lost,
    ),
    (
        Row::counter(
            "refetched_total",
            "URLs",
            "URLs fetched again because the job that had them was lost. Look at fetchers and \
             broker when it grows.",
        ),
        |of| of.summary.refetched,
    ),
    (
        Row::counter(
            "restarts_total",
            "processes",
            "Processes that died and that this `rhumb` started again; 0 where others deploy the \
             stages.",
        ),
        |of| of.summary.restarts,
    ),
    (
        Row::gauge(
            "complete",
            "0 or 1",
            "1 when nothing is left to do and every URL is accounted for.",
        ),
        |of| u64::from(of.summary.complete),
    ),
    (
        Row::gauge(
            "violations",
            "equations",
            "Equations of P3 that have not held for ten seconds: URLs are lost. `rhumb status \
             --check` says which.",
        ),
        |of| of.violations,
    ),
    (
        Row::gauge(
            "processes_expected",
            "processes",
            "Processes that there should be, or that hold a lease.",
        ),
        |of| of.expected,
    ),
    (
        Row::gauge(
            "instances_missing",
            "instances",
            "Instances that have partitions and do not run. `rhumb status` names them and says \
             what to do.",
        ),
        |of| of.missing,
    ),
    (
        Row::gauge(
            "connections_wanted",
            "connections",
            "Connections that schedulers have given out, and could give out now: what fetchers \
             together could have.",
        ),
        |of| {
            of.snapshot.total("scheduler", "connections_in_use")
                + of.snapshot.total("scheduler", "servers_ready")
        },
    ),
];

const OUTCOMES: Row =
    Row::counter("outcomes_total", "URLs", "URLs that ended, by outcome.").by(&["outcome"]);
const PROCESSES: Row = Row::gauge(
    "processes",
    "processes",
    "Processes that answer the conductor, by stage.",
)
.by(&["stage"]);
const READY: Row = Row::gauge(
    "processes_ready",
    "processes",
    "Processes that are ready, by stage. `rhumb status` says why others are not.",
)
.by(&["stage"]);
const MOVING: Row = Row::gauge(
    "partitions_moving",
    "partitions",
    "Partitions on their way to another instance, by stage. When they do not arrive, see `rhumb \
     partitions`.",
)
.by(&["stage"]);

/// The metrics of edges.
fn of_edges() -> Vec<Row> {
    EDGES.iter().map(|(row, _)| row.by(&["edge"])).collect()
}

/// The metrics of the crawl.
fn of_crawl() -> Vec<Row> {
    CRAWL
        .iter()
        .map(|(row, _)| *row)
        .chain([OUTCOMES, PROCESSES, READY, MOVING])
        .collect()
}

/// All tables, each with its title and what stands before the names, in the order of the
/// documentation.
pub fn tables() -> [(&'static str, &'static str, Vec<Row>); 3] {
    [
        ("The crawl", OF_CRAWL, of_crawl()),
        ("Edges", OF_EDGES, of_edges()),
        ("The conductor's process", OF_CONDUCTOR, PROCESS.to_vec()),
    ]
}

/// A crawl at one moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Picture {
    pub(super) snapshot: Snapshot,
    pub(super) summary: Summary,
    /// Processes that there should be.
    pub(super) expected: u64,
    /// Partitions that are on their way, by stage.
    pub(super) moving: BTreeMap<String, u64>,
    /// Instances with partitions that do not run.
    pub(super) missing: u64,
    /// Equations that have not held for long enough.
    pub(super) violations: u64,
}

/// Since when equations do not hold.
#[derive(Debug, Default)]
pub(super) struct Unaccounted(Option<Instant>);

impl Unaccounted {
    /// How many do not hold, and have not for long enough.
    pub(super) fn look(&mut self, now: Instant, violations: usize) -> u64 {
        self.0 = if violations == 0 {
            None
        } else {
            self.0.or(Some(now))
        };
        let is_old = self
            .0
            .is_some_and(|since| now.saturating_duration_since(since) >= UNACCOUNTED_FOR);
        if is_old { violations as u64 } else { 0 }
    }
}

/// The metrics of a crawl, as it was seen last; none before it was seen.
pub(super) struct CrawlMetrics<R> {
    pub(super) seen: Arc<Mutex<Option<Picture>>>,
    /// Whether the conductor is ready.
    pub(super) is_ready: R,
}

impl<R: Fn() -> bool + Send + Sync> Source for CrawlMetrics<R> {
    fn tell(&self, to: &mut Exposition) {
        tell_process(OF_CONDUCTOR, (self.is_ready)(), to);
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(picture) = seen.as_ref() {
            let now = SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap_or_default();
            tell(picture, now, to);
        }
    }
}

/// Writes all that is told of a crawl. `now`: since 1970.
fn tell(of: &Picture, now: Duration, to: &mut Exposition) {
    for (row, number) in EDGES {
        let row = row.by(&["edge"]);
        let mut family = to.family(OF_EDGES, &row);
        for (edge, stream) in &of.snapshot.streams {
            family.value(&[("edge", edge)], number(stream, now));
        }
    }
    for (row, number) in CRAWL {
        to.family(OF_CRAWL, row).value(&[], number(of));
    }
    let mut outcomes = to.family(OF_CRAWL, &OUTCOMES);
    of.summary
        .outcomes
        .iter()
        .for_each(|(outcome, n)| outcomes.value(&[("outcome", outcome)], n));
    let mut by_stage: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for process in &of.snapshot.processes {
        let (all, ready) = by_stage.entry(&process.stage).or_default();
        *all += 1;
        *ready += u64::from(process.ready);
    }
    let mut processes = to.family(OF_CRAWL, &PROCESSES);
    by_stage
        .iter()
        .for_each(|(stage, (all, _))| processes.value(&[("stage", stage)], all));
    let mut ready = to.family(OF_CRAWL, &READY);
    by_stage
        .iter()
        .for_each(|(stage, (_, n))| ready.value(&[("stage", stage)], n));
    let mut moving = to.family(OF_CRAWL, &MOVING);
    of.moving
        .iter()
        .for_each(|(stage, n)| moving.value(&[("stage", stage)], n));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::backlog::Behind;

    fn picture() -> Picture {
        let stream = StreamUse {
            published: 100,
            bytes: 4096,
            bytes_max: 8192,
            behind: Behind {
                waiting: 7,
                unacked: 2,
                redelivered: 1,
            },
            oldest_at: Some(Duration::from_secs(990)),
        };
        let process = serde_json::json!({
            "stage": "scheduler", "instance": 0, "pid": 1, "life": 1, "listen": "", "cpu_s": 0.0, "peak_rss_bytes": 0,
            "ready": false, "idle": true, "counts": { "servers_ready": 5, "connections_in_use": 3 },
        });
        let snapshot = Snapshot {
            processes: vec![serde_json::from_value(process).unwrap()],
            streams: [("pages".to_owned(), stream)].into(),
            ..Snapshot::default()
        };
        let outcomes = [("fetched".to_owned(), 40)].into();
        let summary = Summary {
            pages: 40,
            outcomes,
            complete: true,
            ..Summary::default()
        };
        Picture {
            snapshot,
            summary,
            expected: 7,
            missing: 1,
            moving: [("dedup".to_owned(), 3)].into(),
            violations: 1,
        }
    }

    #[test]
    fn a_crawl_tells_of_all_that_is_in_the_tables() {
        let mut to = Exposition::default();
        tell(&picture(), Duration::from_secs(1000), &mut to);
        let text = to.into_text();
        for line in [
            "rhumb_edge_messages_total{edge=\"pages\"} 100",
            "rhumb_edge_backlog_messages{edge=\"pages\"} 9",
            "rhumb_edge_unacked_messages{edge=\"pages\"} 2",
            "rhumb_edge_redelivered_messages{edge=\"pages\"} 1",
            "rhumb_edge_bytes{edge=\"pages\"} 4096",
            "rhumb_edge_limit_bytes{edge=\"pages\"} 8192",
            "rhumb_edge_oldest_seconds{edge=\"pages\"} 10",
            "rhumb_crawl_pages_total 40",
            "rhumb_crawl_outcomes_total{outcome=\"fetched\"} 40",
            "rhumb_crawl_complete 1",
            "rhumb_crawl_violations 1",
            "rhumb_crawl_processes_expected 7",
            "rhumb_crawl_processes{stage=\"scheduler\"} 1",
            "rhumb_crawl_processes_ready{stage=\"scheduler\"} 0",
            "rhumb_crawl_instances_missing 1",
            "rhumb_crawl_partitions_moving{stage=\"dedup\"} 3",
            "rhumb_crawl_connections_wanted 8",
        ] {
            assert!(text.lines().any(|one| one == line), "{line} in\n{text}");
        }
        let faults: Vec<String> = of_edges()
            .iter()
            .chain(&of_crawl())
            .filter_map(Row::fault)
            .collect();
        assert_eq!(faults, [""; 0]);
        for (prefix, row) in of_edges()
            .iter()
            .map(|row| (OF_EDGES, row))
            .chain(of_crawl().iter().map(|row| (OF_CRAWL, row)))
        {
            assert!(
                text.contains(&format!(
                    "# TYPE {prefix}_{} {}\n",
                    row.name,
                    row.kind.name()
                )),
                "{}",
                row.name
            );
        }
    }

    #[test]
    fn what_does_not_add_up_for_a_moment_is_no_violation() {
        let mut unaccounted = Unaccounted::default();
        let began = Instant::now();
        let after = |seconds| began + Duration::from_secs(seconds);
        assert_eq!(unaccounted.look(after(0), 2), 0);
        assert_eq!(unaccounted.look(after(9), 2), 0);
        assert_eq!(unaccounted.look(after(10), 2), 2);
        assert_eq!(unaccounted.look(after(11), 0), 0);
        assert_eq!(unaccounted.look(after(12), 1), 0);
    }
}
