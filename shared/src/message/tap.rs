//! Messages as a person or a script reads them at a tap: JSON, bodies as their length.

use super::{
    Ask, ContentAsk, DnsRefresh, Documents, Edge, Errand, FilteredUrls, FoundUrls, NewUrls, Outcomes, Page, ReadyUrls,
    Report, SplitUrls, ToFetcher, Undecodable, decode,
};
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

/// A payload of an edge as JSON.
pub fn json(edge: Edge, payload: &[u8]) -> Result<Value, Undecodable> {
    fn value<M: Serialize>(message: Result<M, Undecodable>) -> Result<Value, Undecodable> {
        serde_json::to_value(message?).map_err(|error| Undecodable::Corrupt(error.to_string()))
    }
    match edge {
        Edge::UrlsFound => value(decode::<FoundUrls>(payload)),
        Edge::UrlsSplit => value(decode::<SplitUrls>(payload)),
        Edge::UrlsNew => value(decode::<NewUrls>(payload)),
        Edge::UrlsReady => value(decode::<ReadyUrls>(payload)),
        Edge::FetchAsks => value(decode::<Ask>(payload)),
        Edge::FetchJobs => value(decode::<ToFetcher>(payload)),
        Edge::FetchReports => value(decode::<Report>(payload)),
        Edge::Pages => value(decode::<Page>(payload)),
        Edge::Outcomes => value(decode::<Outcomes>(payload)),
        Edge::DnsRefresh => value(decode::<DnsRefresh>(payload)),
        Edge::Errands => value(decode::<Errand>(payload)),
        Edge::ContentAsks => value(decode::<ContentAsk>(payload)),
        Edge::Documents => value(decode::<Documents>(payload)),
        Edge::UrlsFiltered => value(decode::<FilteredUrls>(payload)),
    }
}

/// The URLs that a message on JSON form is about, for filtering and for short lines.
pub fn urls(message: &Value) -> Vec<&str> {
    let mut urls = Vec::new();
    collect(message, &mut urls);
    urls
}

/// Keys whose values are URLs (or servers) that a message is about; where it was found is not.
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

pub(super) fn length<S: Serializer>(body: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    json!({ "bytes": body.len() }).serialize(serializer)
}

pub(super) fn headers<S: Serializer>(headers: &[(String, Vec<u8>)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(headers.iter().map(|(name, value)| (name, String::from_utf8_lossy(value))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Origin, encode};

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
