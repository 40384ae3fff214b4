//! Queries to name servers: the resolver's shell.
//!
//! In: a name. Out: its addresses of both versions, or why there are none. No cache: that is the
//! core's.
//!
//! Each question goes to the name server that is expected to answer soonest; when it does not, or
//! is late, another one is asked as well and the first that knows counts ([`NameServers`]). Each
//! has its own client.
//!
//! Names are asked for as they are, without search domains. Names that stand for this machine or
//! for nothing (`localhost`, `invalid`, `onion`: RFC 6761, RFC 7686) are answered without a query.
//! The hosts file counts only with the system's name servers.
//!
//! Invariants: every query ends, at the latest after all its attempts have timed out; none panics
//! (P9); of an answer only those addresses count that belong to the name asked for, or to the last
//! of its aliases.

use crate::client::{Client, Options};
use crate::effect::{Answer, Found};
use crate::name_servers::NameServers;
use crate::special;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt as _};
use hickory_resolver::config::ResolveHosts;
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::{Message, ResponseCode};
use hickory_resolver::proto::rr::{Name, RData, RecordType};
use hickory_resolver::system_conf::read_system_conf;
use rhumb_bus::tls;
use rhumb_config::{NameServer, Pipeline, Transport};
use rustls::ClientConfig;
use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How many time-outs of one question an attempt may take: it may need several, over TCP, without
/// EDNS and for aliases.
const TIMEOUTS_PER_ATTEMPT: u32 = 2;
/// Beyond those, so that a question that ends by itself right then does.
const SLACK: Duration = Duration::from_millis(100);
/// Beyond the sum of all attempts, before a query is given up from outside.
const GRACE: Duration = Duration::from_secs(1);
/// Aliases that are followed from a name to its addresses.
const ALIASES_MAX: usize = 16;

/// How queries are made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Empty: the system's.
    pub nameservers: Vec<NameServer>,
    /// The time-out of one question. An attempt may take twice as long when the answer needs TCP or
    /// leads to others, or when the question is asked once more without EDNS.
    pub timeout: Duration,
    /// Queries for a name before it counts as a failure, at least one. Each repeats its datagram up
    /// to three times when nothing comes.
    pub attempts: usize,
    /// Another name server is asked after so long without an answer at the soonest.
    pub hedge_after: Duration,
}

impl From<&Pipeline> for Settings {
    fn from(pipeline: &Pipeline) -> Self {
        let resolver = &pipeline.stages.resolver;
        Settings {
            nameservers: pipeline.network.nameservers.clone(),
            timeout: resolver.timeout,
            attempts: resolver.attempts,
            hedge_after: resolver.hedge_after,
        }
    }
}

/// Makes queries.
#[derive(Clone, Debug)]
pub struct Queries(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// One for each name server.
    clients: Vec<Client>,
    servers: Mutex<NameServers>,
    timeout: Duration,
    attempts: usize,
    hedge_after: Duration,
}

impl Queries {
    /// Configures the queries.
    ///
    /// # Errors
    /// The system's name servers are wanted and cannot be read; TLS is wanted and cannot be set up.
    pub fn new(settings: &Settings) -> Result<Self, NetError> {
        let is_plain = settings
            .nameservers
            .iter()
            .all(|server| server.transport == Transport::Plain);
        let tls = match is_plain {
            true => None,
            false => {
                Some(tls::client_config(false).map_err(|error| NetError::Msg(error.to_string()))?)
            }
        };
        Queries::with_tls(settings, tls)
    }

    /// The same with certificates that the caller trusts; `tls` may be left out when no name server
    /// needs it.
    ///
    /// # Errors
    /// The system's name servers are wanted and cannot be read.
    pub fn with_tls(settings: &Settings, tls: Option<ClientConfig>) -> Result<Self, NetError> {
        let (servers, hosts_file) = if settings.nameservers.is_empty() {
            (system_nameservers()?, ResolveHosts::Always)
        } else {
            (settings.nameservers.clone(), ResolveHosts::Never)
        };
        let options = Options {
            tls: tls.as_ref(),
            hosts_file,
            timeout: settings.timeout,
        };
        let clients = servers
            .iter()
            .map(|server| Client::new(server, options))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Queries(Arc::new(Inner {
            servers: Mutex::new(NameServers::new(clients.len())),
            clients,
            timeout: settings.timeout,
            attempts: settings.attempts.max(1),
            hedge_after: settings.hedge_after,
        })))
    }

    /// Asks for a name's addresses.
    pub fn resolve(&self, name: String) -> BoxFuture<'static, Answer> {
        let inner = self.0.clone();
        Box::pin(async move {
            // Whatever the library waits for.
            let attempts = u32::try_from(inner.attempts).unwrap_or(u32::MAX);
            let deadline = inner
                .timeout
                .saturating_mul(TIMEOUTS_PER_ATTEMPT)
                .saturating_mul(attempts)
                + GRACE;
            let lookups = AssertUnwindSafe(inner.find(&name)).catch_unwind();
            let found = match tokio::time::timeout(deadline, lookups).await {
                Ok(Ok(found)) => found,
                Ok(Err(_)) => {
                    tracing::warn!(name, "a query panicked");
                    Found::Temporary
                }
                Err(_) => Found::Silence,
            };
            Answer::Found { name, found }
        })
    }
}

