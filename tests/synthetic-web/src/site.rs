//! Site: one host, as seed and profile make it.
//!
//! Invariant: it knows no other host. How hosts and pages link is the plan's.

use super::change::Manners;
use super::coding::Coding;
use super::dice::{Dice, Purpose, spread};
use super::hostility::{Hostility, RobotsMeaning};
use super::profile::{PagesPerHost, Profile};
use super::robots::Robots;
use super::tls::Security;

/// One host.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) pages: u32,
    pub(crate) robots: Robots,
    /// The server closes a connection after this many requests.
    pub(crate) request_cap: Option<u32>,
    /// What it does if it is hostile.
    pub(crate) hostility: Option<Hostility>,
    /// How it secures its connections, if it does.
    pub(crate) security: Option<Security>,
    /// How it packs pages, if it does.
    pub(crate) coding: Option<Coding>,
    /// What it says of the changes of its pages, where pages change.
    pub(crate) manners: Option<Manners>,
    /// The number of its byways that a perfect crawl finds; they are the first ones.
    pub(crate) byways: u32,
    /// `children[child_starts[p]..child_starts[p + 1]]` are the pages that page p makes reachable.
    pub(crate) child_starts: Vec<u32>,
    pub(crate) children: Vec<u32>,
    /// (page, host): the hosts whose `/` a page makes reachable, sorted.
    pub(crate) child_hosts: Vec<(u32, u32)>,
}

impl Site {
    /// A host without its place among the others.
    pub(crate) fn new(profile: &Profile, host: u32) -> Self {
        let spread = |host, ratio| spread(profile.seed, host, ratio);
        let robots_of = |host: u32| {
            let place = spread(host, 0.618_033_988_749_895);
            let delay_place = spread(host, 0.324_717_957_244_746);
            Robots::pick(&profile.robots, place, delay_place)
        };
        let hostility = profile.hostility(host);
        let change = profile.change.as_ref().filter(|_| hostility.is_none());
        let manners = change.map(|change| change.manners(profile.seed, host));
        let has_sitemap = manners.is_some_and(|manners| manners.sitemap.is_some());
        Self {
            pages: page_count(profile, host),
            robots: match hostility.map(Hostility::robots) {
                // The truth cannot say whether a crawler gives such a server up before it looks at
                // the rules.
                _ if hostility.is_some_and(Hostility::answers_nothing) => Robots::Missing,
                // robots.txt names the sitemap.
                None if has_sitemap && robots_of(host) == Robots::Missing => Robots::AllowAll,
                None | Some(RobotsMeaning::AsOnAnyHost) => robots_of(host),
                Some(RobotsMeaning::AsOfFirstHost) => robots_of(0),
                Some(RobotsMeaning::Rules) => Robots::Rules {
                    crawl_delay_ms: None,
                },
                Some(RobotsMeaning::AllowAll | RobotsMeaning::Unreachable) => Robots::AllowAll,
            },
            hostility,
            manners,
            security: match (hostility, &profile.secure) {
                (Some(hostility), _) => hostility.is_secure().then_some(Security::SelfSigned),
                (None, Some(shares)) => Some(Security::Trusted {
                    has_rsa_key: spread(host, 0.414_213_562_373_095) < shares.rsa,
                    speaks_http2: spread(host, 0.732_050_807_568_877) < shares.http2,
                }),
                (None, None) => None,
            },
            coding: match spread(host, 0.645_751_311_064_590) {
                _ if hostility.is_some() => None,
                place if place < profile.codings.gzip => Some(Coding::Gzip),
                place if place < profile.codings.gzip + profile.codings.brotli => {
                    Some(Coding::Brotli)
                }
                _ => None,
            },
            byways: 0,
            request_cap: pick_cap(&profile.request_caps, spread(host, 0.754_877_666_246_693)),
            child_starts: Vec::new(),
            children: Vec::new(),
            child_hosts: Vec::new(),
        }
    }

    /// Returns whether there is a sitemap of its pages.
    pub(crate) fn has_sitemap(&self) -> bool {
        self.manners
            .is_some_and(|manners| manners.sitemap.is_some())
    }

    /// The pages of the host that a page makes reachable.
    pub(crate) fn children(&self, page: u32) -> &[u32] {
        let start = self.child_starts[page as usize] as usize;
        let end = self.child_starts[page as usize + 1] as usize;
        &self.children[start..end]
    }

    /// Links that end in 404 lead to `/gone/0.html` and the numbers below this one.
    pub(crate) fn gone_max(&self) -> u32 {
        self.pages / 10 + 1
    }
}

fn page_count(profile: &Profile, host: u32) -> u32 {
    const SHAPE: f64 = 1.5;
    match profile.pages_per_host {
        PagesPerHost::Exactly(pages) => pages,
        PagesPerHost::HeavyTail { mean } => {
            let mut dice = Dice::new(profile.seed, Purpose::PageCount, host, 0);
            let smallest = f64::from(mean) * (SHAPE - 1.0) / SHAPE;
            let pages = smallest / (1.0 - dice.unit()).powf(1.0 / SHAPE);
            (pages as u32).clamp(1, mean.saturating_mul(50))
        }
    }
}

fn pick_cap(caps: &[(f64, u32)], mut place: f64) -> Option<u32> {
    for (share, cap) in caps {
        if place < *share {
            return Some(*cap);
        }
        place -= share;
    }
    None
}
