//! The messages between scheduler and fetcher, and the pages that the fetcher passes on.

use super::envelope::EdgeMessage;
use super::known_text::KnownText;
use super::urls::Origin;
use crate::topology::Edge;
use rhumb_usage::Signals;
use rkyv::{Archive, Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;

/// `fetch.asks.<s>`: a fetcher says how many more connections it could open. An ask replaces the
/// asks that the same fetcher sent before and holds for `stages.fetcher.ask_lifetime`: a job is
/// decided the moment a server may be contacted, never queued.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq,
)]
pub struct Ask {
    /// The instance: the last token of its `fetch.jobs` subject.
    pub fetcher: String,
    /// Counts the asks of one life of the fetcher; a job names the ask it was granted for, and the
    /// fetcher counts the job's lease from the moment it sent that ask, so a job that lay somewhere
    /// cannot outlive its lease (P1).
    pub ask: u64,
    /// Connections that are free and asked of this scheduler.
    pub free: u32,
    /// Jobs from this scheduler that the fetcher had received when it counted `free`: those granted
    /// since are taken off.
    pub received: u64,
    /// Changes with every life of the fetcher: `ask` and `received` start anew.
    pub life: u64,
}

/// A scheduler's reply to an [`Ask`].
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq,
)]
pub struct AskReply {
    /// Jobs granted at once; more may follow while the ask holds.
    pub granted: u32,
    /// Servers that are ready, and have no job.
    pub ready: u32,
}

/// `fetch.jobs.<f>`: a scheduler grants, renews or revokes a job of one fetcher.
#[derive(Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, PartialEq, Eq)]
pub enum ToFetcher {
    /// A connection job.
    Job(Job),
    /// A renewal was accepted: the lease counts from the moment the fetcher sent that report.
    Renewed {
        /// The job.
        job: JobId,
        /// [`Report::sequence`] of the report that renewed it.
        sequence: u32,
    },
    /// The job is no longer the fetcher's: it stops before its next request.
    Revoked {
        /// The job.
        job: JobId,
    },
}

/// A job's name: the scheduler instance that granted it, the epoch of its ownership, and a number
/// that counts up there.
#[derive(
    Archive,
    Serialize,
    Deserialize,
    serde::Serialize,
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
)]
#[rkyv(derive(Debug, PartialEq))]
pub struct JobId {
    /// Ordinal of the scheduler instance.
    pub scheduler: u16,
    /// Epoch of its ownership.
    pub epoch: u64,
    /// Counts the grants of the epoch.
    pub number: u64,
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.scheduler, self.epoch, self.number)
    }
}

/// The kind of thing that a job fetches.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Copy, Debug, Default, PartialEq, Eq,
)]
pub enum JobKind {
    /// Pages: responses go to `pages`.
    #[default]
    Pages,
    /// The server's robots.txt: the response goes back in the report.
    Robots,
}

/// Permission to contact one server over one connection for a list of its URLs: a lease.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq,
)]
pub struct Job {
    /// Its name.
    pub id: JobId,
    /// The life of the fetcher it was granted to, see [`Ask::life`]: nobody else's, though another
    /// process may hear it under the same name while one takes the other's place (P1).
    pub life: u64,
    /// The ask it was granted for, see [`Ask::ask`].
    pub ask: u64,
    /// Partition of the server: where the reports go.
    pub partition: u16,
    /// Lease in milliseconds, counted by the fetcher from when it sent the ask (or the last renewal
    /// that was confirmed), by the scheduler from when it granted (or processed the renewal): the
    /// scheduler's always ends later.
    pub lease_ms: u64,
    /// Pages, or the server's robots.txt.
    pub kind: JobKind,
    /// `scheme://host[:port]`.
    pub server: String,
    /// Addresses that may be contacted for it, in the order of preference; no others are (P7).
    pub addresses: Vec<IpAddr>,
    /// Pause between two contacts, in milliseconds (P2).
    pub gap_ms: u64,
    /// Time for the head of the first answer, in milliseconds, when it is less than any other's.
    pub first_answer_ms: Option<u64>,
    /// The requests in order.
    pub requests: Vec<Request>,
}

