//! Processor time that copying takes, on one thread: what `moves.cpu_share` bounds.
//!
//! In: the beginning of some work. Out: how long the thread has worked since then. Time in which
//! the thread waits, for the disk or for the processor, is no work: a busy machine does not make
//! copying rest longer.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Work that began on this thread.
pub(super) struct Work(Duration);

impl Work {
    /// It begins now.
    pub(super) fn begin() -> Self {
        Work(used())
    }

    /// How long this thread, the one that began, has worked.
    pub(super) fn done(&self) -> Duration {
        used().saturating_sub(self.0)
    }
}

fn used() -> Duration {
    // Neither is negative.
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn rest_is_no_work() {
        let work = Work::begin();
        std::thread::sleep(Duration::from_millis(50));
        assert!(work.done() < Duration::from_millis(25), "{:?}", work.done());
        let began = Instant::now();
        while work.done() < Duration::from_millis(5) {
            assert!(
                began.elapsed() < Duration::from_secs(20),
                "{:?}",
                work.done()
            );
        }
    }
}
