//! The one connection of a job: a client that can open a single connection, to the job's server
//! alone.
//!
//! Invariants: a second connect is refused, never opened (P1); a connection that is there only
//! after the lease is over is dropped unused (P1); names are answered with the job's addresses, for
//! the job's host alone (and the proxy's, through which a client goes with all it asks for), and
//! literals were compared with them before the client was made (P7).

use crate::cookies::Cookies;
use crate::effect::{Request, Target};
use hyper_util::client::legacy::connect::Connection as Socket;
use reqwest::cookie::CookieStore as _;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{HeaderValue, LOCATION, SET_COOKIE};
use rhumb_url::redirect;
use std::error::Error;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use tower::{Layer, Service};

type BoxError = Box<dyn Error + Send + Sync>;

/// How many times a second connect lets all other tasks run before it is refused. A connection goes
/// back to the client's pool in a task of its own; a request that comes first both waits for it and
/// connects anew, and is served by what is there first. It was there without waiting whenever that
/// was counted; this is margin.
const TURNS_TO_RETURN: usize = 8;

/// Why a connect was refused here, without a packet sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// The job's connection was opened before; it is closed or in use.
    SecondConnection,
    /// The job's lease ended while the connection was being opened.
    LeaseOver,
    /// Not the job's host.
    Host,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Refused::SecondConnection => "a job has one connection only",
            Refused::LeaseOver => "the lease ended before the connection was there",
            Refused::Host => "not the job's host",
        })
    }
}

impl Error for Refused {}

/// A job's client.
pub(crate) struct Connection {
    pub(crate) client: reqwest::Client,
    pub(crate) cookies: Option<Arc<Cookies>>,
    pub(crate) link: Arc<Link>,
    /// The job's server, parsed by the client's own parser.
    server: reqwest::Url,
}

impl Connection {
    /// The job's connection, not opened yet. None when its server is not one that its addresses
    /// allow (P7).
    ///
    /// `proxy_host`: a name that is resolved by the system, because the connection goes there.
    pub(crate) fn new(
        builder: reqwest::ClientBuilder,
        proxy_host: Option<Arc<str>>,
        cookies: Option<Arc<Cookies>>,
        request: &Request,
    ) -> Result<Option<Connection>, reqwest::Error> {
        let Target { server, addresses } = request.target.as_ref();
        let Some((server, host)) = parsed(server) else {
            return Ok(None);
        };
        let literal = host.trim_matches(['[', ']']).parse::<IpAddr>().ok();
        if addresses.is_empty() || literal.is_some_and(|literal| !addresses.contains(&literal)) {
            return Ok(None);
        }
        let link = Arc::new(Link::new(Instant::now() + request.lease_left));
        let builder = match &cookies {
            Some(cookies) => builder.cookie_provider(cookies.clone()),
            None => builder,
        };
        let client = builder
            .dns_resolver(JobAddresses {
                host,
                addresses: of_one_family(addresses),
                proxy_host,
            })
            .connector_layer(OneConnection { link: link.clone() })
            .build()?;
        Ok(Some(Connection {
            client,
            cookies,
            link,
            server,
        }))
    }

    /// Returns whether a URL, as the client understands it, is on the job's server.
    pub(crate) fn may_request(&self, url: &reqwest::Url) -> bool {
        url.origin() == self.server.origin()
            && url.username().is_empty()
            && url.password().is_none()
    }

    /// Returns whether a response redirects to the URL that was requested, and set a cookie that
    /// goes with the next request for it: such a server may have the page for whoever gives the
    /// cookie back.
    pub(crate) fn leads_back(
        &self,
        response: &reqwest::Response,
        sent: &[(String, Vec<u8>)],
    ) -> bool {
        let Some(cookies) = self
            .cookies
            .as_ref()
            .filter(|_| response.headers().contains_key(SET_COOKIE))
        else {
            return false;
        };
        let locations = response
            .headers()
            .get_all(LOCATION)
            .iter()
            .map(HeaderValue::as_bytes);
        let target = redirect::target(response.status().as_u16(), locations, response.url());
        let target = target
            .and_then(|target| response.url().join(&target.reference).ok())
            .map(|mut target| {
                target.set_fragment(None);
                target
            });
        let before = sent
            .iter()
            .find(|(name, _)| name == "cookie")
            .map(|(_, value)| value.as_slice());
        let now = cookies.cookies(response.url());
        target.as_ref() == Some(response.url()) && now.as_ref().map(HeaderValue::as_bytes) != before
    }

    /// Returns whether the server is reached by TLS.
    pub(crate) fn is_https(&self) -> bool {
        self.server.scheme() == "https"
    }
}