/// One request of a job.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq,
)]
pub struct Request {
    /// The URL's place in the frontier; comes back in the report.
    pub slot: u64,
    /// The URL, on the job's server.
    pub url: String,
    /// How it was found.
    pub origin: Origin,
    /// Tries before this one that contacted the server.
    pub attempts: u8,
    /// Validators of an earlier response: the server sends the page again only if it has changed.
    pub validators: Validators,
    /// What robots.txt says of the use of the page.
    #[serde(skip_serializing_if = "Signals::are_silent")]
    pub usage: Signals,
    /// Which visit of its page it is: 1 is the first.
    pub visit: u32,
    /// [`ResponseSummary::body`] of the last visit that said something of the page; 0: not known.
    pub body: u64,
    /// What is known of the page's text; none where no page is visited again, and so nobody wants
    /// to know. Boxed: a fetcher has 100,000 requests of 2000 connections in memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<Box<KnownText>>,
    /// When that visit was, in milliseconds since 1970; 0: there was none.
    pub visited_ms: u64,
}

/// Values by which a server tells whether a response is still the same (RFC 9110, section 8.8);
/// empty when it sent none.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq,
)]
pub struct Validators {
    /// `ETag`, at most 256 bytes.
    pub etag: String,
    /// `Last-Modified`, at most 64 bytes.
    pub last_modified: String,
}

/// `fetch.reports.<p>`: measurements of a job, and how its URLs ended since the report before. Sent
/// with every renewal and at the end; the last one follows the close of the connection.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq,
)]
pub struct Report {
    /// The job.
    pub job: JobId,
    /// The fetcher instance.
    pub fetcher: String,
    /// Partition of the server.
    pub partition: u16,
    /// The server.
    pub server: String,
    /// 1, 2, 3, … within the job.
    pub sequence: u32,
    /// The connection is closed and the job has ended.
    pub last: bool,
    /// URLs that ended since the report before; a last report names all that remain.
    pub results: Vec<RequestResult>,
    /// Time to connect (TCP and TLS), in microseconds; none without a connection.
    pub connect_us: Option<u32>,
    /// Requests answered on the connection so far.
    pub requests: u32,
    /// Time in which at least one of them was in hand so far, in microseconds; 0: not measured.
    pub busy_us: u64,
    /// Their times together, in microseconds: more than `busy_us` when they overlapped.
    pub elapsed_us: u64,
    /// The server closed the connection after its last answer: `requests` is then its limit.
    pub closed_by_server: bool,
    /// The response to a robots job.
    pub robots: Option<RobotsResponse>,
}

/// How one request of a job ended.
#[derive(Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, PartialEq, Eq)]
pub struct RequestResult {
    /// [`Request::slot`].
    pub slot: u64,
    /// How it ended.
    pub end: RequestEnd,
}

/// How one request ended.
#[derive(Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, PartialEq, Eq)]
pub enum RequestEnd {
    /// A response, which is on `pages`.
    Response(ResponseSummary),
    /// No response.
    Failure(FailureKind),
    /// The server was not contacted for it: it costs no attempt.
    Untried,
}

/// What a report says of a response.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq,
)]
pub struct ResponseSummary {
    /// HTTP status.
    pub status: u16,
    /// Bytes of the body, as sent, after truncation.
    pub bytes: u64,
    /// The body was longer than `limits.body_bytes_max`, ended early, did not come in time, or was
    /// not wanted (`limits.skip_types`).
    pub truncated: bool,
    /// From sending the request to the end of the body, in microseconds.
    pub elapsed_us: u32,
    /// Retry-After in seconds, when the server sent one.
    pub retry_after_s: Option<u32>,
    /// When the response came, in milliseconds since 1970.
    pub fetched_at_ms: u64,
    /// `type/subtype` of Content-Type in lower case, at most 64 bytes; empty without one.
    pub media_type: String,
    /// For the next time that the URL is fetched.
    pub validators: Validators,
    /// What is missing in it, so that its status alone does not say how the URL ended.
    pub lacks: Option<Lack>,
    /// Whose challenge it is, when it is a wall and not the page; else empty.
    pub wall: String,
    /// What the page would cost, of a 402 whose server says so, at most 64 bytes; else empty.
    pub price: String,
    /// Its robots.txt or its headers say something of its use: a [`Document`](super::Document) of it
    /// follows.
    pub says_usage: bool,
    /// Fingerprint of the body as sent, with its content coding, or of the target of a redirect; 0
    /// when there is none, or not all of it.
    pub body: u64,
    /// For how many seconds it says that it is fresh, from when it came (RFC 9111, section 4.2); 0
    /// when it does not say so, or no page is visited again.
    pub fresh_s: u32,
}

