//! The schema of the chart's value `config`: every key with type, description and range, so that
//! helm refuses what the programs would refuse. Ranges of durations and sizes are patterns. Keys
//! that the chart sets are left out, and therefore refused.

use rhumb_config::{Bytes, Field, Form, keys};
use serde::Serialize as _;
use serde_json::ser::{PrettyFormatter, Serializer};
use serde_json::{Map, Value, json};

/// What the chart sets; `*` stands for one name.
const OWN: [&str; 8] = [
    "data",
    "broker.url",
    "broker.credentials",
    "broker.user",
    "broker.ca",
    "conductor.listen",
    "stages.*.listen",
    "stages.*.replicas",
];
const DURATION: &str = "[0-9]+(?:ms|s|m|h|d)";
const SIZE: &str = "[0-9]+(?:KiB|MiB|GiB|TiB)";
/// Units, in the smallest of their kind.
const TIMES: [(&str, u64); 5] = [
    ("ms", 1),
    ("s", 1_000),
    ("m", 60_000),
    ("h", 3_600_000),
    ("d", 86_400_000),
];
const SIZES: [(&str, u64); 4] = [
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// The schema of the chart's values with that of `config` in it.
pub(crate) fn within(values: &str) -> String {
    let mut lines = values.lines();
    let mut text = String::new();
    for line in lines.by_ref() {
        if line == "  \"config\": {" {
            break;
        }
        text += &format!("{line}\n");
    }
    let end = lines.find(|line| matches!(*line, "  }" | "  },"));
    let comma = end.unwrap_or_default().trim_start_matches("  }");
    let config: Vec<String> = pretty(&sorted(config()))
        .lines()
        .map(|line| format!("  {line}"))
        .collect();
    text += &format!("  \"config\": {}{comma}\n", config.join("\n").trim_start());
    for line in lines {
        text += &format!("{line}\n");
    }
    text
}

/// The same whatever the order of a map is.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<(String, Value)> = fields.into_iter().collect();
            fields.sort_by(|(a, _), (b, _)| a.cmp(b));
            let fields = fields
                .into_iter()
                .map(|(name, value)| (name, sorted(value)));
            Value::Object(fields.collect())
        }
        Value::Array(values) => values.into_iter().map(sorted).collect(),
        value => value,
    }
}

fn pretty(value: &Value) -> String {
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, PrettyFormatter::with_indent(b" "));
    value.serialize(&mut serializer).expect("it is written");
    String::from_utf8(bytes).expect("it is text")
}

fn config() -> Value {
    let top = keys().into_iter().filter(|key| !key.path.contains('.'));
    let fields: Vec<Field> = top.map(|key| *key.field).collect();
    let about = "Any part of pipeline.yaml, and made of the same fields. What the chart itself sets \
                 is refused.";
    let mut made = section(&fields, "", about).unwrap_or_default();
    made["properties"]["crawl"] = json!({
        "type": "string",
        "pattern": "^[A-Za-z0-9_-]*$",
        "description": "Name of the crawl, unique at its broker; empty: the release's name.",
    });
    // Every group of edges may have further ones: of stages beside the pipeline, and those that
    // earlier versions named though nothing could be said of them.
    let edges = &mut made["properties"]["edges"];
    for group in ["", "/properties/urls", "/properties/fetch"] {
        if let Some(group) = edges.pointer_mut(group) {
            group["additionalProperties"] = json!({ "type": "object" });
        }
    }
    made
}

/// Nothing of a section that is the chart's alone.
fn section(fields: &[Field], above: &str, about: &str) -> Option<Value> {
    let mut properties = Map::new();
    for field in fields {
        let path = format!("{above}.{}", field.name);
        let path = path.trim_start_matches('.');
        if is_own(path) {
            continue;
        }
        let meaning = field.meaning();
        let made = match field.form {
            Form::Section(fields) => section(fields, path, &meaning).map(|mut section| {
                if field.default.is_some() {
                    add_fixed(&mut section);
                }
                section
            }),
            _ => {
                let mut made = leaf(field);
                made["description"] = meaning.into();
                Some(made)
            }
        };
        properties.extend(made.map(|made| (field.name.to_owned(), made)));
    }
    (!properties.is_empty()).then(|| {
        json!({
            "type": "object",
            "additionalProperties": false,
            "description": about,
            "properties": properties,
        })
    })
}

/// Earlier versions named them of every stream. What they may say is for the programs to check.
fn add_fixed(stream: &mut Value) {
    for name in ["subject", "retention"] {
        stream["properties"][name] =
            json!({ "type": "string", "description": "Fixed; leave it out." });
    }
}

