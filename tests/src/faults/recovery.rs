//! Recovery: how long after the end of a single fault a crawl is as fast as it was before.
//!
//! Flow: a web whose hosts give a page at every delay for longer than this takes, and a crawl of it
//! with the configuration that ships; one fault; then what the web saw before it and after its end.

use super::kind::{BrokerKind, Kind};
use super::schedule::{Fault, Schedule, Setting};
use super::trial::{DELAY, Trial};
use crate::harness::World;
use std::thread;
use std::time::{Duration, Instant};
use synthetic_web::{PagesPerHost, Profile};

const HOSTS: u32 = 40;
/// When the fault begins, after the first request. By then every host is known and visited.
const BEGINS: Duration = Duration::from_secs(12);
/// The rate is that of the last seconds before the fault, and that of as many afterwards.
const WINDOW: Duration = Duration::from_secs(3);
/// Between two looks at the rate.
const STEP: Duration = Duration::from_millis(250);
/// As fast as before: this part of the requests, in percent. Jobs of hosts do not end evenly.
const FULL_PERCENT: u64 = 90;
/// How long a crawl may take to be as fast as before.
const LIMIT: Duration = Duration::from_secs(25);
/// The same after a network or name servers that were away.
const LIMIT_NETWORK: Duration = Duration::from_secs(60);

/// Single faults: what, upon what, and for how many milliseconds.
pub const RECOVERIES: [(Kind, &str, u64); 17] = [
    (Kind::Kill, "host-splitter", 0),
    (Kind::Kill, "dedup", 0),
    (Kind::Kill, "resolver", 0),
    (Kind::Kill, "scheduler", 0),
    (Kind::Kill, "fetcher", 0),
    (Kind::Kill, "parser", 0),
    (Kind::Stop, "scheduler", 12_000),
    (Kind::Stop, "fetcher", 12_000),
    (Kind::Stop, "broker", 12_000),
    (Kind::Broker, "broker", 0),
    (Kind::Rhumb, "rhumb", 0),
    (Kind::Disk, "broker", 10_000),
    (Kind::Cut, "all", 12_000),
    (Kind::Node, "0", 10_000),
    (Kind::Web, "silent", 20_000),
    (Kind::Web, "broken", 20_000),
    (Kind::Names, "names", 20_000),
];

/// What a fault did to the rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovery {
    /// Requests a second before the fault.
    pub rate: f64,
    /// From the end of the fault until the rate is back; none if it was not back in twice the time
    /// that is allowed.
    pub after: Option<Duration>,
    /// The time that is allowed.
    pub limit: Duration,
}

/// Lets one fault befall a crawl.
///
/// # Panics
/// When the crawl ends, or cannot be started.
pub fn recover(kind: Kind, target: &'static str, lasts_ms: u64) -> Recovery {
    let setting = Setting {
        broker: kind.broker().unwrap_or(BrokerKind::Private),
        dedups: 1,
        schedulers: 1,
        fetchers: 1,
        archiver: false,
        job_lease: Duration::ZERO,
        robots_lifetime: Duration::ZERO,
    };
    let fault = Fault {
        kind,
        target: target.to_owned(),
        at_ms: BEGINS.as_millis() as u64,
        lasts_ms,
    };
    let schedule = Schedule {
        seed: 0,
        setting,
        faults: vec![fault],
    };
    let limit = if matches!(kind, Kind::Web | Kind::Names) {
        LIMIT_NETWORK
    } else {
        LIMIT
    };
    let lasts = Duration::from_millis(lasts_ms);
    let visits = (BEGINS + lasts + 2 * limit + WINDOW).as_millis() / DELAY.as_millis();
    let pages_per_host = PagesPerHost::Exactly(u32::try_from(visits).unwrap_or(u32::MAX) * 2);
    let world = World::new(Profile {
        hosts: HOSTS,
        pages_per_host,
        ..Profile::raw()
    });
    let delay = format!("politeness.delay={}ms", DELAY.as_millis());
    let mut trial = Trial::start(&schedule, &world, |crawl| crawl.set(&delay));
    let first = trial.carry_out();
    let begin = first + BEGINS;
    let end = first + BEGINS + lasts;
    let healed = Instant::now();
    let after = loop {
        thread::sleep(STEP);
        assert!(!trial.has_ended(), "the crawl ended early");
        let times: Vec<Duration> = world
            .web
            .contacts()
            .iter()
            .map(|contact| contact.at)
            .collect();
        let seen_for = healed.elapsed();
        let after = full_again(&times, begin, end, seen_for);
        if after.is_some() || seen_for > 2 * limit + WINDOW {
            break after;
        }
    };
    let times: Vec<Duration> = world
        .web
        .contacts()
        .iter()
        .map(|contact| contact.at)
        .collect();
    let rate = requests(&times, begin - WINDOW) as f64 / WINDOW.as_secs_f64();
    assert!(
        rate > f64::from(HOSTS) / DELAY.as_secs_f64() / 2.0,
        "only {rate} requests a second before the fault"
    );
    Recovery { rate, after, limit }
}

/// How long after `end` a window begins, of the time that was seen, with as many requests as the
/// last one before `begin`.
fn full_again(
    times: &[Duration],
    begin: Duration,
    end: Duration,
    seen_for: Duration,
) -> Option<Duration> {
    let wanted = requests(times, begin - WINDOW) * FULL_PERCENT / 100;
    let steps = seen_for.saturating_sub(WINDOW).as_millis() / STEP.as_millis();
    let afters = (0..=u32::try_from(steps).unwrap_or(u32::MAX)).map(|step| STEP * step);
    afters
        .filter(|after| seen_for >= *after + WINDOW)
        .find(|after| requests(times, end + *after) >= wanted)
}

/// Requests in the window that begins then.
fn requests(times: &[Duration], from: Duration) -> u64 {
    times
        .iter()
        .filter(|at| (from..from + WINDOW).contains(*at))
        .count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_crawl_is_full_again_from_the_first_window_with_as_many_requests_as_before() {
        let at = |tenths: u32| Duration::from_millis(100) * tenths;
        // Ten a second up to 12 s, none up to 20 s, five a second up to 25 s, then ten again.
        let times: Vec<Duration> = (0..400)
            .filter(|tenth| {
                !(120..200).contains(tenth) && (*tenth >= 250 || *tenth < 200 || tenth % 2 == 0)
            })
            .map(at)
            .collect();
        let after = |seen_s: u32| full_again(&times, 12 * SECOND, 16 * SECOND, seen_s * SECOND);
        assert_eq!(after(2), None);
        assert_eq!(after(11), None);
        // Nine tenths of thirty: the window may begin up to 0.6 s before 25 s.
        assert_eq!(after(12), Some(8_500 * Duration::from_millis(1)));
        assert_eq!(after(20), after(12));
    }
}
