//! CPU: what the thread that asks has used of it.

use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// CPU time of this thread so far.
pub(crate) fn of_this_thread() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    // Neither is ever negative.
    Duration::new(
        time.tv_sec.unsigned_abs(),
        u32::try_from(time.tv_nsec).unwrap_or(0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn work_takes_cpu_time_and_sleep_takes_none() {
        let begun = of_this_thread();
        std::thread::sleep(Duration::from_millis(30));
        let slept = of_this_thread() - begun;
        assert!(slept < Duration::from_millis(20), "{slept:?}");
        for number in 0..200_000u64 {
            black_box(number * number);
        }
        assert!(of_this_thread() > begun + slept);
    }
}
