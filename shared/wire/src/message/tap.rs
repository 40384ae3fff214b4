//! Messages as a person or a script reads them at a tap: JSON, with the URLs that each is about,
//! and the traces of pages.

use super::envelope::Undecodable;
use super::frame::payloads;
use super::table::MESSAGES;
use super::trace::Trace;
use crate::topology::Edge;
use bytes::Bytes;
use serde_json::Value;

/// Reads a payload of an edge as JSON, with bodies as their length. What has the URL of a page, or
/// says on which page URLs stood, has the page's `trace` beside it.
///
/// # Errors
/// The payload is damaged, or of another edge or version.
pub fn json(edge: Edge, payload: &[u8]) -> Result<Value, Undecodable> {
    let row = MESSAGES
        .iter()
        .find(|row| row.edge == edge && !row.is_reply);
    row.map_or_else(
        || {
            Err(Undecodable::Corrupt(format!(
                "edge {} has no message",
                edge.name()
            )))
        },
        |row| {
            let mut message = (row.json)(payload)?;
            add_traces(&mut message);
            Ok(message)
        },
    )
}

/// Reads what a stream of an edge holds as one message, as JSON: the messages of a frame one by
/// one. What is damaged, or of another version, is left out.
pub fn all(edge: Edge, payload: &Bytes) -> Vec<Value> {
    let payloads = payloads(edge, payload.clone()).unwrap_or_default();
    payloads
        .iter()
        .filter_map(|payload| json(edge, payload).ok())
        .collect()
}

/// Keys whose value is the URL of a page: of a message itself, and of an origin.
const PAGE_KEYS: [&str; 2] = ["url", "page"];

fn add_traces(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(add_traces),
        Value::Object(fields) => {
            fields.values_mut().for_each(add_traces);
            let url = PAGE_KEYS
                .iter()
                .find_map(|key| fields.get(*key)?.as_str())
                .filter(|url| !url.is_empty());
            if let Some(trace) = url.map(Trace::of) {
                fields.insert("trace".to_owned(), trace.to_string().into());
            }
        }
        _ => {}
    }
}

/// The URL of the page of a trace, if a message in JSON form is about that page: has it or its URL,
/// or URLs that stood on it.
pub fn url_of(message: &Value, trace: Trace) -> Option<&str> {
    page_of(message, trace).or_else(|| {
        urls(message)
            .into_iter()
            .find(|url| Trace::of(url) == trace)
    })
}

fn page_of(message: &Value, trace: Trace) -> Option<&str> {
    match message {
        Value::Array(values) => values.iter().find_map(|value| page_of(value, trace)),
        Value::Object(fields) => {
            let own = PAGE_KEYS
                .iter()
                .filter_map(|key| fields.get(*key)?.as_str())
                .find(|url| Trace::of(url) == trace);
            own.or_else(|| fields.values().find_map(|value| page_of(value, trace)))
        }
        _ => None,
    }
}

/// The URLs that a message in JSON form is about, for filtering and for short lines.
pub fn urls(message: &Value) -> Vec<&str> {
    let mut urls = Vec::new();
    collect(message, &mut urls);
    urls
}

/// Keys whose values are URLs (or servers) that a message is about. The page that it was found on
/// is not among them.
const URL_KEYS: [&str; 4] = ["url", "urls", "server", "servers"];

fn collect<'a>(value: &'a Value, urls: &mut Vec<&'a str>) {
    match value {
        Value::Array(values) => values.iter().for_each(|value| collect(value, urls)),
        Value::Object(fields) => {
            for (key, value) in fields {
                match value {
                    Value::String(text) if URL_KEYS.contains(&key.as_str()) => urls.push(text),
                    Value::Array(values) if URL_KEYS.contains(&key.as_str()) => {
                        for value in values {
                            match value {
                                Value::String(text) => urls.push(text),
                                value => collect(value, urls),
                            }
                        }
                    }
                    value => collect(value, urls),
                }
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{
        FoundUrls, Origin, Outcome, OutcomeEntry, Outcomes, UrlList, encode, frame,
    };

    #[test]
    fn a_message_becomes_json_with_its_urls() {
        let message = FoundUrls {
            origin: Origin {
                page: "http://a.test/".into(),
                topic: "t".into(),
                depth: 1,
                ..Origin::default()
            },
            urls: ["http://b.test/x", "http://c.test/"].into_iter().collect(),
            ..FoundUrls::default()
        };
        let json = json(Edge::UrlsFound, &encode(&message)).unwrap();
        assert_eq!(json["origin"]["page"], "http://a.test/");
        assert_eq!(urls(&json), ["http://b.test/x", "http://c.test/"]);
        assert!(super::json(Edge::UrlsFound, b"nonsense").is_err());
        let damaged = Bytes::from_static(b"nonsense");
        let framed = frame(
            Edge::UrlsFound,
            &[encode(&message), damaged.clone(), encode(&message)],
        );
        assert_eq!(all(Edge::UrlsFound, &framed), [json.clone(), json.clone()]);
        assert_eq!(
            (
                all(Edge::UrlsFound, &encode(&message)),
                all(Edge::UrlsFound, &damaged)
            ),
            (vec![json], vec![])
        );
    }

    #[test]
    fn a_message_in_json_has_the_trace_of_each_page_that_it_is_about() {
        let page = Trace::of("http://a.test/");
        let origin = Origin {
            page: "http://a.test/".into(),
            topic: "t".into(),
            ..Origin::default()
        };
        let urls: UrlList = ["http://b.test/x", "http://c.test/"].into_iter().collect();
        let found = json(
            Edge::UrlsFound,
            &encode(&FoundUrls {
                origin: origin.clone(),
                urls,
                ..FoundUrls::default()
            }),
        )
        .unwrap();
        assert_eq!(found["origin"]["trace"], page.to_string());
        for (url, is_theirs) in [
            ("http://a.test/", true),
            ("http://c.test/", true),
            ("http://a.test/x", false),
        ] {
            assert_eq!(
                url_of(&found, Trace::of(url)),
                is_theirs.then_some(url),
                "{url}"
            );
        }
        let entry = OutcomeEntry {
            url: "http://b.test/x".into(),
            serial: 1,
            origin,
            outcome: Outcome::Fetched,
            status: 200,
            attempts: 1,
            ..OutcomeEntry::default()
        };
        let outcomes = json(
            Edge::Outcomes,
            &encode(&Outcomes {
                entries: vec![entry.clone()],
            }),
        )
        .unwrap();
        assert_eq!(outcomes["entries"][0]["trace"], entry.trace().to_string());
        assert_eq!(outcomes["entries"][0]["origin"]["trace"], page.to_string());
        let seeds = FoundUrls {
            origin: Origin::seed("t"),
            ..FoundUrls::default()
        };
        assert_eq!(
            json(Edge::UrlsFound, &encode(&seeds)).unwrap()["origin"].get("trace"),
            None,
            "seeds stood on no page"
        );
    }
}
