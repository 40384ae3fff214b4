//! `rhumb inject --again`: what was fetched is asked for once more, and sent only if it has changed.

use rhumb_tests::harness::{Running, World, json, signal};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use synthetic_web::{PagesPerHost, Profile};

const MINUTE: Duration = Duration::from_secs(60);

/// A site of two pages, `/` with a link to `/b`, both of which say of which version they are.
struct Site {
    name: String,
    version: Arc<AtomicU32>,
    /// By path, the statuses that were sent.
    sent: Arc<Mutex<BTreeMap<String, Vec<u16>>>>,
}

impl Site {
    /// Serves until the process ends.
    fn start() -> Site {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let name = format!("http://{}", listener.local_addr().expect("an address"));
        let (version, sent) = (Arc::new(AtomicU32::new(1)), Arc::default());
        let site = Site { name, version, sent };
        let (version, sent) = (site.version.clone(), site.sent.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (version, sent) = (version.clone(), sent.clone());
                std::thread::spawn(move || serve(&stream, &version, &sent));
            }
        });
        site
    }

    fn sent(&self, path: &str) -> Vec<u16> {
        self.sent.lock().unwrap_or_else(PoisonError::into_inner).get(path).cloned().unwrap_or_default()
    }
}

/// One connection; none of its errors is the test's.
fn serve(stream: &TcpStream, version: &AtomicU32, sent: &Mutex<BTreeMap<String, Vec<u16>>>) -> Option<()> {
    let mut lines = BufReader::new(stream).lines();
    loop {
        let head: Vec<String> = lines.by_ref().map_while(Result::ok).take_while(|line| !line.is_empty()).collect();
        let path = head.first()?.split(' ').nth(1)?.to_owned();
        let etag = format!("\"{}\"", version.load(Ordering::SeqCst));
        let has_it = head.iter().any(|line| line.eq_ignore_ascii_case(&format!("if-none-match: {etag}")));
        let (status, body) = match path.as_str() {
            "/" | "/b" if has_it => (304, ""),
            "/" => (200, "<html><body><a href='/b'>b</a></body></html>"),
            "/b" => (200, "<html><body>no links</body></html>"),
            _ => (404, ""),
        };
        let length = if status == 304 { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let head = format!("HTTP/1.1 {status} x\r\nContent-Type: text/html\r\nETag: {etag}\r\n{length}\r\n{body}");
        sent.lock().unwrap_or_else(PoisonError::into_inner).entry(path).or_default().push(status);
        (&mut &*stream).write_all(head.as_bytes()).ok()?;
    }
}

/// Injects and waits until so many pages were fetched and so many had not changed.
fn inject(up: &mut Running, arguments: &[&str], pages: u64, not_modified: u64) {
    let said = up.rhumb(arguments);
    assert_eq!(said.code, 0, "{}", said.err);
    let summary = up.until(MINUTE, |summary| {
        let unchanged = summary.outcomes.get("not-modified").copied().unwrap_or_default();
        summary.complete && (summary.pages, unchanged) == (pages, not_modified)
    });
    assert_eq!(summary.urls_new, pages + not_modified, "{}", json(&summary));
    assert_eq!(up.violations(), Vec::<String>::new());
}

#[test]
fn what_is_injected_again_is_fetched_only_if_it_changed_whatever_died_meanwhile() {
    let world = World::new(Profile { hosts: 1, pages_per_host: PagesPerHost::Exactly(1), ..Profile::raw() });
    let site = Site::start();
    let root = format!("{}/", site.name);
    let mut up = world.up().start();
    up.until(MINUTE, |summary| summary.complete);
    inject(&mut up, &["inject", &root], 2, 0);
    // Known: nothing comes of it.
    inject(&mut up, &["inject", &root], 2, 0);
    inject(&mut up, &["inject", "--again", &root], 2, 1);
    assert_eq!(site.sent("/"), [200, 304]);

    for stage in ["scheduler", "dedup", "host-splitter"] {
        let pid = up.pid(stage);
        signal(pid, Signal::KILL);
        up.until_replaced(stage, pid, MINUTE);
    }
    inject(&mut up, &["inject", "--again", &root], 2, 2);
    inject(&mut up, &["inject", "--again", &root, &format!("{}/b", site.name)], 2, 4);

    site.version.store(2, Ordering::SeqCst);
    inject(&mut up, &["inject", "--again", &root], 3, 4);
    // Its links are not fetched again, and the new version is the one that is known from now on.
    inject(&mut up, &["inject", "--again", &root], 3, 5);
    assert_eq!(site.sent("/"), [200, 304, 304, 304, 200, 304]);
    assert_eq!(site.sent("/b"), [200, 304]);
}
