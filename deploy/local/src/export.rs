//! `rhumb export`: what passes on `urls.found` of a running crawl, for a later one. A passive look, like a tap (P8):
//! what an exporter that cannot keep up misses is missing.

use crate::handle::{Handle, Running};
use crate::output::line;
use crate::tap::subscribe;
use futures::StreamExt as _;
use shared::message::{Edge, FoundUrls, decode};
use shared::url::host_of;
use std::collections::HashMap;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// Between two looks whether the crawl is still there.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// URLs counted at once for each that is wanted.
const COUNTED_PER_WANTED: usize = 16;

/// Prints every link that is found: the host of the page that has it, a tab, its URL. Until the crawl's end, `at_most`
/// or Ctrl-C.
pub async fn links(running: &Running, at_most: Option<Duration>) -> anyhow::Result<()> {
    each(running, at_most, |found| {
        let source = host_of(&found.origin.page);
        found.urls.iter().for_each(|url| line(format_args!("{source}\t{url}")));
    })
    .await
}

/// Prints the URLs that are found most often, the most frequent first, when the crawl ends, `at_most` is over, or at
/// Ctrl-C.
pub async fn frequent_urls(running: &Running, wanted: usize, at_most: Option<Duration>) -> anyhow::Result<()> {
    let mut frequent = Frequent::new(wanted);
    each(running, at_most, |found| found.urls.iter().for_each(|url| frequent.count(url))).await?;
    frequent.most().for_each(line);
    Ok(())
}

async fn each(running: &Running, at_most: Option<Duration>, mut take: impl FnMut(FoundUrls)) -> anyhow::Result<()> {
    let mut messages = subscribe(&running.bus.client, running.bus.subjects.all(Edge::UrlsFound)).await?;
    let mut look = tokio::time::interval(LOOK_EVERY);
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut end = std::pin::pin!(tokio::time::sleep(at_most.unwrap_or(Duration::MAX)));
    loop {
        tokio::select! {
            message = messages.next() => match message {
                // What is corrupt is the host-splitter's to report.
                Some(message) => if let Ok(found) = decode(&message.payload) { take(found) },
                None => return Ok(()),
            },
            () = &mut end => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = look.tick() => {
                if running.has_handle && Handle::read(&running.pipeline.data)?.is_none() {
                    return Ok(());
                }
            }
        }
    }
}

/// Counts of URLs in bounded memory: when there are too many, those with the lowest counts are forgotten, and who
/// comes anew begins where they were (Metwally, Agrawal and El Abbadi 2005, in batches).
struct Frequent {
    wanted: usize,
    counts: HashMap<String, u64>,
    floor: u64,
}

impl Frequent {
    fn new(wanted: usize) -> Self {
        Frequent { wanted: wanted.max(1), counts: HashMap::new(), floor: 0 }
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
        assert_eq!(frequent.most().collect::<Vec<_>>(), ["http://a.test/often", "http://a.test/half"]);
    }
}
