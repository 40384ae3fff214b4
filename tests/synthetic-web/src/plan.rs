//! Plan: which hosts and pages there are and which page links where.
//!
//! It depends on profile and port alone. For each page it keeps a few bytes (the tree that makes
//! all pages reachable), and more for those that change, once they were asked for. All else is drawn
//! again from dice whenever it is asked for.
//!
//! Invariant: a page of the same host with a smaller number that answers 200 and is allowed links
//! to every page, redirects and disallowed ones included. Such a page of a host that is not hostile
//! and has a smaller number links to page 0 of every host but the first. So a crawl from the first
//! host's `/` finds all of them, except pages of hostile hosts that give none: of those it finds
//! what other hosts lead to.

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

use super::bomb::Bombs;
use super::byway;
use super::dice::{Dice, Purpose};
use super::hostility::{Hostility, RobotsMeaning};
use super::html::Filler;
use super::lives::Lives;
use super::place::{host_name, listens_at};
use super::profile::{LATENCY_MS_MAX, Latency, Profile};
use super::resource::{Form, Resource, Shape};
use super::site::Site;
use super::tongue::Tongue;

/// Links to `/` of other hosts among all links to other hosts; the rest lead to pages inside.
const FRONT_DOOR_SHARE: f64 = 0.5;
/// Draws for a parent before page 0 is taken, which always qualifies.
const PARENT_DRAWS: usize = 16;

/// A link as the crawler should understand it, however the page spells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) host: u32,
    pub(crate) resource: Resource,
}

/// The whole web.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) profile: Profile,
    pub(crate) port: u16,
    pub(crate) sites: Vec<Site>,
    pub(crate) filler: Filler,
    led_to: OnceLock<Vec<BTreeSet<Resource>>>,
    /// Bombs, if there is a host that sends them.
    bombs: Option<Bombs>,
    /// The pages that were asked for and change.
    pub(crate) lives: Lives,
}

impl Plan {
    /// `profile` must have passed its validation.
    pub(crate) fn new(profile: Profile, port: u16) -> Self {
        let filler = Filler::new(&profile);
        let lives = Lives::new(profile.hosts);
        let sites = (0..profile.hosts)
            .map(|host| Site::new(&profile, host))
            .collect();
        let mut plan = Self {
            profile,
            port,
            sites,
            filler,
            led_to: OnceLock::new(),
            bombs: None,
            lives,
        };
        for host in 0..plan.profile.hosts {
            plan.grow_tree(host);
        }
        plan.connect_hosts();
        for host in 0..plan.profile.hosts {
            plan.sites[host as usize].byways = byway::count(&plan, host);
        }
        plan
    }

    fn grow_tree(&mut self, host: u32) {
        let pages = self.site(host).pages;
        let parents: Vec<u32> = (1..pages).map(|page| self.parent(host, page)).collect();
        let mut starts = vec![0u32; pages as usize + 1];
        for parent in &parents {
            starts[*parent as usize + 1] += 1;
        }
        for page in 0..pages as usize {
            starts[page + 1] += starts[page];
        }
        let mut next = starts.clone();
        let mut children = vec![0; parents.len()];
        for (page, parent) in (1..pages).zip(&parents) {
            let slot = &mut next[*parent as usize];
            children[*slot as usize] = page;
            *slot += 1;
        }
        let site = &mut self.sites[host as usize];
        site.child_starts = starts;
        site.children = children;
    }

    fn parent(&self, host: u32, page: u32) -> u32 {
        let mut dice = Dice::new(self.profile.seed, Purpose::Parent, host, page);
        self.open_page_below(&mut dice, host, page)
    }

    /// A page of `host` with a number below `limit` that answers 200 and is allowed.
    fn open_page_below(&self, dice: &mut Dice, host: u32, limit: u32) -> u32 {
        for _ in 0..PARENT_DRAWS {
            let page = dice.below(limit);
            if self.shape(host, page).is_open() {
                return page;
            }
        }
        0
    }

    fn connect_hosts(&mut self) {
        for host in 1..self.profile.hosts {
            let mut dice = Dice::new(self.profile.seed, Purpose::HostParent, host, 0);
            let parent = dice.below(host.min(self.profile.honest_hosts()));
            let page = self.open_page_below(&mut dice, parent, self.site(parent).pages);
            self.sites[parent as usize].child_hosts.push((page, host));
        }
        for site in &mut self.sites {
            site.child_hosts.sort_unstable();
        }
    }

