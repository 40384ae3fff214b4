//! What the numbers of dedup are called and mean.

use rhumb_telemetry::metrics::Row;

/// The table.
pub const METRICS: &[Row] = &[
    Row::counter(
        "found_total",
        "URLs",
        "URLs that were found, since the crawl began: filtered + repeated + new + misrouted (P3).",
    ),
    Row::counter(
        "filtered_total",
        "URLs",
        "Of these, URLs that were filtered; the sum of the reasons below.",
    ),
    Row::counter(
        "filtered_scope_total",
        "URLs",
        "Filtered: outside of the scope.",
    ),
    Row::counter(
        "filtered_depth_total",
        "URLs",
        "Filtered: further from a seed than scope.max_depth.",
    ),
    Row::counter(
        "filtered_redirects_total",
        "URLs",
        "Filtered: after more redirects in a row than limits.redirects.",
    ),
    Row::counter(
        "filtered_form_total",
        "URLs",
        "Filtered: nothing that a server can be asked for, or too long.",
    ),
    Row::counter(
        "filtered_pattern_total",
        "URLs",
        "Filtered: left out by scope.accept and scope.reject.",
    ),
    Row::counter(
        "filtered_segments_total",
        "URLs",
        "Filtered: one segment stands too often in the path.",
    ),
    Row::counter(
        "filtered_parameters_total",
        "URLs",
        "Filtered: too many parameters.",
    ),
    Row::counter("repeated_total", "URLs", "Found URLs that are known."),
    Row::counter(
        "new_total",
        "URLs",
        "Found URLs that are new: they go on to be fetched.",
    ),
    Row::counter(
        "misrouted_total",
        "URLs",
        "Found URLs of partitions of other instances, which were dropped. It must stay 0 (P3): see \
         `rhumb status --check`.",
    ),
    Row::counter(
        "bodies_misrouted_total",
        "bodies",
        "Bodies that were asked about and belong to another instance, as happens while partitions \
         move.",
    ),
    Row::gauge(
        "partitions_of_one_host",
        "partitions",
        "Partitions that are too large and cannot be split, since most of their URLs are of one \
         host.",
    ),
    Row::gauge("known", "URLs", "URLs that are known."),
    Row::gauge(
        "new_in_generation",
        "URLs",
        "New URLs of this generation of the crawl: part of the accounts.",
    ),
    Row::gauge(
        "waiting",
        "URLs",
        "URLs that wait for the answer of the sieve, for about stages.dedup.flush_after.",
    ),
    Row::gauge(
        "waiting_bytes",
        "bytes",
        "Memory of those; bounded by stages.dedup.buffer_bytes.",
    ),
    Row::gauge(
        "seen_memory_bytes",
        "bytes",
        "Memory of the URL-seen test: filters, buffers, or all of it (store: memory).",
    ),
    Row::gauge(
        "seen_disk_bytes",
        "bytes",
        "Disk space of the URL-seen test. Keep more than twice as much free, for merges.",
    ),
];
