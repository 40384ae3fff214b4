//! Arm: one way to resolve the names of the trace, and what came of it.

use std::time::Duration;

/// Whose time an arm takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Clock {
    /// Nobody's time: it is added up from the latency model.
    Simulated,
    /// Real time, as a clock of this machine tells it.
    Real,
}

/// One way to resolve names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// One name after the other.
    Serial,
    /// The same with the paper's cache.
    SerialCached,
    /// With the paper's cache, except that names stay good.
    SerialCachedUnrefreshed,
    /// A small window.
    Few,
    /// A small window with the paper's cache.
    FewCached,
    /// The crawler's queries, with a full window.
    Window,
    /// The crawler's resolver: its cache and its window.
    WindowCached,
}

impl Way {
    /// Its name in table and figure.
    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Serial => "serial",
            Way::SerialCached => "serial + cache",
            Way::SerialCachedUnrefreshed => "serial + cache without refresh",
            Way::Few => "window 2",
            Way::FewCached => "window 2 + cache",
            Way::Window => "window 1024",
            Way::WindowCached => "window 1024 + cache",
        }
    }
}

/// What came of it.
#[derive(Clone, Debug)]
pub(super) struct Arm {
    pub(super) way: Way,
    pub(super) clock: Clock,
    /// Names resolved.
    pub(super) names: u64,
    /// Lookups made for them; each asks for addresses of both versions.
    pub(super) queries: u64,
    pub(super) elapsed: Duration,
    /// Time that all lookups took together, as measured.
    pub(super) latency: Duration,
    /// The same as the latency model says, time-outs included.
    pub(super) latency_modelled: Duration,
    /// Lookups under way at once, at most.
    pub(super) window: usize,
    /// Names resolved, and the time that took, before the window ran empty. The last slow names,
    /// the tail, are left out.
    pub(super) before_tail: Option<(u64, Duration)>,
    /// CPU time of the resolving thread.
    pub(super) cpu: Option<Duration>,
}

impl Arm {
    /// Names resolved a second.
    pub(super) fn rate(&self) -> f64 {
        rate(self.names, self.elapsed)
    }

    /// The same without the tail.
    pub(super) fn rate_before_tail(&self) -> Option<f64> {
        self.before_tail
            .map(|(names, elapsed)| rate(names, elapsed))
    }

    /// Share of the names that needed no lookup of their own.
    pub(super) fn hit_rate(&self) -> f64 {
        1.0 - self.queries as f64 / self.names.max(1) as f64
    }

    /// The mean time of a lookup, where all lookups together took `all`.
    pub(super) fn each(&self, all: Duration) -> Duration {
        all.div_f64(self.queries.max(1) as f64)
    }

    /// The limit of names a second for any client with this window and these lookups: window /
    /// latency x names per lookup. The latency is the model's.
    pub(super) fn bound(&self) -> f64 {
        rate(self.names, self.latency_modelled) * self.window as f64
    }
}

fn rate(names: u64, elapsed: Duration) -> f64 {
    names as f64 / elapsed.as_secs_f64().max(1e-9)
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// An arm that resolved this many names a second for a thousand seconds. Half of the names were
    /// hits.
    pub(in super::super) fn arm(way: Way, rate: u64) -> Arm {
        Arm {
            way,
            clock: Clock::Simulated,
            names: rate * 1_000,
            queries: rate * 500,
            elapsed: Duration::from_secs(1_000),
            latency: Duration::from_secs(500),
            latency_modelled: Duration::from_secs(400),
            window: 2,
            before_tail: Some((rate * 900, Duration::from_secs(500))),
            cpu: None,
        }
    }

    #[test]
    fn rates_and_the_bound_follow_from_what_was_counted() {
        let arm = arm(Way::Few, 10);
        assert_eq!(
            (arm.rate(), arm.rate_before_tail(), arm.hit_rate()),
            (10.0, Some(18.0), 0.5)
        );
        assert_eq!(arm.each(arm.latency), Duration::from_millis(100));
        // 400 s of latency in a window of 2 take 200 s at least.
        assert_eq!(arm.bound(), 50.0);
    }
}
