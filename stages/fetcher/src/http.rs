//! The shell: does over HTTP what the core says.
//!
//! In: effects. Out: their answers. Whatever a server sends becomes an answer: each effect runs in
//! a task of its own, so that a panic in a library ends that task and no other (P9). Bodies stay as
//! sent.
//!
//! Must run on a current-thread runtime: on several threads the client's pool was seen to open a
//! second connection while the first was on its way back.

use crate::body::{self, Body};
use crate::connection::{Connected, Connection};
use crate::effect::{Answer, Asked, Effect, End, Request, Response};
use crate::failure::{end_of, end_of_body};
use crate::head::{field_bytes, gives_length, head_bytes, headers, keeps_open};
use crate::request_headers;
use crate::room::{Room, Taken};
use anyhow::Context as _;
use reqwest::header::{ACCEPT, ACCEPT_ENCODING, COOKIE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Version};
use rhumb_bus::tls::client_config;
use rhumb_config::{Pipeline, Proxy};
use rhumb_url::time::millis;
use rhumb_wire::message::{Ask, FailureKind, HttpVersion, JobId, Truncation};
use rustls::client::Resumption;
use std::collections::HashMap;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};
use tokio::time::Instant;

pub use crate::body::Rate;

/// A boxed future, as the stage loop takes it.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What sends an ask to a scheduler instance and waits for its reply.
pub type SendAsk = Arc<dyn Fn(u16, Ask) -> BoxFuture<Asked> + Send + Sync>;

/// What a crawler would rather have.
const ACCEPTED: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
/// What the parser can undo.
const ENCODINGS: &str = "gzip, deflate, br, zstd";
/// Headers of a response, at most. The client stops at 100 unless told; there are pages with more.
const HEADERS_MAX: usize = 256;
/// A body that is not wanted is read all the same when its server announces no more bytes: a new
/// connection costs more.
const UNWANTED_BYTES_MAX: u64 = 16 << 10;
/// The TLS library counts tickets, so many of each server, where we count servers.
const TICKETS_OF_SERVER: usize = 8;
/// HTTP/2: bytes a server may send ahead of what was read, for a stream and for the connection.
const WINDOW_BYTES: u32 = 1 << 20;
/// What a message needs beside a page's URLs, headers and body.
const ENVELOPE_BYTES: usize = 8 << 10;
/// How many times a close lets all other tasks run before it counts as done. Dropping the client
/// wakes the connection's task: with HTTP/1.1 it says good-bye and closes the socket in its next
/// turn, with HTTP/2 in the one after (both were counted; the rest is margin). That holds because a
/// runtime takes tasks in turn: what the drop woke is before what yields after it. The stage loop
/// itself is not taken in turn, hence a task.
const TURNS_TO_CLOSE: usize = 8;

/// Limits and identity of all connections.
#[derive(Clone, Debug)]
pub struct HttpSettings {
    /// Sent with every request.
    pub user_agent: String,
    /// To open a connection, TLS included.
    pub connect_timeout: Duration,
    /// From sending a request to the end of its body.
    pub request_timeout: Duration,
    /// From sending a request to the end of the response's head.
    pub first_byte_timeout: Duration,
    /// How fast a body has to come.
    pub transfer_rate: Rate,
    /// Media types, or `type/*`, whose bodies are not read.
    pub skip_types: Vec<String>,
    /// Further headers of every request, or others in the place of ours.
    pub headers: Vec<(String, String)>,
    /// Returns whether a connection gives back the cookies that were set on it.
    pub cookies: bool,
    /// The proxy through which servers are reached.
    pub proxy: Proxy,
    /// All headers of a response together.
    pub header_bytes_max: usize,
    /// A URL.
    pub url_bytes_max: usize,
    /// A message with its page; a body is cut where it would become larger.
    pub message_bytes_max: usize,
    /// Bodies from their first byte until their page is in its stream, all together.
    pub bytes_in_hand_max: usize,
    /// Returns whether the identity of servers is taken on trust.
    pub accept_invalid_certificates: bool,
    /// Servers whose last TLS session is kept.
    pub tls_sessions: usize,
}