fn parsed(server: &str) -> Option<(reqwest::Url, String)> {
    let url = reqwest::Url::parse(server).ok()?;
    let host = url.host_str()?.to_owned();
    Some((url, host))
}

/// The addresses of the first one's family: with two families the connector would race one
/// connection of each, and a server would see two.
fn of_one_family(addresses: &[IpAddr]) -> Vec<IpAddr> {
    let first_is_ipv4 = addresses.first().is_some_and(IpAddr::is_ipv4);
    addresses
        .iter()
        .copied()
        .filter(|address| address.is_ipv4() == first_is_ipv4)
        .collect()
}

/// Answers the job's host with the job's addresses, and the proxy's, if there is one, with its own;
/// nothing else.
struct JobAddresses {
    host: String,
    addresses: Vec<IpAddr>,
    proxy_host: Option<Arc<str>>,
}

impl Resolve for JobAddresses {
    fn resolve(&self, name: Name) -> Resolving {
        let proxy_host = self
            .proxy_host
            .as_ref()
            .filter(|host| host.eq_ignore_ascii_case(name.as_str()));
        if let Some(host) = proxy_host
            .filter(|_| !self.host.eq_ignore_ascii_case(name.as_str()))
            .cloned()
        {
            return Box::pin(async move {
                let addresses: Vec<SocketAddr> =
                    tokio::net::lookup_host((host.as_ref(), 0)).await?.collect();
                Ok(Box::new(addresses.into_iter()) as Addrs)
            });
        }
        let answer: Result<Addrs, BoxError> = if name.as_str().eq_ignore_ascii_case(&self.host) {
            // Port 0: the URL's port is used.
            let addresses = self.addresses.clone().into_iter();
            Ok(Box::new(
                addresses.map(|address| SocketAddr::new(address, 0)),
            ))
        } else {
            Err(Refused::Host.into())
        };
        Box::pin(std::future::ready(answer))
    }
}

/// What is known of the connection.
pub(crate) struct Link {
    lease_ends: Instant,
    state: Mutex<LinkState>,
}

#[derive(Clone, Copy, Default)]
struct LinkState {
    begun: bool,
    connected: Option<Connected>,
    has_answered: bool,
}

/// A connection that came about.
#[derive(Clone, Copy)]
pub(crate) struct Connected {
    /// When.
    pub(crate) at: Instant,
    /// How long it took, TLS included.
    pub(crate) took: Duration,
    /// The server chose HTTP/2.
    pub(crate) is_http2: bool,
}

impl Link {
    fn new(lease_ends: Instant) -> Self {
        Link {
            lease_ends,
            state: Mutex::default(),
        }
    }

    /// The connection, if it came about.
    pub(crate) fn connected(&self) -> Option<Connected> {
        self.state().connected
    }

    /// The head of a response came.
    pub(crate) fn answered(&self) {
        self.state().has_answered = true;
    }

    /// Returns whether the head of any response came.
    pub(crate) fn has_answered(&self) -> bool {
        self.state().has_answered
    }

    fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether this is the first connect.
    fn begin(&self) -> bool {
        !std::mem::replace(&mut self.state().begun, true)
    }
}

/// Lets a client connect once.
#[derive(Clone)]
struct OneConnection {
    link: Arc<Link>,
}

impl<S> Layer<S> for OneConnection {
    type Service = OneConnectionService<S>;
    fn layer(&self, inner: S) -> OneConnectionService<S> {
        OneConnectionService {
            inner,
            link: self.link.clone(),
        }
    }
}

#[derive(Clone)]
struct OneConnectionService<S> {
    inner: S,
    link: Arc<Link>,
}

impl<S, R> Service<R> for OneConnectionService<S>
where
    S: Service<R, Error = BoxError>,
    S::Future: Send + 'static,
    S::Response: Socket + Send,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: R) -> Self::Future {
        if !self.link.begin() {
            return Box::pin(async {
                for _ in 0..TURNS_TO_RETURN {
                    tokio::task::yield_now().await;
                }
                Err(Refused::SecondConnection.into())
            });
        }
        let link = self.link.clone();
        let begun = Instant::now();
        let connecting = self.inner.call(request);
        Box::pin(async move {
            let connection = connecting.await?;
            let at = Instant::now();
            if at >= link.lease_ends {
                return Err(Refused::LeaseOver.into());
            }
            let is_http2 = connection.connected().is_negotiated_h2();
            link.state().connected = Some(Connected {
                at,
                took: at - begun,
                is_http2,
            });
            Ok(connection)
        })
    }
}
