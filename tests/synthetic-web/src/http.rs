//! HTTP: just enough of HTTP/1.1 (RFC 9112) to be crawled, for the hosts and for the control
//! server.
//!
//! A request is parsed from what has arrived so far; requests sent ahead stay in the buffer until
//! their turn. Whatever arrives, parsing ends in a request, a refusal, or a wait for more.

use std::io::{self, IoSlice};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// A request head longer than this is refused, in bytes.
pub(crate) const HEAD_BYTES_MAX: usize = 16 * 1024;
/// How long a closed connection is drained, so that the last response is not lost to a reset.
const LINGER: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Head,
    Post,
    Other,
}

/// The head of a request. A body is never accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) method: Method,
    /// Path and query; the authority of an absolute target is taken off.
    pub(crate) target: String,
    /// The Host header; empty when there is none.
    pub(crate) host: String,
    /// If-None-Match; empty when there is none.
    pub(crate) if_none_match: String,
    /// If-Modified-Since; empty when there is none.
    pub(crate) if_modified_since: String,
    /// Accept-Encoding; empty when there is none.
    pub(crate) accept_encoding: String,
    /// The client wants no further request on this connection.
    pub(crate) close: bool,
}

/// What the bytes that have come so far amount to.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// More bytes are needed.
    Incomplete,
    /// A request and the number of bytes it took.
    Request(Request, usize),
    /// No request; the answer's status line after the version.
    Refused(&'static str),
}

/// Parses the first request in `bytes`.
pub(crate) fn parse(bytes: &[u8]) -> Parsed {
    let Some(length) = head_length(bytes) else {
        let refused = bytes.len() >= HEAD_BYTES_MAX;
        return if refused {
            Parsed::Refused("431 Request Header Fields Too Large")
        } else {
            Parsed::Incomplete
        };
    };
    let Ok(head) = std::str::from_utf8(&bytes[..length]) else {
        return Parsed::Refused("400 Bad Request");
    };
    match parse_head(head) {
        Ok(request) => Parsed::Request(request, length),
        Err(status) => Parsed::Refused(status),
    }
}

/// Length of the head with its empty line; a bare line feed ends a line too (RFC 9112, section
/// 2.2).
fn head_length(bytes: &[u8]) -> Option<usize> {
    let mut line_start = 0;
    for (at, byte) in bytes.iter().enumerate() {
        if *byte != b'\n' {
            continue;
        }
        let line = &bytes[line_start..at];
        if line_start > 0 && (line.is_empty() || line == b"\r") {
            return Some(at + 1);
        }
        line_start = at + 1;
    }
    None
}

fn parse_head(head: &str) -> Result<Request, &'static str> {
    const BAD: &str = "400 Bad Request";
    let mut lines = head.lines();
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(BAD);
    };
    let method = match method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        _ => Method::Other,
    };
    let mut close = match version {
        "HTTP/1.1" => false,
        "HTTP/1.0" => true,
        _ => return Err("505 HTTP Version Not Supported"),
    };
    let mut host = "";
    let mut if_none_match = "";
    let mut if_modified_since = "";
    let mut accept_encoding = "";
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':').ok_or(BAD)?;
        let value = value.trim();
        if name.eq_ignore_ascii_case("host") {
            host = value;
        } else if name.eq_ignore_ascii_case("if-none-match") {
            if_none_match = value;
        } else if name.eq_ignore_ascii_case("if-modified-since") {
            if_modified_since = value;
        } else if name.eq_ignore_ascii_case("accept-encoding") {
            accept_encoding = value;
        } else if name.eq_ignore_ascii_case("connection") {
            let has = |token: &str| {
                value
                    .split(',')
                    .any(|part| part.trim().eq_ignore_ascii_case(token))
            };
            close = has("close") || (close && !has("keep-alive"));
        } else if name.eq_ignore_ascii_case("content-length") && value != "0"
            || name.eq_ignore_ascii_case("transfer-encoding")
        {
            return Err("413 Content Too Large");
        }
    }
    let target = path_of(target).ok_or(BAD)?.to_owned();
    Ok(Request {
        method,
        target,
        host: host.to_owned(),
        if_none_match: if_none_match.to_owned(),
        if_modified_since: if_modified_since.to_owned(),
        accept_encoding: accept_encoding.to_owned(),
        close,
    })
}

fn path_of(target: &str) -> Option<&str> {
    match target.strip_prefix("http://") {
        Some(rest) => Some(rest.find('/').map_or("/", |slash| &rest[slash..])),
        None => target.starts_with('/').then_some(target),
    }
}

