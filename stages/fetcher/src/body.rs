//! Reads the body of a response within its limits: bytes, time, and how fast it comes.
//!
//! A body ends by its length, its last chunk or the end of its stream, never by a time-out: one
//! that is not there in time is cut. What came of it is kept when it came no more slowly than
//! bodies may, and when it came and then stood still: its announced end may never come, and it may
//! be all there is. A body that still drips has failed: it would be kept for a few bytes, and tar
//! pits drip.
//!
//! Most answers but 2xx say all by status and Location. Their bodies are waited for less long, and
//! none of them fails. Answers that have no content by their status are whole with their heads.

use crate::room::Taken;
use bytes::Bytes;
use reqwest::StatusCode;
use reqwest::header::{CONTENT_LENGTH, HeaderValue, LOCATION, TRANSFER_ENCODING};
use rhumb_url::redirect;
use rhumb_wire::message::{FailureKind, Truncation};
use std::pin::pin;
use std::time::Duration;
use tokio::time::Instant;

/// A body's buffer starts no larger, whatever length its server announces: thousands that announce
/// much and send little must not cost what they announce.
const RESERVED_MAX: usize = 16 << 10;
/// How long a body that decides nothing may bring less than the least rate. It is worth this wait
/// because without its end the connection is lost to the other requests of the job; a longer one
/// costs more than a new connection.
const NEEDLESS_WINDOW: Duration = Duration::from_secs(2);

/// What a body may cost.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// It is cut there.
    pub(crate) bytes_max: usize,
    /// It is cut then.
    pub(crate) until: Instant,
    /// The rate that it has to keep.
    pub(crate) rate: Rate,
}

/// How fast a body has to come.
#[derive(Clone, Copy, Debug)]
pub struct Rate {
    /// Bytes a second; 0: as slowly as it likes.
    pub bytes_min: u64,
    /// Over any such time, one after the other.
    pub window: Duration,
}

impl Rate {
    /// Bytes that come in so long at least.
    fn bytes_in(self, time: Duration) -> u128 {
        u128::from(self.bytes_min) * time.as_micros() / 1_000_000
    }

    /// The rate of a body that decides nothing.
    fn needless(self) -> Rate {
        Rate {
            bytes_min: self.bytes_min.max(1),
            window: self.window.min(NEEDLESS_WINDOW),
        }
    }
}

/// A body, as far as it came.
pub(crate) enum Body {
    Whole(Vec<u8>),
    /// Not all of it; of one that is not needed perhaps nothing.
    Cut(Vec<u8>, Truncation),
    /// Nothing of it came.
    Failed(reqwest::Error),
    /// Not there in time and too little of it, or nothing of what was announced.
    Lost(FailureKind),
}

/// Reads the rest of a response whose head has just come.
///
/// What comes takes room. Time in which there is none counts for nothing: it is not the server that
/// is slow.
pub(crate) async fn read(
    response: &mut reqwest::Response,
    mut limits: Limits,
    room: &mut Taken,
) -> Body {
    if is_without_content(response) {
        return Body::Whole(Vec::new());
    }
    let is_needed = is_needed(response);
    if !is_needed {
        limits.rate = limits.rate.needless();
    }
    let mut framing = Framing::of(response);
    let reserved = framing
        .announced
        .unwrap_or(0)
        .min(limits.bytes_max)
        .min(RESERVED_MAX);
    let mut coming = Coming::new(reserved, limits.rate);
    let mut alarm = pin!(tokio::time::sleep_until(
        limits.until.min(coming.window_ends)
    ));
    loop {
        let chunk = tokio::select! {
            // The alarm first: a server that always has some bytes must not keep it from ringing.
            biased;
            () = &mut alarm => {
                let is_over = Instant::now() >= limits.until;
                if !is_over && coming.keeps_its_rate() {
                    coming.begin_window();
                    alarm.as_mut().reset(limits.until.min(coming.window_ends));
                    continue;
                }
                if !is_needed || coming.is_useful() {
                    return Body::Cut(coming.body, Truncation::Time);
                }
                return Body::Lost(if is_over { FailureKind::Timeout } else { FailureKind::Slow });
            }
            chunk = framing.next(response) => chunk,
        };
        let came = chunk
            .as_ref()
            .ok()
            .and_then(Option::as_ref)
            .map_or(0, |chunk| chunk.len());
        if !room.try_take(came) {
            let since = Instant::now();
            room.take(came).await;
            let waited = since.elapsed();
            limits.until += waited;
            coming.begun += waited;
            coming.begin_window();
            alarm.as_mut().reset(limits.until.min(coming.window_ends));
        }
        let is_lost = is_needed && coming.body.is_empty();
        match chunk {
            Ok(Some(chunk)) => {
                if !coming.take(&chunk, limits.bytes_max) {
                    return Body::Cut(coming.body, Truncation::Length);
                }
            }
            Ok(None) if !framing.lacks(&coming.body) => return Body::Whole(coming.body),
            Ok(None) if is_lost => return Body::Lost(FailureKind::Reset),
            Err(error) if is_lost => return Body::Failed(error),
            Ok(None) | Err(_) => return Body::Cut(coming.body, Truncation::Disconnect),
        }
    }
}

/// Returns whether a response has no content by its status, whatever its head says of a length (RFC
/// 9110, sections 8.6, 15.3.5, 15.3.6 and 15.4.5). Nothing is waited for: an HTTP/2 stream may be
/// left open behind it, and a 205 without a length lasts as long as its connection.
fn is_without_content(response: &reqwest::Response) -> bool {
    matches!(
        response.status(),
        StatusCode::NO_CONTENT | StatusCode::RESET_CONTENT | StatusCode::NOT_MODIFIED
    )
}

