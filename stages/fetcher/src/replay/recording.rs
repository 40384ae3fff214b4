//! A recording: an HTTP response as a record has it.
//!
//! In: the block of a record, as it was received. Out: status, headers and the body without its
//! transfer coding; the content coding stays. What this crawler's archiver changed in the head is
//! changed back. Sources: RFC 9112, sections 4, 5 and 7.1; what wget, Heritrix and warcio write.

use super::record::{Damage, Head, Kind};
use rhumb_wire::message::{HttpVersion, Truncation};

/// Headers, at most; as of the web.
const HEADERS_MAX: usize = 256;
/// The archiver's names for headers that are not true of what it keeps.
const RENAMED: &str = "x-crawler-";

/// A response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Recording {
    pub(crate) status: u16,
    pub(crate) http_version: HttpVersion,
    pub(crate) headers: Vec<(String, Vec<u8>)>,
    pub(crate) body: Vec<u8>,
    pub(crate) truncated: Option<Truncation>,
}

impl Recording {
    /// The response of a record. `is_cut`: its block was longer than what is here.
    ///
    /// # Errors
    /// There is no HTTP response in it.
    pub(crate) fn of(head: &Head, block: Vec<u8>, is_cut: bool) -> Result<Recording, Damage> {
        let of_record = if is_cut {
            Some(Truncation::Length)
        } else {
            head.truncated
        };
        if head.kind == Kind::Resource {
            let headers = vec![(
                "content-type".to_owned(),
                head.content_type.clone().into_bytes(),
            )];
            return Ok(Recording {
                status: 200,
                http_version: HttpVersion::Http11,
                headers,
                body: block,
                truncated: of_record,
            });
        }
        let end =
            head_end(&block).ok_or("there is no whole head of an HTTP response in the record")?;
        let mut lines = block[..end]
            .split(|&byte| byte == b'\n')
            .map(|line| line.strip_suffix(b"\r").unwrap_or(line));
        let (version, status) = status(lines.next().unwrap_or_default())?;
        let http_version = if head.is_http2 {
            HttpVersion::Http2
        } else {
            version
        };
        let mut headers = headers(lines);
        let was_renamed = change_back(&mut headers);
        let mut body = block;
        body.drain(..end);
        let mut is_whole = true;
        if !was_renamed && head.kind == Kind::Response {
            if is_chunked(&headers) {
                // Some archives keep the header and not the chunks.
                if let Some(plain) = without_chunks(&body) {
                    (body, is_whole) = plain;
                }
            } else if has_body(status) {
                is_whole = length(&headers).is_none_or(|length| length <= body.len() as u64);
            }
        }
        let truncated = of_record.or(if is_whole {
            None
        } else {
            Some(Truncation::Disconnect)
        });
        Ok(Recording {
            status,
            http_version,
            headers,
            body,
            truncated,
        })
    }
}

/// Where the head of a response ends, the empty line included.
fn head_end(block: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        let line = at + block[at..].iter().position(|&byte| byte == b'\n')?;
        if matches!(&block[at..line], b"" | b"\r") {
            return Some(line + 1);
        }
        at = line + 1;
    }
}

fn status(line: &[u8]) -> Result<(HttpVersion, u16), Damage> {
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_ascii_whitespace();
    let version = match words.next().unwrap_or_default() {
        "HTTP/1.0" => HttpVersion::Http10,
        "HTTP/2" | "HTTP/2.0" => HttpVersion::Http2,
        version if version.starts_with("HTTP/") => HttpVersion::Http11,
        _ => return Err("the record holds no HTTP response".into()),
    };
    let status = words
        .next()
        .and_then(|status| status.parse().ok())
        .filter(|status| (100..1000).contains(status));
    Ok((
        version,
        status.ok_or("the HTTP response in the record has no status")?,
    ))
}

fn headers<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Vec<(String, Vec<u8>)> {
    let mut headers: Vec<(String, Vec<u8>)> = Vec::new();
    for line in lines {
        if line.starts_with(b" ") || line.starts_with(b"\t") {
            if let Some((_, value)) = headers.last_mut() {
                value.push(b' ');
                value.extend_from_slice(line.trim_ascii());
            }
        } else if let Some(colon) = line.iter().position(|&byte| byte == b':')
            && headers.len() < HEADERS_MAX
        {
            let name = String::from_utf8_lossy(line[..colon].trim_ascii()).to_ascii_lowercase();
            headers.push((name, line[colon + 1..].trim_ascii().to_vec()));
        }
    }
    headers
}

/// Gives headers their own names again. Returns whether there were any: then the length was put
/// there beside them.
fn change_back(headers: &mut Vec<(String, Vec<u8>)>) -> bool {
    let transfer_coding = format!("{RENAMED}transfer-encoding");
    if !headers.iter().any(|(name, _)| *name == transfer_coding) {
        return false;
    }
    headers.retain(|(name, _)| name != "content-length");
    for (name, _) in headers {
        for own in ["transfer-encoding", "content-length"] {
            if name.strip_prefix(RENAMED) == Some(own) {
                *name = own.to_owned();
            }
        }
    }
    true
}

