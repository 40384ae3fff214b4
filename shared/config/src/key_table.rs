//! The table of all keys, made of the fields of all sections.
//!
//! In: the fields. Out: each key with its path; the field of a path.

use super::keys::{Change, Field, Form, Value};
use super::pipeline::Pipeline;

/// A key, or a section, with its place.
#[derive(Clone, Debug)]
pub struct Key {
    /// Dotted path, as in `pipeline.yaml`; `*` stands for the name of a topic, `[]` behind a list
    /// for each of its sections.
    pub path: String,
    /// What is said of it.
    pub field: &'static Field,
}

/// The fields of the whole configuration.
pub(super) fn all_fields() -> &'static [Field] {
    match Pipeline::FORM {
        Form::Section(fields) => fields,
        _ => &[],
    }
}

/// All keys and sections, in the order of `pipeline.yaml`. A stream of an edge is one key: what it
/// may say is what `edges.defaults` says.
pub fn keys() -> Vec<Key> {
    let mut keys = Vec::new();
    collect(all_fields(), "", &mut keys);
    keys
}

fn collect(fields: &'static [Field], above: &str, keys: &mut Vec<Key>) {
    for field in fields {
        let path = below(above, field.name);
        keys.push(Key {
            path: path.clone(),
            field,
        });
        match field.form {
            Form::Section(fields) if field.default.is_none() => collect(fields, &path, keys),
            Form::Sections(fields) => collect(fields, &format!("{path}.*"), keys),
            Form::List(fields) => collect(fields, &format!("{path}[]"), keys),
            _ => {}
        }
    }
}

/// The path of a key below another one.
pub(super) fn below(above: &str, name: &str) -> String {
    match above {
        "" => name.to_owned(),
        above => format!("{above}.{name}"),
    }
}

/// The field of a key; none when there is no such key.
pub fn field(path: &str) -> Option<&'static Field> {
    let mut fields = all_fields();
    let mut parts = path.split('.');
    loop {
        let name = parts.next()?;
        let field = fields.iter().find(|field| field.name == name)?;
        let has_more = parts.clone().next().is_some();
        match field.form {
            _ if !has_more => return Some(field),
            Form::Section(below) => fields = below,
            Form::Sections(below) => {
                parts.next();
                if parts.clone().next().is_none() {
                    return Some(field);
                }
                fields = below;
            }
            _ => return None,
        }
    }
}

/// The keys that may change while the crawl runs.
pub fn live_keys() -> impl Iterator<Item = Key> {
    let is_live = |key: &Key| matches!(key.field.change, Change::Live(_));
    keys().into_iter().filter(is_live)
}
