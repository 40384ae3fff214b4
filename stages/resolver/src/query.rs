//! Queries to name servers: the resolver's shell.
//!
//! In: a name. Out: its addresses of both versions, or why there are none. No cache: that is the core's.
//!
//! Names are asked for as they are, without search domains. Names that stand for this machine or for nothing
//! (`localhost`, `invalid`, `onion`: RFC 6761, RFC 7686) are answered without a query. The hosts file counts only
//! with the system's name servers.
//!
//! Invariants: every query ends, at the latest after all its attempts have timed out; none panics (P9).

use crate::resolver::{Answer, Found};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use hickory_resolver::TokioResolver;
use hickory_resolver::config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig};
use hickory_resolver::lookup::Lookup;
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::proto::rr::{Name, RecordType};
use hickory_resolver::system_conf::read_system_conf;
use shared::config::Pipeline;
use std::net::{IpAddr, SocketAddr};
use std::panic::AssertUnwindSafe;
use std::time::Duration;

/// Over one TCP connection, which is made when an answer does not fit a datagram.
const TCP_QUERIES_MAX: usize = 1024;
/// Beyond the sum of all time-outs, before a query is given up from outside.
const GRACE: Duration = Duration::from_secs(1);

/// How queries are made.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Empty: the system's.
    pub nameservers: Vec<SocketAddr>,
    /// Of one query.
    pub timeout: Duration,
    /// Queries for a name before it counts as a failure, at least one. Each repeats its datagram up to three times
    /// when nothing comes.
    pub attempts: usize,
}

impl From<&Pipeline> for Settings {
    fn from(pipeline: &Pipeline) -> Self {
        let resolver = &pipeline.stages.resolver;
        Settings {
            nameservers: pipeline.network.nameservers.clone(),
            timeout: resolver.timeout,
            attempts: resolver.attempts,
        }
    }
}

/// Makes queries.
#[derive(Clone, Debug)]
pub struct Queries {
    resolver: TokioResolver,
    /// After which a query is given up, whatever the library waits for.
    deadline: Duration,
}

impl Queries {
    /// Configures the queries; fails when the system's name servers are wanted and cannot be read.
    pub fn new(settings: &Settings) -> Result<Self, NetError> {
        let (servers, hosts_file) = if settings.nameservers.is_empty() {
            (read_system_conf()?.0.into_parts().2, ResolveHosts::Always)
        } else {
            (settings.nameservers.iter().map(name_server).collect(), ResolveHosts::Never)
        };
        let config = ResolverConfig::from_name_servers(servers);
        let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
        let options = builder.options_mut();
        options.timeout = settings.timeout;
        // The library counts what follows the first.
        options.attempts = settings.attempts.saturating_sub(1);
        options.cache_size = 0;
        options.use_hosts_file = hosts_file;
        // One name server after the other, not two at once: a query costs one query.
        options.num_concurrent_reqs = 1;
        options.max_active_requests = TCP_QUERIES_MAX;
        // An alias holds no longer than its own record, which is otherwise left out.
        options.preserve_intermediates = true;
        let attempts = u32::try_from(settings.attempts).unwrap_or(u32::MAX).max(1);
        Ok(Queries { resolver: builder.build()?, deadline: settings.timeout.saturating_mul(attempts) + GRACE })
    }

    /// Asks for a name's addresses.
    pub fn resolve(&self, name: String) -> BoxFuture<'static, Answer> {
        let (resolver, deadline) = (self.resolver.clone(), self.deadline);
        Box::pin(async move {
            let lookups = AssertUnwindSafe(find(&resolver, &name)).catch_unwind();
            let found = match tokio::time::timeout(deadline, lookups).await {
                Ok(Ok(found)) => found,
                Ok(Err(_)) => {
                    tracing::warn!(name, "a query panicked");
                    Found::Temporary
                }
                Err(_) => Found::Temporary,
            };
            Answer::Found { name, found }
        })
    }
}

fn name_server(address: &SocketAddr) -> NameServerConfig {
    let mut connections = vec![ConnectionConfig::udp(), ConnectionConfig::tcp()];
    for connection in &mut connections {
        connection.port = address.port();
    }
    NameServerConfig::new(address.ip(), true, connections)
}

async fn find(resolver: &TokioResolver, name: &str) -> Found {
    let Ok(mut name) = Name::from_ascii(name) else { return Found::NoAddress { ttl_s: None } };
    // Without this the library would try search domains.
    name.set_fqdn(true);
    let (four, six) =
        tokio::join!(resolver.lookup(name.clone(), RecordType::A), resolver.lookup(name.clone(), RecordType::AAAA),);
    together([found(four), found(six)])
}

/// What one lookup found.
fn found(lookup: Result<Lookup, NetError>) -> Found {
    match lookup {
        Ok(lookup) => {
            let records = lookup.answers();
            let addresses: Vec<IpAddr> = records.iter().filter_map(|record| record.data.ip_addr()).collect();
            let ttl_s = records.iter().map(|record| record.ttl).min().unwrap_or(0);
            if addresses.is_empty() { Found::NoAddress { ttl_s: None } } else { Found::Addresses { addresses, ttl_s } }
        }
        Err(NetError::Dns(DnsError::NoRecordsFound(none)))
            if matches!(none.response_code, ResponseCode::NoError | ResponseCode::NXDomain) =>
        {
            Found::NoAddress { ttl_s: none.negative_ttl }
        }
        Err(error) => {
            tracing::debug!(%error, "a query failed");
            Found::Temporary
        }
    }
}

/// What the lookups for both versions found. With addresses of one, a failure of the other does not matter;
/// without, it may hide some.
fn together(both: [Found; 2]) -> Found {
    let mut addresses = Vec::new();
    let mut ttl_s = u32::MAX;
    let mut none_ttl_s: Option<u32> = None;
    let mut failed = false;
    for found in both {
        match found {
            Found::Addresses { addresses: more, ttl_s: ttl } => {
                addresses.extend(more);
                ttl_s = ttl_s.min(ttl);
            }
            Found::NoAddress { ttl_s: ttl } => none_ttl_s = [none_ttl_s, ttl].into_iter().flatten().min(),
            Found::Temporary => failed = true,
        }
    }
    match (addresses.is_empty(), failed) {
        (false, _) => Found::Addresses { addresses, ttl_s },
        (true, true) => Found::Temporary,
        (true, false) => Found::NoAddress { ttl_s: none_ttl_s },
    }
}
