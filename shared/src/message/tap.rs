//! Messages as a person or a script reads them at a tap: JSON, with the URLs that each is about.

use super::envelope::Undecodable;
use super::table::MESSAGES;
use crate::topology::Edge;
use serde_json::Value;

/// Reads a payload of an edge as JSON, with bodies as their length.
///
/// # Errors
/// The payload is damaged, or of another edge or version.
pub fn json(edge: Edge, payload: &[u8]) -> Result<Value, Undecodable> {
    let row = MESSAGES.iter().find(|row| row.edge == edge && !row.is_reply);
    row.map_or_else(
        || Err(Undecodable::Corrupt(format!("edge {} has no message", edge.name()))),
        |row| (row.json)(payload),
    )
}

/// The URLs that a message in JSON form is about, for filtering and for short lines.
pub fn urls(message: &Value) -> Vec<&str> {
    let mut urls = Vec::new();
    collect(message, &mut urls);
    urls
}

/// Keys whose values are URLs (or servers) that a message is about. The page that it was found on is not among them.
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
    use crate::message::{FoundUrls, Origin, encode};

    #[test]
    fn a_message_becomes_json_with_its_urls() {
        let message = FoundUrls {
            origin: Origin { page: "http://a.test/".into(), topic: "t".into(), depth: 1, ..Origin::default() },
            urls: ["http://b.test/x", "http://c.test/"].into_iter().collect(),
            anchors: Vec::new(),
        };
        let json = json(Edge::UrlsFound, &encode(&message)).unwrap();
        assert_eq!(json["origin"]["page"], "http://a.test/");
        assert_eq!(urls(&json), ["http://b.test/x", "http://c.test/"]);
        assert!(super::json(Edge::UrlsFound, b"nonsense").is_err());
    }
}