/// Reads until `buffer` starts with a whole request or a refusal. `None` at the end of the stream.
pub(crate) async fn read_request(
    stream: &mut (impl AsyncRead + Unpin + ?Sized),
    buffer: &mut Vec<u8>,
) -> io::Result<Option<Parsed>> {
    loop {
        match parse(buffer) {
            Parsed::Incomplete => {}
            parsed => return Ok(Some(parsed)),
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// Waits, and watches the client: one that gives up meanwhile must not count as connected. What it
/// sends goes to `buffer`.
pub(crate) async fn wait(
    stream: &mut (impl AsyncRead + Unpin + ?Sized),
    buffer: &mut Vec<u8>,
    duration: Duration,
) -> io::Result<()> {
    if duration.is_zero() {
        return Ok(());
    }
    let sleep = tokio::time::sleep(duration);
    tokio::pin!(sleep);
    loop {
        tokio::select! {
            () = &mut sleep => return Ok(()),
            read = stream.read_buf(buffer), if buffer.len() < HEAD_BYTES_MAX => {
                if read? == 0 {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
            }
        }
    }
}

/// Writes a response: status line, `fields` (whole header lines), length, body. `head` is scratch
/// space. Returns the number of bytes.
pub(crate) async fn write_response(
    stream: &mut (impl AsyncWrite + Unpin + ?Sized),
    head: &mut String,
    status: &str,
    fields: &str,
    close: bool,
    body: Body<'_>,
) -> io::Result<usize> {
    use std::fmt::Write as _;
    head.clear();
    let connection = if close { "close" } else { "keep-alive" };
    let written = write!(
        head,
        "HTTP/1.1 {status}\r\nServer: synthetic\r\n{fields}Content-Length: {}\r\nConnection: \
         {connection}\r\n\r\n",
        body.len()
    );
    debug_assert!(written.is_ok(), "writing to a string cannot fail");
    let [first, second, third] = if body.omitted {
        [&[][..]; 3]
    } else {
        body.parts
    };
    let mut slices = [
        IoSlice::new(head.as_bytes()),
        IoSlice::new(first),
        IoSlice::new(second),
        IoSlice::new(third),
    ];
    let bytes = slices.iter().map(|slice| slice.len()).sum();
    let mut rest = &mut slices[..];
    while !rest.is_empty() {
        match stream.write_vectored(rest).await? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => IoSlice::advance_slices(&mut rest, written),
        }
    }
    stream.flush().await?;
    Ok(bytes)
}

/// Writes a response that has no body. Returns the number of bytes.
pub(crate) async fn write_head(
    stream: &mut (impl AsyncWrite + Unpin + ?Sized),
    head: &mut String,
    status: &str,
    fields: &str,
    close: bool,
) -> io::Result<usize> {
    let connection = if close { "close" } else { "keep-alive" };
    head.clear();
    head.push_str(&format!(
        "HTTP/1.1 {status}\r\nServer: synthetic\r\n{fields}Connection: {connection}\r\n\r\n"
    ));
    stream.write_all(head.as_bytes()).await?;
    stream.flush().await?;
    Ok(head.len())
}

/// A body in up to three parts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Body<'a> {
    pub(crate) parts: [&'a [u8]; 3],
    /// A body that is announced and not sent: the answer to HEAD.
    pub(crate) omitted: bool,
}

impl Body<'_> {
    fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }
}

/// Sends the end of the stream and waits a moment for the client's. Closing with unread bytes would
/// reset the connection, and the client could lose a response it has not read yet.
pub(crate) async fn close(stream: &mut (impl AsyncRead + AsyncWrite + Unpin + ?Sized)) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let drain = async {
        let mut sink = [0; 1024];
        while matches!(stream.read(&mut sink).await, Ok(1..)) {}
    };
    let _ = tokio::time::timeout(LINGER, drain).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(bytes: &[u8]) -> Request {
        match parse(bytes) {
            Parsed::Request(request, _) => request,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn header_names_and_tokens_are_case_insensitive() {
        let parsed = request(
            b"GET /a?b=c HTTP/1.1\r\nhOsT: h0001.web.test:80\r\ncONNECTION: x, CLOSE\r\n\r\n",
        );
        assert_eq!(
            (parsed.method, parsed.target.as_str()),
            (Method::Get, "/a?b=c")
        );
        assert_eq!(
            (parsed.host.as_str(), parsed.close),
            ("h0001.web.test:80", true)
        );
    }

    #[test]
    fn old_clients_close_unless_they_ask_to_stay() {
        assert!(request(b"HEAD / HTTP/1.0\n\n").close);
        assert!(!request(b"HEAD / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n").close);
        assert!(!request(b"GET http://h.test/x HTTP/1.1\r\n\r\n").close);
        assert_eq!(
            request(b"GET http://h.test/x HTTP/1.1\r\n\r\n").target,
            "/x"
        );
    }

    #[test]
    fn a_request_sent_ahead_stays_in_the_buffer() {
        let one = b"GET /1 HTTP/1.1\r\nHost: h\r\n\r\n";
        let both = [&one[..], b"GET /2 HTTP/1.1\r\n\r\n"].concat();
        assert!(matches!(parse(&both), Parsed::Request(_, length) if length == one.len()));
        for cut in 0..one.len() {
            assert_eq!(parse(&one[..cut]), Parsed::Incomplete);
        }
    }

    #[test]
    fn what_is_no_request_is_refused() {
        for bytes in [
            &b"\xff\xfe\r\n\r\n"[..],
            b"\r\n\r\n",
            b"GET /\r\n\r\n",
            b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
            b"GET x HTTP/1.1\r\n\r\n",
            b"GET / HTTP/9\r\n\r\n",
            b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n",
            &[b'a'; HEAD_BYTES_MAX],
        ] {
            assert!(matches!(parse(bytes), Parsed::Refused(_)), "{bytes:?}");
        }
    }
}
