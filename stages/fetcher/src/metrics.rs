//! What the numbers of the fetcher are called and mean.

use rhumb_telemetry::metrics::Row;

/// The table.
pub const METRICS: &[Row] = &[
    Row::gauge("jobs", "jobs", "Connection jobs in hand."),
    Row::gauge(
        "connections",
        "connections",
        "Connections that are open. When all of connections_max are and schedulers have servers \
         ready, add fetchers.",
    ),
    Row::gauge(
        "connections_max",
        "connections",
        "Connections that this instance may have (stages.fetcher.connections).",
    ),
    Row::gauge(
        "pages_unstored",
        "pages",
        "Pages that wait for the broker. Many mean that pages is full: look at its consumers, \
         parser and archiver.",
    ),
    Row::gauge(
        "in_doubt",
        "0 or 1",
        "1 while no server can be reached from here: no failure is held against a server. Look \
         after the network.",
    ),
    Row::counter(
        "doubts_total",
        "times",
        "How often no server could be reached from here.",
    ),
    Row::counter(
        "withheld_total",
        "failures",
        "Failures that were held against no server, for that reason.",
    ),
    Row::counter(
        "asks_total",
        "asks",
        "Asks for jobs that were sent to schedulers.",
    ),
    Row::counter(
        "asks_unanswered_total",
        "asks",
        "Asks that no scheduler answered. Many mean that schedulers are missing or busy.",
    ),
    Row::counter("jobs_total", "jobs", "Connection jobs that came."),
    Row::counter(
        "jobs_refused_total",
        "jobs",
        "Jobs that came too late or without a connection for them; they go back.",
    ),
    Row::counter(
        "jobs_revoked_total",
        "jobs",
        "Jobs that their scheduler took back.",
    ),
    Row::counter(
        "jobs_expired_total",
        "jobs",
        "Jobs that ended because their lease was not renewed in time: the scheduler or the broker \
         was away.",
    ),
    Row::counter(
        "connections_total",
        "connections",
        "Connections that were made.",
    ),
    Row::counter(
        "http11_fallbacks_total",
        "connections",
        "Of these those over HTTP/1.1 because HTTP/2 had failed on the one before.",
    ),
    Row::counter(
        "requests_total",
        "requests",
        "Requests that were sent, those for robots.txt included.",
    ),
    Row::counter(
        "pages_total",
        "pages",
        "Responses that went to pages: also redirects and errors of servers.",
    ),
    Row::counter(
        "robots_total",
        "responses",
        "Answers to requests for robots.txt.",
    ),
    Row::counter("bytes_total", "bytes", "Bytes of bodies as they were sent."),
    Row::counter(
        "truncated_total",
        "pages",
        "Bodies that are not whole: cut at a limit, ended early or too late, or of a type that is \
         skipped. WARC-Truncated says which.",
    ),
    Row::counter(
        "closed_by_server_total",
        "connections",
        "Connections that their server closed before the job was done.",
    ),
    Row::counter(
        "reports_total",
        "reports",
        "Reports to schedulers: renewals and ends.",
    ),
    Row::counter(
        "untried_total",
        "URLs",
        "URLs of jobs that ended before their turn; they go back and cost no attempt.",
    ),
    Row::gauge(
        "archive_recordings",
        "records",
        "Responses in the archive that is replayed (stages.fetcher.archive).",
    ),
    Row::counter(
        "archive_damaged_total",
        "records",
        "Records of that archive that are damaged and were passed over; the log names them. Take \
         the files from a copy.",
    ),
    Row::counter(
        "failures_connect_total",
        "requests",
        "Requests that failed because no connection could be made.",
    ),
    Row::counter(
        "failures_tls_total",
        "requests",
        "Requests that failed because the TLS handshake failed.",
    ),
    Row::counter(
        "failures_certificate_total",
        "requests",
        "Requests that failed because the certificate of the server is not accepted.",
    ),
    Row::counter(
        "failures_slow_total",
        "requests",
        "Requests that failed because bodies came slower than limits.transfer_rate_min.",
    ),
    Row::counter(
        "failures_timeout_total",
        "requests",
        "Requests that failed because a limit of time was over, such as limits.request_timeout.",
    ),
    Row::counter(
        "failures_no_length_total",
        "requests",
        "Requests that failed because the body did not end in time, and the head of the answer \
         gives no length.",
    ),
    Row::counter(
        "failures_reset_total",
        "requests",
        "Requests that failed because the server closed or reset the connection.",
    ),
    Row::counter(
        "failures_protocol_total",
        "requests",
        "Requests that failed because what the server sent is no HTTP.",
    ),
    Row::counter(
        "failures_header_too_large_total",
        "requests",
        "Requests that failed because the headers of the answer are too large.",
    ),
    Row::counter(
        "failures_forbidden_total",
        "requests",
        "Requests that failed because the address may not be contacted: it is private or not the \
         job's (P7).",
    ),
    Row::counter(
        "failures_not_archived_total",
        "requests",
        "Requests of a replay for what the archive does not have, robots.txt included.",
    ),
    Row::counter(
        "challenges_total",
        "responses",
        "Responses that were a challenge, and not the page, or not the robots.txt, by the vendor of \
         the challenge. Their owners want no crawlers there, or know nothing of this one.",
    )
    .by(&["vendor"]),
    Row::histogram(
        "connect_seconds",
        "How long connections took to be made, with TLS. They are slow where servers are far away, \
         or this machine is busy.",
    ),
    Row::histogram(
        "response_seconds",
        "From a request until the end of its response. Slow servers need more connections at once, \
         and so more fetchers.",
    ),
];
