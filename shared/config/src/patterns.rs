//! Lists of regular expressions, compiled when the configuration is read.

use super::keys::{Form, Value};
use regex::RegexSet;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A list of regular expressions. Matching takes time linear in the text, whatever the expressions
/// are.
#[derive(Clone, Debug, Default)]
pub struct Patterns(RegexSet);

impl Patterns {
    /// Compiles them.
    ///
    /// # Errors
    /// One is no regular expression, or too large.
    pub fn new<S: AsRef<str>>(patterns: &[S]) -> Result<Self, regex::Error> {
        RegexSet::new(patterns).map(Patterns)
    }

    /// Returns whether there are no expressions.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether one of them matches somewhere in the text.
    pub fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

impl PartialEq for Patterns {
    fn eq(&self, other: &Self) -> bool {
        self.0.patterns() == other.0.patterns()
    }
}

impl Eq for Patterns {}

impl Serialize for Patterns {
    fn serialize<S: Serializer>(&self, output: S) -> Result<S::Ok, S::Error> {
        self.0.patterns().serialize(output)
    }
}

impl Value for Patterns {
    const FORM: Form = Form::Texts;
}

impl<'de> Deserialize<'de> for Patterns {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        let patterns = Vec::<String>::deserialize(input)?;
        Patterns::new(&patterns).map_err(|error| {
            // The library shows the place on lines of its own.
            let text = error
                .to_string()
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ");
            de::Error::custom(format!("not a regular expression: {text}"))
        })
    }
}
