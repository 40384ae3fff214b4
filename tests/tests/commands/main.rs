//! The commands of `rhumb`, as its users call them: with a crawl under way and without one.

mod control;
mod faults;
mod logs;
mod observation;
mod refusals;
mod tools;

use std::time::Duration;
use synthetic_web::{Latency, PagesPerHost, Profile};

const MINUTE: Duration = Duration::from_secs(60);
/// How long a crawl may take to end after a signal.
const ENDS_WITHIN: Duration = Duration::from_secs(45);

/// A crawl of some five seconds.
/// A web that is not crawled before several commands have been tried on it, also on a busy machine.
fn slower_web() -> Profile {
    Profile {
        pages_per_host: PagesPerHost::Exactly(150),
        latency: Latency::Fixed { ms: 100 },
        ..slow_web()
    }
}

fn slow_web() -> Profile {
    Profile {
        hosts: 20,
        pages_per_host: PagesPerHost::Exactly(60),
        latency: Latency::Fixed { ms: 50 },
        ..Profile::raw()
    }
}
