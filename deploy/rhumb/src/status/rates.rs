//! What passed between two looks at a crawl: pages, messages and CPU time a second.

use super::snapshot::Snapshot;
use super::summary::Summary;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// Over this time what passes is told: long enough to be calm, short enough to be now.
const WINDOW: Duration = Duration::from_secs(3);
/// And CPU time, which is counted more coarsely.
const CPU_WINDOW: Duration = Duration::from_secs(10);

/// The name that the broker has among the stages.
pub(crate) const BROKER: &str = "broker";

/// Totals at one moment.
#[derive(Clone, Debug)]
struct Sample {
    at: Instant,
    totals: BTreeMap<&'static str, u64>,
    outcomes: BTreeMap<String, u64>,
    edges: BTreeMap<String, u64>,
    /// CPU seconds by stage, instance and life.
    cpu: BTreeMap<(String, u16, u64), f64>,
}

/// What passed in a second, lately.
#[derive(Clone, Debug, Default)]
pub(crate) struct Rates {
    /// Of `pages`, `bytes`, `found` and `new`.
    pub(crate) totals: BTreeMap<&'static str, f64>,
    /// URLs that ended, by outcome.
    pub(crate) outcomes: BTreeMap<String, f64>,
    /// Messages, by edge.
    pub(crate) edges: BTreeMap<String, f64>,
    /// Cores that each process uses.
    pub(crate) cpu: BTreeMap<(String, u16), f64>,
    /// CPU milliseconds a page by stage; empty while no page comes.
    pub(crate) cpu_ms_per_page: BTreeMap<String, f64>,
}

/// The last looks at which every process answered: totals of others are too small.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    samples: VecDeque<Sample>,
    rates: Rates,
}

impl Looks {
    /// Takes in a look. Gives what passed since earlier ones. `is_whole`: every process answered
    /// that has a part of the totals.
    pub(crate) fn take(
        &mut self,
        now: Instant,
        (snapshot, summary): (&Snapshot, &Summary),
        is_whole: bool,
    ) -> Rates {
        if is_whole {
            self.rates = self.since_earlier(Sample::of(now, snapshot, summary));
        }
        self.rates.clone()
    }

    fn since_earlier(&mut self, sample: Sample) -> Rates {
        let now = sample.at;
        // A crawl that began anew is another one.
        if self
            .samples
            .back()
            .is_some_and(|last| last.totals["found"] > sample.totals["found"])
        {
            self.samples.clear();
        }
        while self
            .samples
            .get(1)
            .is_some_and(|next| now.saturating_duration_since(next.at) >= CPU_WINDOW)
        {
            self.samples.pop_front();
        }
        self.samples.push_back(sample);
        let Some(now) = self.samples.back() else {
            return Rates::default();
        };
        let since = |window| {
            let mut earlier = self.samples.iter().rev();
            let old_enough =
                earlier.find(|sample| now.at.saturating_duration_since(sample.at) >= window);
            old_enough.or_else(|| self.samples.front()).unwrap_or(now)
        };
        Rates::between(since(WINDOW), now, since(CPU_WINDOW))
    }
}

impl Sample {
    fn of(at: Instant, snapshot: &Snapshot, summary: &Summary) -> Self {
        let Summary {
            pages,
            bytes,
            urls_found,
            urls_new,
            ..
        } = *summary;
        let of_stages = snapshot
            .processes
            .iter()
            .map(|of| ((of.stage.clone(), of.instance, of.life), of.cpu_s));
        let brokers = summary
            .processes
            .iter()
            .filter(|process| process.stage == BROKER);
        let of_broker =
            brokers.map(|of| ((of.stage.clone(), of.instance, u64::from(of.pid)), of.cpu_s));
        Sample {
            at,
            totals: [
                ("pages", pages),
                ("bytes", bytes),
                ("found", urls_found),
                ("new", urls_new),
            ]
            .into(),
            outcomes: summary.outcomes.clone(),
            edges: snapshot
                .streams
                .iter()
                .map(|(edge, of)| (edge.clone(), of.published))
                .collect(),
            cpu: of_stages.chain(of_broker).collect(),
        }
    }
}

