//! Rows: seven ways to build a crawler, on one web.
//!
//! In: the seven rows of the paper's table. Out: pages and bytes a second of each, as medians of
//! several rounds, the rows taking turns.
//!
//! The web is a synthetic one on loopback: [`HOSTS`] hosts of 200 pages of 30 kB in the mean, as in
//! the paper, with 20 to 80 links. A page takes [`PAGE_MS`], and a name takes [`NAME_MS`], the
//! paper's 327 ms rounded. So waiting decides what a row can do, and not the CPU of this machine.
//!
//! Source: Yin, Yin and Huang 2008, their table of results: Pentium 4 of 2.8 GHz, Windows XP, 30
//! minutes a row.

use super::crawler::{self, Crawled};
use super::row::Row;
use anyhow::{Context as _, ensure};
use std::time::Duration;
use synthetic_web::{Latency, PagesPerHost, Profile, SyntheticWeb};

const HOSTS: u32 = 30;
const PAGES_PER_HOST: u32 = 200;
const PAGE_MS: u64 = 400;
const NAME_MS: u64 = 300;
/// Gives a mean of 30 kB, with the spread of sizes that the web has by default.
const PAGE_BYTES_MEDIAN: u32 = 21_000;

/// What a row brought.
#[derive(Clone, Debug)]
pub(super) struct Measured {
    pub(super) row: Row,
    /// Pages a second in the paper.
    pub(super) paper_pages_per_s: f64,
    /// Medians over the rounds.
    pub(super) pages_per_s: f64,
    pub(super) kilobytes_per_s: f64,
    /// The least and the most pages a second of all rounds.
    pub(super) spread: (f64, f64),
    /// Name lookups in all rounds.
    pub(super) lookups: u64,
}

/// The web of all rows.
pub(super) fn web() -> anyhow::Result<SyntheticWeb> {
    let profile = Profile {
        hosts: HOSTS,
        pages_per_host: PagesPerHost::Exactly(PAGES_PER_HOST),
        page_bytes_median: PAGE_BYTES_MEDIAN,
        latency: Latency::Fixed { ms: PAGE_MS },
        dns_latency_ms: NAME_MS,
        ..Profile::raw()
    };
    SyntheticWeb::start(profile).context("failed to start the synthetic web")
}

/// Crawls in each of these ways for the given time. Each round has all of them.
pub(super) fn measure(
    rows: &[(Row, f64)],
    rounds: usize,
    duration: Duration,
    progress: &mut dyn FnMut(&str),
) -> anyhow::Result<Vec<Measured>> {
    ensure!(rounds > 0, "there must be a round");
    let web = web()?;
    let mut crawled = vec![Vec::new(); rows.len()];
    for round in 1..=rounds {
        for (at, (row, _)) in rows.iter().enumerate() {
            crawled[at].push(crawler::crawl(&web, *row, duration)?);
            web.reset();
        }
        progress(&format!(
            "round {round} of {rounds} of {} crawlers",
            rows.len()
        ));
    }
    Ok(rows
        .iter()
        .zip(&crawled)
        .map(|(&(row, paper), rounds)| measured(row, paper, rounds))
        .collect())
}

fn measured(row: Row, paper_pages_per_s: f64, rounds: &[Crawled]) -> Measured {
    let rates = |of: fn(&Crawled) -> u64| {
        let mut rates: Vec<f64> = rounds
            .iter()
            .map(|crawled| of(crawled) as f64 / crawled.elapsed.as_secs_f64())
            .collect();
        rates.sort_by(f64::total_cmp);
        rates
    };
    let pages = rates(|crawled| crawled.pages);
    let bytes = rates(|crawled| crawled.bytes);
    let middle = rounds.len() / 2;
    Measured {
        row,
        paper_pages_per_s,
        pages_per_s: pages[middle],
        kilobytes_per_s: bytes[middle] / 1e3,
        spread: (pages[0], pages[pages.len() - 1]),
        lookups: rounds.iter().map(|crawled| crawled.lookups).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_row_and_the_worst_crawl_a_web() {
        let rows = [Row::ALL[0], Row::ALL[6]];
        let measured = measure(&rows, 1, Duration::from_millis(1_600), &mut |_| ()).unwrap();
        let [best, worst] = &measured[..] else {
            panic!("two rows")
        };
        assert!(best.pages_per_s > 1.5 * worst.pages_per_s, "{measured:?}");
        assert!(
            worst.pages_per_s > 0.0 && worst.kilobytes_per_s > 5.0 * worst.pages_per_s,
            "{measured:?}"
        );
        assert!(
            worst.lookups as f64 >= worst.pages_per_s * 1.6,
            "one for each page"
        );
        assert!(Row::ALL[0].0.name() != Row::ALL[1].0.name());
    }
}
