//! A synthetic web: many hosts on loopback addresses with a DNS server of their own, for crawling
//! and for judging how it was crawled.
//!
//! In: a [`Profile`], requests, queries. Out: pages, addresses, the [`Truth`] of what is there and
//! a [`Report`] of what was done to it.
//!
//! Host `h0017.web.test` lives at 127.1.0.18; all hosts listen on one port. Everything runs on one
//! thread and is much cheaper than any crawler, so that it can share a machine with what it
//! measures.
//!
//! Some hosts may be hostile ([`Hostility`]). The truth says what a crawler should get from them.
//!
//! Its pages may change ([`Change`]). Then it knows how fresh a crawler's copy is ([`Freshness`]).
//!
//! Invariants: a profile and a port determine every byte that is served, where pages change with
//! the time since the start and the requests before; every page can be reached
//! from the first host's `/`, unless a hostile host is in the way; no input ends the process.

mod behaviour;
mod bomb;
mod byway;
mod change;
pub mod client;
mod coding;
mod control;
mod dice;
mod dns;
mod edition;
mod freshness;
mod graph;
mod hostility;
mod html;
mod http;
mod http2;
mod life;
mod lives;
mod load;
mod outage;
mod place;
mod plan;
mod profile;
mod record;
mod report;
mod resource;
mod robots;
mod server;
mod site;
mod sitemap;
mod stream;
mod tls;
mod tongue;
mod truth;
mod validators;
pub mod visiting;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::oneshot;

pub use change::{Change, GonePages, NewPages, SitemapShares, ValidatorShares};
pub use control::ask;
pub use freshness::Freshness;
pub use graph::{Graph, GraphPage};
pub use hostility::Hostility;
pub use load::{Load, measure};
pub use outage::Outage;
pub use profile::{
    CodingShares, CrawlLimits, HOSTS_MAX, LATENCY_MS_MAX, Latency, PagesPerHost, Profile,
    RobotsShares, SecureShares,
};
pub use report::{Coverage, EARLY_TOLERANCE, Listed, Report, Violations};
pub use truth::Truth;

use outage::Network;
use plan::Plan;
use record::Recorder;
use resource::Resource;
use server::Web;
use tls::Tls;

/// One request that a host received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contact {
    /// The host.
    pub host: u32,
    /// Requested URL; without path if no page links to it.
    pub url: String,
    /// When it arrived, counted from the start of the web.
    pub at: Duration,
    /// Number of the connection it came on, unique over all hosts.
    pub connection: u32,
}

