//! What the numbers of the scheduler are called and mean.

use rhumb_telemetry::metrics::Row;

/// The table.
pub const METRICS: &[Row] = &[
    Row::counter(
        "new_total",
        "URLs",
        "New URLs that came, since the crawl began: with visits_out they are outcomes + \
         pages_given_total + waiting + in flight (P3).",
    ),
    Row::gauge(
        "new_in_generation",
        "URLs",
        "New URLs of this generation of the crawl: part of the accounts.",
    ),
    Row::gauge("waiting", "URLs", "URLs that wait: the frontier."),
    Row::gauge("in_flight", "URLs", "URLs that fetchers have."),
    Row::gauge(
        "waiting_over_budget",
        "URLs",
        "URLs that wait for a larger budget (limits.over_budget: wait; topics.*.pages_max).",
    ),
    Row::gauge(
        "waiting_paused",
        "URLs",
        "URLs among them whose host or domain an operator has paused.",
    ),
    Row::gauge(
        "waiting_trapped",
        "URLs",
        "URLs that are kept back because their shapes are traps (limits.shape_pages).",
    ),
    Row::gauge(
        "servers",
        "servers",
        "Servers in play: with something to do, or left alone for a while. They take memory.",
    ),
    Row::gauge(
        "servers_ready",
        "servers",
        "Servers that could be contacted now and have no connection. While there are many, more \
         fetchers fetch more.",
    ),
    Row::gauge(
        "connections_in_use",
        "connections",
        "Connections that fetchers hold for servers of this scheduler.",
    ),
    Row::gauge(
        "servers_waiting_delay",
        "servers",
        "Servers with URLs that wait for the pause between two contacts (P2).",
    ),
    Row::gauge(
        "servers_waiting_back_off",
        "servers",
        "Servers with URLs that are set aside because they refused or did not answer. `rhumb why` \
         says more of one.",
    ),
    Row::gauge(
        "servers_waiting_retry",
        "servers",
        "Servers whose URLs all failed before and are tried again later.",
    ),
    Row::gauge(
        "servers_waiting_address",
        "servers",
        "Servers that wait for their address. Many mean that resolvers or name servers are slow.",
    ),
    Row::gauge(
        "servers_waiting_robots",
        "servers",
        "Servers that wait for a robots.txt that lies with another server.",
    ),
    Row::gauge(
        "servers_waiting_budget",
        "servers",
        "Servers that wait for what is left of the budget of their host, domain or topics \
         (limits.pages_per_host, pages_per_domain, topics.*.pages_max).",
    ),
    Row::gauge(
        "servers_waiting_trap",
        "servers",
        "Servers all of whose URLs are kept back because their shapes are traps (rhumb release).",
    ),
    Row::gauge(
        "servers_waiting_room",
        "servers",
        "Servers that wait because their address or group has all connections that it may have \
         (politeness).",
    ),
    Row::gauge(
        "pauses",
        "orders",
        "What operators have paused: hosts, domains, or the crawl. `rhumb status` lists them.",
    ),
    Row::gauge(
        "drops",
        "orders",
        "Drops that operators have asked for and not taken back (`rhumb drop --list`).",
    ),
    Row::gauge(
        "crawl_paused",
        "0 or 1",
        "1 while an operator has paused the whole crawl (`rhumb unpause`).",
    ),
    Row::gauge(
        "servers_waiting_pause",
        "servers",
        "Servers that could be fetched, or have something to do, and are paused by an operator \
         (`rhumb pause`).",
    ),
    Row::counter(
        "retried_total",
        "URLs",
        "How often URLs failed and were sent back to wait.",
    ),
    Row::counter(
        "refetched_total",
        "URLs",
        "URLs of leases that ran out; they may be fetched twice. Look at fetchers that were lost.",
    ),
    Row::counter(
        "contacts_total",
        "requests",
        "Requests that reached a server, or may have.",
    ),
    Row::counter(
        "jobs_granted_total",
        "jobs",
        "Connection jobs that were granted.",
    ),
    Row::counter(
        "leases_expired_total",
        "jobs",
        "Leases that ran out: a fetcher was lost, or stages.scheduler.job_lease is too short for a \
         loaded machine.",
    ),
    Row::counter(
        "jobs_yielded_total",
        "jobs",
        "Jobs that were asked to yield to a topic of a higher priority, since this process began.",
    ),
    Row::counter(
        "topic_new_total",
        "URLs",
        "New URLs of a topic, since it came to each partition. Topics that are not configured \
         count for `default`, here and below.",
    )
    .by(&["topic"]),
    Row::gauge(
        "topic_waiting",
        "URLs",
        "URLs of a topic that wait or are in flight.",
    )
    .by(&["topic"]),
    Row::counter(
        "topic_fetched_total",
        "URLs",
        "URLs of a topic that ended fetched.",
    )
    .by(&["topic"]),
    Row::counter(
        "topic_bytes_total",
        "bytes",
        "Bytes of the bodies of their pages.",
    )
    .by(&["topic"]),
    Row::gauge(
        "topic_connections",
        "connections",
        "Connections of a topic. Those that get robots.txt are no topic's.",
    )
    .by(&["topic"]),
    Row::counter(
        "topic_connection_seconds_total",
        "seconds",
        "Connection time of a topic, since this process began: what its turns are measured in.",
    )
    .by(&["topic"]),
    Row::gauge(
        "topic_visits_budget_per_hour",
        "visits an hour",
        "Visits that this scheduler may plan in an hour of the budget that a topic has of its own \
         (topics.*.recrawl.requests_per_second), 0 if it has none; of `default` those of the \
         crawl's budget, which all others share.",
    )
    .by(&["topic"]),
    Row::gauge(
        "topic_visits_threshold_seconds",
        "seconds",
        "What the last planned visits were worth of pages that are compared with those of a topic, \
         as visits_threshold_seconds tells it of the crawl's budget.",
    )
    .by(&["topic"]),
    Row::counter(
        "failures_excused_total",
        "failures",
        "Failures of a fetcher that is cut off while others are answered, held against no server.",
    ),
    Row::counter(
        "bytes_total",
        "bytes",
        "Bytes of the bodies of fetched pages, as they were sent.",
    ),
    Row::counter(
        "serials_repeated_total",
        "URLs",
        "New URLs that came again and were recognised.",
    ),
    Row::counter(
        "robots_fetched_total",
        "responses",
        "Answers to requests for robots.txt.",
    ),
    Row::counter(
        "sitemaps_left_out_total",
        "sitemaps",
        "Sitemaps that a robots.txt names and that are left out, each time that it comes: more \
         than limits.sitemaps_per_server, or too long. Raise the limit if it matters.",
    ),
    Row::counter(
        "walls_total",
        "URLs",
        "URLs that ended refused because a challenge stood in the place of the page.",
    ),
    Row::counter(
        "pages_known_total",
        "pages",
        "Pages that became known: they were visited, or given as known, and are visited again as \
         recrawl.policy says.",
    ),
    Row::counter(
        "visits_planned_total",
        "visits",
        "Visits of known pages that were planned, after a page's first.",
    ),
    Row::counter(
        "visits_withdrawn_total",
        "visits",
        "Planned visits that ended without a request: the server was away, its job was lost, \
         robots.txt forbids it now, or an operator dropped it.",
    ),
    Row::gauge(
        "visits_out",
        "visits",
        "Planned visits that wait or are in flight.",
    ),
    Row::counter(
        "pages_forgotten_total",
        "pages",
        "Known pages that were gone for longer than recrawl.forget_after, and are known no more.",
    ),
    Row::counter(
        "pages_rested_total",
        "pages",
        "Known pages that came to have no next visit: they have had recrawl.visits_max of them, or \
         the last one was withdrawn. Less pages_woken_total, it is how many have none now.",
    ),
    Row::counter(
        "pages_woken_total",
        "pages",
        "Known pages that had no next visit, and have one again.",
    ),
    Row::counter(
        "pages_given_total",
        "URLs",
        "New URLs whose pages were given as known (rhumb inject --known): they have no outcome.",
    ),
    Row::counter(
        "pages_given_again_total",
        "URLs",
        "Those of them that changed nothing: the page was known from a visit of this crawl, from \
         a later line, or has a planned visit.",
    ),
    Row::counter(
        "visits_none_total",
        "visits",
        "Visits that found nothing: no answer about the page, or one 404 of a page that was there.",
    ),
    Row::counter(
        "visits_new_total",
        "visits",
        "Visits that brought the page for the first time; those before had failed.",
    ),
    Row::counter(
        "visits_changed_total",
        "visits",
        "Visits that found another page than before.",
    ),
    Row::counter(
        "visits_unchanged_total",
        "visits",
        "Visits that found the same page as before.",
    ),
    Row::counter(
        "visits_text_changed_total",
        "visits",
        "Visits that found another body with another text, by what the parser said in time.",
    ),
    Row::counter(
        "visits_text_unchanged_total",
        "visits",
        "Visits that found another body with the same text: they count as no change for what is \
         learned of the page.",
    ),
    Row::counter(
        "visits_gone_total",
        "visits",
        "Visits that found the page gone.",
    ),
    Row::counter(
        "visits_back_total",
        "visits",
        "Visits that found a page that was gone.",
    ),
    Row::gauge(
        "visits_on",
        "0 or 1",
        "1 while known pages are visited again: recrawl.policy is not none, or that of a topic.",
    ),
    Row::gauge(
        "visits_max",
        "visits",
        "Visits that a page has at most, as recrawl.visits_max says, or that of a topic if it is \
         larger; 0: some have them without end.",
    ),
    Row::gauge(
        "visits_budget_per_hour",
        "visits an hour",
        "Visits that this scheduler may plan in an hour: its part of recrawl.requests_per_second, \
         and of what topics have of their own.",
    ),
    Row::gauge(
        "visits_threshold_seconds",
        "seconds",
        "What the last planned visits of the crawl's budget were worth, in the mean: a page that is \
         worth less waits. By the policy fresh the time for which a visit makes the copy current, \
         times the importance of the page. The more budget, the lower.",
    ),
    Row::gauge(
        "visits_overdue_seconds",
        "seconds",
        "For how long a page is over recrawl.interval_max, or that of its topic, at most, of those \
         without a planned visit at servers that are not away. If it grows, raise \
         recrawl.requests_per_second.",
    ),
    Row::gauge(
        "pages_compared",
        "pages",
        "Known pages that are there, at the last look at all of them. A look takes as long as a \
         quarter as many visits.",
    ),
    Row::gauge(
        "pages_fresh_expected",
        "pages",
        "Those of pages_compared whose copy is the current one, in the mean, by what is learned of \
         how often each changes.",
    ),
    Row::gauge(
        "pages_age_seconds",
        "seconds",
        "The time since their last visits, of all pages_compared together.",
    ),
    Row::counter(
        "changes_expected_total",
        "visits",
        "Changes that visits should have found since the scheduler began, by what was learned \
         before each. It is near changes_found_total where pages_fresh_expected can be believed.",
    ),
    Row::counter(
        "changes_found_total",
        "visits",
        "Changes that these visits found.",
    ),
    Row::counter(
        "signals_counted_total",
        "signals",
        "Dates of sitemaps and feeds by which a known page has changed since its last visit, since \
         the process began, as the next three.",
    ),
    Row::counter(
        "signals_unknown_total",
        "signals",
        "Such dates of pages that are not known.",
    ),
    Row::counter(
        "signals_old_total",
        "signals",
        "Such dates that were heard before, or of pages that were visited since.",
    ),
    Row::counter(
        "signals_unheeded_total",
        "signals",
        "Such dates of pages that are visited again by another policy than fresh, or not at all.",
    ),
    Row::gauge(
        "servers_signals_believed",
        "servers",
        "Servers whose signals are believed, by their kind: of those of which a known page was \
         visited or signalled since the process began.",
    )
    .by(&["kind"]),
    Row::counter(
        "foreign_total",
        "messages",
        "Messages for partitions of other instances, as come while partitions move.",
    ),
    Row::counter(
        "malformed_total",
        "messages",
        "Messages, and parts of them, that make no sense. Report it with the log.",
    ),
    Row::counter(
        "foreign_urls_total",
        "URLs",
        "New URLs of partitions of other instances, which were dropped.",
    ),
    Row::counter(
        "malformed_urls_total",
        "URLs",
        "New URLs that make no sense, and were dropped.",
    ),
    Row::counter(
        "traps_found_total",
        "shapes",
        "Shapes of URLs that were found to be traps (limits.shape_pages).",
    ),
    Row::counter(
        "boosts_lifted_total",
        "URLs",
        "URLs that went before others because of later links, so often (stages.scheduler.quality: \
         links, opic).",
    ),
    Row::counter(
        "boosts_dropped_total",
        "URLs",
        "Boosts of URLs that wait no longer, that failed before, or that are not known here: they \
         change nothing.",
    ),
    Row::counter(
        "invariants_broken_total",
        "times",
        "How often something was found that cannot be. It must stay 0: report it with the log.",
    ),
    Row::counter(
        "outcome_fetched_total",
        "URLs",
        "URLs that ended fetched (2xx): pages.",
    ),
    Row::counter(
        "outcome_not_modified_total",
        "URLs",
        "URLs that ended not-modified (304).",
    ),
    Row::counter(
        "outcome_redirected_total",
        "URLs",
        "URLs that ended redirected; their targets are found URLs.",
    ),
    Row::counter(
        "outcome_gone_total",
        "URLs",
        "URLs that ended gone (404, 410).",
    ),
    Row::counter(
        "outcome_refused_total",
        "URLs",
        "URLs that ended refused (other 4xx, 429 and 503 after all attempts).",
    ),
    Row::counter(
        "outcome_failed_total",
        "URLs",
        "URLs that ended failed (5xx, network, protocol) after all attempts. A growing share may \
         be the fault of the network.",
    ),
    Row::counter(
        "outcome_disallowed_total",
        "URLs",
        "URLs that robots.txt disallows (P5).",
    ),
    Row::counter(
        "outcome_unresolvable_total",
        "URLs",
        "URLs of hosts that have no address.",
    ),
    Row::counter(
        "outcome_over_budget_total",
        "URLs",
        "URLs that ended because a budget is used up.",
    ),
    Row::counter("outcome_trapped_total", "URLs", "URLs that ended as traps."),
    Row::counter(
        "outcome_dropped_total",
        "URLs",
        "URLs that an operator dropped.",
    ),
];
