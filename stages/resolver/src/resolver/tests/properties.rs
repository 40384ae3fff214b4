//! Random batches, refreshes and answers.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

proptest! {
    /// Goal: P3 at this stage, and whoever waits for an address gets one. Method: random batches
    /// and refreshes, answers in random order and of random kinds, time passing; at the end each
    /// URL has left once, with its own origin, serial and server, each input was settled at once,
    /// and of each server that was pending or asked for something was said later.
    #[test]
    fn every_url_leaves_exactly_once_and_every_address_follows(
        steps in proptest::collection::vec(
            (proptest::collection::vec((0u8..6, 0u8..2), 0..6), 0u8..4, 0usize..4, 0u64..200), 1..40),
    ) {
        let mut t = Harness::new(Settings { entries: 3, snapshot_every: Duration::ZERO, ..settings() });
        let mut serial = 1;
        let mut expected = BTreeMap::new();
        let mut under_way: Vec<String> = Vec::new();
        let mut asked = 0;
        let mut wanted: HashSet<String> = HashSet::new();
        for (links, kind, pick, pause_s) in &steps {
            t.now = t.now + Duration::from_secs(*pause_s);
            t.step(Event::Wake);
            let urls: Vec<String> = (serial..)
                .zip(links)
                .map(|(serial, (host, tls))| {
                    format!("{}://h{host}.test/{serial}", if *tls == 1 { "https" } else { "http" })
                })
                .collect();
            let urls: Vec<&str> = urls.iter().map(String::as_str).collect();
            let ticket = match *kind {
                0 => {
                    let mut servers: Vec<&str> = urls.iter().map(|url| server_of(url)).collect();
                    servers.sort_unstable();
                    servers.dedup();
                    wanted.extend(servers.iter().map(|&server| server.to_owned()));
                    t.input(refresh(serial, &servers))
                }
                _ => {
                    expected.extend((serial..).zip(urls.iter().map(|&url| url.to_owned())));
                    t.input(new(serial, &urls))
                }
            };
            serial += urls.len() as u64;
            prop_assert_eq!(t.finished.pop(), Some(ticket));
            under_way.extend(t.asked.drain(asked..));
            asked = t.asked.len();
            prop_assert!(under_way.len() <= 2);
            prop_assert_eq!(under_way.iter().collect::<HashSet<_>>().len(), under_way.len());
            if !under_way.is_empty() {
                let name = under_way.remove(pick % under_way.len());
                t.answer(&name, [none(), Found::Temporary, some("8.8.8.8", 9)][usize::from(*kind) % 3].clone());
                under_way.extend(t.asked.drain(asked..));
            }
            for message in t.take() {
                follow(&message, &mut expected, &mut wanted)?;
            }
        }
        while let Some(name) = under_way.pop() {
            t.answer(&name, some("8.8.8.8", 9));
            under_way.extend(t.asked.drain(asked..));
        }
        for message in t.take() {
            follow(&message, &mut expected, &mut wanted)?;
        }
        prop_assert!(t.core.is_idle() && t.finished.is_empty() && t.core.waiting.is_empty());
        prop_assert!(expected.is_empty() && wanted.is_empty(), "{expected:?} {wanted:?}");
    }
}

/// Strikes out what a message brings.
fn follow(
    message: &ReadyUrls,
    expected: &mut BTreeMap<u64, String>,
    wanted: &mut HashSet<String>,
) -> Result<(), TestCaseError> {
    for (server, resolution) in servers(message) {
        match resolution {
            None => wanted.insert(server.to_owned()),
            Some(_) => wanted.remove(server),
        };
    }
    for (url, server, _, page, serial) in rows(message) {
        prop_assert_eq!(server_of(&url), server);
        prop_assert_eq!(page, format!("from {url}"));
        prop_assert_eq!(expected.remove(&serial), Some(url));
    }
    Ok(())
}
