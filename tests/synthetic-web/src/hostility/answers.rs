//! Answers of hostile hosts: what they send instead of a page, and for robots.txt.

use std::io::{self, Write as _};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::io::AsyncWriteExt as _;

use super::Hostility;
use crate::behaviour::Exchange;
use crate::dice::{Dice, Purpose};
use crate::resource::Resource;
use crate::{http, sitemap};

/// The Retry-After of a host that asks to be left alone, in seconds: longer than any crawl.
const RETRY_AFTER_S: u32 = 86_400;
/// Time between two bytes of an answer that drips.
const DRIP_EVERY: Duration = Duration::from_millis(100);
/// Length of the robots.txt that is too large, in bytes.
const HUGE_BYTES: u64 = 100_000_000;
/// How much of a robots.txt counts (RFC 9309, section 2.5).
const ROBOTS_BYTES_MAX: usize = 500 << 10;
/// A header field of a host that has too many, in bytes.
const FIELD_BYTES: usize = 4 << 10;
/// Header fields with a page that are too many: 300 KiB.
const FIELDS: usize = 75;

impl Hostility {
    /// Answers a request for a URL other than robots.txt. The pages of the host end as
    /// [`pages`](Self::pages) says.
    pub(crate) async fn answer(self, mut exchange: Exchange<'_>) -> io::Result<()> {
        match self {
            Self::Refuses => exchange.refuse("").await,
            Self::RefusesForADay => {
                exchange
                    .refuse(&format!("Retry-After: {RETRY_AFTER_S}\r\n"))
                    .await
            }
            Self::Walled => exchange.challenge("200 OK").await,
            Self::Silent => exchange.wait(Duration::MAX).await,
            Self::BreaksOff => {
                exchange
                    .write(&head("text/html", "Content-Length: 100000\r\n"))
                    .await?;
                exchange
                    .write("<p>half a page</p>\n".repeat(1_000).as_bytes())
                    .await?;
                // The half arrives before the reset, which would void it.
                exchange.wait(DRIP_EVERY).await?;
                exchange.reset()
            }
            Self::Drips => exchange.drip("text/html", b"").await,
            Self::ServerErrors => {
                exchange
                    .send("500 Internal Server Error", "text/plain", "", b"sorry\n")
                    .await
            }
            Self::Vanished => {
                exchange
                    .send("410 Gone", "text/plain", "", b"no more\n")
                    .await
            }
            Self::HeadDrips => exchange.drip_head().await,
            Self::HeadHuge => {
                let fields = field().repeat(FIELDS);
                exchange
                    .send("200 OK", "text/html", &fields, b"<p>small</p>")
                    .await
            }
            Self::HeadEndless => exchange.pour_head().await,
            Self::HeadMissing => {
                exchange
                    .write(b"<html><body><p>Nothing before this.</p></body></html>\n")
                    .await?;
                hung_up()
            }
            Self::BodyMissing => {
                exchange
                    .write(&head("text/html", "Content-Length: 1000\r\n"))
                    .await?;
                hung_up()
            }
            Self::Garbage => {
                let noise = noise(exchange.host, 1_000);
                exchange.write(&noise).await?;
                hung_up()
            }
            _ => hung_up(),
        }
    }

    /// Answers the request for robots.txt. `rules` is its text, where it has one.
    pub(crate) async fn answer_robots(
        self,
        mut exchange: Exchange<'_>,
        rules: &str,
    ) -> io::Result<()> {
        match self {
            Self::RobotsRefused => exchange.refuse("").await,
            Self::RobotsWalled => exchange.challenge("403 Forbidden").await,
            Self::RobotsDrips => exchange.drip("text/plain", rules.as_bytes()).await,
            Self::RobotsEndless => exchange.pour(rules, u64::MAX).await,
            Self::RobotsHuge => exchange.pour(rules, HUGE_BYTES).await,
            Self::NameMissing | Self::NameEmpty | Self::NameFails | Self::NameSilent => hung_up(),
            Self::RobotsLoop => {
                let location = "Location: /robots.txt\r\n";
                exchange
                    .send("301 Moved Permanently", "text/plain", location, b"")
                    .await
            }
            Self::RobotsElsewhere => {
                let location = format!("Location: {}\r\n", exchange.plan.url(0, Resource::Robots));
                exchange
                    .send("301 Moved Permanently", "text/plain", &location, b"")
                    .await
            }
            Self::Mapped => {
                let text = rules.to_owned() + &sitemap::robots_line(exchange.plan, exchange.host);
                exchange
                    .send("200 OK", "text/plain", "", text.as_bytes())
                    .await
            }
            Self::RobotsBinary => {
                let noise = noise(exchange.host, 10_000);
                let body = [&noise[..], b"\n", rules.as_bytes(), b"\n", &noise[..]].concat();
                exchange.send("200 OK", "text/plain", "", &body).await
            }
            Self::RobotsPacked => {
                let mut packed = GzEncoder::new(Vec::new(), Compression::default());
                packed.write_all(rules.as_bytes())?;
                exchange
                    .send(
                        "200 OK",
                        "text/plain",
                        "Content-Encoding: gzip\r\n",
                        &packed.finish()?,
                    )
                    .await
            }
            Self::RobotsShort => {
                // Its end, with the rules, is missing.
                let text = format!("# rules\n{rules}");
                exchange
                    .write(&head(
                        "text/plain",
                        &format!("Content-Length: {}\r\n", text.len()),
                    ))
                    .await?;
                exchange.write(&text.as_bytes()[..20]).await?;
                hung_up()
            }
            Self::RobotsUtf16 => {
                let body: Vec<u8> = format!("\u{feff}{rules}")
                    .encode_utf16()
                    .flat_map(u16::to_le_bytes)
                    .collect();
                exchange
                    .send("200 OK", "text/plain; charset=utf-8", "", &body)
                    .await
            }
            _ => {
                let body = [
                    b"\xef\xbb\xbf# caf\xe9\n",
                    rules.as_bytes(),
                    b"Disallow: /caf\xe9/\n",
                ]
                .concat();
                exchange
                    .send("200 OK", "text/plain; charset=utf-8", "", &body)
                    .await
            }
        }
    }
}

