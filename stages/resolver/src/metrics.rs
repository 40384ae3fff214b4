//! What the numbers of the resolver are called and mean.

use rhumb_telemetry::metrics::Row;

/// The table.
pub const METRICS: &[Row] = &[
    Row::counter(
        "queries_total",
        "queries",
        "Names that name servers were asked for.",
    ),
    Row::counter(
        "cache_hits_total",
        "servers",
        "Servers whose address was known.",
    ),
    Row::counter(
        "cache_misses_total",
        "servers",
        "Servers whose address was not known. With a full cache (names_cached) raise \
         stages.resolver.cache.entries.",
    ),
    Row::counter(
        "answers_addresses_total",
        "queries",
        "Queries that brought addresses.",
    ),
    Row::counter(
        "answers_no_address_total",
        "queries",
        "Queries after names that do not exist or have no address.",
    ),
    Row::counter(
        "answers_private_total",
        "queries",
        "Queries after names that have private addresses alone (P7).",
    ),
    Row::counter(
        "answers_temporary_total",
        "queries",
        "Queries on which all name servers failed. A growing share means that they are overloaded \
         or away: look after network.nameservers.",
    ),
    Row::counter(
        "queries_ahead_total",
        "queries",
        "Queries made before what is known of a name in use expired.",
    ),
    Row::counter(
        "snapshots_total",
        "snapshots",
        "How often what is known was written down for the next life.",
    ),
    Row::gauge(
        "names_cached",
        "names",
        "Names of which something is known.",
    ),
    Row::gauge(
        "names_cached_bytes",
        "bytes",
        "Memory of those; bounded by stages.resolver.cache.entries.",
    ),
    Row::gauge(
        "names_in_flight",
        "names",
        "Names that are being asked for; at most stages.resolver.window. When it stays there, add \
         resolvers.",
    ),
    Row::gauge(
        "servers_waiting",
        "servers",
        "Servers that wait for their names.",
    ),
    Row::gauge(
        "in_doubt",
        "0 or 1",
        "1 while no name server answers: no name is given up. Look after network.nameservers.",
    ),
    Row::counter(
        "doubts_total",
        "times",
        "How often no name server answered.",
    ),
    Row::counter(
        "withheld_total",
        "failures",
        "Failures that were held against no name, for that reason.",
    ),
    Row::gauge(
        "names_held_back",
        "names",
        "Names that wait until name servers answer again.",
    ),
    Row::histogram(
        "query_seconds",
        "How long queries took, with their repeats. At stages.resolver.timeout times attempts \
         nobody answered.",
    ),
];