/// What a response lacks.
#[derive(Archive, Serialize, Deserialize, serde::Serialize, Clone, Copy, Debug, PartialEq, Eq)]
#[rkyv(derive(Debug, PartialEq))]
#[serde(rename_all = "kebab-case")]
pub enum Lack {
    /// It has a status of redirects, other than 304, and no target that could be followed
    /// ([`target`](rhumb_url::redirect::target)).
    Target,
    /// Its body was cut because the end did not come, and its head gives no length: neither
    /// Content-Length nor chunks.
    Length,
}

/// Why a request brought no response.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Copy, Debug, PartialEq, Eq, Hash,
)]
#[rkyv(derive(Debug, PartialEq))]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The connection was refused or could not be made in time.
    Connect,
    /// The TLS handshake failed, for another reason than the certificate.
    Tls,
    /// Nobody that is trusted vouches for the server's certificate, or it is out of date, or for
    /// another name.
    Certificate,
    /// No answer within `limits.first_byte_timeout`, or not all of it within
    /// `limits.request_timeout`.
    Timeout,
    /// The body came more slowly than `limits.transfer_rate_min`.
    Slow,
    /// The connection was lost after the request was sent: contacted, unknown.
    Reset,
    /// The answer is not HTTP.
    Protocol,
    /// A response head larger than `limits.header_bytes_max`.
    HeaderTooLarge,
    /// The address, or the URL's server, is not one that the job may contact (P7).
    Forbidden,
    /// The archive that is replayed has no response to it, or a damaged one.
    NotArchived,
    /// The answer's body did not end in time, or came too slowly, and its head gives no length.
    NoLength,
}

impl FailureKind {
    /// The kind's name in outcomes, metrics and logs.
    pub const fn name(self) -> &'static str {
        match self {
            FailureKind::Connect => "connect",
            FailureKind::Tls => "tls",
            FailureKind::Certificate => "certificate",
            FailureKind::Timeout => "timeout",
            FailureKind::Slow => "slow",
            FailureKind::Reset => "reset",
            FailureKind::Protocol => "protocol",
            FailureKind::HeaderTooLarge => "header-too-large",
            FailureKind::Forbidden => "forbidden",
            FailureKind::NotArchived => "not-archived",
            FailureKind::NoLength => "no-length",
        }
    }
}

/// The answer to a request for robots.txt.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq,
)]
pub struct RobotsResponse {
    /// HTTP status.
    pub status: u16,
    /// Where a 3xx points to, as sent.
    pub location: Option<String>,
    /// The body, cut to 500 KiB.
    #[serde(serialize_with = "super::fields::length")]
    pub body: Vec<u8>,
}

/// `pages`: a response as the server sent it; content encoding kept. While there is an archiver,
/// also responses to requests for robots.txt.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, Default, PartialEq, Eq,
)]
pub struct Page {
    /// The URL requested.
    pub url: String,
    /// How it was found.
    pub origin: Origin,
    /// HTTP status.
    pub status: u16,
    /// When the response came, in milliseconds since 1970.
    pub fetched_at_ms: u64,
    /// From sending the request to the end of the body, in microseconds.
    pub elapsed_us: u32,
    /// The address that answered.
    pub address: Option<IpAddr>,
    /// Version of the protocol.
    pub http_version: HttpVersion,
    /// Headers of the request, names in lower case.
    #[serde(serialize_with = "super::fields::headers")]
    pub request_headers: Vec<(String, Vec<u8>)>,
    /// Response headers as sent, names in lower case.
    #[serde(serialize_with = "super::fields::headers")]
    pub headers: Vec<(String, Vec<u8>)>,
    /// Why the body is not whole; none: it is. In JSON `truncated` says whether there is a reason,
    /// and `truncation` which.
    #[serde(flatten, serialize_with = "super::fields::truncation")]
    pub truncated: Option<Truncation>,
    /// The body.
    #[serde(serialize_with = "super::fields::length")]
    pub body: Vec<u8>,
    /// It was fetched for its rules: it belongs into an archive, and is no page of the crawl.
    pub is_robots: bool,
    /// Whose challenge it is, when it is a wall and not the page: it belongs into an archive, and
    /// nothing is read in it. Else empty.
    pub wall: String,
    /// What robots.txt says of its use. What headers and page say is read from them.
    #[serde(skip_serializing_if = "Signals::are_silent")]
    pub usage: Signals,
    /// Which visit it is: 1 is the first.
    pub visit: u32,
    /// Its body is, byte for byte, what the page was before: it belongs into an archive, and nothing
    /// new is read in it.
    pub is_unchanged: bool,
    /// [`Request::text`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<KnownText>,
    /// [`Request::visited_ms`]: dates in it that are later are news.
    pub visited_ms: u64,
}

