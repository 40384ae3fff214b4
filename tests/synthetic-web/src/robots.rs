//! Robots: what a host's robots.txt says (RFC 9309).

use super::profile::RobotsShares;

/// The robots.txt of one host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Robots {
    /// 404, which allows everything (RFC 9309, section 2.3.1.3).
    Missing,
    /// Allows everything.
    AllowAll,
    /// Forbids two of the forms a page can have, and may ask for a delay.
    Rules { crawl_delay_ms: Option<u64> },
}

impl Robots {
    /// `place` and `delay_place` in 0..1 say where the host stands among all hosts.
    pub(crate) fn pick(shares: &RobotsShares, place: f64, delay_place: f64) -> Self {
        if place < shares.rules {
            let crawl_delay_ms =
                (delay_place < shares.crawl_delay).then_some(shares.crawl_delay_ms);
            Self::Rules { crawl_delay_ms }
        } else if place < shares.rules + shares.missing {
            Self::Missing
        } else {
            Self::AllowAll
        }
    }

    pub(crate) fn has_rules(self) -> bool {
        matches!(self, Self::Rules { .. })
    }

    pub(crate) fn crawl_delay_ms(self) -> Option<u64> {
        match self {
            Self::Rules { crawl_delay_ms } => crawl_delay_ms,
            Self::Missing | Self::AllowAll => None,
        }
    }

    /// The file's text; `None` for 404. The group of another crawler must not be taken for ours,
    /// and the longest matching rule wins, wherever it stands.
    pub(crate) fn text(self) -> Option<String> {
        match self {
            Self::Missing => None,
            Self::AllowAll => Some("# welcome\nUser-agent: *\nAllow: /\n".to_owned()),
            Self::Rules { crawl_delay_ms } => {
                let delay = match crawl_delay_ms {
                    Some(ms) => format!("Crawl-delay: {}\n", ms as f64 / 1_000.0),
                    None => String::new(),
                };
                Some(format!(
                    "# some of it\nUser-agent: some-other-crawler\nDisallow: /\n\n\
                     User-agent: *\nDisallow: /private/ # not for you\nAllow: \
                     /private/open/\nDisallow: /*.cgi$\n{delay}"
                ))
            }
        }
    }
}
