//! The section `usage`: what the crawl's pages are for, and what becomes of those whose owners
//! refuse that.

use super::defaults::default_section;
use super::keys::{Form, Value, choice, section};
use rhumb_usage::{Purpose, Stances, Verdict};

impl Value for Purpose {
    const FORM: Form = Form::Text;
}

section! {
    /// What pages are for.
    pub struct Usage {
        /// What the pages are used for: search, ai-input, ai-train, archive. Without any, what
        /// owners say of use is recorded and changes nothing.
        #[key(default = "[]", live(Scheduler, Parser, Archiver))]
        pub purposes: Vec<Purpose>,
        /// What becomes of a page whose owner refuses one of these purposes.
        #[key(default = "record", live(Scheduler, Parser, Archiver))]
        pub unwanted: Unwanted,
    }
}

choice! {
    /// What becomes of a page whose owner refuses a purpose of the crawl.
    pub enum Unwanted {
        /// What any other page does.
        #[serde(rename = "record")]
        Record,
        /// It is kept, and marked wherever it is told of.
        #[serde(rename = "mark")]
        Mark,
        /// Its body is neither archived nor told of; its headers and what its owner says are.
        #[serde(rename = "withhold")]
        Withhold,
        /// It is not fetched where robots.txt alone says so, and else withheld.
        #[serde(rename = "skip")]
        Skip,
    }
}

section! {
    /// What differs from `usage`; what is left out is as there.
    pub struct TopicUsage {
        /// As usage.purposes, and in its place.
        #[key(default = "null", live(Scheduler, Parser, Archiver))]
        pub purposes: Option<Vec<Purpose>>,
        /// What becomes of a page whose owner refuses one of them; as usage.unwanted if it is left
        /// out.
        #[key(default = "null", live(Scheduler, Parser, Archiver))]
        pub unwanted: Option<Unwanted>,
    }
}

impl TopicUsage {
    /// The whole section.
    pub(super) fn over(&self, usage: &Usage) -> Usage {
        Usage {
            purposes: self.purposes.as_ref().unwrap_or(&usage.purposes).clone(),
            unwanted: self.unwanted.unwrap_or(usage.unwanted),
        }
    }
}

impl Default for Usage {
    fn default() -> Self {
        default_section()
    }
}

impl Usage {
    /// What becomes of a page of whose use this is said.
    pub fn verdict(&self, said: Stances) -> Verdict {
        let refused = said.refused(&self.purposes);
        match self.unwanted {
            _ if refused.is_empty() => Verdict::Kept,
            Unwanted::Record => Verdict::Kept,
            Unwanted::Mark => Verdict::Marked(refused),
            Unwanted::Withhold | Unwanted::Skip => Verdict::Withheld(refused),
        }
    }

    /// Returns whether a page is not fetched of whose use robots.txt says this.
    pub fn skips(&self, said: Stances) -> bool {
        self.unwanted == Unwanted::Skip && self.verdict(said).withholds()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rhumb_usage::Stance;

    fn said(refused: &[Purpose]) -> Stances {
        let mut stances = Stances::default();
        refused
            .iter()
            .for_each(|&purpose| stances.say(purpose, Stance::Refused));
        stances
    }

    #[test]
    fn what_becomes_of_a_page_follows_from_the_purposes_that_are_refused() {
        let both = vec![Purpose::AiTrain, Purpose::AiInput];
        let train = vec![Purpose::AiTrain];
        for (unwanted, verdict, skips) in [
            (Unwanted::Record, Verdict::Kept, false),
            (Unwanted::Mark, Verdict::Marked(train.clone()), false),
            (Unwanted::Withhold, Verdict::Withheld(train.clone()), false),
            (Unwanted::Skip, Verdict::Withheld(train.clone()), true),
        ] {
            let usage = Usage {
                purposes: both.clone(),
                unwanted,
            };
            let refused = said(&[Purpose::Search, Purpose::AiTrain]);
            assert_eq!(usage.verdict(refused), verdict);
            assert_eq!(usage.skips(refused), skips);
            // Silence is neither consent nor refusal, and other purposes are none of ours.
            for kept in [said(&[]), said(&[Purpose::Search, Purpose::Archive])] {
                assert_eq!(usage.verdict(kept), Verdict::Kept);
                assert!(!usage.skips(kept));
            }
            let none = Usage {
                purposes: Vec::new(),
                unwanted,
            };
            assert_eq!(none.verdict(said(&Purpose::ALL)), Verdict::Kept);
        }
    }
}