impl Rates {
    fn between(before: &Sample, now: &Sample, cpu_before: &Sample) -> Self {
        let seconds = |from: &Sample| now.at.saturating_duration_since(from.at).as_secs_f64();
        let window = seconds(before);
        let cpu_window = seconds(cpu_before);
        if window <= 0.0 || cpu_window <= 0.0 {
            return Rates::default();
        }
        let rate = |now: u64, before: Option<&u64>| {
            now.saturating_sub(before.copied().unwrap_or(now)) as f64 / window
        };
        let mut rates = Rates {
            totals: now
                .totals
                .iter()
                .map(|(name, n)| (*name, rate(*n, before.totals.get(name))))
                .collect(),
            outcomes: now
                .outcomes
                .iter()
                .map(|(name, n)| (name.clone(), rate(*n, before.outcomes.get(name))))
                .collect(),
            edges: now
                .edges
                .iter()
                .map(|(edge, n)| (edge.clone(), rate(*n, before.edges.get(edge))))
                .collect(),
            ..Rates::default()
        };
        let pages = now.totals["pages"].saturating_sub(cpu_before.totals["pages"]);
        for (life, cpu_s) in &now.cpu {
            // Of a life that is new nobody knows how long it took.
            let used = (cpu_s - cpu_before.cpu.get(life).unwrap_or(cpu_s)).max(0.0);
            let (stage, instance, _) = life;
            *rates.cpu.entry((stage.clone(), *instance)).or_default() += used / cpu_window;
            if pages > 0 {
                *rates.cpu_ms_per_page.entry(stage.clone()).or_default() +=
                    1000.0 * used / pages as f64;
            }
        }
        rates
    }
}

#[cfg(test)]
mod tests {
    use super::super::snapshot::StreamUse;
    use super::*;

    fn look(pages: u64, published: u64, cpu_s: f64, life: u64) -> (Snapshot, Summary) {
        let process = serde_json::json!({
            "stage": "fetcher", "instance": 0, "pid": 1, "life": life, "listen": "", "cpu_s": cpu_s, "peak_rss_bytes": 0,
            "ready": true, "idle": false, "counts": {},
        });
        let snapshot = Snapshot {
            processes: vec![serde_json::from_value(process).unwrap()],
            streams: [(
                "pages".to_owned(),
                StreamUse {
                    published,
                    ..StreamUse::default()
                },
            )]
            .into(),
            ..Snapshot::default()
        };
        (
            snapshot,
            Summary {
                pages,
                urls_found: pages,
                ..Summary::default()
            },
        )
    }

    #[test]
    fn what_passes_is_told_over_some_seconds_and_a_new_life_or_crawl_makes_no_leap() {
        let mut looks = Looks::default();
        let began = Instant::now();
        let mut take = |second: u64, (snapshot, summary): (Snapshot, Summary)| {
            let is_whole = snapshot.processes.iter().all(|process| process.ready);
            looks.take(
                began + Duration::from_secs(second),
                (&snapshot, &summary),
                is_whole,
            )
        };
        assert!(take(0, look(100, 1000, 5.0, 1)).totals.is_empty());
        for second in 1..=20 {
            let rates = take(
                second,
                look(
                    100 + 10 * second,
                    1000 + 20 * second,
                    5.0 + 0.5 * second as f64,
                    1,
                ),
            );
            assert!(
                (rates.totals["pages"] - 10.0).abs() < 1e-9
                    && (rates.edges["pages"] - 20.0).abs() < 1e-9
            );
            assert!((rates.cpu[&("fetcher".to_owned(), 0)] - 0.5).abs() < 1e-9);
            assert!((rates.cpu_ms_per_page["fetcher"] - 50.0).abs() < 1e-9);
        }
        let (mut snapshot, summary) = look(0, 1400, 15.0, 1);
        snapshot.processes[0].ready = false;
        assert!(
            (take(21, (snapshot, summary)).totals["pages"] - 10.0).abs() < 1e-9,
            "a process did not answer"
        );
        let again = take(22, look(310, 1420, 0.1, 2));
        assert!(again.cpu[&("fetcher".to_owned(), 0)] < 0.1);
        let another = take(23, look(5, 5, 0.0, 3));
        assert!(another.totals.is_empty());
    }
}
