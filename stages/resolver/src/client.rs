//! The client of one name server, which asks it once: over UDP, and over TCP when the answer does
//! not fit a datagram, by a resolver of the library each, since one for both stays with TCP after
//! anything failed over UDP. Over TLS or HTTPS where the configuration says so; then over nothing
//! else. With EDNS, or by a twin without it, as [`Edns`] says.
//!
//! Invariant: a question is sent at most twice, with EDNS and without, beside what the library
//! repeats.

use crate::edns::{AGAIN_AFTER, Edns, End};
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RecordType};
use rhumb_config::{NameServer, Transport};
use rustls::ClientConfig;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Over one TCP connection, which is made when an answer does not fit a datagram.
const TCP_QUERIES_MAX: usize = 1024;

/// Asks one name server, once.
#[derive(Debug)]
pub(crate) struct Client {
    address: SocketAddr,
    with_edns: Twin,
    without_edns: Twin,
    edns: Mutex<Edns>,
}

/// How the library is to ask.
#[derive(Clone, Copy)]
pub(crate) struct Options<'a> {
    pub(crate) tls: Option<&'a ClientConfig>,
    pub(crate) hosts_file: ResolveHosts,
    /// Of one question.
    pub(crate) timeout: Duration,
}

impl Client {
    pub(crate) fn new(server: &NameServer, options: Options<'_>) -> Result<Self, NetError> {
        Ok(Client {
            address: server.address,
            with_edns: Twin::new(server, options, true)?,
            without_edns: Twin::new(server, options, false)?,
            edns: Mutex::default(),
        })
    }

    /// Asks for the records of a name.
    pub(crate) async fn lookup(&self, name: &Name, kind: RecordType) -> Result<Lookup, NetError> {
        if !self.edns().is_next_with(Instant::now()) {
            return self.without_edns.lookup(name, kind).await;
        }
        let lookup = self.with_edns.lookup(name, kind).await;
        if !self.edns().ended_with(end_of(&lookup), Instant::now()) {
            return lookup;
        }
        let again = self.without_edns.lookup(name, kind).await;
        if self.edns().ended_without(end_of(&again), Instant::now()) {
            tracing::info!(
                server = %self.address,
                minutes = AGAIN_AFTER.as_secs() / 60,
                "a name server answers questions without EDNS alone; it is asked without for so \
                 long"
            );
        }
        // A server that rejected the one and did not answer the other has answered.
        if matches!(again, Err(NetError::Timeout)) {
            lookup
        } else {
            again
        }
    }

    /// What the library knows of a name that no name server is asked for.
    pub(crate) async fn special(&self, name: &Name, kind: RecordType) -> Result<Lookup, NetError> {
        self.with_edns.first.lookup(name.clone(), kind).await
    }

    fn edns(&self) -> MutexGuard<'_, Edns> {
        self.edns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the end of a lookup says of EDNS.
fn end_of(lookup: &Result<Lookup, NetError>) -> End {
    match lookup {
        Err(NetError::Dns(DnsError::ResponseCode(code))) if is_rejection(*code) => End::Rejected,
        Ok(_) | Err(NetError::Dns(_) | NetError::Truncated) => End::Answered,
        Err(NetError::Timeout) => End::Silent,
        Err(_) => End::Failed,
    }
}

/// FORMERR and NOTIMP are of servers that do not know EDNS (RFC 6891, section 7), BADVERS of those
/// that know no version of it that we do (section 6.1.3).
fn is_rejection(code: ResponseCode) -> bool {
    // The library calls BADVERS by the other name of its number, that of a signature: we send none.
    matches!(
        code,
        ResponseCode::FormErr | ResponseCode::NotImp | ResponseCode::BADVERS | ResponseCode::BADSIG
    )
}

/// Asks with EDNS, or without.
#[derive(Debug)]
struct Twin {
    first: TokioResolver,
    /// When the answer of the first does not fit.
    second: Option<TokioResolver>,
}

impl Twin {
    fn new(server: &NameServer, options: Options<'_>, has_edns: bool) -> Result<Self, NetError> {
        let (first, second) = match &server.transport {
            Transport::Plain => (ConnectionConfig::udp(), Some(ConnectionConfig::tcp())),
            Transport::Tls { name } => (ConnectionConfig::tls(name.as_str().into()), None),
            Transport::Https { name, path } => (
                ConnectionConfig::https(name.as_str().into(), Some(path.as_str().into())),
                None,
            ),
        };
        let over = |connection| resolver(server.address, connection, options, has_edns);
        Ok(Twin {
            first: over(first)?,
            second: second.map(over).transpose()?,
        })
    }

    async fn lookup(&self, name: &Name, kind: RecordType) -> Result<Lookup, NetError> {
        match (self.first.lookup(name.clone(), kind).await, &self.second) {
            (Err(NetError::Truncated), Some(second)) => second.lookup(name.clone(), kind).await,
            (lookup, _) => lookup,
        }
    }
}

fn resolver(
    server: SocketAddr,
    mut connection: ConnectionConfig,
    wanted: Options<'_>,
    has_edns: bool,
) -> Result<TokioResolver, NetError> {
    connection.port = server.port();
    let server = NameServerConfig::new(server.ip(), true, vec![connection]);
    let config = ResolverConfig::from_name_servers(vec![server]);
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    if let Some(tls) = wanted.tls {
        builder = builder.with_tls_config(tls.clone());
    }
    let options = builder.options_mut();
    options.timeout = wanted.timeout;
    options.edns0 = has_edns;
    // The library counts what follows the first.
    options.attempts = 0;
    options.cache_size = 0;
    options.use_hosts_file = wanted.hosts_file;
    options.num_concurrent_reqs = 1;
    options.max_active_requests = TCP_QUERIES_MAX;
    // Without its aliases it could not be told whether an address belongs to the name.
    options.preserve_intermediates = true;
    builder.build()
}