impl HttpSettings {
    /// From the configuration.
    pub fn new(pipeline: &Pipeline) -> Self {
        let limits = &pipeline.limits;
        HttpSettings {
            user_agent: pipeline.user_agent(),
            connect_timeout: limits.connect_timeout,
            request_timeout: limits.request_timeout,
            first_byte_timeout: limits.first_byte_timeout,
            transfer_rate: Rate {
                bytes_min: limits.transfer_rate_min.0,
                window: limits.transfer_rate_window,
            },
            skip_types: limits.skip_types.clone(),
            headers: pipeline.network.headers.clone().into_iter().collect(),
            cookies: pipeline.network.cookies,
            proxy: pipeline.network.proxy.clone(),
            header_bytes_max: limits.header_bytes_max.as_usize(),
            url_bytes_max: limits.url_bytes_max,
            message_bytes_max: pipeline.broker.max_payload.as_usize(),
            bytes_in_hand_max: pipeline.stages.fetcher.bytes_in_hand_max.as_usize(),
            accept_invalid_certificates: pipeline.stages.fetcher.accept_invalid_certificates,
            tls_sessions: pipeline.stages.fetcher.tls_sessions as usize,
        }
    }
}

impl HttpSettings {
    /// Bytes of a body that are kept, with headers of so many bytes beside it: it fits into a
    /// message.
    pub(crate) fn body_bytes_max(&self, header_bytes: usize, request: &Request) -> usize {
        let beside = header_bytes + 2 * self.url_bytes_max + ENVELOPE_BYTES;
        request
            .body_bytes_max
            .min(self.message_bytes_max.saturating_sub(beside))
    }

    /// Returns whether the body of a page is of a type that is not to be read
    /// (`limits.skip_types`).
    pub(crate) fn skips(&self, head: &Response) -> bool {
        // 204 and 205 have no body.
        if self.skip_types.is_empty() || !matches!(head.status, 200..=203 | 206..=299) {
            return false;
        }
        let media_type = head.media_type();
        self.skip_types
            .iter()
            .any(|unwanted| match unwanted.strip_suffix('*') {
                Some(of) => media_type.starts_with(of),
                None => media_type == *unwanted,
            })
    }
}

/// The shell.
#[derive(Clone)]
pub struct Http {
    web: Arc<Web>,
    ask: SendAsk,
}

struct Web {
    settings: Mutex<Arc<HttpSettings>>,
    headers: HeaderMap,
    tls: rustls::ClientConfig,
    /// The same without HTTP/2.
    tls_http11: rustls::ClientConfig,
    proxy: Option<reqwest::Proxy>,
    proxy_host: Option<Arc<str>>,
    room: Room,
    connections: Mutex<HashMap<JobId, Arc<Connection>>>,
}

