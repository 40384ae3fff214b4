//! Hostility: what a hostile host does wrong, whatever the crawler does right.
//!
//! Each kind is one wrong. All else of the host is as it should be, so that a test can tell what a
//! kind leads to. What must come of each is said once: in [`Hostility::pages`] and
//! [`Hostility::robots`], and in `byway` for what a host has beside its pages. All other kinds
//! change nothing of what a crawl finds: each page is fetched, and all its links are found, however
//! it is sent and written.

mod answers;
mod pages;

use std::time::Duration;

use clap::ValueEnum;
use encoding_rs::{SHIFT_JIS, UTF_16LE, WINDOWS_1251};

use super::behaviour::Outcome;
use super::tongue::Tongue;

/// Questions for a name that is shy that are answered by a failure: two for each version of the
/// protocol.
const SHY_FOR: u32 = 4;
/// How long the answer for a slow name takes.
const NAME_SLOW: Duration = Duration::from_secs(1);
/// Bytes that may wait in the kernel for a crawler that reads no more. Only with this limit does
/// the number of bytes sent tell how many were read.
pub(crate) const UNREAD_BYTES: u32 = 64 << 10;
/// A busy host refuses one request in this many.
pub(crate) const BUSY_EVERY: usize = 10;

/// What a hostile host does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, ValueEnum)]
pub enum Hostility {
    /// Answers every request but that for robots.txt with 429
    Refuses,
    /// The same, with a Retry-After of a day
    RefusesForADay,
    /// Answers every request but that for robots.txt with 200 and a challenge
    Walled,
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
    /// Answers the request for robots.txt with 403 and a challenge
    RobotsWalled,
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
    /// Redirects robots.txt to that of the first host
    RobotsElsewhere,
    /// Sends a robots.txt in gzip, whether that was asked for or not
    RobotsPacked,
    /// Announces a robots.txt longer than what it sends of it
    RobotsShort,
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
    /// Answers every request but that for robots.txt with 500
    ServerErrors,
    /// The same with 410
    Vanished,
    /// Answers every tenth request, from the first on, with 503 and a Retry-After
    Busy,
    /// Sends the head of each answer a byte at a time, for ever
    HeadDrips,
    /// Sends 300 KiB of header fields with each page
    HeadHuge,
    /// Sends header fields that do not end, as fast as they are read
    HeadEndless,
    /// Sends each page without a head, as before HTTP/1.0
    HeadMissing,
    /// Announces a body and closes the connection instead
    BodyMissing,
    /// Announces a body longer than the page and closes the connection after the page
    BodyShort,
    /// Sends comments behind each page, without end, as fast as they are read
    BodyEndless,
    /// Sends each page as a chunk and then what is no chunk
    BodyChunks,
    /// Sends pages in gzip that become 1 GiB
    GzipBomb,
    /// Sends pages in brotli that become 16 GiB
    BrotliBomb,
    /// Says that its pages are images
    Mistyped,
    /// Does not say what its pages are
    Untyped,
    /// Writes HTML as badly as can still be read in one way only
    TagSoup,
    /// Has links that refer to a base
    Based,
    /// Has links in refreshes
    Refreshes,
    /// Has images in several sizes, as no crawler of pages follows
    Srcset,
    /// Has pages in windows-1251, with paths and queries in Cyrillic
    Cyrillic,
    /// Has pages in Shift_JIS, with paths and queries in Japanese
    Japanese,
    /// Has pages in UTF-16, with paths and queries that are not ASCII
    Utf16,
    /// Has a calendar whose months lead to the next one, for ever
    Calendar,
    /// Has a page under every path, with a link relative to it
    Spiral,
    /// Has pages whose links add a parameter to their query, for ever
    Filters,
    /// Has links with a new session id in each
    Sessions,
    /// Has each page under a second URL
    Copies,
    /// Redirects in circles
    RedirectLoop,
    /// Redirects on and on
    RedirectsForEver,
    /// Has pages that only the sitemaps lead to that its robots.txt names
    Mapped,
    /// Speaks HTTP/2 over TLS, and does nothing wrong
    Http2,
    /// The same; takes leave (GOAWAY) after five answers on a connection
    Http2GoAway,
    /// The same; breaks off (RST_STREAM) every third request
    Http2Resets,
}

impl Hostility {
    /// All kinds.
    pub const ALL: [Self; 61] = [
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
        Self::RobotsElsewhere,
        Self::RobotsPacked,
        Self::RobotsShort,
        Self::NameMissing,
        Self::NameEmpty,
        Self::NameFails,
        Self::NameSilent,
        Self::NameShy,
        Self::NameSlow,
        Self::ServerErrors,
        Self::Vanished,
        Self::Busy,
        Self::HeadDrips,
        Self::HeadHuge,
        Self::HeadEndless,
        Self::HeadMissing,
        Self::BodyMissing,
        Self::BodyShort,
        Self::BodyEndless,
        Self::BodyChunks,
        Self::GzipBomb,
        Self::BrotliBomb,
        Self::Mistyped,
        Self::Untyped,
        Self::TagSoup,
        Self::Based,
        Self::Refreshes,
        Self::Srcset,
        Self::Cyrillic,
        Self::Japanese,
        Self::Utf16,
        Self::Calendar,
        Self::Spiral,
        Self::Filters,
        Self::Sessions,
        Self::Copies,
        Self::RedirectLoop,
        Self::RedirectsForEver,
        Self::Mapped,
        Self::Http2,
        Self::Http2GoAway,
        Self::Http2Resets,
        Self::Walled,
        Self::RobotsWalled,
    ];

