//! Keys: each key of `pipeline.yaml` is said once, at its field.
//!
//! ```text
//!                        ┌─▶ struct, read by serde
//! section! { fields } ───┤
//!                        └─▶ table of fields ─▶ defaults, ranges, `rhumb set`, pipeline.yaml,
//!                                               the chart's schema, docs/keys.md
//! ```
//!
//! In: a struct whose fields say meaning, default, range, and when they may change. Out: the struct,
//! and a [`Field`] for each of its fields. Invariant: no other place says any of it.

use super::units;
use rhumb_wire::topology::StageName;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// A key, or a section of keys, as its field says it.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    /// The last part of its path.
    pub name: &'static str,
    /// Its doc comment, line by line.
    pub(crate) words: &'static [&'static str],
    /// Its default as `pipeline.yaml` has it; none of a section.
    pub default: Option<&'static str>,
    /// The accepted values: `low..high`, or several such with commas between them. An end is an
    /// amount, or the key that has it: one beside this one, or one with its whole path.
    pub range: Option<&'static str>,
    /// When it may change.
    pub change: Change,
    /// The form of its values.
    pub form: Form,
}

/// When a key may have another value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// While the crawl runs: these stages go by it.
    Live(&'static [StageName]),
    /// When the crawl is resumed.
    Resume,
    /// Never: it is fixed for the life of the crawl.
    Fixed,
}

/// The form of a value.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// true or false.
    YesNo,
    /// A whole number.
    Whole,
    /// A number.
    Number,
    /// A duration with a suffix.
    Duration,
    /// Bytes, plain or with a suffix.
    Size,
    /// Text.
    Text,
    /// The path of a file or of a folder.
    Path,
    /// A list of texts.
    Texts,
    /// Texts by name.
    TextsByName,
    /// One of these words.
    Choice(&'static [Choice]),
    /// Keys below this one.
    Section(&'static [Field]),
    /// Sections by name, such as topics.
    Sections(&'static [Field]),
    /// A list of sections.
    List(&'static [Field]),
}

/// A word that a key accepts.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// The word.
    pub name: &'static str,
    /// Its doc comment, line by line.
    pub(crate) words: &'static [&'static str],
}

/// The lines of a doc comment as one.
fn one_line(words: &[&str]) -> String {
    let trimmed: Vec<&str> = words.iter().map(|line| line.trim()).collect();
    trimmed.join(" ")
}

/// A sentence without its capital letter.
fn within_a_sentence(words: &str) -> String {
    let mut letters = words.chars();
    let first = letters.next().into_iter().flat_map(char::to_lowercase);
    first.chain(letters).collect()
}

impl Field {
    /// What it means, without its range: sentences, and each word that it accepts.
    pub fn meaning(&self) -> String {
        let mut meaning = one_line(self.words);
        if let Form::Choice(choices) = self.form {
            let told = |choice: &Choice| {
                let words = within_a_sentence(&one_line(choice.words));
                format!("{}: {}", choice.name, words.trim_end_matches('.'))
            };
            let told: Vec<String> = choices.iter().map(told).collect();
            meaning += &format!(" {}.", told.join(" | "));
        }
        meaning
    }

    /// The stages that go by it when it changes while the crawl runs; none if it may not.
    pub fn live(&self) -> &'static [StageName] {
        match self.change {
            Change::Live(stages) => stages,
            Change::Resume | Change::Fixed => &[],
        }
    }
}

/// A type that a key may have.
pub(crate) trait Value: Clone + DeserializeOwned {
    const FORM: Form;

    fn read<'de, D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        Self::deserialize(input)
    }

    /// Takes over what may change while the crawl runs; `is_live` says it of a single value.
    fn take(&mut self, from: &Self, is_live: bool) {
        if is_live {
            *self = from.clone();
        }
    }
}

/// Reads the value of a field.
pub(crate) fn read<'de, D: Deserializer<'de>, T: Value>(input: D) -> Result<T, D::Error> {
    T::read(input)
}

macro_rules! forms {
    ($($form:ident: $($kind:ty),+;)+) => {
        $($(impl Value for $kind {
            const FORM: Form = Form::$form;
        })+)+
    };
}

forms! {
    YesNo: bool;
    Whole: u8, u16, u32, u64, usize;
    Number: f64;
    Size: units::Bytes;
    Text: String, SocketAddr;
    Path: PathBuf;
}

impl Value for Duration {
    const FORM: Form = Form::Duration;

    fn read<'de, D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        units::duration(input)
    }
}

/// What may be left out is null.
impl<T: Value> Value for Option<T> {
    const FORM: Form = T::FORM;