impl Http {
    /// A shell without connections.
    ///
    /// # Errors
    ///
    /// When the user agent or a configured header cannot be sent, the client takes no such proxy,
    /// or no root certificates can be had.
    pub fn new(settings: HttpSettings, ask: SendAsk) -> anyhow::Result<Http> {
        let mut tls =
            client_config(settings.accept_invalid_certificates).context("cannot set up TLS")?;
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        tls.resumption = match settings.tls_sessions {
            0 => Resumption::disabled(),
            servers => Resumption::in_memory_sessions(servers * TICKETS_OF_SERVER),
        };
        let mut tls_http11 = tls.clone();
        tls_http11.alpn_protocols = vec![b"http/1.1".to_vec()];
        let user_agent = HeaderValue::from_str(&settings.user_agent)
            .context("network.user_agent cannot be sent as a header")?;
        let mut headers = HeaderMap::new();
        headers.insert(reqwest::header::USER_AGENT, user_agent);
        headers.insert(ACCEPT, HeaderValue::from_static(ACCEPTED));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static(ENCODINGS));
        for (name, value) in &settings.headers {
            let sent = HeaderName::try_from(name)
                .ok()
                .zip(HeaderValue::try_from(value).ok());
            let (name, value) =
                sent.with_context(|| format!("network.headers.{name} cannot be sent as a header"))?;
            headers.insert(name, value);
        }
        let proxy = settings
            .proxy
            .url()
            .map(|url| reqwest::Proxy::all(url.clone()))
            .transpose();
        // The error would show the URL, with its password.
        let Ok(proxy) = proxy else {
            anyhow::bail!("network.proxy cannot be used")
        };
        let proxy_host = settings
            .proxy
            .url()
            .and_then(|url| url.host_str())
            .map(Arc::from);
        let room = Room::new(settings.bytes_in_hand_max);
        let settings = Mutex::new(Arc::new(settings));
        let connections = Mutex::default();
        let web = Web {
            settings,
            headers,
            tls,
            tls_http11,
            proxy,
            proxy_host,
            room,
            connections,
        };
        Ok(Http {
            web: Arc::new(web),
            ask,
        })
    }

    /// Requests go by these from now on, and new connections. What says who the crawler is, and the
    /// proxy, stay as they were.
    pub fn configure(&self, settings: HttpSettings) {
        self.web.room.resize(settings.bytes_in_hand_max);
        *self
            .web
            .settings
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Arc::new(settings);
    }

    /// Performs an effect.
    pub fn perform(&self, effect: Effect) -> BoxFuture<Answer> {
        let web = self.web.clone();
        match effect {
            Effect::Ask { scheduler, ask } => {
                let number = ask.ask;
                let reply = (self.ask)(scheduler, ask);
                Box::pin(async move {
                    Answer::Asked {
                        scheduler,
                        ask: number,
                        result: reply.await,
                    }
                })
            }
            Effect::Request(request) => Box::pin(async move {
                let job = request.job;
                let index = request.index;
                let task = tokio::spawn(async move { web.request(request).await });
                let (connect_us, end) = task.await.unwrap_or_else(|error| {
                    tracing::error!(%error, "the HTTP client failed on a response");
                    (None, End::Failure(FailureKind::Protocol))
                });
                Answer::Response {
                    job,
                    index,
                    connect_us,
                    damaged: 0,
                    end,
                }
            }),
            // The web has no index; nobody asks for one.
            Effect::Index => Box::pin(std::future::ready(Answer::Indexed {
                recordings: 0,
                damaged: 0,
            })),
            Effect::Close { job } => Box::pin(async move {
                let task = tokio::spawn(async move { web.close(job).await });
                if let Err(error) = task.await {
                    tracing::error!(%error, "the HTTP client failed on a close");
                }
                Answer::Closed { job }
            }),
        }
    }
}

impl Web {
    fn connections(&self) -> MutexGuard<'_, HashMap<JobId, Arc<Connection>>> {
        self.connections
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn settings(&self) -> Arc<HttpSettings> {
        Arc::clone(&self.settings.lock().unwrap_or_else(PoisonError::into_inner))
    }

    async fn close(&self, job: JobId) {
        let connection = self.connections().remove(&job);
        drop(connection);
        for _ in 0..TURNS_TO_CLOSE {
            tokio::task::yield_now().await;
        }
    }

    /// How a request ended, and how long its connection took when it was the first of its job.
    async fn request(&self, request: Request) -> (Option<u32>, End) {
        let connection = match self.connection(&request) {
            Ok(Some(connection)) => connection,
            Ok(None) => return (None, End::Failure(FailureKind::Forbidden)),
            Err(error) => {
                tracing::error!(%error, "cannot make an HTTP client");
                return (None, End::Failure(FailureKind::Connect));
            }
        };
        let Ok(url) = reqwest::Url::parse(&request.url) else {
            return (None, End::Failure(FailureKind::Forbidden));
        };
        if !connection.may_request(&url) {
            return (None, End::Failure(FailureKind::Forbidden));
        }
        let is_first = connection.link.connected().is_none();
        let end = match self.exchange(&connection, url, is_first, &request).await {
            // It was the proxy, of which the server knows nothing.
            End::Refused if self.proxy.is_some() => End::Failure(FailureKind::Connect),
            end => end,
        };
        let connected = connection.link.connected().filter(|_| is_first);
        (connected.map(|Connected { took, .. }| micros(took)), end)
    }

