//! The limit of repeats: the same event is logged so often in an interval and no oftener, and what
//! is left out is counted.
//!
//! In: the events that the level lets pass. Out: whether each is written; at the end of an interval
//! in which some were not, a line with their number (`suppressed`).
//!
//! Two events are the same when they come from one place in the code and are of one [`Kind`]: a
//! fault of one edge does not hide that of another. What `debug` and `trace` show was asked for,
//! and is not limited.
//!
//! Invariants: of one place at most [`KINDS_MAX`] kinds are counted at a time, each by itself, and
//! all others together, so memory is bounded by the places that there are; every event that is left
//! out is counted in exactly one line.

use super::kind::Kind;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

/// What lets the lines of this file pass, whatever the level of others is.
pub(super) const DIRECTIVE: &str = "rhumb_node::log::repeats=info";
/// Kinds of events of one place that are counted each by itself.
const KINDS_MAX: usize = 16;

/// How often the same event is logged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    /// In each interval; 0: always.
    pub(super) events_max: u32,
    /// The interval; it begins with the first event.
    pub(super) interval: Duration,
}

/// Events of one kind from one place since an interval began.
#[derive(Debug)]
struct Window {
    /// None: of all kinds that are not counted by themselves.
    kind: Option<u64>,
    since: Instant,
    events: u32,
    suppressed: u64,
    /// Of the first that was left out.
    message: String,
}

/// What is told of the events that were left out.
#[derive(Debug)]
struct LeftOut {
    from: &'static Metadata<'static>,
    suppressed: u64,
    message: String,
}

impl LeftOut {
    fn say(&self) {
        let LeftOut {
            from,
            suppressed,
            message,
        } = self;
        let of = from.target();
        let file = from.file();
        let line = from.line();
        match *from.level() {
            Level::ERROR => tracing::error!(
                suppressed,
                of,
                file,
                line,
                "came too often and was left out: {message}"
            ),
            Level::WARN => tracing::warn!(
                suppressed,
                of,
                file,
                line,
                "came too often and was left out: {message}"
            ),
            _ => tracing::info!(
                suppressed,
                of,
                file,
                line,
                "came too often and was left out: {message}"
            ),
        }
    }
}

/// What was seen of each place in the code.
#[derive(Debug)]
struct Counter {
    limit: Limit,
    places: HashMap<usize, (&'static Metadata<'static>, Vec<Window>)>,
}

impl Counter {
    /// Counts an event. Returns whether it is written.
    fn admits(&mut self, now: Instant, from: &'static Metadata<'static>, kind: Kind) -> bool {
        let Limit {
            events_max,
            interval,
        } = self.limit;
        let (_, windows) = self
            .places
            .entry(std::ptr::from_ref(from).addr())
            .or_insert_with(|| (from, Vec::new()));
        // What was left out of an interval that is over is still to be told.
        windows
            .retain(|window| window.suppressed > 0 || now.duration_since(window.since) < interval);
        let Kind { hash, message } = kind;
        let is_counted = |kind| {
            windows
                .iter()
                .position(|window: &Window| window.kind == kind)
        };
        let at = is_counted(Some(hash))
            .or_else(|| is_counted(None).filter(|_| windows.len() > KINDS_MAX));
        let window = match at {
            Some(at) => &mut windows[at],
            None => {
                let kind = (windows.len() < KINDS_MAX).then_some(hash);
                windows.push(Window {
                    kind,
                    since: now,
                    events: 0,
                    suppressed: 0,
                    message: String::new(),
                });
                let last = windows.len() - 1;
                &mut windows[last]
            }
        };
        let is_written = window.events < events_max;
        if is_written {
            window.events += 1;
        } else {
            if window.suppressed == 0 {
                window.message = message;
            }
            window.suppressed += 1;
        }
        is_written
    }

