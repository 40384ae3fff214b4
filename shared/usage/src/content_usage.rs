//! Content-Usage: preferences of the IETF's working group AIPREF, in robots.txt and in a response
//! header.
//!
//! Sources: draft-ietf-aipref-vocab-08 of 14 September 2026, sections "Exemplary Serialization
//! Format" and "Processing Algorithm", and draft-ietf-aipref-attach-04 of 28 October 2025, the last
//! of each. A value is a dictionary of structured fields (RFC 9651, section 3.2) from labels to the
//! tokens `y` and `n`. Anything else says nothing of its label, and so do the labels of earlier
//! versions (`bots`, `all`, `train-genai`, `ai-output`); a value that is no dictionary says nothing
//! at all; of a label that is repeated the last value counts.

use crate::{Purpose, Stance, Stances};
use sfv::{BareItem, Dictionary, ListEntry, Parser};

/// What a value of `Content-Usage` says.
pub fn read(value: &[u8]) -> Stances {
    let mut stances = Stances::default();
    let Ok(dictionary) = Parser::new(value).parse::<Dictionary>() else {
        return stances;
    };
    for (label, entry) in &dictionary {
        let purpose = match label.as_str() {
            "search" => Purpose::Search,
            "ai-use" => Purpose::AiInput,
            "train-ai" => Purpose::AiTrain,
            _ => continue,
        };
        if let ListEntry::Item(item) = entry
            && let BareItem::Token(token) = &item.bare_item
        {
            match token.as_str() {
                "y" => stances.say(purpose, Stance::Allowed),
                "n" => stances.say(purpose, Stance::Refused),
                _ => {}
            }
        }
    }
    stances
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::purpose::tests::said;
    use Purpose::{AiInput, AiTrain, Search};
    use Stance::{Allowed, Refused};

    /// draft-ietf-aipref-vocab, "Exemplary Serialization Format" and "Usage Category Labels";
    /// draft-ietf-aipref-attach, "Examples".
    #[test]
    fn each_label_is_read_with_each_value() {
        assert_eq!(
            said(read(b"train-ai=y, search=n")),
            [(Search, Refused), (AiTrain, Allowed)]
        );
        assert_eq!(said(read(b"train-ai=n")), [(AiTrain, Refused)]);
        assert_eq!(said(read(b"ai-use=n")), [(AiInput, Refused)]);
        assert_eq!(
            said(read(b"ai-use=y, search=y")),
            [(Search, Allowed), (AiInput, Allowed)]
        );
    }

    /// draft-ietf-aipref-vocab, "Multiple Preferences".
    #[test]
    fn of_a_label_that_is_repeated_the_last_value_counts_and_may_say_nothing() {
        assert_eq!(
            said(read(b"train-ai=y, train-ai, search=n, search=\"n\"")),
            []
        );
        assert_eq!(said(read(b"train-ai=y, train-ai=n")), [(AiTrain, Refused)]);
        assert_eq!(said(read(b"train-ai=n, train-ai=y")), [(AiTrain, Allowed)]);
    }

    /// draft-ietf-aipref-vocab, "Preference Parameters".
    #[test]
    fn parameters_change_nothing() {
        assert_eq!(
            said(read(b"train-ai;allow=n, train-ai=y")),
            [(AiTrain, Allowed)]
        );
        assert_eq!(said(read(b"train-ai;has;parameters=\"?\"")), []);
        assert_eq!(said(read(b"train-ai=n;why=\"ours\"")), [(AiTrain, Refused)]);
    }

    /// The same: uppercase in a key is no dictionary; unknown labels are ignored.
    #[test]
    fn what_is_no_dictionary_says_nothing() {
        for nothing in [
            "Train-AI=n",
            "train-ai=n, Search=y",
            "train-ai=n,",
            "train-ai=N",
            "train-ai=no",
            "train-ai=?0",
            "train-ai=(n)",
            "genai=n",
            "train-ai=n search=n",
            "",
            "=",
            "\u{e9}=n",
        ] {
            assert_eq!(said(read(nothing.as_bytes())), [], "{nothing}");
        }
        assert_eq!(said(read(b"genai=n, search=n")), [(Search, Refused)]);
    }
}
