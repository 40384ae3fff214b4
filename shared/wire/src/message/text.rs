//! A list of URLs in one allocation.
//!
//! A page carries some fifty links and every stage passes them on: one string with its ends costs
//! one copy and one check of its encoding, where a list of strings costs fifty of each.

use rkyv::{Archive, Deserialize, Serialize};

/// An ordered list of strings (canonical URLs), laid end to end.
#[derive(Archive, Serialize, Deserialize, Clone, Debug, Default, PartialEq, Eq)]
pub struct UrlList {
    text: String,
    /// Where each URL ends in `text`, in bytes; ascending.
    ends: Vec<u32>,
}

impl UrlList {
    /// An empty list.
    pub fn new() -> Self {
        UrlList::default()
    }

    /// Appends a URL.
    pub fn push(&mut self, url: &str) {
        self.text.push_str(url);
        self.ends.push(self.text.len() as u32);
    }

    /// Number of URLs in the list.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether the list has no URL.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Length of all URLs together, in bytes.
    pub fn bytes(&self) -> usize {
        self.text.len()
    }

    /// The URL at an index; empty beyond the end of the list.
    pub fn get(&self, index: usize) -> &str {
        let start = index
            .checked_sub(1)
            .and_then(|before| self.ends.get(before))
            .map_or(0, |&end| end as usize);
        self.ends
            .get(index)
            .and_then(|&end| self.text.get(start..end as usize))
            .unwrap_or("")
    }

    /// The URLs in order. An end that does not fit the text (no encoder of ours writes one) gives
    /// an empty string, never a panic.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        let mut start = 0usize;
        self.ends.iter().map(move |&end| {
            let url = self.text.get(start..end as usize).unwrap_or("");
            start = end as usize;
            url
        })
    }
}

impl serde::Serialize for UrlList {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.iter())
    }
}

impl<S: AsRef<str>> FromIterator<S> for UrlList {
    fn from_iter<I: IntoIterator<Item = S>>(urls: I) -> Self {
        let mut list = UrlList::new();
        for url in urls {
            list.push(url.as_ref());
        }
        list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_come_back_in_order() {
        let list: UrlList = ["http://a/", "", "http://b/é"].into_iter().collect();
        assert_eq!(list.len(), 3);
        assert_eq!(
            list.iter().collect::<Vec<_>>(),
            ["http://a/", "", "http://b/é"]
        );
    }

    #[test]
    fn ends_that_do_not_fit_give_empty_urls() {
        let list = UrlList {
            text: "héé".into(),
            ends: vec![2, 900, 1],
        };
        assert_eq!(list.iter().collect::<Vec<_>>(), ["", "", ""]);
    }
}
