//! `docs/keys.md`: a row for each key.

use rhumb_config::{Change, Field, Form, Key, keys};

const HEAD: &str = "\
# Keys of the configuration

Every key of [`pipeline.yaml`](../pipeline.yaml), which has the same words in another form. A range has both its ends. A key may
change *live* while the crawl runs (`rhumb set`; the stages that are named go by it), with `rhumb scale`, *on resume*
(`rhumb crawl --resume --set KEY=VALUE`), or *never* in the life of a crawl. `*` stands for the name of a topic, `[]` for each entry
of a list.

This page is made of the fields in `shared/config`: change them, and then write it with `tests/generate`.
";

pub(crate) fn text() -> String {
    let mut text = HEAD.to_owned();
    let (sections, single): (Vec<Key>, Vec<Key>) = keys()
        .into_iter()
        .filter(|key| !key.path.contains('.'))
        .partition(|key| is_section(key.field));
    table("The crawl", "", &single, &mut text);
    for section in sections {
        let within = |path: &str| {
            let rest = path.strip_prefix(&section.path);
            rest.is_some_and(|rest| rest.starts_with('.'))
        };
        let keys: Vec<Key> = keys().into_iter().filter(|key| within(&key.path)).collect();
        let title = format!("`{}`", section.path);
        table(&title, &section.field.meaning(), &keys, &mut text);
    }
    text
}

fn is_section(field: &Field) -> bool {
    matches!(field.form, Form::Section(_) | Form::Sections(_)) && field.default.is_none()
        || matches!(field.form, Form::Sections(_))
}

fn table(title: &str, meaning: &str, keys: &[Key], text: &mut String) {
    *text += &format!("\n## {title}\n\n");
    if !meaning.is_empty() {
        *text += &format!("{meaning}\n\n");
    }
    *text += "| key | default | range | changes | meaning |\n| --- | --- | --- | --- | --- |\n";
    for Key { path, field } in keys.iter().filter(|key| !is_section(key.field)) {
        let default = field.default.map_or_else(String::new, shown);
        let range = field.range.unwrap_or_default();
        let changes = changes(path, field);
        let meaning = field.meaning().replace('|', "\\|");
        *text += &format!("| `{path}` | {default} | {range} | {changes} | {meaning} |\n");
    }
}

fn shown(default: &str) -> String {
    match default {
        "" => "empty".to_owned(),
        "null" => String::new(),
        default => format!("`{default}`"),
    }
}

fn changes(path: &str, field: &Field) -> String {
    if path.starts_with("stages.") && path.ends_with(".replicas") {
        return "`rhumb scale`".to_owned();
    }
    match field.change {
        Change::Live(stages) => {
            let stages: Vec<&str> = stages.iter().map(|stage| stage.name()).collect();
            format!("live: {}", stages.join(", "))
        }
        Change::Resume => "on resume".to_owned(),
        Change::Fixed => "never".to_owned(),
    }
}
