//! Reads the body of a response within its limits: bytes, time, and how fast it comes.
//!
//! A body ends by its length, its last chunk or the end of its stream, never by a time-out: one that is not there in time
//! is cut. What came of it is kept when it came no more slowly than bodies may, so that a large page of a server that
//! stalls is not lost; a body that drips has failed, or it would be kept for a few bytes.

use crate::room::Taken;
use reqwest::StatusCode;
use shared::message::FailureKind;
use std::pin::pin;
use std::time::Duration;
use tokio::time::Instant;

/// A body's buffer starts no larger, whatever length its server announces: thousands that announce much and send little
/// must not cost what they announce.
const RESERVED_MAX: usize = 16 << 10;

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
}

/// A body, as far as it came.
pub(crate) enum Body {
    Whole(Vec<u8>),
    /// Longer than allowed, ended early, or not there in time.
    Cut(Vec<u8>),
    /// Nothing of it came.
    Failed(reqwest::Error),
    /// Not there in time and too little of it, or nothing of what was announced.
    Lost(FailureKind),
}

/// Reads the rest of a response whose head has just come.
///
/// What comes takes room. Time in which there is none counts for nothing: it is not the server that is slow.
pub(crate) async fn read(response: &mut reqwest::Response, mut limits: Limits, room: &mut Taken) -> Body {
    // What is said of the length where there is no body is that of another response (RFC 9110, section 8.6).
    let has_none = matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED);
    let announced = response.content_length().filter(|_| !has_none).and_then(|length| usize::try_from(length).ok());
    let mut body = Vec::with_capacity(announced.unwrap_or(0).min(limits.bytes_max).min(RESERVED_MAX));
    let mut begun = Instant::now();
    let (mut window_ends, mut before_window) = (begun + limits.rate.window, 0);
    let mut alarm = pin!(tokio::time::sleep_until(limits.until.min(window_ends)));
    loop {
        let chunk = tokio::select! {
            // The alarm first: a server that always has some bytes must not keep it from ringing.
            biased;
            () = &mut alarm => {
                let is_slow = ((body.len() - before_window) as u128) < limits.rate.bytes_in(limits.rate.window);
                if Instant::now() >= limits.until {
                    return late(body, begun, limits.rate, FailureKind::Timeout);
                }
                if is_slow {
                    return late(body, begun, limits.rate, FailureKind::Slow);
                }
                // From now on: a process that was paused has not measured anything meanwhile.
                (window_ends, before_window) = (Instant::now() + limits.rate.window, body.len());
                alarm.as_mut().reset(limits.until.min(window_ends));
                continue;
            }
            chunk = response.chunk() => chunk,
        };
        let came = chunk.as_ref().ok().and_then(Option::as_ref).map_or(0, |chunk| chunk.len());
        if !room.try_take(came) {
            let since = Instant::now();
            room.take(came).await;
            let waited = since.elapsed();
            (begun, limits.until) = (begun + waited, limits.until + waited);
            (window_ends, before_window) = (Instant::now() + limits.rate.window, body.len());
            alarm.as_mut().reset(limits.until.min(window_ends));
        }
        match chunk {
            // An HTTP/2 stream that is reset without an error ends like one that is whole.
            Ok(None) if announced.is_some_and(|bytes| body.len() < bytes) => {
                return if body.is_empty() { Body::Lost(FailureKind::Reset) } else { Body::Cut(body) };
            }
            Ok(None) => return Body::Whole(body),
            Ok(Some(chunk)) if chunk.len() > limits.bytes_max - body.len() => {
                body.extend_from_slice(&chunk[..limits.bytes_max - body.len()]);
                return Body::Cut(body);
            }
            Ok(Some(chunk)) => body.extend_from_slice(&chunk),
            Err(error) if body.is_empty() => return Body::Failed(error),
            Err(_) => return Body::Cut(body),
        }
    }
}

fn late(body: Vec<u8>, begun: Instant, rate: Rate, kind: FailureKind) -> Body {
    let is_useful = !body.is_empty() && body.len() as u128 >= rate.bytes_in(begun.elapsed());
    if is_useful { Body::Cut(body) } else { Body::Lost(kind) }
}
