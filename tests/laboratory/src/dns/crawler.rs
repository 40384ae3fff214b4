//! Crawler: a small one of threads, as crawlers were built in 2008, to show what its parts cost.
//!
//! Each worker takes a URL from a queue, looks the host's name up, fetches the page and puts its
//! new links into the queue. Names are looked up as `gethostbyname` did it: the worker waits and
//! does nothing else, whatever its sockets. With non-blocking sockets it drives [`CONNECTIONS`]
//! connections.
//!
//! A queue is locked while all links of a page are put in. Each link takes [`LINK`], which stands
//! for what a crawler of that time did with a link on one processor and one disk. The worker sleeps
//! for that time, because the processor has to serve thirty workers. This is m x t of the paper's
//! equation 3. Its alpha and beta (how many threads enqueue, and how much they overlap) follow by
//! themselves. Workers with a queue of their own need the same time, and never wait for one
//! another.
//!
//! Invariants: only loopback addresses are contacted; no URL is fetched twice; a page counts when
//! all of it came, in time.
//!
//! Source: Yin, Yin and Huang 2008, on sockets (equation 2: with gamma = 1 a document's end is
//! known only by a time-out), on locks (equation 3) and queues.

use super::row::{Row, Sockets};
use anyhow::{Context as _, bail, ensure};
use futures::future::join_all;
use rhumb_url::{canonical, host_of, path_of, server_of};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use synthetic_web::SyntheticWeb;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use url::Url;

/// Connections of a worker with non-blocking sockets.
const CONNECTIONS: usize = 4;
/// Time that it takes to enqueue a link.
const LINK: Duration = Duration::from_micros(500);
/// A worker that does not know a document's length takes it for ended after this long without data.
const SILENCE: Duration = Duration::from_millis(400);
/// A worker whose queue is empty looks again after this long.
const PAUSE: Duration = Duration::from_millis(10);
/// A name is waited for no longer than this.
const NAME_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes of one read.
const BUFFER_BYTES: usize = 16 << 10;

/// What a crawl brought.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crawled {
    pub(super) pages: u64,
    /// Bytes of the documents.
    pub(super) bytes: u64,
    pub(super) elapsed: Duration,
    /// Name lookups.
    pub(super) lookups: u64,
}

/// Crawls a web from all its front pages for the given time.
pub(super) fn crawl(web: &SyntheticWeb, row: Row, duration: Duration) -> anyhow::Result<Crawled> {
    let begun = Instant::now();
    let queues = if row.has_private_queues {
        row.workers
    } else {
        1
    };
    let crawler = Crawler {
        row,
        name_server: web.dns(),
        port: web.port(),
        end: begun + duration,
        queues: (0..queues).map(|_| Mutex::default()).collect(),
        seen: Mutex::default(),
        addresses: Mutex::default(),
        pages: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        lookups: AtomicU64::new(0),
    };
    for (at, url) in web.seed_urls().into_iter().enumerate() {
        lock(&crawler.seen).insert(url.clone());
        lock(&crawler.queues[at % queues]).push_back(url);
    }
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..row.workers)
            .map(|number| {
                let worker = Worker {
                    crawler: &crawler,
                    number,
                };
                std::thread::Builder::new().spawn_scoped(scope, move || worker.run())
            })
            .collect::<Result<_, _>>()
            .context("failed to start a worker")?;
        for worker in workers {
            worker.join().ok().context("a worker panicked")??;
        }
        anyhow::Ok(())
    })?;
    Ok(Crawled {
        pages: crawler.pages.into_inner(),
        bytes: crawler.bytes.into_inner(),
        elapsed: duration,
        lookups: crawler.lookups.into_inner(),
    })
}

/// What all workers share.
struct Crawler {
    row: Row,
    name_server: SocketAddr,
    port: u16,
    end: Instant,
    /// One queue, or one for each worker.
    queues: Vec<Mutex<VecDeque<String>>>,
    /// Every URL that ever came into a queue.
    seen: Mutex<HashSet<String>>,
    addresses: Mutex<HashMap<String, SocketAddr>>,
    pages: AtomicU64,
    bytes: AtomicU64,
    lookups: AtomicU64,
}

