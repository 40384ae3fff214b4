//! Purposes of a page, and what its owner says of each.

use serde::ser::{SerializeMap as _, Serializer};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;
use std::str::FromStr;

/// What a page may be used for.
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
pub enum Purpose {
    /// An index that leads its users to the page.
    Search,
    /// Input of a model that answers with it: retrieval, grounding.
    AiInput,
    /// Training a model.
    AiTrain,
    /// A copy that is kept, and shown to others.
    Archive,
}

impl Purpose {
    /// All purposes, in the order of [`Stances`].
    pub const ALL: [Purpose; 4] = [
        Purpose::Search,
        Purpose::AiInput,
        Purpose::AiTrain,
        Purpose::Archive,
    ];

    /// Its name in configuration and output.
    pub fn name(self) -> &'static str {
        match self {
            Purpose::Search => "search",
            Purpose::AiInput => "ai-input",
            Purpose::AiTrain => "ai-train",
            Purpose::Archive => "archive",
        }
    }
}

impl fmt::Display for Purpose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Purpose {
    type Err = String;

    fn from_str(name: &str) -> Result<Purpose, String> {
        Purpose::ALL
            .into_iter()
            .find(|purpose| purpose.name() == name)
            .ok_or_else(|| {
                format!("'{name}' is no purpose: search, ai-input, ai-train and archive are")
            })
    }
}

impl Serialize for Purpose {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Purpose {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Purpose, D::Error> {
        let name = String::deserialize(input)?;
        name.parse().map_err(serde::de::Error::custom)
    }
}

/// What an owner says of one purpose. A later one is stricter.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
)]
pub enum Stance {
    /// Nothing, which is neither consent nor refusal.
    #[default]
    Unsaid,
    /// The use is allowed.
    Allowed,
    /// The use is refused.
    Refused,
}

impl Stance {
    /// Its name in output.
    pub fn name(self) -> &'static str {
        match self {
            Stance::Unsaid => "unsaid",
            Stance::Allowed => "allowed",
            Stance::Refused => "refused",
        }
    }
}

/// A stance for each purpose.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    rkyv::Archive,
    rkyv::Serialize,
    rkyv::Deserialize,
)]
pub struct Stances([Stance; Purpose::ALL.len()]);

impl Stances {
    /// The stance on a purpose.
    pub fn on(self, purpose: Purpose) -> Stance {
        self.0[purpose as usize]
    }

    /// Each purpose with the stance on it.
    pub fn each(self) -> impl Iterator<Item = (Purpose, Stance)> {
        Purpose::ALL
            .into_iter()
            .map(move |purpose| (purpose, self.on(purpose)))
    }

    /// Adds what is said of a purpose: the stricter stance counts.
    pub fn say(&mut self, purpose: Purpose, stance: Stance) {
        let place = &mut self.0[purpose as usize];
        *place = stance.max(*place);
    }

    /// Adds all that is said elsewhere.
    pub fn join(&mut self, other: Stances) {
        for (purpose, stance) in other.each() {
            self.say(purpose, stance);
        }
    }

    /// Those of these purposes that are refused.
    pub fn refused(self, purposes: &[Purpose]) -> Vec<Purpose> {
        let refused = purposes
            .iter()
            .filter(|&&purpose| self.on(purpose) == Stance::Refused);
        refused.copied().collect()
    }

    /// Returns whether nothing is said.
    pub fn are_unsaid(self) -> bool {
        self == Stances::default()
    }

    /// Two bits a purpose, as they are sent and stored; 0 when nothing is said.
    pub fn to_bits(self) -> u8 {
        self.0
            .iter()
            .rev()
            .fold(0, |bits, &stance| bits << 2 | stance as u8)
    }

    /// The stances that these bits are of. What no build writes reads as unsaid.
    pub fn from_bits(bits: u8) -> Stances {
        let stance = |purpose: Purpose| match bits >> (2 * purpose as u8) & 3 {
            1 => Stance::Allowed,
            2 => Stance::Refused,
            _ => Stance::Unsaid,
        };
        Stances(Purpose::ALL.map(stance))
    }
}

/// A map from purposes to stances.
impl Serialize for Stances {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(Purpose::ALL.len()))?;
        for (purpose, stance) in self.each() {
            map.serialize_entry(purpose.name(), stance.name())?;
        }
        map.end()
    }
}

/// `search=allowed, ai-input=unsaid, …`.
impl fmt::Display for Stances {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "";
        for (purpose, stance) in self.each() {
            write!(f, "{before}{purpose}={}", stance.name())?;
            before = ", ";
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Each purpose of which something is said, with the stance on it.
    pub(crate) fn said(stances: Stances) -> Vec<(Purpose, Stance)> {
        stances
            .each()
            .filter(|(_, stance)| *stance != Stance::Unsaid)
            .collect()
    }

    #[test]
    fn the_stricter_stance_counts_in_any_order_and_bits_keep_them() {
        let all = [Stance::Unsaid, Stance::Allowed, Stance::Refused];
        for first in all {
            for second in all {
                let mut stances = Stances::default();
                stances.say(Purpose::AiTrain, first);
                stances.say(Purpose::AiTrain, second);
                stances.say(Purpose::Archive, first);
                assert_eq!(stances.on(Purpose::AiTrain), first.max(second));
                assert_eq!(stances.on(Purpose::Search), Stance::Unsaid);
                assert_eq!(Stances::from_bits(stances.to_bits()), stances);
                assert_eq!(stances.to_bits() == 0, stances.are_unsaid());
                let mut joined = Stances::default();
                joined.join(stances);
                assert_eq!(joined, stances);
            }
        }
    }

    #[test]
    fn only_a_refusal_refuses() {
        let mut stances = Stances::default();
        stances.say(Purpose::Search, Stance::Allowed);
        stances.say(Purpose::AiTrain, Stance::Refused);
        let both = [Purpose::Search, Purpose::AiTrain];
        assert_eq!(stances.refused(&both), [Purpose::AiTrain]);
        assert_eq!(stances.refused(&[Purpose::Search, Purpose::AiInput]), []);
        assert_eq!(stances.refused(&[]), []);
        assert_eq!(
            stances.to_string(),
            "search=allowed, ai-input=unsaid, ai-train=refused, archive=unsaid"
        );
    }

    #[test]
    fn names_are_read_back() {
        for purpose in Purpose::ALL {
            assert_eq!(purpose.name().parse(), Ok(purpose));
        }
        assert!(
            "ai_train"
                .parse::<Purpose>()
                .unwrap_err()
                .contains("ai-train")
        );
    }
}