impl Inner {
    async fn find(&self, name: &str) -> Found {
        let Ok(mut name) = Name::from_ascii(name) else {
            return Found::NoAddress { ttl_s: None };
        };
        // Without this the library would try search domains.
        name.set_fqdn(true);
        if name.is_root() {
            return Found::NoAddress { ttl_s: None };
        }
        let (four, six) = tokio::join!(
            self.look_up(&name, RecordType::A),
            self.look_up(&name, RecordType::AAAA)
        );
        together([four, six])
    }

    /// Asks one name server after the other, and the next one already when the last one is late.
    async fn look_up(&self, name: &Name, kind: RecordType) -> Found {
        let order = self.servers().order(Instant::now());
        if order.is_empty() {
            return Found::Silence;
        }
        if is_special(name) {
            return found(name, kind, self.clients[0].special(name, kind).await);
        }
        let mut under_way = FuturesUnordered::new();
        let mut failed = Found::Silence;
        let mut asked = 0;
        let mut late_at = Instant::now();
        loop {
            let is_late = under_way.len() == 1 && order.len() > 1 && late_at <= Instant::now();
            if (under_way.is_empty() || is_late) && asked < self.attempts {
                let server = order[asked % order.len()];
                asked += 1;
                late_at = Instant::now() + self.servers().hedge_after(server).max(self.hedge_after);
                under_way.push(self.ask(server, name, kind));
            }
            let may_ask_more = under_way.len() == 1 && order.len() > 1 && asked < self.attempts;
            tokio::select! {
                biased;
                answer = under_way.next() => match answer {
                    Some(Found::Silence) => {}
                    Some(Found::ServerFailure) if failed == Found::Silence => failed = Found::ServerFailure,
                    Some(Found::ServerFailure) => {}
                    Some(Found::Temporary) => failed = Found::Temporary,
                    Some(found) => return found,
                    None => return failed,
                },
                () = tokio::time::sleep_until(late_at.into()), if may_ask_more => {}
            }
        }
    }

    async fn ask(&self, server: usize, name: &Name, kind: RecordType) -> Found {
        let question = Question::new(self, server);
        let timeout = self.timeout.saturating_mul(TIMEOUTS_PER_ATTEMPT) + SLACK;
        let lookup = tokio::time::timeout(timeout, self.clients[server].lookup(name, kind)).await;
        let lookup = lookup.unwrap_or(Err(NetError::Timeout));
        question.end(lookup.as_ref().err());
        found(name, kind, lookup)
    }

    fn servers(&self) -> MutexGuard<'_, NameServers> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question that is under way, and given up when it is dropped.
struct Question<'a> {
    inner: &'a Inner,
    server: usize,
    begun: Instant,
    has_ended: bool,
}

impl<'a> Question<'a> {
    fn new(inner: &'a Inner, server: usize) -> Self {
        inner.servers().asked(server);
        Question {
            inner,
            server,
            begun: Instant::now(),
            has_ended: false,
        }
    }

    fn end(mut self, error: Option<&NetError>) {
        self.has_ended = true;
        let took = self.begun.elapsed();
        match error {
            // A failure of those that the name server asked in its turn says nothing of itself.
            None
            | Some(NetError::Dns(
                DnsError::NoRecordsFound(_) | DnsError::ResponseCode(ResponseCode::ServFail),
            )) => {
                self.inner.servers().answered(self.server, took);
            }
            Some(error) => {
                tracing::debug!(server = self.server, %error, "a name server failed");
                self.inner
                    .servers()
                    .failed(self.server, took, Instant::now());
            }
        }
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.inner
                .servers()
                .left_behind(self.server, self.begun.elapsed());
        }
    }
}

