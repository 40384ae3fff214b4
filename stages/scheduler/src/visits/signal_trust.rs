//! Signal trust: what was learned of the signals of a server, of each kind apart.
//!
//! Of the kinds that have signalled a page the one is heeded whose signals are true more often. A
//! page that had no signal yet has none that could be missed: that it is silent says nothing of it.
//!
//! Invariant: a kind takes memory, and bytes of a row, once something was learned of it.

use super::evidence::{self, Evidence};
use super::posterior::Posterior;
use super::signalled::Signalled;
use super::signals::Signals;
use super::visit::Visit;
use rhumb_wire::message::SignalKind;

/// What was learned of each kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SignalTrust([Option<Box<Evidence>>; SignalKind::ALL.len()]);

/// The signals of a page that are heeded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Heeded {
    /// What is believed of them.
    pub signals: Signals,
    /// Those since the last visit.
    pub count: u32,
    /// Their kind; none where the page had no signal yet.
    pub kind: Option<SignalKind>,
}

impl SignalTrust {
    /// Returns whether nothing was learned yet.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// Learns from a visit of a page that had a signal of this kind, at that time or before.
    /// `before` is what was known of it.
    pub fn learn(&mut self, kind: SignalKind, visit: &Visit, before: &Posterior) {
        let evidence = self.0[kind as usize].get_or_insert_default();
        evidence.learn(visit, before);
    }

    /// What is believed of a kind.
    pub fn of(&self, kind: SignalKind) -> Signals {
        let evidence = self.0[kind as usize].as_ref();
        evidence.map_or(Signals::NONE, |evidence| evidence.signals())
    }

    /// The expected share of the signals of a kind that tell of a change: a little, at first.
    pub fn precision(&self, kind: SignalKind) -> f64 {
        let evidence = self.0[kind as usize].as_deref().copied();
        evidence.unwrap_or_default().precision()
    }

    /// Those of a page's signals that are heeded.
    pub fn heeded(&self, signalled: &Signalled) -> Heeded {
        let of = |kind| Heeded {
            signals: self.of(kind),
            count: signalled.count(kind),
            kind: Some(kind),
        };
        let by_truth = |one: &Heeded, other: &Heeded| {
            let share = |heeded: &Heeded| heeded.signals.false_share();
            share(one).total_cmp(&share(other))
        };
        signalled
            .kinds()
            .map(of)
            .min_by(by_truth)
            .unwrap_or_default()
    }

    /// The bytes for a row: which kinds there are, and 160 for each.
    pub fn to_bytes(&self) -> Vec<u8> {
        let kinds = self.0.iter().enumerate();
        let kinds = kinds.filter(|(_, evidence)| evidence.is_some());
        let mut bytes = vec![kinds.map(|(kind, _)| 1 << kind).sum()];
        for evidence in self.0.iter().flatten() {
            bytes.extend_from_slice(&evidence.to_bytes());
        }
        bytes
    }

    /// From the bytes of a row; none when they are not such.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (kinds, mut bytes) = bytes.split_first()?;
        let mut trust = SignalTrust::default();
        for (kind, evidence) in trust.0.iter_mut().enumerate() {
            if kinds & 1 << kind != 0 {
                let (of_kind, rest) = bytes.split_first_chunk::<{ evidence::BYTES }>()?;
                *evidence = Some(Box::new(Evidence::from_bytes(of_kind)));
                bytes = rest;
            }
        }
        bytes.is_empty().then_some(trust)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use SignalKind::{Feed, Sitemap};

    const RATE: f64 = 1e-5;

    /// After 60 visits before which signals were as often true.
    fn learned(kind: SignalKind, precision: f64) -> SignalTrust {
        let mut trust = SignalTrust::default();
        for number in 0..60 {
            let visit = Visit {
                wait_s: 0.1 / RATE,
                is_changed: f64::from(number % 10) < 10.0 * precision,
                signals: 1,
                age_s: None,
            };
            trust.learn(kind, &visit, &Posterior::known(RATE));
        }
        trust
    }

    fn signalled(kinds: &[SignalKind]) -> Signalled {
        let mut signalled = Signalled::default();
        for kind in kinds {
            signalled.take(*kind, 1);
        }
        signalled
    }

    #[test]
    fn nothing_is_kept_of_a_server_without_signals() {
        let trust = SignalTrust::default();
        assert!(trust.is_empty());
        assert_eq!(trust.heeded(&signalled(&[Feed])).signals, Signals::NONE);
        assert_eq!(trust.to_bytes(), [0]);
    }

    #[test]
    fn the_kind_is_heeded_that_is_true_more_often() {
        let mut trust = learned(Sitemap, 0.5);
        trust.0[Feed as usize] = learned(Feed, 0.9).0[Feed as usize].clone();
        let kind = |kinds: &[SignalKind]| trust.heeded(&signalled(kinds)).kind;
        assert_eq!(kind(&[Sitemap]), Some(Sitemap));
        assert_eq!(kind(&[Sitemap, Feed]), Some(Feed));
        assert_eq!(kind(&[]), None);
        assert!(trust.of(Feed).false_share() < trust.of(Sitemap).false_share());
    }

    #[test]
    fn rows_keep_what_was_learned() {
        for trust in [SignalTrust::default(), learned(Feed, 0.9)] {
            let bytes = trust.to_bytes();
            assert_eq!(SignalTrust::from_bytes(&bytes), Some(trust));
            for length in 0..bytes.len() {
                assert_eq!(SignalTrust::from_bytes(&bytes[..length]), None);
            }
        }
    }
}