/// A running synthetic web. It ends when dropped.
#[derive(Debug)]
pub struct SyntheticWeb {
    web: Arc<Web>,
    dns: SocketAddr,
    control: SocketAddr,
    /// Where the kernel counts the CPU time of the serving thread.
    schedstat: Option<PathBuf>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What the serving thread tells once everything is bound.
struct Started {
    web: Arc<Web>,
    dns: SocketAddr,
    control: SocketAddr,
    schedstat: Option<PathBuf>,
}

impl SyntheticWeb {
    /// Starts a web in a thread of its own; returns when all ports are open.
    ///
    /// # Errors
    /// If the profile is out of range or a port cannot be bound.
    pub fn start(profile: Profile) -> Result<Self> {
        profile.validate()?;
        let (stop, stopped) = oneshot::channel();
        let (report_start, started) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("synthetic-web".to_owned())
            .spawn(move || run(profile, &report_start, stopped))?;
        let started = started
            .recv()
            .context("the thread of the synthetic web died")??;
        let Started {
            web,
            dns,
            control,
            schedstat,
        } = started;
        Ok(Self {
            web,
            dns,
            control,
            schedstat,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// The TCP port of all hosts.
    pub fn port(&self) -> u16 {
        self.web.plan.port
    }

    /// The address of the DNS server.
    pub fn dns(&self) -> SocketAddr {
        self.dns
    }

    /// The address of the control server.
    pub fn control(&self) -> SocketAddr {
        self.control
    }

    /// The name of a host, without port.
    pub fn host_name(&self, host: u32) -> String {
        place::host_name(host)
    }

    /// The certificate that vouches for those of all hosts, in PEM; none where hosts have no such
    /// certificates.
    pub fn root_certificate(&self) -> Option<&str> {
        self.web.tls.root_certificate()
    }

    /// The address that a host listens at.
    pub fn host_address(&self, host: u32) -> SocketAddr {
        self.web.plan.address(host)
    }

    /// `/` of every host, the first host first. The first one alone leads to everything.
    pub fn seed_urls(&self) -> Vec<String> {
        (0..self.web.plan.profile.hosts)
            .map(|host| self.web.plan.url(host, Resource::Page(0)))
            .collect()
    }

    /// What a perfect crawl finds.
    pub fn truth(&self) -> Truth {
        Truth::new(&self.web.plan)
    }

    /// The URLs of other hosts that a perfect crawl finds by way of this host's pages alone.
    pub fn found_only_through(&self, host: u32) -> BTreeSet<String> {
        let plan = &self.web.plan;
        truth::found_only_through(plan, host)
            .into_iter()
            .map(|(of, resource)| plan.url(of, resource))
            .collect()
    }

    /// What the crawler did since the start or the last reset.
    pub fn report(&self) -> Report {
        Report::new(&self.web.plan, &self.web.recorder)
    }

    /// How fresh the copy of the crawler was between these times, which are counted from the start
    /// of the web; a time to come is not judged. `None` where no page changes. A reset forgets
    /// copies, too.
    pub fn freshness(&self, from: Duration, to: Duration) -> Option<Freshness> {
        let to = to.min(self.web.recorder.now());
        Freshness::new(&self.web.plan, &self.web.recorder, from, to)
    }

    /// All requests since the start or the last reset, by host and time of arrival.
    pub fn contacts(&self) -> Vec<Contact> {
        let mut contacts = Vec::new();
        for host in 0..self.web.plan.profile.hosts {
            let record = self.web.recorder.host(host);
            contacts.extend(record.contacts.iter().map(|contact| Contact {
                host,
                url: self.web.plan.url(host, contact.resource),
                at: contact.at,
                connection: contact.connection,
            }));
        }
        contacts
    }

    /// When the times of contacts begin.
    pub fn began(&self) -> Instant {
        self.web.recorder.began()
    }

    /// What a host does if it is hostile.
    pub fn hostility(&self, host: u32) -> Option<Hostility> {
        self.web.plan.site(host).hostility
    }

    /// The bytes of its answers that a host sent since the start or the last reset.
    pub fn bytes_sent(&self, host: u32) -> u64 {
        self.web.recorder.host(host).bytes_sent
    }

    /// Forgets all requests and violations; open connections stay known.
    pub fn reset(&self) {
        self.web.recorder.reset();
    }

    /// From now on reports demand at least this many milliseconds between two requests to a host; 0
    /// demands none.
    pub fn expect(&self, delay_ms: u64) {
        self.web.recorder.expect_delay(delay_ms);
    }

    /// The network to all hosts goes down, or comes up again.
    pub fn cut(&self, outage: Option<Outage>) {
        self.web.network.set(outage);
    }

    /// Answers over HTTP/1.1 wait from now on, or go: what was asked meanwhile is answered then.
    pub fn hold_answers(&self, held: bool) {
        self.web.network.hold_answers(held);
    }

    /// The DNS server answers no more, or answers again.
    pub fn silence_names(&self, silent: bool) {
        self.web.network.silence_names(silent);
    }

    /// The pages and how they link.
    pub fn graph(&self) -> Graph {
        Graph::of(&self.web.plan)
    }

    /// The pages in the order of the first request for each, by their numbers in the graph.
    pub fn pages_in_order(&self) -> Vec<usize> {
        let plan = &self.web.plan;
        let mut first = BTreeMap::new();
        for (host, start) in (0..).zip(graph::starts(plan)) {
            for contact in &self.web.recorder.host(host).contacts {
                match contact.resource {
                    Resource::Page(page) if plan.gives_pages(host) => {
                        let at = first.entry(start + page as usize).or_insert(contact.at);
                        *at = contact.at.min(*at);
                    }
                    _ => {}
                }
            }
        }
        let mut pages: Vec<(Duration, usize)> =
            first.into_iter().map(|(page, at)| (at, page)).collect();
        pages.sort_unstable();
        pages.into_iter().map(|(_, page)| page).collect()
    }

    /// CPU time the serving thread has used. `None` if the system does not tell.
    pub fn cpu_time(&self) -> Option<Duration> {
        let text = std::fs::read_to_string(self.schedstat.as_ref()?).ok()?;
        let nanoseconds = text.split_ascii_whitespace().next()?.parse().ok()?;
        Some(Duration::from_nanos(nanoseconds))
    }
}

impl Drop for SyntheticWeb {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already been printed; there is nothing to add while
            // dropping.
            let _ = thread.join();
        }
    }
}

fn run(
    profile: Profile,
    report_start: &mpsc::Sender<Result<Started>>,
    stopped: oneshot::Receiver<()>,
) {
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => return drop(report_start.send(Err(error.into()))),
    };
    runtime.block_on(async {
        let started = start(profile).await;
        let failed = started.is_err();
        if report_start.send(started).is_ok() && !failed {
            // To stop the web, the sender is dropped: the error is the signal.
            let _ = stopped.await;
        }
    });
}

async fn start(profile: Profile) -> Result<Started> {
    let listeners = server::bind(&profile).context("failed to listen on the hosts' addresses")?;
    let port = listeners
        .first()
        .context("a web needs hosts")?
        .local_addr()?
        .port();
    let dns_address = profile.address.unwrap_or(Ipv4Addr::LOCALHOST);
    let dns_socket = UdpSocket::bind((dns_address, profile.dns_port))
        .await
        .context("failed to bind DNS")?;
    let control_listener = TcpListener::bind((Ipv4Addr::LOCALHOST, profile.control_port))
        .await
        .context("failed to bind control")?;
    let recorder = Recorder::new(profile.hosts, profile.delay_expected_ms);
    let dns_latency = Duration::from_millis(profile.dns_latency_ms);
    let plan = Plan::new(profile, port).with_bombs()?;
    let tls = Tls::new(&plan)?;
    let web = Arc::new(Web {
        plan,
        recorder,
        network: Network::default(),
        tls,
    });
    let started = Started {
        web: Arc::clone(&web),
        dns: dns_socket.local_addr()?,
        control: control_listener.local_addr()?,
        schedstat: schedstat_of_this_thread(),
    };
    for (host, listener) in (0..).zip(listeners) {
        tokio::spawn(server::accept(Arc::clone(&web), host, listener));
    }
    tokio::spawn(dns::serve(Arc::clone(&web), dns_socket, dns_latency));
    tokio::spawn(control::accept(web, control_listener));
    Ok(started)
}

fn schedstat_of_this_thread() -> Option<PathBuf> {
    let thread = std::fs::read_link("/proc/thread-self").ok()?;
    Some(PathBuf::from("/proc").join(thread).join("schedstat"))
}