/// The system's name servers, each once.
fn system_nameservers() -> Result<Vec<NameServer>, NetError> {
    let mut servers: Vec<NameServer> = Vec::new();
    for server in read_system_conf()?.0.name_servers() {
        let port = server
            .connections
            .first()
            .map_or(53, |connection| connection.port);
        let server = NameServer::from(SocketAddr::new(server.ip, port));
        if !servers.contains(&server) {
            servers.push(server);
        }
    }
    Ok(servers)
}

fn is_special(name: &Name) -> bool {
    special::is_last_label(name.iter().next_back().unwrap_or_default())
}

/// What one lookup found.
fn found(name: &Name, kind: RecordType, lookup: Result<Lookup, NetError>) -> Found {
    match lookup {
        Ok(lookup) => addresses(name, kind, lookup.message()),
        Err(NetError::Dns(DnsError::NoRecordsFound(none)))
            // The library says that an answer without a question is about the root.
            if matches!(none.response_code, ResponseCode::NoError | ResponseCode::NXDomain)
                && !none.query.name().is_root() =>
        {
            Found::NoAddress { ttl_s: none.negative_ttl }
        }
        Err(NetError::Dns(DnsError::ResponseCode(ResponseCode::ServFail))) => Found::ServerFailure,
        // Something came, or nothing was asked.
        Err(NetError::Dns(_) | NetError::Proto(_) | NetError::Truncated | NetError::Busy) => Found::Temporary,
        Err(_) => Found::Silence,
    }
}

/// The addresses of a name in an answer, found by way of its aliases; they hold as long as all
/// records on the way.
fn addresses(name: &Name, kind: RecordType, message: &Message) -> Found {
    let mut names = vec![name];
    let mut owner = name;
    let mut ttl_s = u32::MAX;
    while names.len() <= ALIASES_MAX {
        let alias = message
            .answers
            .iter()
            .find_map(|record| match &record.data {
                RData::CNAME(target) if record.name == *owner => Some((&target.0, record.ttl)),
                _ => None,
            });
        let Some((target, ttl)) = alias else { break };
        owner = target;
        names.push(target);
        ttl_s = ttl_s.min(ttl);
    }
    // The library compares questions over UDP alone. That of the last alias asked for is the one
    // that is left.
    let [question] = &message.queries[..] else {
        return Found::Temporary;
    };
    if question.query_type() != kind || !names.contains(&question.name()) {
        return Found::Temporary;
    }
    let mut addresses: Vec<IpAddr> = Vec::new();
    for record in message
        .answers
        .iter()
        .filter(|record| record.name == *owner && record.record_type() == kind)
    {
        addresses.extend(record.data.ip_addr());
        ttl_s = ttl_s.min(record.ttl);
    }
    if addresses.is_empty() {
        Found::NoAddress { ttl_s: None }
    } else {
        Found::Addresses { addresses, ttl_s }
    }
}

/// What the lookups for both versions found. With addresses of one, a failure of the other does not
/// matter; without, it may hide some. There is silence when nothing came for either, and a failure
/// of the name servers when nothing else came.
fn together(both: [Found; 2]) -> Found {
    let mut addresses = Vec::new();
    let mut ttl_s = u32::MAX;
    let mut none_ttl_s: Option<u32> = None;
    let is_silent = both.iter().all(|found| *found == Found::Silence);
    let is_unanswered = both
        .iter()
        .all(|found| matches!(found, Found::Silence | Found::ServerFailure));
    let mut failed = false;
    for found in both {
        match found {
            Found::Addresses {
                addresses: more,
                ttl_s: ttl,
            } => {
                addresses.extend(more);
                ttl_s = ttl_s.min(ttl);
            }
            Found::NoAddress { ttl_s: ttl } => {
                none_ttl_s = [none_ttl_s, ttl].into_iter().flatten().min()
            }
            Found::Temporary | Found::ServerFailure | Found::Silence => failed = true,
        }
    }
    match (addresses.is_empty(), failed) {
        (false, _) => Found::Addresses { addresses, ttl_s },
        _ if is_silent => Found::Silence,
        _ if is_unanswered => Found::ServerFailure,
        (true, true) => Found::Temporary,
        (true, false) => Found::NoAddress { ttl_s: none_ttl_s },
    }
}
