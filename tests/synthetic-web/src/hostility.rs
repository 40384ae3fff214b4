//! Hostility: what a hostile host does wrong, whatever the crawler does right.
//!
//! Each kind is one wrong; all else of the host is as it should be, so that a test can tell what a
//! kind leads to. What must come of each is said once, in [`Hostility::pages`] and
//! [`Hostility::robots`].

use std::io;
use std::time::Duration;

use clap::ValueEnum;
use tokio::io::AsyncWriteExt as _;

use super::behaviour::{Ending, Exchange};
use super::dice::{Dice, Purpose};
use super::http;

/// The Retry-After of a host that asks to be left alone, in seconds: longer than any crawl.
const RETRY_AFTER_S: u32 = 86_400;
/// Between two bytes of a body that drips.
const DRIP_EVERY: Duration = Duration::from_millis(100);
/// So many questions for a name that is shy are answered by a failure: for both versions of the
/// protocol, twice.
const SHY_FOR: u32 = 4;
/// How long the answer for a slow name takes.
const NAME_SLOW: Duration = Duration::from_secs(1);
/// Length of the robots.txt that is too large, in bytes.
const HUGE_BYTES: u64 = 100_000_000;
/// How much of a robots.txt counts (RFC 9309, section 2.5).
const ROBOTS_BYTES_MAX: usize = 500 << 10;
/// What may wait in the kernel to be sent to a crawler that reads no more, in bytes: only with a
/// bound on it does the number of bytes sent tell how many were read.
pub(crate) const UNREAD_BYTES: u32 = 64 << 10;

/// What a hostile host does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub enum Hostility {
    /// Answers every request but that for robots.txt with 429
    Refuses,
    /// The same, with a Retry-After of a day
    RefusesForADay,
    /// Accepts connections, reads requests and never answers, but for robots.txt
    Silent,
    /// Closes the connection instead of answering
    HangsUp,
    /// Announces 100 more requests and closes the connection after each answer
    Closes,
    /// Announces 100 more requests and resets the connection at the second
    Resets,
    /// Resets the connection in the middle of each page
    BreaksOff,
    /// Sends each page a byte at a time, for ever
    Drips,
    /// Answers with what is not HTTP
    Garbage,
    /// Answers 429 to the request for robots.txt
    RobotsRefused,
    /// Sends a robots.txt a byte at a time, for ever
    RobotsDrips,
    /// Sends a robots.txt that does not end, as fast as it is read
    RobotsEndless,
    /// Sends a robots.txt of 100 MB
    RobotsHuge,
    /// Sends a robots.txt whose rules stand between binary noise
    RobotsBinary,
    /// Sends a robots.txt in UTF-16
    RobotsUtf16,
    /// Sends a robots.txt that is marked as UTF-8 and is Latin-1
    RobotsLatin1,
    /// Redirects robots.txt to itself
    RobotsLoop,
    /// Has a name that does not exist
    NameMissing,
    /// Has a name without an address
    NameEmpty,
    /// Has a name that the DNS server fails on
    NameFails,
    /// Has a name that the DNS server does not answer for
    NameSilent,
    /// Has a name that the DNS server fails on at first
    NameShy,
    /// Has a name that the DNS server answers for after a second
    NameSlow,
}

impl Hostility {
    /// All kinds.
    pub const ALL: [Self; 23] = [
        Self::Refuses,
        Self::RefusesForADay,
        Self::Silent,
        Self::HangsUp,
        Self::Closes,
        Self::Resets,
        Self::BreaksOff,
        Self::Drips,
        Self::Garbage,
        Self::RobotsRefused,
        Self::RobotsDrips,
        Self::RobotsEndless,
        Self::RobotsHuge,
        Self::RobotsBinary,
        Self::RobotsUtf16,
        Self::RobotsLatin1,
        Self::RobotsLoop,
        Self::NameMissing,
        Self::NameEmpty,
        Self::NameFails,
        Self::NameSilent,
        Self::NameShy,
        Self::NameSlow,
    ];

    /// How every URL of the host ends that may be requested; `None` where each ends as it would on
    /// any host.
    pub(crate) fn pages(self) -> Option<Ending> {
        match self {
            Self::Refuses | Self::RefusesForADay => Some(Ending::Refused),
            Self::Silent | Self::HangsUp | Self::Drips | Self::Garbage => Some(Ending::Failed),
            // With half a page in hand, and no link in it.
            Self::BreaksOff => Some(Ending::Fetched),
            Self::NameMissing | Self::NameEmpty | Self::NameFails | Self::NameSilent => Some(Ending::Unresolvable),
            _ => None,
        }
    }

    /// What its robots.txt comes to.
    pub(crate) fn robots(self) -> Verdict {
        match self {
            // RFC 9309, section 2.3.1.4: it cannot be reached.
            Self::RobotsRefused | Self::RobotsDrips => Verdict::Unreachable,
            // Section 2.5: what comes first counts. Section 2.2: what can be read counts.
            Self::RobotsEndless | Self::RobotsHuge | Self::RobotsBinary | Self::RobotsUtf16 | Self::RobotsLatin1 => {
                Verdict::Rules
            }
            // Section 2.3.1.2: after five redirects there is none.
            Self::RobotsLoop => Verdict::AllowAll,
            // Nobody comes to ask for it.
            Self::NameMissing | Self::NameEmpty | Self::NameFails | Self::NameSilent => Verdict::AllowAll,
            _ => Verdict::AsOnAnyHost,
        }
    }

