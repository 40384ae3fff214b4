//! `rhumb export`: prints what passes on `urls.found` of a running crawl, for a later one. A
//! passive look, like a tap (P8): an exporter that cannot keep up misses messages.

use super::arguments::Which;
use crate::handle::{self, Running};
use crate::inspect::edges::subscribe;
use crate::output::line;
use clap::{Args, Subcommand};
use futures::StreamExt as _;
use rhumb_url::host_of;
use rhumb_wire::message::{Edge, FoundUrls, decode, payloads};
use std::collections::HashMap;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Between two looks whether the crawl is still there.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// URLs counted at once for each that is wanted.
const COUNTED_PER_WANTED: usize = 16;

/// Prints what a running crawl finds, for a later one or for `rhumb lab`
#[derive(Subcommand)]
pub(super) enum Export {
    FrequentUrls(FrequentUrls),
    Links(Links),
}

/// The URLs found most often until the crawl's end, for stages.*.cache.policy=static
#[derive(Args)]
#[command(after_help = "Example:\n  rhumb export frequent-urls --for 10m >frequent-urls.txt")]
pub(super) struct FrequentUrls {
    /// Number of URLs
    #[arg(long, value_name = "N", default_value_t = 65_536)]
    entries: usize,
    #[command(flatten)]
    listen: Listen,
}

/// Every link, after the host of its page and a tab, as `rhumb lab url-cache --trace` reads it
#[derive(Args)]
pub(super) struct Links {
    #[command(flatten)]
    listen: Listen,
}

/// To which crawl, and for how long.
#[derive(Args)]
struct Listen {
    /// Stop after this time, such as 90s or 2h
    #[arg(long = "for", value_name = "DURATION", value_parser = humantime::parse_duration)]
    at_most: Option<Duration>,
    #[command(flatten)]
    which: Which,
}

impl Export {
    /// Listens until the crawl's end, the time is over or Ctrl-C, and prints.
    pub(super) async fn run(self) -> anyhow::Result<()> {
        match self {
            Export::FrequentUrls(FrequentUrls { entries, listen }) => {
                let mut frequent = Frequent::new(entries);
                listen
                    .each(|found| found.urls.iter().for_each(|url| frequent.count(url)))
                    .await?;
                frequent.most().for_each(line);
                Ok(())
            }
            Export::Links(Links { listen }) => {
                let print = |found: FoundUrls| {
                    let source = host_of(found.origin.found_on());
                    found
                        .urls
                        .iter()
                        .for_each(|url| line(format_args!("{source}\t{url}")));
                };
                listen.each(print).await
            }
        }
    }
}

impl Listen {
    async fn each(&self, take: impl FnMut(FoundUrls)) -> anyhow::Result<()> {
        each(
            &handle::find(&self.which.layers()).await?,
            self.at_most,
            take,
        )
        .await
    }
}

async fn each(
    running: &Running,
    at_most: Option<Duration>,
    mut take: impl FnMut(FoundUrls),
) -> anyhow::Result<()> {
    let mut messages = subscribe(
        &running.bus.client,
        running.bus.subjects.all(Edge::UrlsFound),
    )
    .await?;
    let mut look = tokio::time::interval(LOOK_EVERY);
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut end = std::pin::pin!(tokio::time::sleep(at_most.unwrap_or(Duration::MAX)));
    loop {
        tokio::select! {
            message = messages.next() => match message {
                // What is corrupt is the host-splitter's to report.
                Some(message) => {
                    let payloads = payloads(Edge::UrlsFound, message.payload).unwrap_or_default();
                    payloads.iter().filter_map(|payload| decode(payload).ok()).for_each(&mut take);
                }
                None => return Ok(()),
            },
            () = &mut end => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = look.tick() => if running.has_stopped()? { return Ok(()) },
        }
    }
}

/// Counts of URLs in bounded memory. When there are too many, those with the lowest counts are
/// forgotten; a URL that comes anew begins with their count (Metwally, Agrawal and El Abbadi 2005,
/// in batches).
struct Frequent {
    wanted: usize,
    counts: HashMap<String, u64>,
    floor: u64,
}

impl Frequent {
    fn new(wanted: usize) -> Self {
        Frequent {
            wanted: wanted.max(1),
            counts: HashMap::new(),
            floor: 0,
        }
    }

    fn count(&mut self, url: &str) {
        if let Some(count) = self.counts.get_mut(url) {
            *count += 1;
            return;
        }
        if self.counts.len() >= self.wanted.saturating_mul(COUNTED_PER_WANTED) {
            let mut sorted: Vec<u64> = self.counts.values().copied().collect();
            let (_, median, _) = sorted.select_nth_unstable(self.counts.len() / 2);
            self.floor = *median;
            self.counts.retain(|_, count| *count > self.floor);
        }
        self.counts.insert(url.to_owned(), self.floor + 1);
    }

    /// The most frequent first; of equals, in the order of the alphabet.
    fn most(self) -> impl Iterator<Item = String> {
        let mut counted: Vec<(String, u64)> = self.counts.into_iter().collect();
        counted.sort_unstable_by(|(a, n_a), (b, n_b)| n_b.cmp(n_a).then(a.cmp(b)));
        counted.into_iter().take(self.wanted).map(|(url, _)| url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_come_first_although_not_all_are_remembered() {
        let mut frequent = Frequent::new(2);
        for round in 0..200 {
            frequent.count("http://a.test/often");
            frequent.count(&format!("http://a.test/{round}"));
            if round % 2 == 0 {
                frequent.count("http://a.test/half");
            }
            assert!(frequent.counts.len() <= 2 * COUNTED_PER_WANTED);
        }
        assert_eq!(
            frequent.most().collect::<Vec<_>>(),
            ["http://a.test/often", "http://a.test/half"]
        );
    }
}
