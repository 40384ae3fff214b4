//! Verdicts: what becomes of a page by the purposes of the crawl that its owner refuses.

use crate::Purpose;
use serde::Serialize;

/// What becomes of a page.
#[derive(
    Clone,
    Debug,
    Default,
    PartialEq,
    Eq,
    Serialize,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It is kept as any other.
    #[default]
    Kept,
    /// It is kept, and marked: its owner refuses these purposes of the crawl.
    Marked(Vec<Purpose>),
    /// Its body is not kept, for the same reason.
    Withheld(Vec<Purpose>),
}

impl Verdict {
    /// Its name in output.
    pub fn name(&self) -> &'static str {
        match self {
            Verdict::Kept => "kept",
            Verdict::Marked(_) => "marked",
            Verdict::Withheld(_) => "withheld",
        }
    }

    /// The purposes of the crawl that the owner refuses, as far as that changes anything.
    pub fn refused(&self) -> &[Purpose] {
        match self {
            Verdict::Kept => &[],
            Verdict::Marked(refused) | Verdict::Withheld(refused) => refused,
        }
    }

    /// Returns whether the body is not kept.
    pub fn withholds(&self) -> bool {
        matches!(self, Verdict::Withheld(_))
    }
}
