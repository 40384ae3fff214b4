//! Watch: what the broker of a crawl and its processes tell while it runs, whatever build it is of.
//!
//! In: the folder of a crawl that is to start, the process that conducts it. Out: messages, bytes
//! and context switches per page. The crawl finds a `nats-server` on its `PATH` that is the usual
//! one with its monitor on: that counts anyway, and is asked a few times a second. What happens
//! after the last look, when nothing is fetched any more, is not counted.

use super::round::{Round, What};
use crate::harness::http_get;
use anyhow::Context as _;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two looks. A look takes about a millisecond of the broker's time.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How the lines of a scheduler's metrics begin that tell of the way of new links.
const LINKS: &str = "rhumb_scheduler_loop_way_seconds_bucket{edge=\"urls.ready\",le=\"";
/// The name of the broker among the processes.
const BROKER: &str = "nats-server";

/// A watch on a crawl that is to start.
pub(super) struct Prepared {
    /// The `PATH` of the crawl.
    pub(super) path: String,
    /// Where its scheduler is to listen.
    pub(super) scheduler: String,
    monitor: String,
}

/// A watch on a crawl that runs.
pub(super) struct Watch {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    broker: BrokerTotals,
    streams: BTreeMap<String, StreamTotals>,
    /// Context switches, by process.
    switches: BTreeMap<u32, (String, u64)>,
    /// How many messages with new links came into the frontier within so many seconds from the last
    /// byte of their page.
    links: Vec<(f64, u64)>,
}

/// `/varz` of the broker, as far as it is used.
#[derive(Clone, Debug, Default, Deserialize)]
struct BrokerTotals {
    in_msgs: u64,
    out_msgs: u64,
    in_bytes: u64,
    out_bytes: u64,
}

/// What is known of a stream.
#[derive(Clone, Debug, Default)]
struct StreamTotals {
    stored: u64,
    /// Messages that were seen in it, and their bytes.
    seen: (u64, u64),
}

#[derive(Deserialize)]
struct Jsz {
    #[serde(default)]
    account_details: Vec<Account>,
}

#[derive(Deserialize)]
struct Account {
    #[serde(default)]
    stream_detail: Vec<StreamDetail>,
}

#[derive(Deserialize)]
struct StreamDetail {
    name: String,
    state: StreamState,
}

#[derive(Deserialize)]
struct StreamState {
    messages: u64,
    bytes: u64,
    last_seq: u64,
}

impl Watch {
    /// Prepares it in the folder of a crawl.
    ///
    /// # Errors
    /// There is no `nats-server`, or no room.
    pub(super) fn prepare(folder: &Path) -> anyhow::Result<Prepared> {
        let executable = rhumb::broker::find_or_install().context("no nats-server")?;
        let free_port = || anyhow::Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port());
        let port = free_port()?;
        let scheduler = format!("127.0.0.1:{}", free_port()?);
        let bin = folder.join("bin");
        fs::create_dir_all(&bin)?;
        let script = format!(
            "#!/bin/sh\nexec '{}' \"$@\" --http_port {port}\n",
            executable.display()
        );
        let program = bin.join(BROKER);
        fs::write(&program, script)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        let path = format!(
            "{}:{}",
            bin.display(),
            std::env::var("PATH").unwrap_or_default()
        );
        Ok(Prepared {
            path,
            scheduler,
            monitor: format!("127.0.0.1:{port}"),
        })
    }
}

impl Prepared {
    /// Watches the crawl that this process conducts.
    pub(super) fn begin(self, conductor: u32) -> Watch {
        let is_over = Arc::new(AtomicBool::new(false));
        let ended = is_over.clone();
        let thread = std::thread::spawn(move || {
            let mut seen = Seen::default();
            while !ended.load(Ordering::Relaxed) {
                // Nothing answers before the broker has started, and after it has ended.
                let _ = seen.look(&self.monitor);
                let _ = seen.look_at_links(&self.scheduler);
                seen.count_switches(conductor);
                std::thread::sleep(LOOK_EVERY);
            }
            seen
        });
        Watch { is_over, thread }
    }
}

