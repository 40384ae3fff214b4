//! Unjudged: what the last visit of a page taught by its body alone, while nobody has said whether
//! its text is another one.
//!
//! Invariant: with it, what the visit taught can be taken back.

use crate::store::codec::{Reader, Writer};
use crate::visits::{Estimate, OfKind, Signalled};

/// What was known of a page before its last visit, which brought another body.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Unjudged {
    /// Of its rate of change.
    pub(crate) estimate: Estimate,
    /// Its interval by the rule of that name, in seconds.
    pub(crate) interval_s: u64,
    /// Time between the last two visits, in milliseconds.
    pub(crate) wait_ms: u64,
    /// The signals of a change before it.
    pub(crate) signalled: Signalled,
}

impl Unjudged {
    /// Time between the last two visits, in seconds.
    pub(crate) fn wait_s(&self) -> f64 {
        self.wait_ms as f64 / 1e3
    }

    pub(crate) fn write(&self, row: &mut Writer) {
        row.array(self.estimate.to_bytes());
        row.number(self.interval_s);
        row.number(self.wait_ms);
        for of_kind in self.signalled.to_kinds() {
            row.number(of_kind.count.into());
            row.number(of_kind.latest_ms);
        }
    }

    pub(crate) fn read(row: &mut Reader<'_>) -> Option<Self> {
        let estimate = Estimate::from_bytes(row.array()?);
        let interval_s = row.number()?;
        let wait_ms = row.number()?;
        let mut of_kinds = Signalled::default().to_kinds();
        for of_kind in &mut of_kinds {
            *of_kind = OfKind {
                count: row.small()?,
                latest_ms: row.number()?,
            };
        }
        Some(Unjudged {
            estimate,
            interval_s,
            wait_ms,
            signalled: Signalled::from_kinds(of_kinds),
        })
    }
}