    pub(crate) fn site(&self, host: u32) -> &Site {
        &self.sites[host as usize]
    }

    /// How a page is spelled and whether it is a redirect.
    pub(crate) fn shape(&self, host: u32, page: u32) -> Shape {
        if page == 0 {
            return Shape {
                form: Form::Root,
                redirect: false,
            };
        }
        let mut dice = Dice::new(self.profile.seed, Purpose::Shape, host, page);
        let redirect = dice.chance(self.profile.redirects);
        if self.site(host).robots.has_rules() {
            let roll = dice.unit();
            let disallowed = self.profile.robots.disallowed_pages;
            if roll < disallowed {
                let form = if dice.chance(0.7) {
                    Form::Private
                } else {
                    Form::Script
                };
                return Shape {
                    form,
                    redirect: false,
                };
            }
            if roll > 0.95 {
                return Shape {
                    form: Form::Public,
                    redirect,
                };
            }
        }
        let form = match dice.below(100) {
            0..55 => Form::Flat,
            55..70 => Form::Deep,
            70..90 => Form::Item,
            _ => Form::View,
        };
        Shape { form, redirect }
    }

    /// Where a redirecting page leads: to a page with a smaller number or to another host's `/`, so
    /// never in a circle.
    pub(crate) fn redirect_target(&self, host: u32, page: u32) -> Link {
        let mut dice = Dice::new(self.profile.seed, Purpose::Redirect, host, page);
        if dice.chance(self.profile.locality) {
            self.settled(Link {
                host,
                resource: Resource::Page(dice.below(page)),
            })
        } else {
            Link {
                host: dice.below(self.profile.hosts),
                resource: Resource::Page(0),
            }
        }
    }

    /// All links of a page in order, repeated ones included.
    pub(crate) fn links(&self, host: u32, page: u32) -> Vec<Link> {
        let profile = &self.profile;
        let mut dice = Dice::new(profile.seed, Purpose::Links, host, page);
        let count = profile.links_min + dice.below(profile.links_max - profile.links_min + 1);
        let mut links = self.tree_links(host, page);
        while links.len() < count as usize {
            let link = match links.last() {
                Some(last) if dice.chance(0.04) => *last,
                _ => self.random_link(&mut dice, host),
            };
            links.push(link);
        }
        links.extend(byway::linked_from(self, host, &links));
        links
    }

    fn tree_links(&self, host: u32, page: u32) -> Vec<Link> {
        let site = self.site(host);
        let mut links = Vec::with_capacity(self.profile.links_max as usize);
        for child in site.children(page) {
            links.push(Link {
                host,
                resource: Resource::Page(*child),
            });
        }
        let first = site
            .child_hosts
            .partition_point(|(parent, _)| *parent < page);
        for (parent, child) in &site.child_hosts[first..] {
            if *parent != page {
                break;
            }
            links.push(Link {
                host: *child,
                resource: Resource::Page(0),
            });
        }
        links
    }

    fn random_link(&self, dice: &mut Dice, from: u32) -> Link {
        let stays = self.profile.hosts == 1 || dice.chance(self.profile.locality);
        let host = if stays {
            from
        } else {
            self.other_host(dice, from)
        };
        let site = self.site(host);
        let resource = if dice.chance(self.profile.not_found) {
            Resource::Gone(dice.below(site.gone_max()))
        } else if !stays && dice.chance(FRONT_DOOR_SHARE) {
            Resource::Page(0)
        } else {
            Resource::Page(dice.skewed(site.pages))
        };
        self.settled(Link { host, resource })
    }

    /// The link itself, or one to the parent of a page that comes later: only that links to it.
    fn settled(&self, link: Link) -> Link {
        match link.resource {
            Resource::Page(page) if self.born_s(link.host, page) > 0.0 => Link {
                resource: Resource::Page(self.parent(link.host, page)),
                ..link
            },
            _ => link,
        }
    }

    /// Returns whether a page makes no other reachable and answers 200 to who may ask.
    pub(crate) fn is_leaf(&self, host: u32, page: u32) -> bool {
        let site = self.site(host);
        page > 0
            && site.children(page).is_empty()
            && site
                .child_hosts
                .binary_search_by_key(&page, |(parent, _)| *parent)
                .is_err()
            && self.shape(host, page).is_open()
    }

