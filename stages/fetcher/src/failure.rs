//! From an error of the HTTP client to the kind of failure that the scheduler decides by.

use crate::connection::Refused;
use crate::effect::End;
use shared::message::FailureKind;
use std::error::Error;
use std::io;

/// How a request ended that brought no response head, or whose body could not be read.
pub(crate) fn end_of(error: &reqwest::Error, is_https: bool) -> End {
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
    End::Failure(if error.is_connect() {
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
    } else if causes.not_http {
        FailureKind::Protocol
    } else if error.is_builder() {
        // A URL that the client does not take: it was not contacted.
        FailureKind::Protocol
    } else {
        FailureKind::Reset
    })
}

/// What is in an error's chain of sources.
#[derive(Default)]
struct Causes {
    refused: Option<Refused>,
    tls: bool,
    certificate: bool,
    /// The server says of an HTTP/2 request that it did not look at it (RFC 9113, sections 6.8 and 8.7).
    not_processed: bool,
    ended_early: bool,
    head_too_large: bool,
    not_http: bool,
}

impl Causes {
    fn of(error: &(dyn Error + 'static)) -> Causes {
        let mut causes = Causes::default();
        let mut next = Some(error);
        while let Some(error) = next {
            causes.note(error);
            // An I/O error names as its source that of the error in it, not that error itself.
            next = match error.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
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
            // The library found fault with what the server sends.
            self.not_http |= error.is_library();
        } else if let Some(error) = error.downcast_ref::<io::Error>() {
            self.ended_early |= matches!(
                error.kind(),
                io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
            );
        } else if let Some(error) = error.downcast_ref::<hyper::Error>() {
            self.head_too_large |= error.is_parse_too_large();
            self.not_http |= error.is_parse();
        }
    }
}
