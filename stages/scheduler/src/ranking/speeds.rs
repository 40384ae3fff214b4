//! Mean speeds of all servers: the estimate for a server that was never measured.
//!
//! Source: Cao, Jiang and Singh 2003, section 3. Servers that are new have no starting values
//! there. Here the mean of all measurements stands for them.

/// A running mean, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mean {
    sum: u64,
    measured: u64,
}

/// Before anything was measured.
const UNMEASURED_US: u64 = 100_000;

impl Mean {
    pub(crate) fn add(&mut self, micros: u32) {
        self.sum = self.sum.saturating_add(u64::from(micros));
        self.measured += 1;
    }

    /// The server's own estimate, or the mean where it has none.
    pub(crate) fn or_own(&self, own: u32) -> f64 {
        let micros = match own {
            0 => self.sum.checked_div(self.measured).unwrap_or(UNMEASURED_US),
            own => u64::from(own),
        };
        micros.max(1) as f64 / 1e6
    }
}

/// Means over all servers of the instance, since it started.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Speeds {
    pub(crate) connect: Mean,
    pub(crate) response: Mean,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_was_never_measured_is_as_fast_as_the_others() {
        let mut mean = Mean::default();
        assert_eq!(mean.or_own(0), 0.1);
        [10_000, 30_000]
            .into_iter()
            .for_each(|micros| mean.add(micros));
        assert_eq!((mean.or_own(0), mean.or_own(5)), (0.02, 5e-6));
    }
}