    /// When a page comes, in seconds since the start of the web; 0 for most.
    pub(crate) fn born_s(&self, host: u32, page: u32) -> f64 {
        match &self.profile.change {
            Some(change)
                if change.new.share > 0.0
                    && self.site(host).hostility.is_none()
                    && self.is_leaf(host, page) =>
            {
                change.born_s(self.profile.seed, host, page)
            }
            _ => 0.0,
        }
    }

    fn other_host(&self, dice: &mut Dice, from: u32) -> u32 {
        let host = dice.skewed(self.profile.hosts - 1);
        if host >= from { host + 1 } else { host }
    }

    /// What a perfect crawl finds of a host, robots.txt apart.
    pub(crate) fn found(&self, host: u32) -> impl Iterator<Item = Resource> {
        let pages = if self.gives_pages(host) {
            self.site(host).pages
        } else {
            0
        };
        let byways =
            (0..self.site(host).byways).filter(move |number| byway::exists(self, host, *number));
        let led_to = self.led_to()[host as usize].iter().copied();
        let sitemap = self.site(host).has_sitemap().then_some(Resource::Sitemap);
        (0..pages)
            .map(Resource::Page)
            .chain(sitemap)
            .chain(byways.map(Resource::Byway))
            .chain(led_to)
    }

    /// Returns whether a perfect crawl finds that.
    pub(crate) fn is_found(&self, host: u32, resource: Resource) -> bool {
        match resource {
            Resource::Page(_) if self.gives_pages(host) => true,
            Resource::Sitemap => self.site(host).has_sitemap(),
            Resource::Byway(number) => {
                number < self.site(host).byways && byway::exists(self, host, number)
            }
            _ => self.led_to()[host as usize].contains(&resource),
        }
    }

    /// For each host, what other pages lead to beside the pages of hosts that give all theirs. The
    /// first call walks all links of the web.
    fn led_to(&self) -> &[BTreeSet<Resource>] {
        self.led_to.get_or_init(|| {
            let mut led_to = vec![BTreeSet::new(); self.sites.len()];
            if self.profile.not_found <= 0.0 && self.profile.hostile <= 0.0 {
                return led_to;
            }
            for host in (0..self.profile.hosts).filter(|host| self.gives_pages(*host)) {
                for page in 0..self.site(host).pages {
                    for link in self.leads_to(host, page) {
                        let is_found_anyway = match link.resource {
                            Resource::Page(_) => self.gives_pages(link.host),
                            Resource::Byway(_) => true,
                            _ => false,
                        };
                        if !is_found_anyway {
                            led_to[link.host as usize].insert(link.resource);
                        }
                    }
                }
            }
            led_to
        })
    }

    /// The links that a page gives to a crawl that comes to it.
    pub(crate) fn leads_to(&self, host: u32, page: u32) -> Vec<Link> {
        match self.shape(host, page) {
            shape if shape.is_disallowed() => Vec::new(),
            shape if shape.redirect => vec![self.redirect_target(host, page)],
            _ => self.links(host, page),
        }
    }

    /// Returns whether a crawl of the host comes to its pages, and from each to those that it links
    /// to.
    pub(crate) fn gives_pages(&self, host: u32) -> bool {
        self.site(host).hostility.is_none_or(|hostility| {
            hostility.pages().is_none() && hostility.robots() != RobotsMeaning::Unreachable
        })
    }

    /// Returns whether robots.txt forbids this URL, or is out of reach itself.
    pub(crate) fn is_disallowed(&self, host: u32, resource: Resource) -> bool {
        let hostility = self.site(host).hostility;
        hostility.is_some_and(|hostility| hostility.robots() == RobotsMeaning::Unreachable)
            || matches!(resource, Resource::Page(page) if self.shape(host, page).is_disallowed())
    }

    /// How long the server thinks about a request.
    pub(crate) fn latency(&self, host: u32, resource: Resource) -> Duration {
        match self.profile.latency {
            Latency::None => Duration::ZERO,
            Latency::Fixed { ms } => Duration::from_millis(ms),
            Latency::FastAndSlow { fast_ms, slow_ms } => {
                Duration::from_millis(if host.is_multiple_of(2) {
                    fast_ms
                } else {
                    slow_ms
                })
            }
            Latency::Lognormal { median_ms, sigma } => {
                let mut dice =
                    Dice::new(self.profile.seed, Purpose::Latency, host, resource.number());
                let ms = dice.lognormal(median_ms, sigma).min(LATENCY_MS_MAX as f64);
                Duration::from_micros((ms * 1_000.0) as u64)
            }
        }
    }