fn is_chunked(headers: &[(String, Vec<u8>)]) -> bool {
    let mut values = headers
        .iter()
        .filter(|(name, _)| name == "transfer-encoding");
    values.any(|(_, value)| {
        value
            .to_ascii_lowercase()
            .windows(7)
            .any(|word| word == b"chunked")
    })
}

fn has_body(status: u16) -> bool {
    status >= 200 && !matches!(status, 204 | 304)
}

fn length(headers: &[(String, Vec<u8>)]) -> Option<u64> {
    let (_, value) = headers.iter().find(|(name, _)| name == "content-length")?;
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// A body without its chunks, and whether it is whole; none when it has none.
fn without_chunks(body: &[u8]) -> Option<(Vec<u8>, bool)> {
    let mut plain = Vec::with_capacity(body.len());
    let mut rest = body;
    loop {
        let chunk = chunk_head(rest);
        let Some((size, head_bytes)) = chunk else {
            let is_first = rest.len() == body.len();
            return if is_first { None } else { Some((plain, false)) };
        };
        rest = &rest[head_bytes..];
        if size == 0 {
            return Some((plain, true));
        }
        let taken = size.min(rest.len());
        plain.extend_from_slice(&rest[..taken]);
        rest = &rest[taken..];
        if taken < size {
            return Some((plain, false));
        }
        rest = rest
            .strip_prefix(b"\r\n")
            .or(rest.strip_prefix(b"\n"))
            .unwrap_or(rest);
    }
}

/// The size of the chunk that begins here, and the length of the line that says so.
fn chunk_head(bytes: &[u8]) -> Option<(usize, usize)> {
    let end = bytes.iter().take(256).position(|&byte| byte == b'\n')?;
    let line = std::str::from_utf8(&bytes[..end]).ok()?;
    let size = line.split(';').next()?.trim();
    Some((usize::from_str_radix(size, 16).ok()?, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recording(block: &str) -> Result<Recording, Damage> {
        let head = Head {
            kind: Kind::Response,
            ..Head::default()
        };
        Recording::of(&head, block.as_bytes().to_vec(), false)
    }

    fn body(recording: &Recording) -> &str {
        std::str::from_utf8(&recording.body).unwrap()
    }

    fn header<'a>(recording: &'a Recording, name: &str) -> Vec<&'a [u8]> {
        recording
            .headers
            .iter()
            .filter(|(other, _)| other == name)
            .map(|(_, value)| value.as_slice())
            .collect()
    }

    #[test]
    fn a_response_is_read_as_it_was_received() {
        let page = recording(
            "HTTP/1.0 200\r\nContent-Type:text/html\r\nX-A: 1\r\n 2\r\nx-a: 3\r\n\r\n<p>",
        )
        .unwrap();
        assert_eq!(
            (page.status, page.http_version, body(&page)),
            (200, HttpVersion::Http10, "<p>")
        );
        assert_eq!(header(&page, "x-a"), [b"1 2".as_slice(), b"3"]);
        assert_eq!(page.truncated, None);
        let lines = recording("HTTP/1.1 404 Not Found\nServer: x\n\nno").unwrap();
        assert_eq!((lines.status, body(&lines)), (404, "no"));
        let short = recording("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nfour").unwrap();
        assert_eq!(short.truncated, Some(Truncation::Disconnect));
        for nonsense in [
            "",
            "<html>",
            "HTTP/1.1 200 OK\r\nx: y\r\n",
            "HTTP/1.1 OK\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\n",
        ] {
            assert!(recording(nonsense).is_err(), "{nonsense}");
        }
    }

    #[test]
    fn chunks_are_undone_where_there_are_any() {
        let chunked = |body: &str| {
            recording(&format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{body}"
            ))
            .unwrap()
        };
        let whole = chunked("3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n");
        assert_eq!((body(&whole), whole.truncated), ("abcde", None));
        for (cut, left) in [
            ("3\r\nabc\r\n5\r\nde", "abcde"),
            ("3\r\nabc\r\n", "abc"),
            ("3\r\nabc\r\nzz", "abc"),
        ] {
            let cut = chunked(cut);
            assert_eq!(
                (body(&cut), cut.truncated),
                (left, Some(Truncation::Disconnect))
            );
        }
        let plain = chunked("<html>plain</html>");
        assert_eq!(
            (body(&plain), plain.truncated),
            ("<html>plain</html>", None)
        );
    }

    #[test]
    fn headers_that_the_archiver_renamed_have_their_names_again() {
        let block = "HTTP/1.1 200 OK\r\nx-crawler-transfer-encoding: \
                     chunked\r\nx-crawler-content-length: 3\r\n\
                     content-length: 2\r\n\r\n3\n";
        let page = recording(block).unwrap();
        assert_eq!(header(&page, "transfer-encoding"), [b"chunked"]);
        assert_eq!(
            (header(&page, "content-length"), body(&page)),
            (vec![b"3".as_slice()], "3\n")
        );
        assert_eq!(page.truncated, None);
    }
}