    /// How the URLs of the host end that may be requested; `None` when each ends as it would on any
    /// host.
    pub(crate) fn pages(self) -> Option<Outcome> {
        match self {
            Self::Refuses | Self::RefusesForADay | Self::Walled => Some(Outcome::Refused),
            Self::Silent | Self::HangsUp | Self::Drips | Self::Garbage => Some(Outcome::Failed),
            Self::ServerErrors
            | Self::HeadDrips
            | Self::HeadHuge
            | Self::HeadEndless
            | Self::HeadMissing
            | Self::BodyMissing => Some(Outcome::Failed),
            Self::Vanished => Some(Outcome::NotFound),
            // The crawler has half a page in hand, without a link in it.
            Self::BreaksOff => Some(Outcome::Fetched),
            Self::NameMissing | Self::NameEmpty | Self::NameFails | Self::NameSilent => {
                Some(Outcome::Unresolvable)
            }
            _ => None,
        }
    }

    /// Returns whether none of its pages gets an answer that can be used.
    pub(crate) fn answers_nothing(self) -> bool {
        matches!(self.pages(), Some(Outcome::Refused | Outcome::Failed))
    }

    /// What its robots.txt means to a crawler.
    pub(crate) fn robots(self) -> RobotsMeaning {
        match self {
            // RFC 9309, section 2.3.1.4: it cannot be reached.
            Self::RobotsRefused | Self::RobotsWalled | Self::RobotsDrips | Self::RobotsShort => {
                RobotsMeaning::Unreachable
            }
            // Section 2.5: what comes first counts. Section 2.2: what can be read counts.
            Self::RobotsEndless
            | Self::RobotsHuge
            | Self::RobotsBinary
            | Self::RobotsUtf16
            | Self::RobotsLatin1
            | Self::RobotsPacked => RobotsMeaning::Rules,
            // Section 2.3.1.2: after five redirects there is none.
            Self::RobotsLoop => RobotsMeaning::AllowAll,
            // The same section: what is found there counts here.
            Self::RobotsElsewhere => RobotsMeaning::AsOfFirstHost,
            // Its pages are behind the sitemaps.
            Self::Mapped => RobotsMeaning::AllowAll,
            // Nobody comes to ask for it.
            Self::NameMissing | Self::NameEmpty | Self::NameFails | Self::NameSilent => {
                RobotsMeaning::AllowAll
            }
            _ => RobotsMeaning::AsOnAnyHost,
        }
    }

    /// How the DNS server answers for its name, after `asked` earlier questions.
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

    /// Returns whether the host speaks HTTP/2 over TLS, and nothing else.
    pub fn is_secure(self) -> bool {
        matches!(self, Self::Http2 | Self::Http2GoAway | Self::Http2Resets)
    }

    /// Returns whether its pages are small as sent and become huge.
    pub(crate) fn sends_bombs(self) -> bool {
        matches!(self, Self::GzipBomb | Self::BrotliBomb)
    }

    /// The encoding of its pages and a word that is written in their paths and queries.
    pub(crate) fn tongue(self) -> Option<Tongue> {
        match self {
            Self::Cyrillic => Some(Tongue {
                encoding: WINDOWS_1251,
                word: "карта",
            }),
            // The second byte of its first sign is a backslash in ASCII.
            Self::Japanese => Some(Tongue {
                encoding: SHIFT_JIS,
                word: "表示",
            }),
            Self::Utf16 => Some(Tongue {
                encoding: UTF_16LE,
                word: "Ωmega-é",
            }),
            _ => None,
        }
    }

    /// Returns whether the host promises to serve more requests on a connection than it does.
    pub(crate) fn breaks_its_promise(self) -> bool {
        matches!(self, Self::Closes | Self::Resets)
    }
}

/// What the DNS server says of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NameAnswer {
    /// Its address, after this time.
    Address(Duration),
    /// NXDOMAIN.
    Missing,
    /// No record.
    Empty,
    /// SERVFAIL.
    Failure,
    /// No answer.
    Nothing,
}

/// What a crawler makes of a robots.txt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RobotsMeaning {
    /// The same as of any host's robots.txt.
    AsOnAnyHost,
    /// The rules of the first host hold.
    AsOfFirstHost,
    /// There are rules in it, and they hold.
    Rules,
    /// There is none, or it forbids nothing.
    AllowAll,
    /// It cannot be reached, so nothing is allowed.
    Unreachable,
}
