//! What the numbers of the host-splitter are called and mean.

use rhumb_telemetry::metrics::Row;

/// The table.
pub const METRICS: &[Row] = &[
    Row::counter(
        "found_total",
        "URLs",
        "URLs that came: links, redirect targets, sitemaps, seeds.",
    ),
    Row::counter(
        "filtered_scope_total",
        "URLs",
        "URLs that lie outside of scope.follow and its prefixes. Most links of the web do; widen \
         the scope to follow more.",
    ),
    Row::counter(
        "filtered_depth_total",
        "URLs",
        "URLs that are further from a seed than scope.max_depth.",
    ),
    Row::counter(
        "filtered_redirects_total",
        "URLs",
        "Targets after more redirects in a row than limits.redirects; many mean that a site \
         redirects in circles.",
    ),
    Row::counter(
        "filtered_form_total",
        "URLs",
        "URLs that no server can be asked for: another scheme, no host, too long \
         (limits.url_bytes_max).",
    ),
    Row::counter(
        "filtered_pattern_total",
        "URLs",
        "URLs that scope.accept and scope.reject leave out.",
    ),
    Row::counter(
        "filtered_segments_total",
        "URLs",
        "URLs in whose path one segment stands more often than limits.segment_repeats: traps.",
    ),
    Row::counter(
        "filtered_parameters_total",
        "URLs",
        "URLs with more parameters than limits.query_parameters: traps.",
    ),
    Row::counter(
        "repeated_total",
        "URLs",
        "URLs that this instance passed on lately, and dropped by its cache. A larger cache \
         (stages.host-splitter.cache) spares the broker messages.",
    ),
    Row::counter(
        "batches_total",
        "messages",
        "Messages that were made, each of URLs of one partition.",
    ),
    Row::counter(
        "boosts_total",
        "URLs",
        "What later links add to URLs that were found before, if quality is links or opic: sent to \
         schedulers so often.",
    ),
    Row::counter(
        "boosts_dropped_total",
        "URLs",
        "The same, dropped: more than 100 of a partition in 50 ms.",
    ),
    Row::gauge(
        "pending",
        "URLs",
        "URLs that wait for others to fill their message, for stages.host-splitter.linger.",
    ),
];
