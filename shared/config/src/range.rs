//! Ranges: the values that a key accepts, of those that its type has.
//!
//! In: a tree whose values have the types of their keys. Out: every value that is out of its range,
//! as a message with key, value and what is accepted.

use super::key_table::{all_fields, below};
use super::keys::{Field, Form};
use super::tree::Tree;
use super::units::Bytes;
use std::fmt;
use std::time::Duration;

/// A value that can be compared with another one of its form.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
enum Amount {
    Whole(u64),
    Number(f64),
    Time(Duration),
    Size(Bytes),
}

impl Amount {
    fn read(form: Form, text: &str) -> Option<Amount> {
        match form {
            Form::Whole => text.parse().ok().map(Amount::Whole),
            Form::Number => text.parse().ok().map(Amount::Number),
            Form::Duration => humantime::parse_duration(text.trim())
                .ok()
                .map(Amount::Time),
            Form::Size => text.parse().ok().map(Amount::Size),
            _ => None,
        }
    }

    fn divided(self, by: u32) -> Amount {
        match self {
            Amount::Whole(number) => Amount::Whole(number / u64::from(by)),
            Amount::Number(number) => Amount::Number(number / f64::from(by)),
            Amount::Time(time) => Amount::Time(time / by),
            Amount::Size(Bytes(bytes)) => Amount::Size(Bytes(bytes / u64::from(by))),
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Amount::Whole(number) => number.fmt(f),
            Amount::Number(number) => number.fmt(f),
            Amount::Time(time) => humantime::format_duration(*time).fmt(f),
            Amount::Size(bytes) => bytes.fmt(f),
        }
    }
}

/// Every value of a configuration that is out of its range, in the order of `pipeline.yaml`.
pub(super) fn errors(root: &Tree) -> Vec<String> {
    let mut errors = Vec::new();
    section(root, all_fields(), root, "", &mut errors);
    errors
}

fn section(root: &Tree, fields: &[Field], tree: &Tree, above: &str, errors: &mut Vec<String>) {
    for field in fields {
        let Some(value) = tree.get(field.name) else {
            continue;
        };
        let path = below(above, field.name);
        match (field.form, value) {
            (Form::Section(fields), _) => section(root, fields, value, &path, errors),
            (Form::Sections(fields), Tree::Object(named)) => {
                for (name, value) in named {
                    section(root, fields, value, &below(&path, name), errors);
                }
            }
            (Form::List(fields), Tree::Array(listed)) => {
                for (number, value) in listed.iter().enumerate() {
                    section(root, fields, value, &format!("{path}[{number}]"), errors);
                }
            }
            _ => errors.extend(error(root, field, tree, value, &path)),
        }
    }
}

/// What is wrong with a value that stands beside `siblings`.
fn error(root: &Tree, field: &Field, siblings: &Tree, value: &Tree, path: &str) -> Option<String> {
    let amount = Amount::read(field.form, &text(value))?;
    let mut accepted = Vec::new();
    for part in field.range?.split(", ") {
        let (low, high) = part.split_once("..").unwrap_or((part, part));
        let low = end(root, field.form, siblings, low)?;
        let high = end(root, field.form, siblings, high)?;
        if low <= amount && amount <= high {
            return None;
        }
        accepted.push(match low == high {
            true => low.to_string(),
            false => format!("{low} to {high}"),
        });
    }
    let accepted = accepted.join(", ");
    Some(format!(
        "configuration key {path} = {amount}: accepted are {accepted}"
    ))
}

/// The end of a range: an amount, or what a key has, as it is or divided.
fn end(root: &Tree, form: Form, siblings: &Tree, text_of_end: &str) -> Option<Amount> {
    if let Some(amount) = Amount::read(form, text_of_end) {
        return Some(amount);
    }
    let (key, by) = text_of_end.split_once(" / ").unwrap_or((text_of_end, "1"));
    let pointer = format!("/{}", key.replace('.', "/"));
    let value = siblings.get(key).or_else(|| root.pointer(&pointer))?;
    Some(Amount::read(form, &text(value))?.divided(by.parse().ok()?))
}

/// A value as it is written.
fn text(value: &Tree) -> String {
    match value {
        Tree::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::key_table::keys;
    use super::super::load::shipped;
    use super::super::tree::set;
    use super::*;

    /// A range that could not be read would accept everything.
    #[test]
    fn every_range_has_a_low_end_and_a_high_end() {
        let (tree, _) = shipped();
        for key in keys() {
            let path = format!("/{}", key.path.replace('.', "/"));
            let (above, _) = path.rsplit_once('/').unwrap();
            let siblings = tree.pointer(above).unwrap_or(&tree);
            for part in key.field.range.iter().flat_map(|range| range.split(", ")) {
                let (low, high) = part.split_once("..").unwrap_or((part, part));
                let low = end(&tree, key.field.form, siblings, low);
                let high = end(&tree, key.field.form, siblings, high);
                assert!(low.is_some() && low <= high, "{}: {part}", key.path);
            }
        }
    }

    #[test]
    fn a_value_is_compared_with_what_another_key_has() {
        let (mut tree, _) = shipped();
        for (key, value, expected) in [
            ("stages.scheduler.slice_min", "2s", "10ms to 1s"),
            ("stages.resolver.cache.lifetime_max", "1m", "30m to 1day"),
            ("stages.fetcher.renew_every", "11s", "100ms to 10s"),
        ] {
            set(&mut tree, key, value.into());
            let found = errors(&tree);
            let named = |error: &String| error.contains(key) && error.ends_with(expected);
            assert!(found.iter().any(named), "{key}: {found:?}");
        }
    }

    #[test]
    fn a_range_of_two_parts_accepts_both() {
        let (mut tree, _) = shipped();
        let key = "stages.dedup.partition_urls_max";
        let mut found = |value: u64| {
            set(&mut tree, key, value.into());
            errors(&tree)
        };
        assert_eq!(found(0), [""; 0]);
        assert_eq!(found(1000), [""; 0]);
        assert_eq!(
            found(1),
            [format!(
                "configuration key {key} = 1: accepted are 0, 1000 to 1000000000000"
            )]
        );
    }
}
