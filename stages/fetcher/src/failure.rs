//! From an error of the HTTP client to the kind of failure that the scheduler decides by.

use crate::connection::{Connection, Link, Refused};
use crate::effect::End;
use rhumb_wire::message::FailureKind;
use std::error::Error;
use std::io;

/// How a request ended that brought a response head, but no body that could be read.
pub(crate) fn end_of_body(error: &reqwest::Error, connection: &Connection) -> End {
    match end_of(error, connection) {
        End::Failure(kind) => End::BodyFailed(kind),
        end => end,
    }
}

/// How a request ended that brought no response head.
pub(crate) fn end_of(error: &reqwest::Error, connection: &Connection) -> End {
    let causes = Causes::of(error);
    match causes.refused {
        Some(Refused::SecondConnection) => return End::Gone,
        Some(Refused::LeaseOver) => return End::Failure(FailureKind::Connect),
        Some(Refused::Host) => return End::Failure(FailureKind::Forbidden),
        None => {}
    }
    if causes.not_processed {
        return End::Gone;
    }
    if error.is_connect() && causes.connection_refused {
        return End::Refused;
    }
    let kind = kind_of(error, &causes, connection.is_https());
    if is_of_http2(kind, &causes, &connection.link) {
        End::Http2Failed(kind)
    } else {
        End::Failure(kind)
    }
}

fn kind_of(error: &reqwest::Error, causes: &Causes, is_https: bool) -> FailureKind {
    if error.is_connect() {
        if causes.certificate {
            FailureKind::Certificate
        } else if causes.tls || (is_https && causes.ended_early) {
            FailureKind::Tls
        } else {
            FailureKind::Connect
        }
    } else if error.is_timeout() {
        FailureKind::Timeout
    } else if causes.head_too_large {
        FailureKind::HeaderTooLarge
    } else if causes.not_http || (causes.bad_framing && !causes.tls) {
        FailureKind::Protocol
    } else if error.is_builder() {
        // A URL that the client does not take: it was not contacted.
        FailureKind::Protocol
    } else {
        FailureKind::Reset
    }
}

/// Returns whether it is HTTP/2 that failed, so that the server may answer over HTTP/1.1: it says
/// so (RFC 9113, section 7), or the connection broke before it brought anything.
///
/// Not so when the server was only slow, or asks for fewer requests (ENHANCE_YOUR_CALM): to ask
/// once more at once would be the wrong answer to either.
fn is_of_http2(kind: FailureKind, causes: &Causes, link: &Link) -> bool {
    let is_http2 = link.connected().is_some_and(|connected| connected.is_http2);
    let is_broken = matches!(kind, FailureKind::Reset | FailureKind::Protocol);
    is_http2 && (causes.http11_required || (is_broken && !causes.too_many && !link.has_answered()))
}

/// What is in an error's chain of sources.
#[derive(Default)]
struct Causes {
    refused: Option<Refused>,
    tls: bool,
    certificate: bool,
    /// The server says of an HTTP/2 request that it did not look at it (RFC 9113, sections 6.8 and
    /// 8.7).
    not_processed: bool,
    /// The server wants the request over HTTP/1.1.
    http11_required: bool,
    /// The server says that it is asked too much.
    too_many: bool,
    connection_refused: bool,
    ended_early: bool,
    head_too_large: bool,
    not_http: bool,
    /// The body is not what its head says, such as chunks with lines of another kind (RFC 9112,
    /// section 7.1).
    bad_framing: bool,
}

impl Causes {
    fn of(error: &(dyn Error + 'static)) -> Causes {
        let mut causes = Causes::default();
        let mut next = Some(error);
        while let Some(error) = next {
            causes.note(error);
            // An I/O error names as its source that of the error in it, not that error itself.
            next = match error
                .downcast_ref::<io::Error>()
                .and_then(io::Error::get_ref)
            {
                Some(inner) => Some(inner),
                None => error.source(),
            };
        }
        causes
    }

    fn note(&mut self, error: &(dyn Error + 'static)) {
        if let Some(refused) = error.downcast_ref::<Refused>() {
            self.refused = Some(*refused);
        } else if let Some(error) = error.downcast_ref::<rustls::Error>() {
            self.tls = true;
            self.certificate = matches!(error, rustls::Error::InvalidCertificate(_));
        } else if let Some(error) = error.downcast_ref::<h2::Error>() {
            let is_refused = error.is_reset() && error.reason() == Some(h2::Reason::REFUSED_STREAM);
            // A server that ends in good order names the last request that it answers.
            let is_too_late = error.is_go_away() && error.reason() == Some(h2::Reason::NO_ERROR);
            self.not_processed |= error.is_remote() && (is_refused || is_too_late);
            let says = |reason| error.is_remote() && error.reason() == Some(reason);
            self.http11_required |= says(h2::Reason::HTTP_1_1_REQUIRED);
            self.too_many |= says(h2::Reason::ENHANCE_YOUR_CALM);
            // The library found fault with what the server sends.
            self.not_http |= error.is_library();
        } else if let Some(error) = error.downcast_ref::<io::Error>() {
            self.connection_refused |= error.kind() == io::ErrorKind::ConnectionRefused;
            self.ended_early |= matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof
                    | io::ErrorKind::ConnectionReset
                    | io::ErrorKind::BrokenPipe
            );
            self.bad_framing |= matches!(
                error.kind(),
                io::ErrorKind::InvalidInput | io::ErrorKind::InvalidData
            );
        } else if let Some(error) = error.downcast_ref::<hyper::Error>() {
            self.head_too_large |= error.is_parse_too_large();
            self.not_http |= error.is_parse();
        }
    }
}
