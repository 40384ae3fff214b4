//! What the numbers of the parser are called and mean.

use rhumb_telemetry::metrics::Row;

/// The table.
pub const METRICS: &[Row] = &[
    Row::counter("pages_total", "pages", "Pages that were parsed."),
    Row::counter(
        "bytes_total",
        "bytes",
        "Bytes of their bodies, without content coding.",
    ),
    Row::counter("links_total", "URLs", "Links that were taken from them."),
    Row::counter("redirects_total", "URLs", "Targets of redirects."),
    Row::counter(
        "uncrawlable_total",
        "URLs",
        "Links that lead to nothing that can be crawled, such as mailto:.",
    ),
    Row::counter(
        "nofollow_total",
        "URLs",
        "Links that a rel, a robots meta or X-Robots-Tag says not to follow \
         (stages.parser.nofollow).",
    ),
    Row::counter(
        "unwanted_total",
        "pages",
        "Pages whose owners refuse a purpose of the crawl, which are marked or withheld.",
    ),
    Row::counter(
        "truncated_links_total",
        "pages",
        "Pages with more links than limits.links_per_page, and sitemaps with more than \
         limits.links_per_sitemap: what is beyond is not taken. Raise the limit if it matters.",
    ),
    Row::counter(
        "cut_bodies_total",
        "pages",
        "Pages whose body, without its coding, is larger than limits.decoded_bytes_max, and \
         sitemaps larger than limits.sitemap_bytes_max: what is beyond is not read.",
    ),
    Row::counter(
        "cut_sitemaps_total",
        "sitemaps",
        "Sitemaps of which limits.links_per_sitemap or limits.sitemap_bytes_max left something \
         out.",
    ),
    Row::counter(
        "broken_codings_total",
        "pages",
        "Pages whose content coding is damaged or unknown: what could be decoded is read.",
    ),
    Row::counter(
        "pages_unchanged_total",
        "pages",
        "Pages that were visited again and are the same, byte for byte: nothing is read in them.",
    ),
    Row::counter(
        "duplicate_bodies_total",
        "pages",
        "Pages whose body another page had first (stages.parser.content_seen).",
    ),
    Row::counter(
        "skipped_links_total",
        "URLs",
        "Links of such pages, which were taken from the other one.",
    ),
    Row::counter(
        "signals_total",
        "pages",
        "Pages of which schedulers were told what they look like: of those that lead on to others, \
         one in 32 (limits.shape_pages).",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{Parser, Settings};
    use rhumb_config::Layers;
    use rhumb_stage::Core as _;

    #[test]
    fn the_table_of_metrics_has_a_row_for_each_number_and_no_other() {
        let set = vec!["network.allow_private_addresses=true".to_owned()];
        let pipeline = Layers { file: None, set }
            .load_with(std::iter::empty())
            .unwrap();
        let core = Parser::new(Settings::from(&pipeline));
        assert_eq!(
            rhumb_telemetry::metrics::unlike(METRICS, &core.counts(), &core.histograms()),
            [""; 0]
        );
    }
}
