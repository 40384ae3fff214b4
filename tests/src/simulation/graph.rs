//! Graph: the servers and pages of the simulated web, and how the crawl of it must end.
//!
//! Invariant: how each URL ends depends on the graph alone, not on the order in which things
//! happen. So links into hosts that only a redirect of a seed brings into the scope stand on those
//! hosts alone.

use super::dice::Dice;
use super::plan::{MILLISECOND, Micros, Plan, SECOND};
use rhumb_config::Follow;
use rhumb_url::{host_of, path_of, server_of};
use rhumb_wire::message::Outcome;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// What lies at a path.
#[derive(Clone, Debug)]
pub(crate) enum Page {
    /// HTML with links.
    Html(Vec<String>),
    /// HTML whose body ends early, after its links.
    Cut(Vec<String>),
    /// Another URL, with the status of the redirect.
    Redirect(u16, String),
    /// The first so many answers are of this status, perhaps with a Retry-After in seconds; then
    /// HTML.
    Recovering(u32, u16, Option<u32>, Vec<String>),
    /// The first so many requests are not answered; then HTML.
    Hanging(u32, Vec<String>),
    /// Always this status.
    Status(u16),
}

/// What lies at `/robots.txt`.
#[derive(Clone, Debug)]
pub(crate) enum Robots {
    /// Nothing: 404.
    None,
    /// `/private/` is disallowed; perhaps a Crawl-delay in seconds.
    Rules(Option<u64>),
    /// So many times 503, then the rules.
    Recovering(u32),
    /// 503 for ever: nothing may be fetched.
    Unreachable,
    /// A redirect to a path on another server, or on this one, where the rules lie.
    Moved(String),
}

/// What a server's address is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Name {
    /// It has one; the name servers fail so many times first.
    Address(u32),
    /// The name does not exist.
    Missing,
    /// A private one.
    Private,
}

/// A server.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    /// `scheme://host[:port]`.
    pub(crate) url: String,
    pub(crate) name: Name,
    pub(crate) robots: Robots,
    /// Sitemaps that its robots.txt names, wherever that lies. Their links are not read: to the
    /// crawl they are pages.
    pub(crate) sitemaps: Vec<String>,
    pub(crate) pages: BTreeMap<String, Page>,
    /// Connects refused before the first is accepted; all, when none.
    pub(crate) refuses: Option<u32>,
    /// Requests served over one connection; 0: any number.
    pub(crate) closes_after: u32,
    /// Whether it says so in the last answer.
    pub(crate) announces_close: bool,
    /// It closes a connection that was idle for so long; 0: never.
    pub(crate) closes_idle: Micros,
    /// How long an answer takes.
    pub(crate) latency: Micros,
}

impl Server {
    pub(crate) fn host(&self) -> &str {
        host_of(&self.url)
    }
}

/// The web.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    pub(crate) servers: Vec<Server>,
    pub(crate) seeds: Vec<String>,
}

impl Graph {
    pub(crate) fn new(plan: &Plan, dice: &mut Dice) -> Graph {
        let mut servers: Vec<Server> = (0..plan.servers)
            .map(|number| server(number, dice))
            .collect();
        // The last one is brought into the scope by a redirect of a seed; nothing else links to it.
        let hidden = servers.len() - 1;
        if plan.pipeline.limits.pages_per_host > 0 {
            pair_up(&mut servers[..hidden]);
        }
        if plan.pipeline.limits.pages_per_domain > 0 || !plan.pipeline.politeness.groups.is_empty()
        {
            join_domains(&mut servers[..hidden]);
        }
        let urls: Vec<String> = servers.iter().map(|server| server.url.clone()).collect();
        for (number, server) in servers.iter_mut().enumerate() {
            let pages = dice.within(2..plan.pages_max as u64 + 1) as usize;
            let servers_linked: Vec<usize> = (0..urls.len())
                .filter(|&other| other != hidden || number == hidden)
                .collect();
            server.pages = pages_of(number, pages, &urls, &servers_linked, plan.pages_max, dice);
            for _ in 0..dice.below(4) {
                let other = *dice.pick(&servers_linked).unwrap_or(&number);
                server
                    .sitemaps
                    .push(format!("{}/sitemap-{}.xml", urls[other], dice.below(3)));
            }
            server
                .pages
                .insert("/sitemap-0.xml".to_owned(), Page::Html(Vec::new()));
            if let Robots::Moved(target) = &mut server.robots {
                let other = *dice.pick(&servers_linked).unwrap_or(&number);
                *target = format!("{}/robots-of-{number}.txt", urls[other]);
            }
        }
        let alias = Server {
            name: Name::Address(0),
            robots: Robots::None,
            refuses: Some(0),
            pages: [(
                "/".to_owned(),
                Page::Redirect(301, format!("{}/", urls[hidden])),
            )]
            .into(),
            ..server(servers.len(), dice)
        };
        let mut seeds: Vec<String> = (0..hidden)
            .filter(|_| dice.below(3) > 0)
            .map(|n| format!("{}/", urls[n]))
            .collect();
        seeds.push(format!("{}/", alias.url));
        servers.push(alias);
        Graph { servers, seeds }
    }

