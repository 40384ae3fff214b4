//! `crawl.jsonl`: how every URL ended, a JSON object a line.

use crate::time::date;
use rhumb_wire::message::{Cut, Document, Origin, Outcome, OutcomeEntry};
use serde::{Deserialize, Serialize};

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
    /// With the URL it tells a line from all others.
    serial: u64,
}

/// The line of an outcome, with its end; `now_ms` is the time where there was no response.
pub(crate) fn line(entry: &OutcomeEntry, document: Option<&Document>, now_ms: u64) -> String {
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
        title: document.map_or("", |document| &document.title),
        language: document.map_or("", |document| &document.language),
        cut: document
            .and_then(|document| document.cut)
            .map_or("", Cut::key),
        serial: *serial,
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
    Some(words)
}

/// Tells a line from all others.
pub(crate) fn key(url: &str, serial: u64) -> u64 {
    rhumb_url::fingerprint(url) ^ serial.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The key of a line that was written.
pub(crate) fn key_of(line: &str) -> Option<u64> {
    #[derive(Deserialize)]
    struct Identity {
        url: String,
        serial: u64,
    }
    let Identity { url, serial } = serde_json::from_str(line).ok()?;
    Some(key(&url, serial))
}

#[cfg(test)]
mod tests {
    use super::*;

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
            bytes: 0,
            truncated: false,
            elapsed_us: 1500,
            attempts: 2,
            reason: String::new(),
        };
        let cut = Some(Cut::PageLinks);
        let document = Document {
            title: "A".into(),
            language: "en".into(),
            cut,
            ..Document::default()
        };
        let text = line(&entry, Some(&document), 5000);
        let expected = r#"{"time":"1970-01-01T00:00:01.000Z","url":"http://a.test/\"x","outcome":"not-modified","status":304,"type":"text/html","bytes":0,"truncated":false,"duration_ms":1.5,"attempts":2,"reason":"","via":"http://a.test/","depth":2,"redirects":1,"topic":"t","title":"A","language":"en","cut":"limits.links_per_page","serial":7}"#;
        assert_eq!(text, format!("{expected}\n"));
        assert_eq!(key_of(&text), Some(key(&entry.url, 7)));
        assert_ne!(key_of(&text), Some(key(&entry.url, 8)));
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

        let without = OutcomeEntry {
            fetched_at_ms: 0,
            ..entry
        };
        assert!(line(&without, None, 5000).starts_with(r#"{"time":"1970-01-01T00:00:05.000Z""#));
    }
}