    fn read<'de, D: Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(bound = "T: Value")]
        struct Read<T: Value>(#[serde(deserialize_with = "read")] T);
        Ok(Option::<Read<T>>::deserialize(input)?.map(|Read(value)| value))
    }
}

impl<T: Value> Value for Vec<T> {
    const FORM: Form = match T::FORM {
        Form::Section(fields) => Form::List(fields),
        _ => Form::Texts,
    };
}

impl<T: Value> Value for BTreeMap<String, T> {
    const FORM: Form = match T::FORM {
        Form::Section(fields) => Form::Sections(fields),
        _ => Form::TextsByName,
    };

    fn take(&mut self, from: &Self, is_live: bool) {
        if is_live || matches!(Self::FORM, Form::Sections(_)) {
            *self = from.clone();
        }
    }
}

/// A struct of keys, each with its meaning and
/// `#[key(default = "…", range = "low..high", live(Stage, …))]`. Range and the last part may be
/// missing; `fixed` in the place of `live` is for what holds for the life of a crawl. A field
/// without `key` is a section. What stands in `beside` is no key.
macro_rules! section {
    (@name $field:ident) => { stringify!($field) };
    (@name $field:ident $name:literal) => { $name };
    (@default) => { None };
    (@default default = $default:literal $($rest:tt)*) => { Some($default) };
    (@range default = $default:literal, range = $range:literal $($rest:tt)*) => { Some($range) };
    (@range $($rest:tt)*) => { None };
    (@change default = $default:literal, range = $range:literal $(, $($when:tt)+)?) => {
        section!(@when $($($when)+)?)
    };
    (@change $(default = $default:literal $(, $($when:tt)+)?)?) => {
        section!(@when $($($($when)+)?)?)
    };
    (@when) => { $crate::keys::Change::Resume };
    (@when fixed) => { $crate::keys::Change::Fixed };
    (@when live($($stage:ident),+)) => {
        $crate::keys::Change::Live(&[$(rhumb_wire::topology::StageName::$stage),+])
    };
    (
        $(#[doc = $about:literal])+
        $(#[derive($($derived:ident),+)])?
        pub struct $name:ident {
            $(
                $(#[doc = $words:literal])+
                $(#[key($($said:tt)+)])?
                $(#[serde(rename = $renamed:literal)])?
                pub $field:ident: $kind:ty,
            )+
        }
        $(beside {
            $(
                $(#[doc = $beside_words:literal])+
                $visibility:vis $beside:ident: $beside_kind:ty,
            )+
        })?
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Debug, serde::Deserialize $($(, $derived)+)?)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $(
                $(#[doc = $words])+
                $(#[serde(rename = $renamed)])?
                #[serde(deserialize_with = "crate::keys::read")]
                pub $field: $kind,
            )+
            $($(
                $(#[doc = $beside_words])+
                #[serde(skip)]
                $visibility $beside: $beside_kind,
            )+)?
        }

        impl $crate::keys::Value for $name {
            const FORM: $crate::keys::Form = {
                const FIELDS: &[$crate::keys::Field] = &[$($crate::keys::Field {
                    name: section!(@name $field $($renamed)?),
                    words: &[$($words),+],
                    default: section!(@default $($($said)+)?),
                    range: section!(@range $($($said)+)?),
                    change: section!(@change $($($said)+)?),
                    form: <$kind as $crate::keys::Value>::FORM,
                }),+];
                $crate::keys::Form::Section(FIELDS)
            };

            fn take(&mut self, from: &Self, _: bool) {
                $(
                    let is_live = matches!(
                        section!(@change $($($said)+)?),
                        $crate::keys::Change::Live(_)
                    );
                    $crate::keys::Value::take(&mut self.$field, &from.$field, is_live);
                )+
            }
        }
    };
}

/// The words that a key accepts, each with its meaning.
macro_rules! choice {
    (
        $(#[doc = $about:literal])+
        $(#[derive($($derived:ident),+)])?
        pub enum $name:ident {
            $(
                $(#[doc = $words:literal])+
                #[serde(rename = $word:literal)]
                $variant:ident,
            )+
        }
    ) => {
        $(#[doc = $about])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize $($(, $derived)+)?)]
        pub enum $name {
            $(
                $(#[doc = $words])+
                #[serde(rename = $word)]
                $variant,
            )+
        }

        impl $crate::keys::Value for $name {
            const FORM: $crate::keys::Form = $crate::keys::Form::Choice(&[$(
                $crate::keys::Choice { name: $word, words: &[$($words),+] }
            ),+]);
        }
    };
}

pub(crate) use {choice, section};