    pub(crate) fn server(&self, url: &str) -> Option<usize> {
        let wanted = server_of(url);
        self.servers.iter().position(|server| server.url == wanted)
    }

    /// How each URL that a crawl from the seeds meets and follows must end. It goes no further from
    /// URLs that are over budget. Of the sitemaps in a robots.txt it asks for the first so many,
    /// wherever they lie if it follows the host.
    pub(crate) fn truth(
        &self,
        follow: Follow,
        sitemaps: usize,
        over_budget: impl Fn(&str) -> bool,
    ) -> BTreeMap<String, Outcome> {
        let mut scope: BTreeSet<&str> = self.seeds.iter().map(|seed| host_of(seed)).collect();
        let hidden = self.servers.len() - 2;
        scope.insert(self.servers[hidden].host());
        let follows = |url: &str| follow == Follow::Any || scope.contains(host_of(url));
        let mut truth = BTreeMap::new();
        let linked = |url| (url, follows(url));
        let mut left: VecDeque<(&str, bool)> =
            self.seeds.iter().map(String::as_str).map(linked).collect();
        while let Some((url, passes)) = left.pop_front() {
            if truth.contains_key(url) || !passes {
                continue;
            }
            let (outcome, links) = self.end_of(url);
            truth.insert(url.to_owned(), outcome);
            if !over_budget(url) {
                left.extend(links.into_iter().map(linked));
            }
            let named = self
                .sitemaps_for(url)
                .iter()
                .take(sitemaps)
                .map(String::as_str);
            left.extend(named.map(|sitemap| (sitemap, follows(url) || follows(sitemap))));
        }
        truth
    }

    fn end_of(&self, url: &str) -> (Outcome, Vec<&str>) {
        let nothing = |outcome| (outcome, Vec::new());
        let Some(server) = self.server(url).map(|number| &self.servers[number]) else {
            return nothing(Outcome::Unresolvable);
        };
        if matches!(server.name, Name::Missing | Name::Private) {
            return nothing(Outcome::Unresolvable);
        }
        if server.refuses.is_none() {
            return nothing(Outcome::Failed);
        }
        if self.disallows(server, path_of(url)) {
            return nothing(Outcome::Disallowed);
        }
        match server.pages.get(path_of(url)) {
            None => nothing(Outcome::Gone),
            Some(
                Page::Html(links)
                | Page::Cut(links)
                | Page::Recovering(_, _, _, links)
                | Page::Hanging(_, links),
            ) => (Outcome::Fetched, links.iter().map(String::as_str).collect()),
            Some(Page::Redirect(_, target)) => (Outcome::Redirected, vec![target]),
            Some(Page::Status(404 | 410)) => nothing(Outcome::Gone),
            Some(Page::Status(400..=499)) => nothing(Outcome::Refused),
            Some(Page::Status(_)) => nothing(Outcome::Failed),
        }
    }

    /// The sitemaps that come to light when a URL waits for its server's robots.txt; none when that
    /// cannot be read.
    fn sitemaps_for(&self, url: &str) -> &[String] {
        match self.server(url).map(|number| &self.servers[number]) {
            Some(server) if self.is_reached(server) && self.names_sitemaps(server) => {
                &server.sitemaps
            }
            _ => &[],
        }
    }

    fn is_reached(&self, server: &Server) -> bool {
        matches!(server.name, Name::Address(_)) && server.refuses.is_some()
    }

    fn names_sitemaps(&self, server: &Server) -> bool {
        match &server.robots {
            Robots::None | Robots::Unreachable => false,
            Robots::Rules(_) | Robots::Recovering(_) => true,
            Robots::Moved(target) => self
                .server(target)
                .is_some_and(|number| self.is_reached(&self.servers[number])),
        }
    }

