//! `rhumb inject --again`: what was fetched is asked for once more, and sent only if it has
//! changed.

use rhumb_tests::harness::{Answer, Running, Site, World, json, signal};
use rustix::process::Signal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use synthetic_web::{PagesPerHost, Profile};

const MINUTE: Duration = Duration::from_secs(60);

/// A site of two pages, `/` with a link to `/b`, both of which say of which version they are.
fn site(version: &Arc<AtomicU32>) -> Site {
    let version = Arc::clone(version);
    Site::serve(move |path, head| {
        let etag = format!("\"{}\"", version.load(Ordering::SeqCst));
        let has_it = head
            .iter()
            .any(|line| line.eq_ignore_ascii_case(&format!("if-none-match: {etag}")));
        let answer = match path {
            "/" | "/b" if has_it => Answer {
                status: 304,
                ..Answer::html(String::new())
            },
            "/" => Answer::html("<html><body><a href='/b'>b</a></body></html>".to_owned()),
            "/b" => Answer::html("<html><body>no links</body></html>".to_owned()),
            _ => Answer::missing(),
        };
        Answer {
            fields: format!("ETag: {etag}\r\n"),
            ..answer
        }
    })
}

/// Injects and waits until so many pages were fetched and so many had not changed.
fn inject(up: &mut Running, arguments: &[&str], pages: u64, not_modified: u64) {
    let said = up.rhumb(arguments);
    assert_eq!(said.code, 0, "{}", said.err);
    let summary = up.until(MINUTE, |summary| {
        let unchanged = summary
            .outcomes
            .get("not-modified")
            .copied()
            .unwrap_or_default();
        summary.complete && (summary.pages, unchanged) == (pages, not_modified)
    });
    assert_eq!(summary.urls_new, pages + not_modified, "{}", json(&summary));
    assert_eq!(up.violations(), Vec::<String>::new());
}

#[test]
fn what_is_injected_again_is_fetched_only_if_it_changed_whatever_died_meanwhile() {
    let world = World::new(Profile {
        hosts: 1,
        pages_per_host: PagesPerHost::Exactly(1),
        ..Profile::raw()
    });
    let version = Arc::new(AtomicU32::new(1));
    let site = site(&version);
    let root = format!("{}/", site.name);
    let mut up = world.up().start();
    up.until(MINUTE, |summary| summary.complete);
    inject(&mut up, &["inject", &root], 2, 0);
    // Known: nothing comes of it.
    inject(&mut up, &["inject", &root], 2, 0);
    inject(&mut up, &["inject", "--again", &root], 2, 1);
    assert_eq!(site.sent()["/"], [200, 304]);

    for stage in ["scheduler", "dedup", "host-splitter"] {
        let pid = up.pid(stage);
        signal(pid, Signal::KILL);
        up.until_replaced(stage, pid, MINUTE);
    }
    inject(&mut up, &["inject", "--again", &root], 2, 2);
    inject(
        &mut up,
        &["inject", "--again", &root, &format!("{}/b", site.name)],
        2,
        4,
    );

    version.store(2, Ordering::SeqCst);
    inject(&mut up, &["inject", "--again", &root], 3, 4);
    // Its links are not fetched again, and the new version is the one that is known from now on.
    inject(&mut up, &["inject", "--again", &root], 3, 5);
    assert_eq!(site.sent()["/"], [200, 304, 304, 304, 200, 304]);
    assert_eq!(site.sent()["/b"], [200, 304]);
}