    /// Ends the intervals that are over at this time, or all, and returns what is to be told of
    /// them.
    fn left_out(&mut self, until: Option<Instant>) -> Vec<LeftOut> {
        let interval = self.limit.interval;
        let mut all = Vec::new();
        for (from, windows) in self.places.values_mut() {
            windows.retain_mut(|window| {
                let lasts = until.is_some_and(|now| now.duration_since(window.since) < interval);
                if !lasts && window.suppressed > 0 {
                    let message = std::mem::take(&mut window.message);
                    all.push(LeftOut {
                        from,
                        suppressed: window.suppressed,
                        message,
                    });
                }
                lasts
            });
        }
        all
    }

    /// When the next interval is over of which something is to be told.
    fn tell_at(&self) -> Option<Instant> {
        let windows = self.places.values().flat_map(|(_, windows)| windows);
        windows
            .filter(|window| window.suppressed > 0)
            .map(|window| window.since + self.limit.interval)
            .min()
    }
}

/// The counter, and what wakes the thread that tells.
#[derive(Debug)]
struct Shared {
    counter: Mutex<Counter>,
    something_to_tell: Condvar,
}

impl Shared {
    fn counter(&self) -> MutexGuard<'_, Counter> {
        self.counter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of each interval when it is over, as long as the process lives.
    fn tell(&self) {
        loop {
            let counter = self.counter();
            let Some(at) = counter.tell_at() else {
                drop(self.something_to_tell.wait(counter));
                continue;
            };
            // Without the lock: others log meanwhile, and what is told are events, too.
            drop(counter);
            std::thread::sleep(at.saturating_duration_since(Instant::now()));
            let left_out = self.counter().left_out(Some(Instant::now()));
            left_out.iter().for_each(LeftOut::say);
        }
    }
}

/// The counter of this process.
static OF_PROCESS: OnceLock<Arc<Shared>> = OnceLock::new();

/// Leaves out what comes too often.
#[derive(Debug)]
pub(super) struct Repeats {
    shared: Arc<Shared>,
    is_unlimited: bool,
}

impl Repeats {
    fn new(limit: Limit) -> Self {
        let counter = Mutex::new(Counter {
            limit,
            places: HashMap::new(),
        });
        let shared = Arc::new(Shared {
            counter,
            something_to_tell: Condvar::new(),
        });
        Repeats {
            shared,
            is_unlimited: limit.events_max == 0,
        }
    }

    /// The limit of this process, with a thread that tells what was left out.
    pub(super) fn start(limit: Limit) -> Self {
        let repeats = Repeats::new(limit);
        if !repeats.is_unlimited && OF_PROCESS.set(repeats.shared.clone()).is_ok() {
            let shared = repeats.shared.clone();
            // Without the thread it is told at the end of the process.
            let _ = std::thread::Builder::new()
                .name("log-repeats".to_owned())
                .spawn(move || shared.tell());
        }
        repeats
    }
}

impl<S: Subscriber> Layer<S> for Repeats {
    fn event_enabled(&self, event: &Event<'_>, _: Context<'_, S>) -> bool {
        let from = event.metadata();
        if self.is_unlimited || *from.level() > Level::INFO || from.target() == module_path!() {
            return true;
        }
        // Before the lock is taken: what a value shows itself with may log, too.
        let kind = Kind::of(event);
        let is_written = self.shared.counter().admits(Instant::now(), from, kind);
        if !is_written {
            self.shared.something_to_tell.notify_one();
        }
        is_written
    }
}