    /// How the DNS server answers for its name when it has been asked for it so often before.
    pub(crate) fn name(self, asked: u32) -> NameAnswer {
        match self {
            Self::NameMissing => NameAnswer::Missing,
            Self::NameEmpty => NameAnswer::Empty,
            Self::NameFails => NameAnswer::Failure,
            Self::NameShy if asked < SHY_FOR => NameAnswer::Failure,
            Self::NameSilent => NameAnswer::Nothing,
            Self::NameSlow => NameAnswer::Address(NAME_SLOW),
            _ => NameAnswer::Address(Duration::ZERO),
        }
    }

    /// The host promises to serve more requests on a connection than it does.
    pub(crate) fn breaks_its_promise(self) -> bool {
        matches!(self, Self::Closes | Self::Resets)
    }

    /// Answers a request for a URL other than robots.txt, of a host whose pages end as
    /// [`pages`](Self::pages) says.
    pub(crate) async fn answer(self, mut exchange: Exchange<'_>) -> io::Result<()> {
        match self {
            Self::Refuses => exchange.refuse("").await,
            Self::RefusesForADay => exchange.refuse(&format!("Retry-After: {RETRY_AFTER_S}\r\n")).await,
            Self::Silent => exchange.wait(Duration::MAX).await,
            Self::BreaksOff => {
                exchange.write(&head("text/html", "Content-Length: 100000\r\n")).await?;
                exchange.write("<p>half a page</p>\n".repeat(1_000).as_bytes()).await?;
                // The half is there before the reset is, which would void it.
                exchange.wait(DRIP_EVERY).await?;
                exchange.reset()
            }
            Self::Drips => exchange.drip("text/html", b"").await,
            Self::Garbage => {
                let noise = noise(exchange.host, 1_000);
                exchange.write(&noise).await?;
                hung_up()
            }
            _ => hung_up(),
        }
    }

    /// Answers the request for robots.txt. `rules` is what it says where it says anything.
    pub(crate) async fn answer_robots(self, exchange: Exchange<'_>, rules: &str) -> io::Result<()> {
        match self {
            Self::RobotsRefused => exchange.refuse("").await,
            Self::RobotsDrips => exchange.drip("text/plain", rules.as_bytes()).await,
            Self::RobotsEndless => exchange.pour(rules, u64::MAX).await,
            Self::RobotsHuge => exchange.pour(rules, HUGE_BYTES).await,
            Self::NameMissing | Self::NameEmpty | Self::NameFails | Self::NameSilent => hung_up(),
            Self::RobotsLoop => {
                let location = "Location: /robots.txt\r\n";
                exchange.send("301 Moved Permanently", "text/plain", location, b"").await
            }
            Self::RobotsBinary => {
                let noise = noise(exchange.host, 10_000);
                let body = [&noise[..], b"\n", rules.as_bytes(), b"\n", &noise[..]].concat();
                exchange.send("200 OK", "text/plain", "", &body).await
            }
            Self::RobotsUtf16 => {
                let body: Vec<u8> = format!("\u{feff}{rules}").encode_utf16().flat_map(u16::to_le_bytes).collect();
                exchange.send("200 OK", "text/plain; charset=utf-8", "", &body).await
            }
            _ => {
                let body = [b"\xef\xbb\xbf# caf\xe9\n", rules.as_bytes(), b"Disallow: /caf\xe9/\n"].concat();
                exchange.send("200 OK", "text/plain; charset=utf-8", "", &body).await
            }
        }
    }
}

/// What the DNS server says of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameAnswer {
    /// Its address, after so long.
    Address(Duration),
    /// NXDOMAIN.
    Missing,
    /// No record.
    Empty,
    /// SERVFAIL.
    Failure,
    /// Not a word.
    Nothing,
}

/// What a crawler makes of a robots.txt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// What it makes of any host's.
    AsOnAnyHost,
    /// There are rules in it, and they hold.
    Rules,
    /// There is none.
    AllowAll,
    /// It cannot be reached, so nothing is allowed.
    Unreachable,
}

impl Exchange<'_> {
    async fn refuse(self, fields: &str) -> io::Result<()> {
        self.send("429 Too Many Requests", "text/plain", fields, b"not now\n").await
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

    /// Sends a robots.txt of so many bytes: the rules; then comments; then, behind what counts of
    /// it, that nothing is allowed.
    async fn pour(mut self, rules: &str, bytes: u64) -> io::Result<()> {
        let length = if bytes < u64::MAX { format!("Content-Length: {bytes}\r\n") } else { String::new() };
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
        self.stream.set_zero_linger()?;
        hung_up()
    }

    async fn wait(&mut self, duration: Duration) -> io::Result<()> {
        http::wait(self.stream, &mut Vec::new(), duration).await
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let written = self.stream.write(rest).await?;
            self.recorder.sent(self.host, written);
            rest = &rest[written..];
        }
        Ok(())
    }
}

/// The head of an answer, without an end of its body unless `fields` has one.
fn head(content_type: &str, fields: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\n{fields}\r\n").into_bytes()
}

/// Bytes that are no line of anything: no text, no line ends.
fn noise(host: u32, bytes: usize) -> Vec<u8> {
    let mut dice = Dice::new(0, Purpose::Noise, host, 0);
    (0..bytes).map(|_| 0x80 | dice.next() as u8).collect()
}

/// The connection is of no further use.
fn hung_up() -> io::Result<()> {
    Err(io::ErrorKind::ConnectionAborted.into())
}
