//! Signals: all that is said of the use of one page, as written and as understood.

use crate::Stances;
use serde::{Serialize, Serializer};
use std::fmt;

/// The version of this reading. It rises when the same statements are understood differently.
pub const VERSION: u8 = 1;
/// Statements of a page that are kept; what others say counts, too.
pub const STATEMENTS_MAX: usize = 32;
/// Bytes of a value that are kept; it is understood whole.
pub const VALUE_BYTES_MAX: usize = 512;

/// Where a statement stands.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
)]
pub enum Place {
    /// In robots.txt.
    RobotsTxt,
    /// In a header of the response.
    Header,
    /// In a meta of the page.
    Meta,
}

impl Place {
    /// Its name in output.
    pub fn name(self) -> &'static str {
        match self {
            Place::RobotsTxt => "robots.txt",
            Place::Header => "header",
            Place::Meta => "meta",
        }
    }
}

impl Serialize for Place {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Something that an owner says, as written.
#[derive(
    Clone, Debug, PartialEq, Eq, Serialize, rkyv::Archive, rkyv::Serialize, rkyv::Deserialize,
)]
pub struct Statement {
    /// Where it stands.
    pub place: Place,
    /// The name of the record, header or meta, in lower case.
    pub name: String,
    /// Its value on one line, from at most [`VALUE_BYTES_MAX`] bytes; what is no UTF-8 in it is
    /// replaced.
    pub value: String,
}

/// `header content-signal: ai-train=no`.
impl fmt::Display for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Statement { place, name, value } = self;
        write!(f, "{} {name}: {value}", place.name())
    }
}

/// All that is said of one page.
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
pub struct Signals {
    /// [`VERSION`] of the build that read them; 0 when nothing is said.
    pub version: u8,
    /// As understood, from all statements.
    pub stances: Stances,
    /// As written, in the order robots.txt, headers, metas; at most [`STATEMENTS_MAX`].
    pub statements: Vec<Statement>,
    /// Where the right to mine may be had (TDMRep): the first address that was given.
    pub tdm_policy: Option<String>,
    /// Statements beyond [`STATEMENTS_MAX`].
    pub left_out: u32,
}

impl Signals {
    /// Returns whether nothing is said.
    pub fn are_silent(&self) -> bool {
        self.statements.is_empty()
    }

    /// Bytes that it takes in a message.
    pub fn bytes(&self) -> usize {
        let statement = |statement: &Statement| {
            size_of::<Statement>() + statement.name.len() + statement.value.len()
        };
        let policy = self.tdm_policy.as_ref().map_or(0, String::len);
        self.statements.iter().map(statement).sum::<usize>() + policy
    }
}
