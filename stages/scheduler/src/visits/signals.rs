//! Signals: how far a server's signals of one kind, such as the dates of its sitemaps, tell that
//! pages change.
//!
//! A page that changes at rate D has unsignalled changes at rate a = (1 - recall) D and signals at
//! rate g = recall D / precision. After time t and n signals its copy is current with probability
//! e^(-a t) (1 - precision)^n: a signal moves the clock of its page forward.
//!
//! Source: Busa-Fekete and others 2025 (signals with precision and recall).

/// A signal that moves the product of unsignalled rate and time by less is ignored.
const PUSH_MIN: f64 = 0.1;
/// No signal moves it by more: e^-32 is nothing.
const PUSH_MAX: f64 = 32.0;

/// What is believed of the signals of a server and kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Signals {
    /// The share of the changes that are signalled, 0 to 1.
    recall: f64,
    /// The share of the signals that tell of a change, 0 to 1.
    precision: f64,
    /// How far a signal moves the product of unsignalled rate and time.
    push: f64,
}

impl Signals {
    /// No signals, or such as are not worth to be heeded.
    pub const NONE: Signals = Signals {
        recall: 0.0,
        precision: 0.0,
        push: 0.0,
    };

    /// Signals of this recall and precision, each from 0 to 1: [none](Signals::NONE) when a signal
    /// says so little that ln(g / f) is below 0.1, f being the rate of false ones.
    pub fn new(recall: f64, precision: f64) -> Self {
        let push = -(-precision).ln_1p();
        if recall <= 0.0 || push.is_nan() || push < PUSH_MIN {
            return Signals::NONE;
        }
        Signals {
            recall,
            precision,
            push: push.min(PUSH_MAX),
        }
    }

    /// Returns whether a signal changes anything.
    pub fn are_heeded(&self) -> bool {
        self.push > 0.0
    }

    /// The share of the changes that are signalled.
    pub fn recall(&self) -> f64 {
        self.recall
    }

    /// The share of the signals that are false.
    pub fn false_share(&self) -> f64 {
        1.0 - self.precision
    }

    /// How far a signal moves the product of unsignalled rate and time; 0 where signals are not
    /// heeded.
    pub fn push(&self) -> f64 {
        self.push
    }

    /// a: unsignalled changes a second of a page with this rate of change.
    pub fn unsignalled(&self, rate: f64) -> f64 {
        (1.0 - self.recall) * rate
    }

    /// g: signals a second of a page with this rate of change; 0 where they are not heeded.
    pub fn rate(&self, rate: f64) -> f64 {
        if self.are_heeded() {
            self.recall * rate / self.precision
        } else {
            0.0
        }
    }

    /// a x: how far a page is from being current for certain, after this wait and so many signals.
    /// It is current with probability e^(-a x).
    pub(super) fn distance(&self, rate: f64, wait_s: f64, signals: u32) -> f64 {
        self.unsignalled(rate) * wait_s + f64::from(signals) * self.push
    }

    /// b: by how many seconds a signal moves the clock of a page with this rate of change.
    pub fn clock_push_s(&self, rate: f64) -> f64 {
        if self.are_heeded() {
            self.push / self.unsignalled(rate)
        } else {
            0.0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_says_nothing_is_not_heeded() {
        assert_eq!(Signals::new(0.0, 1.0), Signals::NONE);
        assert_eq!(Signals::new(0.9, 0.09), Signals::NONE);
        assert!(Signals::new(0.9, 0.1).are_heeded());
        assert_eq!(Signals::NONE.distance(2.0, 3.0, 7), 6.0);
        assert_eq!(Signals::NONE.clock_push_s(2.0), 0.0);
        assert_eq!(Signals::NONE.rate(2.0), 0.0);
    }

    #[test]
    fn a_signal_moves_the_clock_by_b() {
        // r = 0.5 and f = D: g = 1.5 D, so a third is true. b = ln(g / f) / a.
        let signals = Signals::new(0.5, 1.0 / 3.0);
        assert!((signals.rate(2.0) - 3.0).abs() < 1e-12);
        assert!((signals.clock_push_s(2.0) - 1.5f64.ln() / 1.0).abs() < 1e-12);
        assert!((signals.distance(2.0, 4.0, 2) - (4.0 + 2.0 * 1.5f64.ln())).abs() < 1e-12);
        let perfect = Signals::new(1.0, 1.0);
        assert_eq!(perfect.distance(2.0, 4.0, 0), 0.0);
        assert_eq!(perfect.clock_push_s(2.0), f64::INFINITY);
    }
}
