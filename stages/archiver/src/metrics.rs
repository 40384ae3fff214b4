//! What the numbers of the archiver are called and mean.

use rhumb_telemetry::metrics::Row;

/// The table.
pub const METRICS: &[Row] = &[
    Row::counter("pages_total", "pages", "Pages that became records."),
    Row::counter(
        "revisits_total",
        "pages",
        "Pages among them whose body is there already, or that have not changed (304).",
    ),
    Row::counter(
        "withheld_total",
        "pages",
        "Pages whose bodies are not kept: their owners refuse a purpose of the crawl.",
    ),
    Row::counter(
        "body_bytes_total",
        "bytes",
        "Bytes of bodies of pages, as they were sent.",
    ),
    Row::counter(
        "outcomes_total",
        "URLs",
        "Lines of the crawl log: one for each URL that ended.",
    ),
    Row::counter(
        "documents_total",
        "documents",
        "Documents of which titles and the like came.",
    ),
    Row::counter(
        "repeated_total",
        "messages",
        "Pages and outcomes that came again and were recognised.",
    ),
    Row::counter("files_total", "files", "WARC files that were begun."),
    Row::counter(
        "write_failures_total",
        "writes",
        "Writes that failed and are tried again every second; nothing is lost, and the crawl \
         waits. Free space, or repair the disk.",
    ),
    Row::gauge("file_bytes", "bytes", "Size of the open WARC file."),
    Row::gauge("waiting_bytes", "bytes", "What waits to be written."),
];
