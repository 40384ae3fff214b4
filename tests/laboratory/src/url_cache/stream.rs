//! Stream: the links of a trace that pass one place of a crawler, and what can be known of them
//! beforehand.
//!
//! In: fingerprints. Out: for each link whether it repeats an earlier one and when it is met next;
//! which are the most frequent.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fmt;

/// The next use of a URL that counts for nothing: it never comes, or comes while the caches are
/// filled.
pub(super) const NEVER: u32 = u32::MAX;

/// The links that a stream has (Broder, Najork and Wiener 2003, section 4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamName {
    /// All links that a process finds: what comes before its URL-seen test and its host splitter.
    Full,
    /// Links whose host belongs to another process: what the host splitter sends.
    Cross,
}

impl fmt::Display for StreamName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            StreamName::Full => "full",
            StreamName::Cross => "cross",
        })
    }
}

/// Links in order.
pub(super) struct Stream {
    pub(super) name: StreamName,
    /// Hosts served at once, where known.
    pub(super) hosts_in_flight: Option<usize>,
    /// Links per page of the whole trace, where known.
    pub(super) links_per_page: Option<f64>,
    pub(super) fingerprints: Vec<u64>,
    /// Links at the start that fill the caches and are not counted: a third.
    pub(super) warm_up: usize,
    /// Says for each link whether the same URL came before.
    pub(super) repeats: Vec<bool>,
    /// For each link, the place of the next link to the same URL if that one is counted, else
    /// [`NEVER`].
    pub(super) next: Vec<u32>,
    /// URLs by how often they are counted, the most frequent first.
    pub(super) favourites: Vec<u64>,
    /// Different URLs.
    pub(super) urls: usize,
}

impl Stream {
    /// Prepares a stream of fewer than 2^32 links.
    pub(super) fn new(
        name: StreamName,
        hosts_in_flight: Option<usize>,
        links_per_page: Option<f64>,
        fingerprints: Vec<u64>,
    ) -> Self {
        let warm_up = fingerprints.len() / 3;

        // From here on URLs are numbers in the order in which they appear: that is quicker than
        // fingerprints.
        let mut numbers = HashMap::new();
        let mut urls = Vec::new();
        let mut repeats = Vec::with_capacity(fingerprints.len());
        let mut links = Vec::with_capacity(fingerprints.len());
        for &fingerprint in &fingerprints {
            let number = *numbers.entry(fingerprint).or_insert(urls.len() as u32);
            repeats.push((number as usize) < urls.len());
            if number as usize == urls.len() {
                urls.push(fingerprint);
            }
            links.push(number);
        }
        drop(numbers);

        let mut counts = vec![0u32; urls.len()];
        let mut upcoming = vec![NEVER; urls.len()];
        let mut next = vec![NEVER; links.len()];
        for (place, &number) in links.iter().enumerate().rev() {
            next[place] = upcoming[number as usize];
            let counted = place >= warm_up;
            upcoming[number as usize] = if counted { place as u32 } else { NEVER };
            counts[number as usize] += u32::from(counted);
        }

        let mut order: Vec<u32> = (0..urls.len() as u32)
            .filter(|&number| counts[number as usize] > 0)
            .collect();
        order.sort_by_key(|&number| Reverse(counts[number as usize]));
        let favourites = order
            .into_iter()
            .map(|number| urls[number as usize])
            .collect();
        let urls = urls.len();

        Stream {
            name,
            hosts_in_flight,
            links_per_page,
            fingerprints,
            warm_up,
            repeats,
            next,
            favourites,
            urls,
        }
    }

    /// Links that are counted.
    pub(super) fn counted(&self) -> u64 {
        (self.fingerprints.len() - self.warm_up) as u64
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A full stream. Nothing is known of it except its links.
    pub(in crate::url_cache) fn stream(fingerprints: Vec<u64>) -> Stream {
        Stream::new(StreamName::Full, None, None, fingerprints)
    }

    #[test]
    fn a_stream_knows_what_repeats_what_comes_next_and_what_is_frequent() {
        let stream = stream(vec![5, 5, 7, 5, 9, 9, 7, 9, 5]);
        assert_eq!((stream.warm_up, stream.counted(), stream.urls), (3, 6, 3));
        assert_eq!(
            stream.repeats,
            [false, true, false, true, false, true, true, true, true]
        );
        // The 5 in the second place is met while the caches are filled, so it counts for nothing
        // for the one before.
        assert_eq!(stream.next, [NEVER, 3, 6, 8, 5, 7, NEVER, NEVER, NEVER]);
        assert_eq!(stream.favourites, [9, 5, 7]);
    }
}