fn is_own(path: &str) -> bool {
    OWN.iter().any(|own| {
        let own: Vec<&str> = own.split('.').collect();
        let path: Vec<&str> = path.split('.').collect();
        own.len() == path.len()
            && own
                .iter()
                .zip(&path)
                .all(|(own, name)| *own == "*" || own == name)
    })
}

fn leaf(field: &Field) -> Value {
    match field.form {
        Form::YesNo => json!({ "type": "boolean" }),
        Form::Choice(choices) => {
            let names: Vec<&str> = choices.iter().map(|choice| choice.name).collect();
            json!({ "type": "string", "enum": names })
        }
        Form::Text | Form::Path => json!({ "type": "string" }),
        Form::Texts => json!({ "type": "array", "items": { "type": "string" } }),
        Form::List(_) => json!({ "type": "array", "items": { "type": "object" } }),
        Form::TextsByName | Form::Sections(_) | Form::Section(_) => json!({ "type": "object" }),
        Form::Whole => match ends(field, |end| end.parse::<u64>().ok()) {
            Some((low, high)) => json!({ "type": "integer", "minimum": low, "maximum": high }),
            None => json!({ "type": "integer", "minimum": 0 }),
        },
        Form::Number => match ends(field, |end| end.parse::<f64>().ok()) {
            Some((low, high)) => json!({ "type": "number", "minimum": low, "maximum": high }),
            None => json!({ "type": "number", "minimum": 0 }),
        },
        Form::Duration => {
            let millis = |end: &str| {
                let duration = humantime::parse_duration(end).ok()?;
                u64::try_from(duration.as_millis()).ok()
            };
            let pattern = match ends(field, millis) {
                Some((low, high)) => pattern(low, high, &TIMES),
                None => format!("^{DURATION}$"),
            };
            json!({ "type": "string", "pattern": pattern })
        }
        Form::Size => match ends(field, |end| Some(end.parse::<Bytes>().ok()?.0)) {
            Some((low, high)) => json!({ "anyOf": [
                { "type": "string", "pattern": pattern(low, high, &SIZES) },
                { "type": "integer", "minimum": low, "maximum": high },
            ] }),
            None => json!({ "anyOf": [
                { "type": "string", "pattern": format!("^{SIZE}$") },
                { "type": "integer", "minimum": 0 },
            ] }),
        },
    }
}

/// The ends of a range; none if one is not an amount but what another key has.
fn ends<T>(field: &Field, read: impl Fn(&str) -> Option<T>) -> Option<(T, T)> {
    let range = field.range?;
    let low = range.split(", ").next()?.split("..").next()?;
    let high = range.rsplit("..").next()?;
    Some((read(low)?, read(high)?))
}

/// Of whole numbers with a unit: from low to high, in the smallest unit.
fn pattern(low: u64, high: u64, units: &[(&str, u64)]) -> String {
    let parts: Vec<String> = units
        .iter()
        .map(|(unit, factor)| (unit, low.div_ceil(*factor), high / factor))
        .filter(|(_, first, last)| first <= last)
        .map(|(unit, first, last)| format!("(?:{}){unit}", digits(first, last)))
        .collect();
    format!("^(?:{})$", parts.join("|"))
}

/// A regular expression for the whole numbers from low to high.
fn digits(mut low: u64, high: u64) -> String {
    let mut parts = Vec::new();
    while low <= high {
        // The largest block of numbers from `low` on that differ only in their last digits.
        let mut zeros = 0;
        let is_block = |size: u64| low > 0 && low.is_multiple_of(size) && low + size - 1 <= high;
        while is_block(10_u64.pow(zeros + 1)) {
            zeros += 1;
        }
        let step = 10_u64.pow(zeros);
        let head = low / step;
        let mut top = head;
        while top % 10 < 9 && (top + 1) * step + step - 1 <= high {
            top += 1;
        }
        let lead = head.to_string();
        let lead = &lead[..lead.len() - 1];
        let last = match top > head {
            true => format!("[{}-{}]", head % 10, top % 10),
            false => (head % 10).to_string(),
        };
        let rest = match zeros {
            0 => String::new(),
            1 => "[0-9]".to_owned(),
            zeros => format!("[0-9]{{{zeros}}}"),
        };
        parts.push(format!("{lead}{last}{rest}"));
        low = (top + 1) * step;
    }
    parts.join("|")
}