impl Exchange<'_> {
    async fn refuse(self, fields: &str) -> io::Result<()> {
        self.send("429 Too Many Requests", "text/plain", fields, b"not now\n")
            .await
    }

    /// A page that is a wall, with a link that nobody is to follow.
    async fn challenge(self, status: &str) -> io::Result<()> {
        let body = b"<p>Are you a robot?</p><a href=\"/behind-the-wall\">no</a>\n";
        self.send(status, "text/html", "CF-Mitigated: challenge\r\n", body)
            .await
    }

    /// Sends `beginning`, then a byte at a time until the crawler goes away.
    async fn drip(mut self, content_type: &str, beginning: &[u8]) -> io::Result<()> {
        self.write(&head(content_type, "")).await?;
        self.write(beginning).await?;
        loop {
            self.wait(DRIP_EVERY).await?;
            self.write(b"#").await?;
        }
    }

    /// Sends the beginning of a head, then a byte of it at a time until the crawler goes away.
    async fn drip_head(mut self) -> io::Result<()> {
        self.write(b"HTTP/1.1 200 OK\r\nX-Slow: ").await?;
        loop {
            self.wait(DRIP_EVERY).await?;
            self.write(b"x").await?;
        }
    }

    /// Sends header fields until the crawler goes away.
    async fn pour_head(mut self) -> io::Result<()> {
        self.write(b"HTTP/1.1 200 OK\r\n").await?;
        let field = field();
        loop {
            self.write(field.as_bytes()).await?;
        }
    }

    /// Asks to be left alone for a moment.
    pub(crate) async fn send_busy(self) -> io::Result<()> {
        let fields = format!("Retry-After: {}\r\n", self.plan.profile.retry_after_s);
        self.send("503 Service Unavailable", "text/plain", &fields, b"later\n")
            .await
    }

    /// Sends a robots.txt of this many bytes: first the rules, then comments. Behind the part that
    /// counts, it says that nothing is allowed.
    async fn pour(mut self, rules: &str, bytes: u64) -> io::Result<()> {
        let length = if bytes < u64::MAX {
            format!("Content-Length: {bytes}\r\n")
        } else {
            String::new()
        };
        self.write(&head("text/plain", &length)).await?;
        let comments = "# nothing\n".repeat(ROBOTS_BYTES_MAX / 10);
        let beginning = [rules, &comments, "\nUser-agent: *\nDisallow: /\n"].concat();
        self.write(beginning.as_bytes()).await?;
        let mut left = bytes - beginning.len() as u64;
        while left > 0 {
            let part = left.min(comments.len() as u64);
            self.write(&comments.as_bytes()[..part as usize]).await?;
            left -= part;
        }
        hung_up()
    }

    /// Ends the connection as a crash does.
    fn reset(self) -> io::Result<()> {
        self.stream.end_with_reset()?;
        hung_up()
    }

    async fn wait(&mut self, duration: Duration) -> io::Result<()> {
        http::wait(self.stream, &mut Vec::new(), duration).await
    }

    pub(super) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let written = self.stream.write(rest).await?;
            self.recorder.sent(self.host, written);
            rest = &rest[written..];
        }
        Ok(())
    }
}

/// The head of an answer. The end of its body is not announced unless `fields` does so.
pub(super) fn head(content_type: &str, fields: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n{fields}\r\n").into_bytes()
}

/// A header field that says nothing.
fn field() -> String {
    format!("X-Field: {}\r\n", "x".repeat(FIELD_BYTES))
}

/// Bytes that are no line of anything: no text, no line ends.
fn noise(host: u32, bytes: usize) -> Vec<u8> {
    let mut dice = Dice::new(0, Purpose::Noise, host, 0);
    (0..bytes).map(|_| 0x80 | dice.next() as u8).collect()
}

/// The connection is of no further use.
pub(super) fn hung_up() -> io::Result<()> {
    Err(io::ErrorKind::ConnectionAborted.into())
}