struct Worker<'a> {
    crawler: &'a Crawler,
    number: usize,
}

impl Worker<'_> {
    /// Works until the end.
    fn run(&self) -> anyhow::Result<()> {
        if self.crawler.row.sockets == Sockets::Blocking {
            while self.is_in_time() {
                let Some(url) = self.next_url() else {
                    std::thread::sleep(PAUSE);
                    continue;
                };
                let fetched = self
                    .address(&url)
                    .and_then(|address| self.fetch_blocking(&url, address));
                self.finish(&url, fetched);
            }
            return Ok(());
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            let connections = join_all((0..CONNECTIONS).map(|_| self.fetch_all()));
            // What is still under way by then does not count.
            let _ = tokio::time::timeout_at(self.crawler.end.into(), connections).await;
        });
        Ok(())
    }

    /// One connection of several.
    async fn fetch_all(&self) {
        while self.is_in_time() {
            let Some(url) = self.next_url() else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            let fetched = match self.address(&url) {
                Ok(address) => self.fetch(&url, address).await,
                Err(error) => Err(error),
            };
            self.finish(&url, fetched);
        }
    }

    fn is_in_time(&self) -> bool {
        Instant::now() < self.crawler.end
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<String>> {
        lock(&self.crawler.queues[self.number % self.crawler.queues.len()])
    }

    fn next_url(&self) -> Option<String> {
        self.queue().pop_front()
    }

    /// The address of a URL's server; this blocks.
    fn address(&self, url: &str) -> anyhow::Result<SocketAddr> {
        let host = host_of(url);
        if self.crawler.row.caches_names
            && let Some(address) = lock(&self.crawler.addresses).get(host)
        {
            return Ok(*address);
        }
        self.crawler.lookups.fetch_add(1, Ordering::Relaxed);
        let address =
            SocketAddr::from((look_up(host, self.crawler.name_server)?, self.crawler.port));
        ensure!(address.ip().is_loopback(), "{address} is not ours");
        if self.crawler.row.caches_names {
            lock(&self.crawler.addresses).insert(host.to_owned(), address);
        }
        Ok(address)
    }

    /// Fetches a page over a connection that blocks.
    fn fetch_blocking(&self, url: &str, address: SocketAddr) -> anyhow::Result<Vec<u8>> {
        let mut stream = TcpStream::connect(address)?;
        stream.write_all(request(url).as_bytes())?;
        let mut received = Vec::new();
        let mut buffer = [0; BUFFER_BYTES];
        while !is_whole(&received) {
            let left = self.crawler.end.saturating_duration_since(Instant::now());
            stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
            match stream.read(&mut buffer)? {
                0 => bail!("the connection ended early"),
                length => received.extend_from_slice(&buffer[..length]),
            }
        }
        Ok(received)
    }

    /// Fetches a page over a connection that does not block.
    async fn fetch(&self, url: &str, address: SocketAddr) -> anyhow::Result<Vec<u8>> {
        let mut stream = tokio::net::TcpStream::connect(address).await?;
        stream.write_all(request(url).as_bytes()).await?;
        let mut received = Vec::new();
        let knows_the_end = self.crawler.row.sockets == Sockets::Event;
        while !(knows_the_end && is_whole(&received)) {
            if knows_the_end || received.is_empty() {
                ensure!(
                    stream.read_buf(&mut received).await? > 0,
                    "the connection ended early"
                );
                continue;
            }
            match tokio::time::timeout(SILENCE, stream.read_buf(&mut received)).await {
                Ok(length) => ensure!(length? > 0, "the connection ended early"),
                Err(_) => break,
            }
        }
        ensure!(is_whole(&received), "silence came before the end");
        Ok(received)
    }

    /// Counts a page and enqueues its links. A page that could not be had is left.
    fn finish(&self, url: &str, fetched: anyhow::Result<Vec<u8>>) {
        let Some(page) = fetched
            .ok()
            .filter(|page| page.starts_with(b"HTTP/1.1 200 ") && self.is_in_time())
        else {
            return;
        };
        let body = &page[head_bytes(&page).unwrap_or(0)..];
        self.crawler.pages.fetch_add(1, Ordering::Relaxed);
        self.crawler
            .bytes
            .fetch_add(body.len() as u64, Ordering::Relaxed);
        self.enqueue(links(url, &String::from_utf8_lossy(body)));
    }

    /// Puts new links into the queue, whose lock is held all the while.
    fn enqueue(&self, links: Vec<String>) {
        let mut queue = self.queue();
        let work = LINK * u32::try_from(links.len()).unwrap_or(u32::MAX);
        std::thread::sleep(work.min(self.crawler.end.saturating_duration_since(Instant::now())));
        for link in links {
            if lock(&self.crawler.seen).insert(link.clone()) {
                queue.push_back(link);
            }
        }
    }
}

