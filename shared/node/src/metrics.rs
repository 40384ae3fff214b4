//! The metrics of the loop, which every stage has.
//!
//! In: nothing. Out: a table of rows; `docs/metrics.md` is made from it.

use rhumb_telemetry::metrics::Row;

/// What its time was spent on.
pub(super) const SPENT: Row = Row::counter(
    "loop_seconds_total",
    "seconds",
    "Time of the loop, by what it was spent on: busy, waiting for input, or held_back by an edge \
     that is full. When busy is near 1 a second, scale the stage; when it is held back, the \
     consumers of that edge.",
)
.by(&["state", "edge"]);
/// How long steps take.
pub(super) const STEPS: Row = Row::histogram(
    "loop_step_seconds",
    "How long the loop was busy in each of its turns: a step of the core, or those of a batch, \
     their commit, and what they send. Long steps delay renewals of leases and answers to \
     others; look for a slow disk.",
);
/// How long messages take from their stream until they are settled.
pub(super) const LATENCIES: Row = Row::histogram(
    "loop_latency_seconds",
    "From the moment when a stream stored a message until this stage had settled it: the wait in \
     the backlog, the step, and until what was made from it was stored. By the edge that the \
     message came from. It grows when this stage is too slow. It takes the clocks of broker and \
     process to agree.",
)
.by(&["edge"]);

/// How long the whole way of messages takes.
pub(super) const WAYS: Row = Row::histogram(
    "loop_way_seconds",
    "From the last byte of a page, or the injection of a URL, until this stage had settled what \
     came of it: all stages and backlogs on the way. By the edge that the message came from; a \
     message that came of several pages counts from the first. Of `urls.ready` at the scheduler: \
     how long new links take into the frontier. It takes the clocks of the machines to agree.",
)
.by(&["edge"]);

/// The table.
pub const METRICS: &[Row] = &[
    SPENT,
    STEPS,
    LATENCIES,
    WAYS,
    Row::counter(
        "loop_received_total",
        "messages",
        "Inputs that the core has taken.",
    ),
    Row::counter(
        "loop_commits_total",
        "commits",
        "Commits of a stage with state: each is of all inputs that were there at a moment. Inputs \
         taken by commits made is how many share one; it grows with the load.",
    ),
    Row::counter(
        "loop_published_total",
        "messages",
        "Outputs for streams, each counted once however often it is sent.",
    ),
    Row::counter(
        "loop_repeated_total",
        "messages",
        "Inputs that came again after they were settled, and were recognised. Harmless: they come \
         after a broker or a process was killed.",
    ),
    Row::counter(
        "loop_dead_total",
        "messages",
        "Inputs that this process put into the dead letters: corrupt, or three processes died of \
         them. See `rhumb dead`.",
    ),
    Row::counter(
        "loop_parked_total",
        "messages",
        "Inputs of a schema version that this program does not read, put aside until one comes \
         that does. Finish the update.",
    ),
    Row::counter(
        "loop_passed_over_total",
        "messages",
        "Requests of a schema version that this program does not read. Nobody keeps them; they \
         come again. Finish the update.",
    ),
    Row::gauge(
        "loop_inputs_in_hand",
        "messages",
        "Inputs that were taken and are not settled yet.",
    ),
    Row::gauge(
        "loop_outputs_in_flight",
        "messages",
        "Outputs that their streams have not confirmed yet. At 1000 the stage takes no more input: \
         look at the broker.",
    ),
    Row::gauge(
        "partitions",
        "partitions",
        "Partitions that this instance has; 0 for a stage without state.",
    ),
    Row::gauge(
        "partitions_of_all",
        "partitions",
        "Partitions that all instances of the stage have together.",
    ),
    Row::gauge(
        "partitions_coming",
        "partitions",
        "Partitions on their way to this instance. It is not ready while there are some. When they \
         do not arrive, see `rhumb partitions`.",
    ),
    Row::counter(
        "loop_settled_urls_split_total",
        "messages",
        "Messages of urls.split that dedup has settled since the stream was made; part of the \
         accounts of `rhumb status --check`.",
    ),
    Row::counter(
        "loop_settled_urls_ready_total",
        "messages",
        "Messages of urls.ready that the scheduler has settled since the stream was made; part of \
         the accounts.",
    ),
    Row::counter(
        "loop_settled_fetch_reports_total",
        "messages",
        "Messages of fetch.reports that the scheduler has settled since the stream was made; part \
         of the accounts.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_keep_the_rules_and_each_name_stands_once() {
        let faults: Vec<String> = METRICS.iter().filter_map(Row::fault).collect();
        assert_eq!(faults, [""; 0]);
        let mut names: Vec<&str> = METRICS.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), METRICS.len());
    }
}