/// Returns whether a body may decide what becomes of its URL, or leads to others. Of all other
/// answers status and Location say that.
fn is_needed(response: &reqwest::Response) -> bool {
    let status = response.status();
    if !status.is_redirection() {
        return status.is_success();
    }
    let locations = response
        .headers()
        .get_all(LOCATION)
        .iter()
        .map(HeaderValue::as_bytes);
    redirect::target(status.as_u16(), locations, response.url()).is_none()
}

/// How the end of a body is told.
struct Framing {
    /// Its bytes, as far as they were announced.
    announced: Option<usize>,
    /// Bytes of it that are still to come, where the client waits for the end of the connection and
    /// should not.
    rest: Option<usize>,
}

impl Framing {
    fn of(response: &reqwest::Response) -> Framing {
        let rest = length_beside_no_chunks(response);
        let announced = response
            .content_length()
            .and_then(|length| usize::try_from(length).ok());
        Framing {
            announced: announced.or(rest),
            rest,
        }
    }

    /// The next bytes; none at the end.
    async fn next(&mut self, response: &mut reqwest::Response) -> reqwest::Result<Option<Bytes>> {
        if self.rest == Some(0) {
            return Ok(None);
        }
        let mut chunk = response.chunk().await?;
        if let (Some(rest), Some(chunk)) = (&mut self.rest, &mut chunk) {
            chunk.truncate(*rest);
            *rest -= chunk.len();
        }
        Ok(chunk)
    }

    /// Returns whether a body that has ended is shorter than was announced: an HTTP/2 stream that
    /// is reset without an error ends like one that is whole.
    fn lacks(&self, body: &[u8]) -> bool {
        self.announced.is_some_and(|bytes| body.len() < bytes)
    }
}

/// Content-Length beside a Transfer-Encoding that does not say `chunked`, as `identity`, which is
/// none any more (RFC 9112, section 7). By section 6.3 such a body ends with its connection, and so
/// says the client; but browsers go by the length, and servers that send both leave the connection
/// open.
pub(crate) fn length_beside_no_chunks(response: &reqwest::Response) -> Option<usize> {
    let headers = response.headers();
    headers.get(TRANSFER_ENCODING)?;
    let values = headers
        .get_all(TRANSFER_ENCODING)
        .iter()
        .map(HeaderValue::as_bytes);
    let mut codings = values.flat_map(|value| value.split(|&byte| byte == b','));
    if codings.any(|coding| coding.trim_ascii().eq_ignore_ascii_case(b"chunked")) {
        return None;
    }
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A body on its way.
struct Coming {
    body: Vec<u8>,
    rate: Rate,
    begun: Instant,
    /// When the first bytes came.
    first: Instant,
    /// When the last bytes came.
    moved: Instant,
    window_ends: Instant,
    before_window: usize,
}

impl Coming {
    fn new(reserved: usize, rate: Rate) -> Coming {
        let begun = Instant::now();
        let body = Vec::with_capacity(reserved);
        Coming {
            body,
            rate,
            begun,
            first: begun,
            moved: begun,
            window_ends: begun + rate.window,
            before_window: 0,
        }
    }

    /// Takes what came. Returns whether there was no more than may be.
    fn take(&mut self, chunk: &[u8], bytes_max: usize) -> bool {
        let kept = chunk.len().min(bytes_max - self.body.len());
        self.body.extend_from_slice(&chunk[..kept]);
        self.moved = Instant::now();
        if self.body.len() == kept {
            self.first = self.moved;
        }
        kept == chunk.len()
    }

    /// Measures from now on: a process that was paused has not measured anything meanwhile.
    fn begin_window(&mut self) {
        self.window_ends = Instant::now() + self.rate.window;
        self.before_window = self.body.len();
    }

    /// Returns whether enough came in the window that has ended.
    fn keeps_its_rate(&self) -> bool {
        (self.body.len() - self.before_window) as u128 >= self.rate.bytes_in(self.rate.window)
    }

    /// Returns whether what came by now is worth keeping: it came fast enough, or has stood still
    /// for longer than it moved.
    fn is_useful(&self) -> bool {
        let moved_for = self.moved.duration_since(self.begun);
        let stands_still = self.moved.elapsed() >= self.moved.duration_since(self.first);
        !self.body.is_empty()
            && (stands_still || self.body.len() as u128 >= self.rate.bytes_in(moved_for))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::room::Room;
    use futures::FutureExt as _;
    use hyper::body::Frame;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::task::{Context, Poll};

    /// A body of which nothing comes, not even its end.
    struct Open;

    impl hyper::body::Body for Open {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            Poll::Pending
        }
    }

    #[tokio::test]
    async fn what_has_no_content_is_whole_at_once_although_its_end_does_not_come() {
        let second = Duration::from_secs(1);
        let rate = Rate {
            bytes_min: 1024,
            window: second,
        };
        for (status, is_whole) in [
            (204_u16, true),
            (205, true),
            (304, true),
            (200, false),
            (404, false),
        ] {
            let open = ::http::Response::builder()
                .status(status)
                .body(reqwest::Body::wrap(Open))
                .unwrap();
            let mut response = reqwest::Response::from(open);
            let limits = Limits {
                bytes_max: 1000,
                until: Instant::now() + second,
                rate,
            };
            let mut room = Room::new(1000).nothing();
            let brought = read(&mut response, limits, &mut room).now_or_never();
            let is_empty = matches!(brought, Some(Body::Whole(body)) if body.is_empty());
            assert_eq!(is_empty, is_whole, "{status}");
        }
    }
}