impl ArchivedPage {
    /// What is known of its text, copied out of its archive.
    pub fn known_text(&self) -> Option<KnownText> {
        rkyv::deserialize::<Option<KnownText>, rkyv::rancor::Error>(&self.text).unwrap_or_default()
    }

    /// What robots.txt says of its use, copied out of its archive.
    pub fn usage(&self) -> Signals {
        // An archive that was checked can be read.
        rkyv::deserialize::<Signals, rkyv::rancor::Error>(&self.usage).unwrap_or_default()
    }
}

/// Why a body is not whole (WARC 1.1, section 5.15).
#[derive(Archive, Serialize, Deserialize, serde::Serialize, Clone, Copy, Debug, PartialEq, Eq)]
#[rkyv(derive(Debug, PartialEq))]
#[serde(rename_all = "kebab-case")]
pub enum Truncation {
    /// It is longer than `limits.body_bytes_max`, or than a message may be.
    Length,
    /// It did not come in time (`limits.request_timeout`), or too slowly
    /// (`limits.transfer_rate_min`).
    Time,
    /// The connection ended before the body did, or the body is no longer HTTP from there on.
    Disconnect,
    /// Another reason, or none that is known: it was not wanted (`limits.skip_types`), or an
    /// archive does not say.
    Unspecified,
}

impl Truncation {
    /// The reason as `WARC-Truncated` has it.
    pub const fn name(self) -> &'static str {
        match self {
            Truncation::Length => "length",
            Truncation::Time => "time",
            Truncation::Disconnect => "disconnect",
            Truncation::Unspecified => "unspecified",
        }
    }
}

/// A version of HTTP.
#[derive(
    Archive, Serialize, Deserialize, serde::Serialize, Clone, Copy, Debug, Default, PartialEq, Eq,
)]
#[rkyv(derive(Debug, PartialEq))]
pub enum HttpVersion {
    /// HTTP/1.0 and what came before it.
    #[serde(rename = "http/1.0")]
    Http10,
    /// HTTP/1.1.
    #[default]
    #[serde(rename = "http/1.1")]
    Http11,
    /// HTTP/2.
    #[serde(rename = "h2")]
    Http2,
}

/// `errands.<p>`: what the scheduler of one partition wants of that of another, and its answer.
/// Either a robots.txt that lies on a server of the other, asked there so that P1 and P2 hold for
/// that server too; or what the other does not need of a quota, which goes back to its ledger. Soft
/// state: repeated until it is there.
#[derive(Archive, Serialize, Deserialize, serde::Serialize, Clone, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Fetch `url` and answer.
    Wanted {
        /// The robots.txt's URL after the redirect.
        url: String,
        /// The server whose robots.txt it stands for.
        server: String,
    },
    /// The answer: what was found for `server`.
    Found {
        /// The server whose robots.txt it stands for.
        server: String,
        /// The response; none when the other server cannot be reached.
        response: Option<RobotsResponse>,
    },
    /// Give back what is not needed of a quota.
    Quota {
        /// The key of its ledger.
        key: String,
    },
}

impl EdgeMessage for Ask {
    const EDGE: Edge = Edge::FetchAsks;
    const VERSION: u8 = 1;
}
impl EdgeMessage for AskReply {
    const EDGE: Edge = Edge::FetchAsks;
    /// Far from the versions of [`Ask`], so that the number tells the two apart.
    const VERSION: u8 = 102;
    const IS_REPLY: bool = true;
}