    /// `h0017.web.test:8080`, as in the Host header and in URLs.
    pub(crate) fn authority(&self, host: u32) -> String {
        let name = host_name(host);
        let port = self.address(host).port();
        let default = if self.site(host).security.is_some() {
            443
        } else {
            80
        };
        if port == default {
            name
        } else {
            format!("{name}:{port}")
        }
    }

    /// Where a host listens.
    pub(crate) fn address(&self, host: u32) -> SocketAddr {
        listens_at(self.profile.address, host, self.port)
    }

    /// The URL without its path.
    pub(crate) fn origin(&self, host: u32) -> String {
        format!("{}://{}", self.scheme(host), self.authority(host))
    }

    pub(crate) fn scheme(&self, host: u32) -> &'static str {
        if self.site(host).security.is_some() {
            "https"
        } else {
            "http"
        }
    }

    pub(crate) fn url(&self, host: u32, resource: Resource) -> String {
        let mut url = self.origin(host);
        resource.write_path(self, host, "&", &mut url);
        url
    }

    /// Makes the parts of bombs, if there is a host that sends them.
    pub(crate) fn with_bombs(mut self) -> io::Result<Self> {
        let sends_bombs = |site: &Site| site.hostility.is_some_and(Hostility::sends_bombs);
        if self.sites.iter().any(sends_bombs) {
            self.bombs = Some(Bombs::new()?);
        }
        Ok(self)
    }

    pub(crate) fn bombs(&self) -> io::Result<&Bombs> {
        self.bombs
            .as_ref()
            .ok_or_else(|| io::Error::other("no bombs were made"))
    }

    /// How the host writes if it does not write in English.
    pub(crate) fn tongue(&self, host: u32) -> Option<Tongue> {
        self.site(host).hostility?.tongue()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::place::{host_address, host_of_name};
    use std::net::Ipv4Addr;

    #[test]
    fn every_page_has_an_open_parent_that_links_to_it() {
        let profile = Profile {
            hosts: 12,
            ..Profile::mixed()
        };
        let plan = Plan::new(profile, 8080);
        for host in 0..12 {
            let mut linked = BTreeSet::new();
            for page in 0..plan.site(host).pages {
                if plan.shape(host, page).is_open() {
                    linked.extend(
                        plan.tree_links(host, page)
                            .iter()
                            .filter(|l| l.host == host)
                            .map(|l| l.resource),
                    );
                }
            }
            assert_eq!(linked.len() as u32, plan.site(host).pages - 1);
        }
    }

    #[test]
    fn the_share_of_local_links_and_their_number_are_as_asked() {
        let plan = Plan::new(Profile::raw(), 8080);
        let mut all = 0;
        let mut local = 0;
        for host in 0..50 {
            for page in 0..200 {
                let links = plan.links(host, page);
                all += links.len();
                local += links.iter().filter(|link| link.host == host).count();
            }
        }
        let mean = all as f64 / 10_000.0;
        let locality = local as f64 / all as f64;
        assert!((49.0..51.0).contains(&mean), "mean {mean}");
        assert!((0.78..0.82).contains(&locality), "locality {locality}");
    }

    #[test]
    fn request_caps_have_the_shares_of_the_mixed_profile() {
        let plan = Plan::new(
            Profile {
                hosts: 200,
                ..Profile::mixed()
            },
            8080,
        );
        let count = |cap| {
            plan.sites
                .iter()
                .filter(|site| site.request_cap == Some(cap))
                .count()
        };
        assert!((46..=50).contains(&count(1)), "{}", count(1));
        assert!((130..=134).contains(&count(100)), "{}", count(100));
        assert_eq!(
            count(1) + count(100) + count(5) + count(10) + count(20) + count(50),
            200
        );
    }

    #[test]
    fn names_and_addresses_lead_back_to_one_host() {
        let mut addresses = BTreeSet::new();
        for host in 0..20_000 {
            assert_eq!(host_of_name(&host_name(host), 20_000), Some(host));
            assert!(addresses.insert(host_address(host)));
        }
        assert_eq!(host_of_name("H0017.Web.Test", 50), Some(17));
        for name in [
            "h17.web.test",
            "h0050.web.test",
            "h0017.web.test.",
            "h+017.web.test",
            "x.test",
            "",
            "h",
        ] {
            assert_eq!(host_of_name(name, 50), None, "{name}");
        }
        assert_eq!(host_address(0), Ipv4Addr::new(127, 1, 0, 1));
        assert_eq!(host_address(251), Ipv4Addr::new(127, 1, 1, 2));
    }
}
