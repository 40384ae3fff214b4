//! `crawl.jsonl`: how every URL ended, a JSON object a line.

use crate::time::date;
use rhumb_config::Usages;
use rhumb_usage::{Purpose, Signals};
use rhumb_wire::message::{Change, Cut, Document, Origin, Outcome, OutcomeEntry, PageState};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A line, in the order of its keys.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Line<'a> {
    /// When the response came; without one, when the line was written.
    time: String,
    url: &'a str,
    outcome: Outcome,
    /// HTTP status of the last response; 0 without one.
    status: u16,
    /// Media type.
    #[serde(rename = "type")]
    media_type: &'a str,
    /// Bytes of the body.
    bytes: u64,
    truncated: bool,
    /// From sending the last request to the end of its body, in milliseconds.
    duration_ms: f64,
    attempts: u8,
    reason: &'a str,
    /// The page on which the URL stood; empty for a seed.
    via: &'a str,
    /// Links from a seed.
    depth: u16,
    /// Redirects in a row.
    redirects: u8,
    topic: &'a str,
    title: &'a str,
    language: &'a str,
    /// The key of the limit beyond which links of the document were left out; empty when all were
    /// taken.
    cut: &'a str,
    /// Whose challenge stood in the place of the page; empty when none did.
    wall: &'a str,
    /// What the page would cost, of a 402 whose server says so; else empty.
    price: &'a str,
    /// What the owner says of its use; not there when nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    usage: Option<LineUsage<'a>>,
    /// With the URL and the visit it tells a line from all others.
    serial: u64,
    /// Which visit of the page it is: 1 is the first.
    visit: u32,
    /// What it found.
    change: Change,
    /// The text of the page is another one than at the visit before; not there where nobody can
    /// tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    text_changed: Option<bool>,
    /// What was last told of the page before it.
    before: PageState,
    /// The page has no visit to come.
    #[serde(rename = "final")]
    is_final: bool,
}

/// What the owner says of the use of a page.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct LineUsage<'a> {
    #[serde(flatten)]
    signals: &'a Signals,
    /// What became of the page by that.
    verdict: &'static str,
    /// The purposes of the crawl that the owner refuses, if that changed anything.
    refused: Vec<Purpose>,
}

/// The line of an outcome, with its end; `now_ms` is the time where there was no response. Of a page
/// that is withheld it has nothing of the text.
pub(crate) fn line(
    entry: &OutcomeEntry,
    document: Option<&Document>,
    usages: &Usages,
    now_ms: u64,
) -> String {
    let of_document = document.map(|document| &document.usage);
    let signals = of_document.unwrap_or(&entry.usage);
    let verdict = usages.of(&entry.origin.topic).verdict(signals.stances);
    let OutcomeEntry {
        url,
        serial,
        origin,
        outcome,
        status,
        media_type,
        bytes,
        truncated,
        attempts,
        reason,
        wall,
        price,
        ..
    } = entry;
    let line = Line {
        time: date(if entry.fetched_at_ms == 0 {
            now_ms
        } else {
            entry.fetched_at_ms
        }),
        url,
        outcome: *outcome,
        status: *status,
        media_type,
        bytes: *bytes,
        truncated: *truncated,
        duration_ms: f64::from(entry.elapsed_us) / 1000.0,
        attempts: *attempts,
        reason,
        via: origin.found_on(),
        depth: origin.depth,
        redirects: origin.redirects,
        topic: &origin.topic,
        title: document
            .filter(|_| !verdict.withholds())
            .map_or("", |document| &document.title),
        language: document.map_or("", |document| &document.language),
        cut: document
            .and_then(|document| document.cut)
            .map_or("", Cut::key),
        wall,
        price,
        usage: (!signals.are_silent()).then(|| LineUsage {
            signals,
            verdict: verdict.name(),
            refused: verdict.refused().to_vec(),
        }),
        serial: *serial,
        visit: entry.visit,
        change: entry.change,
        text_changed: document.and_then(|document| document.text_changed),
        before: entry.before,
        is_final: entry.is_final,
    };
    let mut text = serde_json::to_string(&line).unwrap_or_default();
    text.push('\n');
    text
}