/// A lock that a worker which panicked may have held.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Asks a name server for the address of a host, and waits for it.
fn look_up(host: &str, name_server: SocketAddr) -> anyhow::Result<IpAddr> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
    socket.connect(name_server)?;
    socket.set_read_timeout(Some(NAME_TIMEOUT))?;
    // A question, recursion desired; a socket asks no more than one.
    let mut packet = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in host.split('.') {
        packet.push(u8::try_from(label.len())?);
        packet.extend_from_slice(label.as_bytes());
    }
    packet.extend_from_slice(&[0, 0, 1, 0, 1]);
    socket.send(&packet)?;
    let mut answer = [0; 512];
    let length = socket.recv(&mut answer)?;
    // One record, an address, which is its end.
    ensure!(
        answer[6..8] == [0, 1] && length > packet.len() + 4,
        "{host} has no address"
    );
    let octets: [u8; 4] = answer[length - 4..length].try_into()?;
    Ok(IpAddr::from(octets))
}

fn request(url: &str) -> String {
    let server = server_of(url);
    let authority = server
        .split_once("://")
        .map_or(server, |(_, authority)| authority);
    format!("GET {} HTTP/1.1\r\nHost: {authority}\r\n\r\n", path_of(url))
}

/// Length of the head of a response.
fn head_bytes(received: &[u8]) -> Option<usize> {
    received
        .windows(4)
        .position(|window| window == b"\r\n\r\n")
        .map(|at| at + 4)
}

/// Returns whether all of a response has come, by the length that it tells.
fn is_whole(received: &[u8]) -> bool {
    let Some(head) = head_bytes(received) else {
        return false;
    };
    let text = String::from_utf8_lossy(&received[..head]).to_ascii_lowercase();
    let length = text.lines().find_map(|line| {
        line.strip_prefix("content-length:")?
            .trim()
            .parse::<usize>()
            .ok()
    });
    length.is_some_and(|length| received.len() >= head + length)
}

/// The links of a page, as far as the synthetic web spells them plainly; each once.
fn links(url: &str, body: &str) -> Vec<String> {
    let Ok(base) = Url::parse(url) else {
        return Vec::new();
    };
    let mut links = Vec::new();
    for piece in body.split("href=\"").skip(1) {
        let href = piece
            .split('"')
            .next()
            .unwrap_or_default()
            .replace("&amp;", "&");
        if let Ok(link) = canonical(&href, Some(&base), None)
            && !links.contains(&link)
        {
            links.push(link);
        }
    }
    links
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_whole_when_its_length_has_come() {
        let whole = b"HTTP/1.1 200 OK\r\ncontent-LENGTH: 3\r\n\r\nabc";
        for length in 0..whole.len() {
            assert!(!is_whole(&whole[..length]));
        }
        assert!(is_whole(whole));
        assert!(
            !is_whole(b"HTTP/1.1 200 OK\r\n\r\nabc"),
            "without a length nobody knows"
        );
    }

    #[test]
    fn links_are_resolved_and_come_once() {
        let body = "<a href=\"/b?x=1&amp;y=2\">b</a> <a href=\"http://c.test/\">c</a> <a \
                    href=\"/b?x=1&amp;y=2\"> <a href=\"mailto:a@b\">";
        assert_eq!(
            links("http://a.test/d/e", body),
            ["http://a.test/b?x=1&y=2", "http://c.test/"]
        );
        assert!(
            request("http://a.test:81/b").starts_with("GET /b HTTP/1.1\r\nHost: a.test:81\r\n")
        );
    }
}