    fn disallows(&self, server: &Server, path: &str) -> bool {
        match &server.robots {
            Robots::None => false,
            Robots::Unreachable => true,
            Robots::Rules(_) | Robots::Recovering(_) => path.starts_with("/private/"),
            Robots::Moved(target) => {
                let other = self.server(target).map(|number| &self.servers[number]);
                match other {
                    Some(other) if other.name == Name::Missing || other.name == Name::Private => {
                        true
                    }
                    Some(other) if other.refuses.is_none() => true,
                    _ => path.starts_with("/private/"),
                }
            }
        }
    }
}

fn server(number: usize, dice: &mut Dice) -> Server {
    let url = match dice.below(6) {
        0 => format!("https://s{number}.sim{number}.test"),
        1 => format!("http://s{number}.sim{number}.test:8080"),
        _ => format!("http://s{number}.sim{number}.test"),
    };
    let robots = match dice.below(12) {
        0..=4 => Robots::None,
        5..=7 => Robots::Rules(None),
        8 => Robots::Rules(Some(dice.within(2..5))),
        9 => Robots::Recovering(1 + dice.below(2) as u32),
        10 => Robots::Moved(String::new()),
        _ => Robots::Unreachable,
    };
    Server {
        url,
        // The first is always there, so that each web has something to crawl.
        name: match dice.below(14) {
            0 if number > 0 => Name::Missing,
            1 if number > 0 => Name::Private,
            2..=4 => Name::Address(1 + dice.below(2) as u32),
            _ => Name::Address(0),
        },
        robots,
        sitemaps: Vec::new(),
        pages: BTreeMap::new(),
        refuses: match dice.below(14) {
            0 if number > 0 => None,
            1 | 2 => Some(1 + dice.below(3) as u32),
            _ => Some(0),
        },
        closes_after: *dice.pick(&[0, 0, 1, 2, 5]).unwrap_or(&0),
        announces_close: dice.below(2) == 0,
        closes_idle: *dice.pick(&[0, 0, 0, 700 * MILLISECOND]).unwrap_or(&0),
        latency: *dice
            .pick(&[
                5 * MILLISECOND,
                50 * MILLISECOND,
                400 * MILLISECOND,
                3 * SECOND,
            ])
            .unwrap_or(&SECOND),
    }
}

/// Every second server is another one of the host before it.
fn pair_up(servers: &mut [Server]) {
    for pair in servers.chunks_exact_mut(2) {
        pair[1].url = format!("https://{}:8443", pair[0].host());
        pair[1].name = pair[0].name.clone();
    }
}

/// Three servers in each registered domain.
fn join_domains(servers: &mut [Server]) {
    for (number, server) in servers.iter_mut().enumerate() {
        server.url = server
            .url
            .replace(&format!(".sim{number}."), &format!(".sim{}.", number / 3));
    }
}

fn path(number: usize) -> String {
    match number {
        0 => "/".to_owned(),
        number if number % 7 == 6 => format!("/private/{number}"),
        number => format!("/p/{number}"),
    }
}

fn pages_of(
    server: usize,
    pages: usize,
    urls: &[String],
    linked: &[usize],
    pages_max: usize,
    dice: &mut Dice,
) -> BTreeMap<String, Page> {
    let mut all = BTreeMap::new();
    for number in 0..pages {
        // A tree over the server's own pages, and links anywhere, some of them to pages that are
        // not there.
        let mut links: Vec<String> = [2 * number + 1, 2 * number + 2]
            .iter()
            .filter(|&&n| n < pages)
            .map(|&n| url(urls, server, n))
            .collect();
        for _ in 0..dice.below(5) {
            let other = *dice.pick(linked).unwrap_or(&server);
            links.push(url(urls, other, dice.below(pages_max + 2)));
        }
        let page = match dice.below(24) {
            // Roots do not redirect: what a seed's redirect brings into the scope would depend on
            // the order.
            0 if number > 0 => Page::Redirect(302, url(urls, server, dice.below(pages))),
            1 if number > 0 => Page::Redirect(
                301,
                url(
                    urls,
                    *dice.pick(linked).unwrap_or(&server),
                    dice.below(pages),
                ),
            ),
            2 if number > 0 => Page::Status(*dice.pick(&[404, 410, 403, 500]).unwrap_or(&404)),
            3 => Page::Recovering(1 + dice.below(2) as u32, 500, None, links),
            4 => Page::Recovering(1, 503, Some(dice.within(1..7) as u32), links),
            5 => Page::Recovering(1, 429, Some(dice.within(1..7) as u32), links),
            6 => Page::Hanging(1, links),
            7 => Page::Cut(links),
            _ => Page::Html(links),
        };
        all.insert(path(number), page);
    }
    all
}

fn url(urls: &[String], server: usize, page: usize) -> String {
    format!("{}{}", urls[server], path(page))
}
