//! Inputs that lives of an instance died of.
//!
//! ```text
//!  delivered again ─▶ noted ─▶ step ─▶ survived ─▶ forgotten
//!                               └─▶ death ─▶ the next life reads the note and counts ─▶ the third time: a dead letter
//! ```
//!
//! In: inputs that are stepped although a life may have died of them, and whether the step ended.
//! Out: what is to be written down before such a step, and which inputs are stepped no more.
//!
//! A process works on one step at a time. So an input that is noted while its step lasts was the
//! only one at work when the process died. A process that is killed, however often, dies in the
//! step of the same input three times only if somebody aims well.
//!
//! Not seen: what an input does after its step, such as to the work that its step asked for.

use rhumb_wire::message::Edge;
use serde::{Deserialize, Serialize};

/// An input goes to the dead letters when so many lives died of it.
const DEATHS_MAX: u32 = 3;
/// Inputs that are remembered at once; the oldest is forgotten first.
const REMEMBERED_MAX: usize = 64;

/// An input, the same one whenever it comes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InputName {
    edge: String,
    hash: u64,
}

impl InputName {
    /// The name of a message.
    pub fn of(edge: Edge, payload: &[u8]) -> InputName {
        InputName {
            edge: edge.name().to_owned(),
            hash: xxhash_rust::xxh3::xxh3_64(payload),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Death {
    of: InputName,
    times: u32,
}

/// The inputs that lives of an instance died of, and the one that is being stepped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deaths {
    in_hand: Option<InputName>,
    died: Vec<Death>,
}

impl Deaths {
    /// What the last life wrote down ([`to_bytes`](Self::to_bytes)): it died of the input that it
    /// had in hand.
    pub fn after(bytes: &[u8]) -> Deaths {
        let mut this: Deaths = serde_json::from_slice(bytes).unwrap_or_default();
        let Some(input) = this.in_hand.take() else {
            return this;
        };
        let times = this.forget(&input) + 1;
        if this.died.len() >= REMEMBERED_MAX {
            this.died.remove(0);
        }
        this.died.push(Death { of: input, times });
        this
    }

    /// For the next life.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Returns whether no life died of any input.
    pub fn is_empty(&self) -> bool {
        self.died.is_empty()
    }

    /// Returns whether lives died of this input, or may have: of one of its edge that is no dead
    /// letter yet.
    pub fn suspect(&self, edge: Edge, payload: &[u8]) -> bool {
        let mut of_edge = self
            .died
            .iter()
            .filter(|death| death.of.edge == edge.name());
        of_edge.any(|death| death.times < DEATHS_MAX || death.of == InputName::of(edge, payload))
    }

    /// Returns whether an input is to be stepped no more.
    pub fn are_too_many(&self, input: &InputName) -> bool {
        self.died
            .iter()
            .any(|death| death.of == *input && death.times >= DEATHS_MAX)
    }

    /// An input is about to be stepped, or the core panicked at it.
    pub fn note(&mut self, input: InputName) {
        self.in_hand = Some(input);
    }

    /// The step of the input in hand has ended.
    pub fn survived(&mut self, input: &InputName) {
        self.in_hand = None;
        self.forget(input);
    }

    /// How many lives had died of it.
    fn forget(&mut self, input: &InputName) -> u32 {
        let at = self.died.iter().position(|death| death.of == *input);
        at.map_or(0, |at| self.died.remove(at).times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(payload: &str) -> InputName {
        InputName::of(Edge::Pages, payload.as_bytes())
    }

    /// The next life, after one that died in the step of an input.
    fn died_of(mut deaths: Deaths, payload: &str) -> Deaths {
        deaths.note(input(payload));
        Deaths::after(&deaths.to_bytes())
    }

    #[test]
    fn three_deaths_of_an_input_are_too_many() {
        let mut deaths = Deaths::default();
        for times in 0..3 {
            assert!(!deaths.are_too_many(&input("a")), "{times}");
            deaths = died_of(deaths, "a");
        }
        assert!(deaths.are_too_many(&input("a")) && !deaths.are_too_many(&input("b")));
        deaths.survived(&input("a"));
        assert!(deaths.is_empty() && !deaths.are_too_many(&input("a")));
    }

    #[test]
    fn a_death_with_nothing_in_hand_or_with_another_input_does_not_count() {
        let mut deaths = died_of(died_of(Deaths::default(), "a"), "a");
        deaths = Deaths::after(&deaths.to_bytes());
        deaths = died_of(died_of(deaths, "b"), "c");
        assert!(
            ["a", "b", "c"]
                .iter()
                .all(|one| !deaths.are_too_many(&input(one)))
        );
        let same_bytes = InputName::of(Edge::UrlsFound, b"a");
        assert!(
            !died_of(deaths.clone(), "x").are_too_many(&same_bytes),
            "an input of another edge is another one"
        );
        assert!(died_of(deaths, "a").are_too_many(&input("a")));
    }

    #[test]
    fn an_input_that_is_survived_once_is_no_longer_suspected() {
        let mut deaths = died_of(died_of(Deaths::default(), "a"), "a");
        deaths.note(input("a"));
        deaths.survived(&input("a"));
        assert!(Deaths::after(&deaths.to_bytes()).is_empty());
    }

    #[test]
    fn so_many_inputs_are_remembered_and_no_more() {
        let mut deaths = Deaths::default();
        for number in 0..2 * REMEMBERED_MAX {
            deaths = died_of(deaths, &number.to_string());
        }
        assert_eq!(deaths.died.len(), REMEMBERED_MAX);
    }

    #[test]
    fn a_note_that_cannot_be_read_says_nothing() {
        assert!(Deaths::after(b"").is_empty() && Deaths::after(b"{\"in_hand\":7}").is_empty());
    }
}