/// Tells of all that was left out and not told so far.
pub(super) fn tell_rest() {
    if let Some(shared) = OF_PROCESS.get() {
        let left_out = shared.counter().left_out(None);
        left_out.iter().for_each(LeftOut::say);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use tracing::field::{Field, Visit};
    use tracing_subscriber::layer::SubscriberExt as _;

    /// Counts what is written, by level, and adds up what it says was left out.
    #[derive(Clone, Default)]
    struct Seen(Arc<[AtomicU64; 4]>);

    const SUPPRESSED: usize = 3;

    struct Suppressed<'a>(&'a AtomicU64);

    impl Visit for Suppressed<'_> {
        fn record_u64(&mut self, field: &Field, value: u64) {
            if field.name() == "suppressed" {
                self.0.fetch_add(value, Ordering::Relaxed);
            }
        }

        fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
    }

    impl<S: Subscriber> Layer<S> for Seen {
        fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
            let level = [Level::ERROR, Level::WARN]
                .iter()
                .position(|level| level == event.metadata().level());
            self.0[level.unwrap_or(2)].fetch_add(1, Ordering::Relaxed);
            event.record(&mut Suppressed(&self.0[SUPPRESSED]));
        }
    }

    const LIMIT: Limit = Limit {
        events_max: 5,
        interval: Duration::from_secs(30),
    };

    /// Errors, warnings and others that are written, and how many are said to be left out.
    fn written(limit: Limit, events: impl FnOnce()) -> [u64; 4] {
        let seen = Seen::default();
        let repeats = Repeats::new(limit);
        let shared = repeats.shared.clone();
        tracing::subscriber::with_default(
            tracing_subscriber::registry()
                .with(repeats)
                .with(seen.clone()),
            || {
                events();
                let left_out = shared.counter().left_out(None);
                left_out.iter().for_each(LeftOut::say);
            },
        );
        std::array::from_fn(|at| seen.0[at].load(Ordering::Relaxed))
    }

    #[test]
    fn a_flood_of_one_event_is_bounded_and_others_pass() {
        let [errors, warnings, others, suppressed] = written(LIMIT, || {
            for n in 0..100_000 {
                tracing::warn!(n, "the same again and again");
                if n % 50_000 == 0 {
                    tracing::error!(n, "something else");
                }
            }
            tracing::info!("something else");
        });
        assert_eq!((errors, warnings, others), (2, 5 + 1, 1));
        assert_eq!(
            suppressed,
            100_000 - 5,
            "all that were left out are counted"
        );
    }

    #[test]
    fn a_flood_of_errors_of_one_edge_does_not_hide_those_of_another() {
        let [errors, .., suppressed] = written(LIMIT, || {
            for n in 0..1000 {
                tracing::error!(
                    edge = if n == 999 { "pages" } else { "urls.found" },
                    "broken"
                );
            }
        });
        assert_eq!((errors, suppressed), (5 + 1 + 1, 999 - 5));
    }

    #[test]
    fn an_event_of_ever_other_servers_is_bounded_too() {
        let [_, warnings, _, suppressed] = written(LIMIT, || {
            for n in 0..10_000 {
                tracing::warn!(server = format!("http://h{n}.test"), "fails");
            }
        });
        let kinds = KINDS_MAX as u64;
        assert_eq!((warnings, suppressed), (kinds + 5 + 1, 10_000 - kinds - 5));
    }

    #[test]
    fn what_debug_shows_and_what_has_no_limit_is_not_left_out() {
        let flood = || (0..1000).for_each(|n| tracing::debug!(n, "asked for"));
        assert_eq!(written(LIMIT, flood), [0, 0, 1000, 0]);
        let flood = || (0..1000).for_each(|n| tracing::error!(n, "again"));
        assert_eq!(
            written(
                Limit {
                    events_max: 0,
                    ..LIMIT
                },
                flood
            ),
            [1000, 0, 0, 0]
        );
    }

    #[test]
    fn the_next_interval_begins_anew_and_its_predecessor_is_told_once() {
        let flood = || (0..20).for_each(|n| tracing::warn!(n, "again"));
        let limit = Limit {
            interval: Duration::from_millis(50),
            ..LIMIT
        };
        let [_, warnings, _, suppressed] = written(limit, || {
            flood();
            std::thread::sleep(Duration::from_millis(60));
            (0..3).for_each(|_| tracing::error!("others need no room of it"));
        });
        assert_eq!((warnings, suppressed), (5 + 1, 15));
        let [_, warnings, _, suppressed] = written(limit, || {
            let rarely = || (0..3).for_each(|n| tracing::warn!(n, "rarely"));
            rarely();
            std::thread::sleep(Duration::from_millis(60));
            rarely();
        });
        assert_eq!((warnings, suppressed), (6, 0));
    }
}