    /// The job's connection; a new one for its first request.
    fn connection(&self, request: &Request) -> Result<Option<Arc<Connection>>, reqwest::Error> {
        if let Some(connection) = self.connections().get(&request.job) {
            return Ok(Some(connection.clone()));
        }
        let cookies = self.settings().cookies.then(Arc::default);
        let Some(connection) = Connection::new(
            self.client(request.http11),
            self.proxy_host.clone(),
            cookies,
            request,
        )?
        else {
            return Ok(None);
        };
        let connection = Arc::new(connection);
        self.connections().insert(request.job, connection.clone());
        Ok(Some(connection))
    }

    fn client(&self, http11: bool) -> reqwest::ClientBuilder {
        let tls = if http11 { &self.tls_http11 } else { &self.tls };
        let header_bytes_max = u32::try_from(self.settings().header_bytes_max).unwrap_or(u32::MAX);
        let builder = reqwest::Client::builder().no_proxy();
        let builder = match &self.proxy {
            Some(proxy) => builder.proxy(proxy.clone()),
            None => builder,
        };
        builder
            .tls_backend_preconfigured(tls.clone())
            .default_headers(self.headers.clone())
            .connect_timeout(self.settings().connect_timeout)
            .redirect(reqwest::redirect::Policy::none())
            .retry(reqwest::retry::never())
            .referer(false)
            .pool_max_idle_per_host(1)
            .pool_idle_timeout(None)
            .http1_max_headers(HEADERS_MAX)
            // As browsers read heads: folds become spaces, and a line that is no field is left out
            // (`head` says more).
            .http1_allow_obsolete_multiline_headers_in_responses(true)
            .http1_allow_spaces_after_header_name_in_responses(true)
            .http1_ignore_invalid_headers_in_responses(true)
            // Twice: what is a little too large is told from what is no HTTP, which is all that the
            // client says of it.
            .http2_max_header_list_size(header_bytes_max.saturating_mul(2))
            .http2_initial_stream_window_size(WINDOW_BYTES)
            .http2_initial_connection_window_size(WINDOW_BYTES)
    }

    /// The time for a request counts from when it was sent, that is, for the first one, from when
    /// the connection was there; the time for that is bounded by the client.
    async fn exchange(
        &self,
        connection: &Connection,
        url: reqwest::Url,
        is_first: bool,
        request: &Request,
    ) -> End {
        let begun = Instant::now();
        let timeout = self.settings().request_timeout;
        let first_byte = self.settings().first_byte_timeout.min(timeout);
        let to_head = request
            .head_timeout
            .map_or(first_byte, |timeout| timeout.min(first_byte));
        let sent_at = || match connection.link.connected() {
            Some(connected) if is_first => connected.at,
            Some(_) => begun,
            None => begun + self.settings().connect_timeout,
        };
        let own_headers = request_headers::of(request, &self.headers, connection, &url);
        let kept = headers(&own_headers);
        let mut get = reqwest::Request::new(Method::GET, url);
        *get.headers_mut() = own_headers;
        let sent = connection.client.execute(get);
        let response = match in_time(sent, begun, to_head, &sent_at).await {
            Some(Ok(response)) => response,
            Some(Err(error)) => return end_of(&error, connection),
            None => return End::Failure(FailureKind::Timeout),
        };
        connection.link.answered();
        self.take(connection, response, kept, sent_at(), timeout, request)
            .await
    }

