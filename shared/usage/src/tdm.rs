//! TDMRep: whether an owner reserves the right to mine text and data.
//!
//! Source: TDM Reservation Protocol, final report of the W3C Community Group (2024), sections
//! "TDM Header Field in HTTP Responses" and "TDM Metadata in HTML Content": `tdm-reservation` is 1
//! (reserved) or 0 (not reserved), any other value is an error and says nothing; `tdm-policy` is a
//! URL where the right may be had.
//!
//! Mining is what a model's training and a model's input are made by. A search that leads to the
//! page and an archive are no part of the report, so it says nothing of them.

use crate::{Purpose, Stance, Stances};

/// The name of the header, and of the meta.
pub const RESERVATION: &str = "tdm-reservation";
/// The same of the policy.
pub const POLICY: &str = "tdm-policy";

/// What a value of `tdm-reservation` says.
pub fn read(value: &[u8]) -> Stances {
    let stance = match value.trim_ascii() {
        b"1" => Stance::Refused,
        b"0" => Stance::Allowed,
        _ => return Stances::default(),
    };
    let mut stances = Stances::default();
    stances.say(Purpose::AiInput, stance);
    stances.say(Purpose::AiTrain, stance);
    stances
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reservation_refuses_mining_and_says_nothing_of_search_and_archive() {
        for (value, stance) in [
            ("1", Stance::Refused),
            (" 1 ", Stance::Refused),
            ("0", Stance::Allowed),
            ("2", Stance::Unsaid),
            ("", Stance::Unsaid),
            ("01", Stance::Unsaid),
            ("true", Stance::Unsaid),
        ] {
            let stances = read(value.as_bytes());
            assert_eq!(stances.on(Purpose::AiTrain), stance, "{value}");
            assert_eq!(stances.on(Purpose::AiInput), stance, "{value}");
            assert_eq!(stances.on(Purpose::Search), Stance::Unsaid);
            assert_eq!(stances.on(Purpose::Archive), Stance::Unsaid);
        }
    }
}