/// What a line says, for people: `ended fetched, status 200, at 2026-11-28T04:00:00.000Z; found on
/// …`.
pub(crate) fn in_words(line: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct Told {
        time: String,
        outcome: String,
        status: u16,
        reason: String,
        attempts: u8,
        via: String,
        depth: u16,
        redirects: u8,
        topic: String,
        truncated: bool,
        // Lines of earlier builds have none.
        #[serde(default)]
        cut: String,
        #[serde(default)]
        wall: String,
        #[serde(default)]
        price: String,
        #[serde(default)]
        usage: Option<ToldUsage>,
    }
    let told: Told = serde_json::from_str(line).ok()?;
    let Told {
        time,
        outcome,
        status,
        reason,
        attempts,
        via: page,
        depth,
        redirects,
        topic,
        truncated,
        cut,
        wall,
        price,
        usage,
    } = told;
    let origin = Origin {
        page,
        topic,
        depth,
        redirects,
        ..Origin::default()
    };
    let mut words = format!("ended {outcome}");
    if status != 0 {
        words.push_str(&format!(", status {status}"));
    }
    if !reason.is_empty() {
        words.push_str(&format!(", {reason}"));
    }
    if !wall.is_empty() {
        words.push_str(&format!(" by {wall}"));
    }
    if !price.is_empty() {
        words.push_str(&format!(", for {price}"));
    }
    let attempts = if attempts == 1 {
        String::new()
    } else {
        format!(", after {attempts} attempts")
    };
    words.push_str(&format!(", at {time}{attempts}; {}", origin.in_words()));
    if truncated {
        words.push_str("; its body was cut");
    }
    if !cut.is_empty() {
        words.push_str(&format!("; what is beyond {cut} was left out"));
    }
    if let Some(usage) = usage {
        words.push_str(&usage.in_words());
    }
    Some(words)
}

/// What a line says of use.
#[derive(Deserialize)]
struct ToldUsage {
    stances: BTreeMap<String, String>,
    statements: Vec<ToldStatement>,
    verdict: String,
    refused: Vec<Purpose>,
}

#[derive(Deserialize)]
struct ToldStatement {
    place: String,
    name: String,
    value: String,
}

impl ToldUsage {
    /// `; of its use is said: ai-train refused (header content-signal: ai-train=no), so it is
    /// withheld`.
    fn in_words(&self) -> String {
        let said = |(purpose, stance): (&String, &String)| {
            (stance != "unsaid").then(|| format!("{purpose} {stance}"))
        };
        let mut said: Vec<String> = self.stances.iter().filter_map(said).collect();
        if said.is_empty() {
            said.push("nothing that is understood".to_owned());
        }
        let statement = |ToldStatement { place, name, value }: &ToldStatement| {
            format!("{place} {name}: {value}")
        };
        let statements: Vec<String> = self.statements.iter().map(statement).collect();
        let mut words = format!(
            "; of its use is said: {} ({})",
            said.join(", "),
            statements.join("; ")
        );
        if !self.refused.is_empty() {
            words.push_str(&format!(", so it is {}", self.verdict));
        }
        words
    }
}

