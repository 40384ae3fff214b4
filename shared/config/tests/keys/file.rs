//! `pipeline.yaml`: each key with its default, and a comment with its meaning and its range.

use rhumb_config::{Change, Field, Form, keys};

/// The column in which comments begin, and the last one that they have.
const COLUMN: usize = 32;
const WIDTH: usize = 120;

const HEAD: &str = "\
# The configuration of a rhumb crawl: every key with its default, its meaning and, last, its range. It is made of the fields
# in shared/config: change them, and write this file with tests/generate.
# A file given with --config may hold only the keys that it changes. Later layers override earlier ones: the defaults,
# --config FILE, the environment (RHUMB__KEY__PATH=VALUE), --set key.path=VALUE. Without --config, a pipeline.yaml in the
# current directory is read if there is one. Unknown keys are errors.
# Durations and sizes take suffixes (500ms, 30s, 2m, 1h; 512KiB, 4MiB).

";

pub(crate) fn text() -> String {
    let mut text = HEAD.to_owned();
    let top = keys().into_iter().filter(|key| !key.path.contains('.'));
    for key in top {
        let is_section = matches!(key.field.form, Form::Section(_) | Form::Sections(_));
        if is_section {
            text.push('\n');
        }
        write(key.field, 0, &mut text);
    }
    text
}

fn write(field: &Field, depth: usize, text: &mut String) {
    let default = match field.default {
        None => String::new(),
        Some("") => " \"\"".to_owned(),
        Some(default) => format!(" {default}"),
    };
    let key = format!("{}{}:{default}", "  ".repeat(depth), field.name);
    *text += &format!("{key:<0$}# ", COLUMN.max(key.len() + 1));
    let room = WIDTH - COLUMN - 2;
    let first = room.saturating_sub(key.len().saturating_sub(COLUMN - 1));
    *text += &wrapped(&comment(field), first, room).join(&next_line(""));
    text.push('\n');
    match field.form {
        Form::Section(fields) if field.default.is_none() => {
            fields
                .iter()
                .for_each(|field| write(field, depth + 1, text));
        }
        Form::Sections(fields) | Form::List(fields) => {
            *text += &next_line("Each has:")[1..];
            text.push('\n');
            fields.iter().for_each(|field| write_inner(field, 1, text));
        }
        _ => {}
    }
}

/// A key of a section that the file does not have, as a comment.
fn write_inner(field: &Field, depth: usize, text: &mut String) {
    let indent = "  ".repeat(depth);
    let default = match field.default {
        None | Some("null") => String::new(),
        Some(default) => format!(": {default}"),
    };
    let words = format!("{}{default} - {}", field.name, comment(field));
    let room = WIDTH - COLUMN - 2 - indent.len() - 2;
    let lines = wrapped(&words, room, room).join(&next_line(&format!("{indent}  ")));
    *text += &next_line(&format!("{indent}{lines}"))[1..];
    text.push('\n');
    if let Form::Section(fields) = field.form {
        fields
            .iter()
            .for_each(|field| write_inner(field, depth + 1, text));
    }
}

fn next_line(words: &str) -> String {
    format!("\n{}# {words}", " ".repeat(COLUMN))
}

fn comment(field: &Field) -> String {
    let meaning = field.meaning();
    let mut comment = meaning.trim_end_matches('.').to_owned();
    if field.change == Change::Fixed {
        comment += "; fixed for the life of a crawl";
    }
    if let Some(range) = field.range {
        comment += &format!("; {range}");
    }
    comment
}

/// The words on lines of at most so many characters, the first of which may have less room.
fn wrapped(words: &str, first: usize, others: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in words.split(' ') {
        let room = if lines.len() == 1 { first } else { others };
        let line = lines.last_mut().expect("there is one");
        let length = line.chars().count() + 1 + word.chars().count();
        match line.is_empty() {
            true => *line = word.to_owned(),
            false if length <= room => *line += &format!(" {word}"),
            false => lines.push(word.to_owned()),
        }
    }
    lines
}