    /// Reads what follows a head, as far as it is wanted.
    async fn take(
        &self,
        connection: &Connection,
        mut response: reqwest::Response,
        request_headers: Vec<(String, Vec<u8>)>,
        sent_at: Instant,
        timeout: Duration,
        request: &Request,
    ) -> End {
        let fetched_at_ms = SystemTime::UNIX_EPOCH.elapsed().map_or(0, millis);
        let head_bytes = head_bytes(response.headers());
        if head_bytes > self.settings().header_bytes_max {
            return End::Failure(FailureKind::HeaderTooLarge);
        }
        let sent_bytes: usize = request_headers
            .iter()
            .map(|(name, value)| field_bytes(name, value))
            .sum();
        let bytes_max = self
            .settings()
            .body_bytes_max(head_bytes + sent_bytes, request);
        let limits = body::Limits {
            bytes_max,
            until: sent_at + timeout,
            rate: self.settings().transfer_rate,
        };
        let gives_length = gives_length(&response);
        let mut taken = Response {
            leads_back: !self.headers.contains_key(COOKIE)
                && connection.leads_back(&response, &request_headers),
            lacks_length: false,
            status: response.status().as_u16(),
            keeps_open: keeps_open(&response) && body::length_beside_no_chunks(&response).is_none(),
            truncated: None,
            fetched_at_ms,
            elapsed_us: 0,
            // Through a proxy nobody knows who answered.
            address: response
                .remote_addr()
                .map(|address| address.ip())
                .filter(|_| self.proxy.is_none()),
            http_version: match response.version() {
                Version::HTTP_2 => HttpVersion::Http2,
                Version::HTTP_11 => HttpVersion::Http11,
                _ => HttpVersion::Http10,
            },
            request_headers,
            headers: headers(response.headers()),
            body: Vec::new(),
            room: Arc::default(),
        };
        if request.is_page && response.content_length() != Some(0) && self.settings().skips(&taken)
        {
            taken.truncated = Some(Truncation::Unspecified);
            taken.keeps_open &= pass_over(response, limits, &mut self.room.nothing()).await;
        } else {
            let mut room = self.room.nothing();
            let read = body::read(&mut response, limits, &mut room).await;
            taken.room = Arc::new(room);
            match read {
                Body::Whole(body) => taken.body = body,
                Body::Cut(body, reason) => {
                    taken.lacks_length = !gives_length && reason == Truncation::Time;
                    taken.body = body;
                    taken.truncated = Some(reason);
                    taken.keeps_open = false;
                }
                Body::Failed(error) => return end_of_body(&error, connection),
                Body::Lost(kind) => {
                    return End::BodyFailed(if gives_length {
                        kind
                    } else {
                        FailureKind::NoLength
                    });
                }
            }
        }
        taken.elapsed_us = micros(sent_at.elapsed());
        End::Response(Box::new(taken))
    }
}

/// What a request brings in so long after it was sent; none when that is over. `sent_at` may become
/// later while the connection is opened.
async fn in_time<T>(
    sent: impl Future<Output = T>,
    begun: Instant,
    timeout: Duration,
    sent_at: &(impl Fn() -> Instant + Sync),
) -> Option<T> {
    let mut sent = pin!(sent);
    let mut deadline = begun + timeout;
    loop {
        match tokio::time::timeout_at(deadline, &mut sent).await {
            Ok(brought) => return Some(brought),
            Err(_) if sent_at() + timeout > deadline => deadline = sent_at() + timeout,
            Err(_) => return None,
        }
    }
}

/// Has done with a body that is not wanted. Whether the connection serves another request: over
/// HTTP/2 the server is told to stop, over HTTP/1.1 what it sends has to be read.
async fn pass_over(
    mut response: reqwest::Response,
    limits: body::Limits,
    room: &mut Taken,
) -> bool {
    if response.version() == Version::HTTP_2 {
        return true;
    }
    let is_small = response
        .content_length()
        .is_some_and(|length| length <= UNWANTED_BYTES_MAX);
    let limits = body::Limits {
        bytes_max: UNWANTED_BYTES_MAX as usize,
        ..limits
    };
    is_small
        && matches!(
            body::read(&mut response, limits, room).await,
            Body::Whole(_)
        )
}

fn micros(duration: Duration) -> u32 {
    u32::try_from(duration.as_micros()).unwrap_or(u32::MAX)
}