/// Tells a line from all others.
pub(crate) fn key(url: &str, serial: u64, visit: u32) -> u64 {
    let later = u64::from(visit.saturating_sub(1));
    rhumb_url::fingerprint(url)
        ^ serial.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ^ later.wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// The key of a line that was written.
pub(crate) fn key_of(line: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct Identity {
        url: String,
        serial: u64,
        // Lines of an earlier version are of first visits.
        #[serde(default)]
        visit: u32,
    }
    let Identity { url, serial, visit } = serde_json::from_str(line).ok()?;
    Some(key(&url, serial, visit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::tests::reader;
    use rhumb_config::Unwanted;

    #[test]
    fn a_line_says_how_a_url_ended_and_can_be_told_from_others() {
        let entry = OutcomeEntry {
            url: "http://a.test/\"x".into(),
            serial: 7,
            origin: Origin {
                page: "http://a.test/".into(),
                topic: "t".into(),
                depth: 2,
                redirects: 1,
                ..Origin::default()
            },
            outcome: Outcome::NotModified,
            status: 304,
            fetched_at_ms: 1000,
            media_type: "text/html".into(),
            elapsed_us: 1500,
            attempts: 2,
            visit: 2,
            change: Change::Unchanged,
            before: PageState::Page,
            ..OutcomeEntry::default()
        };
        let cut = Some(Cut::PageLinks);
        let document = Document {
            title: "A".into(),
            language: "en".into(),
            cut,
            ..Document::default()
        };
        let text = line(&entry, Some(&document), &Usages::default(), 5000);
        let expected = r#"{"time":"1970-01-01T00:00:01.000Z","url":"http://a.test/\"x","outcome":"not-modified","status":304,"type":"text/html","bytes":0,"truncated":false,"duration_ms":1.5,"attempts":2,"reason":"","via":"http://a.test/","depth":2,"redirects":1,"topic":"t","title":"A","language":"en","cut":"limits.links_per_page","wall":"","price":"","serial":7,"visit":2,"change":"unchanged","before":"page","final":false}"#;
        assert_eq!(text, format!("{expected}\n"));
        assert_eq!(key_of(&text), Some(key(&entry.url, 7, 2)));
        assert_ne!(key_of(&text), Some(key(&entry.url, 8, 2)));
        assert_ne!(key_of(&text), Some(key(&entry.url, 7, 1)));
        assert_eq!(key_of(&text[..text.len() - 2]), None);

        let words = "ended not-modified, status 304, at 1970-01-01T00:00:01.000Z, after 2 \
                     attempts; redirected to from http://a.test/ (depth 2, topic t); what is \
                     beyond limits.links_per_page was left out";
        assert_eq!(in_words(&text).as_deref(), Some(words));

        let of_before = text
            .replace(r#""cut":"limits.links_per_page","#, "")
            .replace(r#""truncated":false"#, r#""truncated":true"#);
        assert!(
            in_words(&of_before)
                .unwrap()
                .ends_with("topic t); its body was cut")
        );

        let refused = OutcomeEntry {
            outcome: Outcome::Refused,
            status: 402,
            reason: "challenged".into(),
            wall: "cloudflare".into(),
            price: "USD 0.01".into(),
            ..entry.clone()
        };
        let text = line(&refused, None, &Usages::default(), 5000);
        assert!(text.contains(r#""wall":"cloudflare","price":"USD 0.01""#));
        assert!(
            in_words(&text).unwrap().starts_with(
                "ended refused, status 402, challenged by cloudflare, for USD 0.01, at"
            )
        );

        let read = Document {
            text_changed: Some(false),
            ..Document::default()
        };
        let text = line(&entry, Some(&read), &Usages::default(), 5000);
        assert!(text.contains(r#""change":"unchanged","text_changed":false,"before":"page""#));

        let without = OutcomeEntry {
            fetched_at_ms: 0,
            ..entry
        };
        assert!(
            line(&without, None, &Usages::default(), 5000)
                .starts_with(r#"{"time":"1970-01-01T00:00:05.000Z""#)
        );
    }

    #[test]
    fn a_line_says_what_is_said_of_use_and_nothing_of_a_text_that_is_withheld() {
        let usage = Signals::of_robots_txt("content-signal: search=yes, ai-train=no\n");
        let document = Document {
            title: "A".into(),
            usage: usage.clone(),
            ..Document::default()
        };
        let entry = OutcomeEntry {
            url: "http://a.test/".into(),
            ..OutcomeEntry::default()
        };
        let said = r#""stances":{"search":"allowed","ai-input":"unsaid","ai-train":"refused","archive":"unsaid"},"statements":[{"place":"robots.txt","name":"content-signal","value":"search=yes, ai-train=no"}],"tdm_policy":null,"left_out":0"#;
        let words = "; of its use is said: ai-train refused, search allowed (robots.txt \
                     content-signal: search=yes, ai-train=no)";
        for (unwanted, title, verdict, end) in [
            (Unwanted::Record, "A", r#""kept","refused":[]"#, ""),
            (
                Unwanted::Mark,
                "A",
                r#""marked","refused":["ai-train"]"#,
                ", so it is marked",
            ),
            (
                Unwanted::Skip,
                "",
                r#""withheld","refused":["ai-train"]"#,
                ", so it is withheld",
            ),
        ] {
            let usages = reader(unwanted).usages;
            let text = line(&entry, Some(&document), &usages, 0);
            assert!(text.contains(&format!(r#""title":"{title}""#)), "{text}");
            let expected = format!(r#""usage":{{"version":1,{said},"verdict":{verdict}}},"#);
            assert!(text.contains(&expected), "{text}");
            let told = in_words(&text).unwrap();
            assert!(told.ends_with(&format!("{words}{end}")), "{told}");
        }
        let skipped = OutcomeEntry {
            outcome: Outcome::Disallowed,
            reason: "usage".into(),
            usage,
            ..entry
        };
        let text = line(&skipped, None, &reader(Unwanted::Skip).usages, 0);
        assert!(
            text.contains(said) && text.contains(r#""refused":["ai-train"]"#),
            "{text}"
        );
    }
}
