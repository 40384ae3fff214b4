//! What the core asks of its shell, and what comes back.

use crate::room::Taken;
use rhumb_warc::media_type;
use rhumb_wire::message::{Ask, AskReply, FailureKind, HttpVersion, JobId, Truncation, Validators};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

/// Work that waits.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Send an ask to a scheduler instance; answered by [`Answer::Asked`].
    Ask {
        /// Ordinal of the scheduler instance.
        scheduler: u16,
        /// The ask.
        ask: Ask,
    },
    /// Make a request over the job's connection; answered by [`Answer::Response`].
    Request(Request),
    /// Find out what is in the archive that is replayed; answered by [`Answer::Indexed`].
    Index,
    /// Close the job's connection; answered by [`Answer::Closed`] once its socket is closed.
    Close {
        /// The job.
        job: JobId,
    },
}

/// One request. The first of a job, and the first after a close, opens its connection; the others
/// go over the same one or fail.
#[derive(Clone, Debug)]
pub struct Request {
    /// The job.
    pub job: JobId,
    /// Which of the job's requests it is, from 0.
    pub index: usize,
    /// What is requested.
    pub url: String,
    /// What may be contacted.
    pub target: Arc<Target>,
    /// How much longer the job's lease holds: a connection that takes longer to open is not used
    /// (P1).
    pub lease_left: Duration,
    /// What is known of the version that was fetched before: only another is wanted.
    pub validators: Validators,
    /// Returns whether it is a page: one of a media type that is not wanted is not read.
    pub is_page: bool,
    /// The body is cut there.
    pub body_bytes_max: usize,
    /// How long the head of its response may take, when that is less than any other's may.
    pub head_timeout: Option<Duration>,
    /// The connection that is opened for it speaks HTTP/1.1 alone.
    pub http11: bool,
}

/// What a job may contact (P7).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// `scheme://host[:port]`.
    pub server: String,
    /// Its addresses, in the order of preference.
    pub addresses: Vec<IpAddr>,
}

impl Target {
    /// Returns whether a URL may be requested.
    pub(crate) fn allows(&self, url: &str) -> bool {
        let server = rhumb_url::server_of(url);
        let literal: Option<IpAddr> = rhumb_url::address_literal(rhumb_url::host_of(server));
        server == self.server
            && !self.addresses.is_empty()
            && literal.is_none_or(|literal| self.addresses.contains(&literal))
    }
}

/// What an effect brought.
#[derive(Clone, Debug)]
pub enum Answer {
    /// An ask went out.
    Asked {
        /// Ordinal of the scheduler instance.
        scheduler: u16,
        /// [`Ask::ask`].
        ask: u64,
        /// What came of it.
        result: Asked,
    },
    /// A request ended.
    Response {
        /// The job.
        job: JobId,
        /// [`Request::index`].
        index: usize,
        /// How long it took to connect (TCP and TLS), in microseconds; with the first request
        /// alone.
        connect_us: Option<u32>,
        /// Records of an archive that were passed over for it because they are damaged.
        damaged: u32,
        /// How it ended.
        end: End,
    },
    /// It is known what is in the archive.
    Indexed {
        /// Responses that are there.
        recordings: u64,
        /// Records that are damaged.
        damaged: u64,
    },
    /// A connection is closed.
    Closed {
        /// The job.
        job: JobId,
    },
}

/// What came of an ask.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// The scheduler's reply.
    Reply(AskReply),
    /// Nobody listens on the scheduler's subject.
    NoScheduler,
    /// No reply came in time; the ask may hold all the same.
    NoAnswer,
}

/// How a request ended.
#[derive(Clone, Debug)]
pub enum End {
    /// With a response.
    Response(Box<Response>),
    /// Without one.
    Failure(FailureKind),
    /// Without one that is of use: its head came, and of its body too little.
    BodyFailed(FailureKind),
    /// The server's machine refused the connection: an answer, if none of the server.
    Refused,
    /// Without one, since HTTP/2 failed: over HTTP/1.1 there may be one. If not, it counts as this
    /// kind.
    Http2Failed(FailureKind),
    /// Without one, and the fault may be on this side: the core says so, not the shell.
    Withheld,
    /// The server had closed the connection before the request was sent, or says that it did not
    /// look at it: the server was not contacted.
    Gone,
}

/// The longest `type/subtype` that is passed on, in bytes.
const MEDIA_TYPE_BYTES_MAX: usize = 64;
/// The longest `ETag` that is passed on.
const ETAG_BYTES_MAX: usize = 256;
/// The longest `Last-Modified` that is passed on; a date has 29 bytes.
const LAST_MODIFIED_BYTES_MAX: usize = 64;

/// A response.
#[derive(Clone, Debug)]
pub struct Response {
    /// HTTP status.
    pub status: u16,
    /// Headers as sent, names in lower case.
    pub headers: Vec<(String, Vec<u8>)>,
    /// The body as sent, content encoding kept.
    pub body: Vec<u8>,
    /// Why the body is not whole; none: it is.
    pub truncated: Option<Truncation>,
    /// The server keeps the connection open for another request, as far as its answer tells.
    pub keeps_open: bool,
    /// The version of the protocol.
    pub http_version: HttpVersion,
    /// Headers of the request as sent, names in lower case.
    pub request_headers: Vec<(String, Vec<u8>)>,
    /// When its head came, in milliseconds since 1970.
    pub fetched_at_ms: u64,
    /// From sending the request to the end of the body, in microseconds.
    pub elapsed_us: u32,
    /// The address that answered.
    pub address: Option<IpAddr>,
    /// Its body was cut because the end did not come, and its head gives no length.
    pub lacks_length: bool,
    /// It redirects to the URL that was requested, and set a cookie that goes with the next request
    /// for it.
    pub leads_back: bool,
    /// Room for its body: taken until nobody needs it any more.
    pub room: Arc<Taken>,
}

impl Response {
    /// Value of the first header of that name (lower case), if it is text.
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(other, _)| other == name)?;
        std::str::from_utf8(value).ok()
    }

    /// Values of all headers of that name (lower case).
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.headers
            .iter()
            .filter(move |(other, _)| other == name)
            .map(|(_, value)| value.as_slice())
    }

    /// `type/subtype` of Content-Type in lower case; empty when there is none, or none of a
    /// sensible length.
    pub fn media_type(&self) -> String {
        media_type::essence(self.values("content-type"), MEDIA_TYPE_BYTES_MAX)
    }

    /// What the response says of its version; what is too long counts as not said.
    pub fn validators(&self) -> Validators {
        let short = |name, bytes_max| {
            self.header(name)
                .filter(|value| value.len() <= bytes_max)
                .unwrap_or_default()
                .to_owned()
        };
        Validators {
            etag: short("etag", ETAG_BYTES_MAX),
            last_modified: short("last-modified", LAST_MODIFIED_BYTES_MAX),
        }
    }

    /// Retry-After in seconds from the response on; a date is counted from when the response came
    /// (RFC 9110, section 10.2.3).
    pub fn retry_after_s(&self) -> Option<u32> {
        let value = self.header("retry-after")?.trim();
        if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
            return Some(value.parse().unwrap_or(u32::MAX));
        }
        let date = httpdate::parse_http_date(value).ok()?;
        let date_s = date.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs();
        Some(u32::try_from(date_s.saturating_sub(self.fetched_at_ms / 1000)).unwrap_or(u32::MAX))
    }
}
