//! Defaults: what a key has that nobody set.
//!
//! In: the fields of sections. Out: trees and sections in which every key has its default.

use super::keys::{Field, Form, Value};
use super::tree::{Tree, merge};
use super::yaml::parse_value;

/// Every key of a section with its default, as a file that says everything would have it.
///
/// # Panics
/// A default is no YAML.
pub(super) fn defaults(fields: &[Field]) -> Tree {
    let of = |field: &Field| match (field.default, field.form) {
        (Some(default), _) => parse_value(field.name, default).expect("a default is YAML"),
        (None, Form::Section(fields)) => defaults(fields),
        (None, _) => Tree::Null,
    };
    let all = fields
        .iter()
        .map(|field| (field.name.to_owned(), of(field)));
    Tree::Object(all.collect())
}

/// A section in which every key has its default.
///
/// # Panics
/// A default is not accepted.
pub(super) fn default_section<T: Value>() -> T {
    let Form::Section(fields) = T::FORM else {
        panic!("this is no section");
    };
    T::deserialize(defaults(fields)).expect("defaults are accepted")
}

/// Says of each section with a name, and of each in a list, the defaults of what it does not say.
pub(super) fn fill_in(fields: &[Field], tree: &mut Tree) {
    for field in fields {
        let Some(value) = tree.get_mut(field.name) else {
            continue;
        };
        match (field.form, value) {
            (Form::Section(fields), value) => fill_in(fields, value),
            (Form::Sections(fields), Tree::Object(sections)) => {
                lay_over_defaults(fields, sections.values_mut());
            }
            (Form::List(fields), Tree::Array(sections)) => {
                lay_over_defaults(fields, sections.iter_mut());
            }
            _ => {}
        }
    }
}

fn lay_over_defaults<'a>(fields: &[Field], sections: impl Iterator<Item = &'a mut Tree>) {
    let defaults = defaults(fields);
    for section in sections.filter(|section| section.is_object()) {
        let mut filled = defaults.clone();
        merge(&mut filled, section.take());
        *section = filled;
    }
}