impl Watch {
    /// Ends it.
    pub(super) fn end(self) -> Seen {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

impl Seen {
    fn look(&mut self, monitor: &str) -> anyhow::Result<()> {
        self.broker = serde_json::from_str(&http_get(monitor, "/varz")?)?;
        let jsz: Jsz =
            serde_json::from_str(&http_get(monitor, "/jsz?accounts=true&streams=true")?)?;
        for StreamDetail { name, state } in jsz
            .account_details
            .into_iter()
            .flat_map(|account| account.stream_detail)
        {
            let stream = self.streams.entry(name).or_default();
            stream.stored = state.last_seq;
            stream.seen = (stream.seen.0 + state.messages, stream.seen.1 + state.bytes);
        }
        Ok(())
    }

    fn look_at_links(&mut self, scheduler: &str) -> anyhow::Result<()> {
        let metrics = http_get(scheduler, "/metrics")?;
        self.links = metrics
            .lines()
            .filter_map(|line| bucket(line.strip_prefix(LINKS)?))
            .collect();
        Ok(())
    }

    fn count_switches(&mut self, conductor: u32) {
        for (pid, name) in family(conductor) {
            self.switches.insert(pid, (name, switches(pid)));
        }
    }

    /// Puts it into a round.
    pub(super) fn put(self, round: &mut Round) {
        let pages = round.pages as f64;
        let per_page = |number: u64| number as f64 / pages;
        let BrokerTotals {
            in_msgs,
            out_msgs,
            in_bytes,
            out_bytes,
        } = self.broker;
        for (of, messages, bytes) in [("in", in_msgs, in_bytes), ("out", out_msgs, out_bytes)] {
            round.put(What::BrokerMessages, of, per_page(messages));
            round.put(What::BrokerKb, of, per_page(bytes) / 1e3);
        }
        for (
            name,
            StreamTotals {
                stored,
                seen: (messages, bytes),
            },
        ) in self.streams
        {
            let name =
                name.replacen("KV_rhumb_default_", "bucket ", 1)
                    .replacen("rhumb_default_", "", 1);
            let mean_bytes = bytes as f64 / messages.max(1) as f64;
            round.put(What::Stored, &name, per_page(stored));
            round.put(What::StoredKb, &name, per_page(stored) * mean_bytes / 1e3);
        }
        for (name, switches) in self.switches.into_values() {
            let before = round.number(What::Switches, &name).unwrap_or(0.0);
            round.put(What::Switches, &name, before + per_page(switches));
        }
        if let (Some(half), Some(most)) = (quantile(&self.links, 0.5), quantile(&self.links, 0.95))
        {
            round.put_all(What::LinksMs, half * 1e3);
            round.put(What::LinksMs, "95 %", most * 1e3);
        }
        [
            What::BrokerMessages,
            What::BrokerKb,
            What::Stored,
            What::StoredKb,
            What::Switches,
        ]
        .into_iter()
        .for_each(|what| round.add_up(what));
    }
}

/// A bucket of a histogram, from its upper bound on: the bound, and how many are within it.
fn bucket(line: &str) -> Option<(f64, u64)> {
    let (bound, count) = line.split_once("\"} ")?;
    Some((
        bound.replace("+Inf", "inf").parse().ok()?,
        count.parse().ok()?,
    ))
}

/// What a share of all does not exceed, between the bounds of its bucket in proportion; none when
/// there is nothing, or when it is in the bucket without an upper bound.
fn quantile(buckets: &[(f64, u64)], share: f64) -> Option<f64> {
    let (_, all) = *buckets.last().filter(|(_, all)| *all > 0)?;
    let wanted = share * all as f64;
    let at = buckets
        .iter()
        .position(|(_, within)| *within as f64 >= wanted)?;
    let (low, below) = at.checked_sub(1).map_or((0.0, 0), |before| buckets[before]);
    let (high, within) = buckets[at];
    let part = (wanted - below as f64) / (within - below) as f64;
    Some(low + (high - low) * part).filter(|quantile| quantile.is_finite())
}

/// A process and its children, each with its name.
fn family(parent: u32) -> Vec<(u32, String)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let all = entries.filter_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let stat = fs::read_to_string(entry.path().join("stat")).ok()?;
        let (name, fields) = stat.split_once('(')?.1.rsplit_once(')')?;
        let its_parent: u32 = fields.split_ascii_whitespace().nth(1)?.parse().ok()?;
        (pid == parent || its_parent == parent)
            .then(|| (pid, if name == BROKER { "broker" } else { name }.to_owned()))
    });
    all.collect()
}

/// How often the threads of a process were switched to another, of their own accord or not.
fn switches(pid: u32) -> u64 {
    let threads = fs::read_dir(format!("/proc/{pid}/task"))
        .into_iter()
        .flatten()
        .flatten();
    let of_thread = |folder: &Path| -> u64 {
        let status = fs::read_to_string(folder.join("status")).unwrap_or_default();
        let numbers = status
            .lines()
            .filter(|line| line.contains("ctxt_switches:"));
        numbers
            .filter_map(|line| line.rsplit_once(':')?.1.trim().parse::<u64>().ok())
            .sum()
    };
    threads.map(|thread| of_thread(&thread.path())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_of_its_own_family_and_is_switched() {
        let pid = std::process::id();
        assert!(
            family(pid)
                .iter()
                .any(|(one, name)| *one == pid && !name.is_empty())
        );
        std::thread::sleep(Duration::from_millis(5));
        assert!(switches(pid) > 0);
        assert_eq!((family(u32::MAX), switches(u32::MAX)), (Vec::new(), 0));
    }

    #[test]
    fn a_share_of_a_histogram_lies_within_its_bucket() {
        let line = "rhumb_scheduler_loop_way_seconds_bucket{edge=\"urls.ready\",le=\"0.05\"} 10";
        assert_eq!(line.strip_prefix(LINKS).and_then(bucket), Some((0.05, 10)));
        let buckets = [(0.01, 0), (0.05, 10), (0.1, 19), (f64::INFINITY, 20)];
        assert_eq!(quantile(&buckets, 0.5), Some(0.05));
        assert!((quantile(&buckets, 0.25).unwrap() - 0.03).abs() < 1e-9);
        assert_eq!(
            (
                quantile(&buckets, 0.99),
                quantile(&[], 0.5),
                quantile(&[(0.01, 0)], 0.5)
            ),
            (None, None, None)
        );
    }

    #[test]
    fn what_a_stream_stored_is_its_number_times_the_mean_size_of_what_was_seen() {
        let streams = BTreeMap::from([(
            "pages".to_owned(),
            StreamTotals {
                stored: 20,
                seen: (4, 8000),
            },
        )]);
        let broker = BrokerTotals {
            in_msgs: 30,
            out_msgs: 40,
            in_bytes: 50_000,
            out_bytes: 0,
        };
        let mut round = Round::of(10);
        Seen {
            broker,
            streams,
            switches: BTreeMap::new(),
            links: Vec::new(),
        }
        .put(&mut round);
        assert_eq!(
            (
                round.all(What::Stored),
                round.number(What::StoredKb, "pages")
            ),
            (2.0, Some(4.0))
        );
        assert_eq!(
            (
                round.all(What::BrokerMessages),
                round.number(What::BrokerKb, "in")
            ),
            (7.0, Some(5.0))
        );
    }
}
