//! Model: a crawl in rounds. In each round servers fetch a page each: all that have one waiting, or
//! as many as there are connections. What a page links to becomes known when the round ends, or
//! some rounds later. A server may take several pages together, for as many rounds.
//!
//! The first link to a page leaves at once, as its discovery. The worth of further ones is added up
//! and leaves (a lift) when the sum reaches a factor times what has left for the page so far. What
//! has not left when the page is fetched is lost.
//!
//! Invariants: every page that is known is fetched once; the same rules give the same order.

use super::rules::{Order, Rank, Rules, Servers};
use crate::page_rank::DAMPING;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use synthetic_web::Graph;

/// What a seed is worth.
const SEED: f64 = 1.0;

/// What came of a crawl.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Outcome {
    /// Pages in the order in which they were fetched.
    pub(super) fetched: Vec<usize>,
    /// Lifts of pages that were not yet fetched when they left.
    pub(super) lifts: u64,
    /// Lifts of pages that were.
    pub(super) late_lifts: u64,
    pub(super) rounds: usize,
}

/// What is on its way to the server of a page.
#[derive(Clone, Copy, Debug)]
enum News {
    Found { page: usize, worth: f64 },
    Lift { page: usize, worth: f64 },
}

/// A page that waits: its worth in bits, which are in the order of numbers that are not negative;
/// when it was found; its number.
type Waiting = (u64, Reverse<usize>, usize);

#[derive(Clone, Debug, Default)]
struct Server {
    /// Pages with the worth that they had when they came or were lifted: only the last one of a
    /// page counts.
    waiting: BinaryHeap<Waiting>,
    /// How many pages wait.
    pages: usize,
    /// Their worth in all.
    sum: f64,
    /// The round from which on it has had a page waiting and has fetched none.
    ready_since: usize,
    /// The pages of its job that are still to be fetched.
    job: VecDeque<usize>,
    /// How many pages it has taken.
    taken: usize,
}

#[derive(Clone, Debug, Default)]
struct Page {
    is_known: bool,
    /// It is in a job, or fetched: its worth matters no more.
    is_taken: bool,
    /// What its server knows of its worth.
    worth: f64,
    /// The number of pages that were found before it.
    found: usize,
    /// The worth that has left for its server.
    left: f64,
    /// The worth that waits to leave.
    gathered: f64,
}

struct Crawl<'a> {
    graph: &'a Graph,
    ranks: &'a [f64],
    rules: Rules,
    pages: Vec<Page>,
    servers: Vec<Server>,
    /// By the rounds until it is there.
    ahead: VecDeque<Vec<News>>,
    found: usize,
    outcome: Outcome,
}

/// Crawls a web from these pages. `ranks`: the PageRank of each page.
pub(super) fn crawl(graph: &Graph, seeds: &[usize], ranks: &[f64], rules: Rules) -> Outcome {
    let mut crawl = Crawl {
        graph,
        ranks,
        rules,
        pages: vec![Page::default(); graph.pages.len()],
        servers: vec![Server::default(); graph.hosts as usize],
        ahead: vec![Vec::new(); rules.delay + rules.lifts_late + 1].into(),
        found: 0,
        outcome: Outcome::default(),
    };
    for &seed in seeds {
        let worth = if rules.order == Order::PageRank {
            ranks[seed]
        } else {
            SEED
        };
        crawl.pages[seed].is_known = true;
        crawl.pages[seed].left = worth;
        crawl.ahead[0].push(News::Found { page: seed, worth });
    }
    while crawl.round() {}
    crawl.outcome
}

impl Crawl<'_> {
    /// Returns whether anything is left.
    fn round(&mut self) -> bool {
        self.hear();
        let chosen = self.chosen();
        if chosen.is_empty()
            && self
                .ahead
                .iter()
                .flatten()
                .all(|news| matches!(news, News::Lift { .. }))
        {
            return false;
        }
        self.outcome.rounds += 1;
        for page in chosen {
            self.fetch(page);
        }
        true
    }

    /// What has arrived becomes known.
    fn hear(&mut self) {
        self.ahead.push_back(Vec::new());
        for news in self.ahead.pop_front().unwrap_or_default() {
            let (page, worth) = match news {
                News::Found { page, worth } => {
                    self.pages[page].found = self.found;
                    self.found += 1;
                    let round = self.outcome.rounds;
                    let server = self.server(page);
                    if server.pages == 0 {
                        server.ready_since = round;
                    }
                    server.pages += 1;
                    (page, worth)
                }
                News::Lift { page, .. } if self.pages[page].is_taken => continue,
                News::Lift { page, worth } => (page, worth),
            };
            self.pages[page].worth += worth;
            let waiting = self.waiting(page);
            let server = self.server(page);
            server.sum += worth;
            server.waiting.push(waiting);
        }
    }

    /// The pages that are fetched in this round.
    fn chosen(&mut self) -> Vec<usize> {
        let Servers::Some { connections, rank } = self.rules.servers else {
            return (0..self.servers.len())
                .filter_map(|server| self.next_of_job(server))
                .collect();
        };
        let mut best: Vec<(Waiting, usize)> = (0..self.servers.len())
            .filter_map(|server| self.best(server))
            .collect();
        let servers = &self.servers;
        match rank {
            Rank::Best => best.sort_unstable_by_key(|&(waiting, _)| Reverse(waiting)),
            Rank::Sum => best.sort_by(|(_, a), (_, b)| servers[*b].sum.total_cmp(&servers[*a].sum)),
            Rank::Turn => best.sort_by_key(|(_, server)| servers[*server].ready_since),
        }
        best.truncate(connections);
        best.iter()
            .map(|&((_, _, page), server)| self.take(server, page))
            .collect()
    }

    /// The next page of a server's job, or the first one of its next job.
    fn next_of_job(&mut self, server: usize) -> Option<usize> {
        if self.servers[server].job.is_empty() {
            let Server { pages, taken, .. } = self.servers[server];
            for _ in 0..self.rules.jobs.pages(pages, taken) {
                let Some(((_, _, page), _)) = self.best(server) else {
                    break;
                };
                let page = self.take(server, page);
                self.servers[server].job.push_back(page);
            }
        }
        self.servers[server].job.pop_front()
    }

    /// Takes the best page of a server.
    fn take(&mut self, server: usize, page: usize) -> usize {
        let Page {
            worth, is_taken, ..
        } = &mut self.pages[page];
        let round = self.outcome.rounds;
        *is_taken = true;
        let server = &mut self.servers[server];
        server.waiting.pop();
        server.pages -= 1;
        server.taken += 1;
        server.sum -= *worth;
        server.ready_since = round + 1;
        page
    }

    /// The best page that waits at a server.
    fn best(&mut self, server: usize) -> Option<(Waiting, usize)> {
        loop {
            let &waiting = self.servers[server].waiting.peek()?;
            let (_, _, page) = waiting;
            if !self.pages[page].is_taken && waiting == self.waiting(page) {
                return Some((waiting, server));
            }
            self.servers[server].waiting.pop();
        }
    }

    fn fetch(&mut self, page: usize) {
        let worth = self.pages[page].worth;
        self.outcome.fetched.push(page);
        let graph = self.graph;
        let links = &graph.pages[page].links;
        for &to in links {
            let worth = match self.rules.order {
                Order::Discovery => 0.0,
                Order::Links => 1.0,
                Order::Flow | Order::Cash => worth / links.len() as f64,
                Order::DampedCash => (1.0 - DAMPING + DAMPING * worth) / links.len() as f64,
                Order::PageRank => self.ranks[to],
            };
            self.link(to, worth);
        }
    }

    fn link(&mut self, to: usize, worth: f64) {
        let Rules {
            order,
            factor,
            delay,
            lifts_late,
            ..
        } = self.rules;
        let page = &mut self.pages[to];
        if !page.is_known {
            page.is_known = true;
            page.left = worth;
            self.ahead[delay].push(News::Found { page: to, worth });
        } else if order.is_lifted() {
            page.gathered += worth;
            if page.gathered >= factor * page.left {
                let lifts = if page.is_taken {
                    &mut self.outcome.late_lifts
                } else {
                    &mut self.outcome.lifts
                };
                *lifts += 1;
                page.left += page.gathered;
                self.ahead[delay + lifts_late].push(News::Lift {
                    page: to,
                    worth: page.gathered,
                });
                page.gathered = 0.0;
            }
        }
    }

    fn server(&mut self, page: usize) -> &mut Server {
        &mut self.servers[self.graph.pages[page].host as usize]
    }

    fn waiting(&self, page: usize) -> Waiting {
        let Page { worth, found, .. } = self.pages[page];
        (worth.to_bits(), Reverse(found), page)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::rules::Jobs;
    use synthetic_web::GraphPage;

    /// One server. 0 links to 1, 2 and 3; 1 and 2 to 4, 5; 3 to 5 and 6; the others to nothing.
    fn graph() -> Graph {
        let links: [&[usize]; 7] = [&[1, 2, 3], &[4, 5], &[4, 5], &[5, 6], &[], &[], &[]];
        Graph {
            hosts: 1,
            pages: links
                .map(|links| GraphPage {
                    host: 0,
                    links: links.to_vec(),
                })
                .to_vec(),
        }
    }

    fn fetched(order: Order, factor: f64, delay: usize) -> Outcome {
        let ranks = [1.0, 1.0, 2.0, 3.0, 1.0, 5.0, 4.0];
        crawl(
            &graph(),
            &[0],
            &ranks,
            Rules {
                factor,
                delay,
                ..Rules::plain(order)
            },
        )
    }

    #[test]
    fn each_order_takes_the_best_that_it_knows() {
        let of = |order| fetched(order, 0.0, 0).fetched;
        assert_eq!(of(Order::Discovery), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(of(Order::Flow), [0, 1, 2, 3, 4, 5, 6]);
        // After 1 and 2, two links are known to 4 and 5: 4 was found first.
        assert_eq!(of(Order::Links), [0, 1, 2, 4, 5, 3, 6]);
        assert_eq!(of(Order::Cash), [0, 1, 2, 3, 5, 4, 6]);
        assert_eq!(of(Order::PageRank), [0, 3, 5, 6, 2, 1, 4]);
    }

    #[test]
    fn a_lift_leaves_when_it_is_worth_it_and_what_has_not_left_is_lost() {
        // 4 has two links, 5 three: at once, they are lifted once and twice.
        let at_once = fetched(Order::Links, 0.0, 0);
        assert_eq!(
            (at_once.lifts, at_once.late_lifts, at_once.rounds),
            (2, 1, 7)
        );
        // The third link of 5 is half of what has left.
        assert_eq!(fetched(Order::Cash, 0.5, 0).lifts, 3);
        assert_eq!(fetched(Order::Cash, 0.6, 0).lifts, 2);
        assert_eq!(
            fetched(Order::Cash, 7.0, 0).fetched,
            fetched(Order::Flow, 0.0, 0).fetched
        );
        assert_eq!(fetched(Order::Cash, 7.0, 0).lifts, 0);
    }

    #[test]
    fn news_come_as_late_as_asked() {
        let late = fetched(Order::Discovery, 0.0, 3);
        assert_eq!(
            (late.fetched, late.rounds),
            (fetched(Order::Discovery, 0.0, 0).fetched, 7 + 3 + 1)
        );
    }

    #[test]
    fn what_becomes_known_later_changes_no_job_and_late_lifts_come_too_late() {
        let of = |rules: Rules| crawl(&graph(), &[0], &[0.0; 7], rules).fetched;
        let plain = Rules::plain(Order::Links);
        assert_eq!(
            of(Rules {
                jobs: Jobs::Of(3),
                ..plain
            }),
            [0, 1, 2, 3, 5, 4, 6]
        );
        assert_eq!(
            of(Rules {
                lifts_late: 9,
                ..plain
            }),
            [0, 1, 2, 3, 4, 5, 6]
        );
        assert_eq!(
            [0, 9, 10, 999].map(|taken| Jobs::Growing.pages(999, taken)),
            [4, 4, 5, 50]
        );
        assert_eq!(
            [0, 41, 999].map(|waiting| Jobs::PartOfWaiting.pages(waiting, 0)),
            [10, 11, 50]
        );
    }

    #[test]
    fn connections_go_to_the_best_servers() {
        // Server 0 leads to one good page at 1, two bad ones at 2, and one at 3.
        let page = |host, links: &[usize]| GraphPage {
            host,
            links: links.to_vec(),
        };
        let pages = vec![
            page(0, &[4, 2, 3, 1]),
            page(1, &[]),
            page(2, &[]),
            page(2, &[]),
            page(3, &[]),
        ];
        let graph = Graph { hosts: 4, pages };
        let of = |rank| {
            let servers = Servers::Some {
                connections: 1,
                rank,
            };
            let rules = Rules {
                servers,
                ..Rules::plain(Order::PageRank)
            };
            crawl(&graph, &[0], &[1.0, 4.0, 3.0, 2.0, 1.0], rules).fetched
        };
        assert_eq!(of(Rank::Best), [0, 1, 2, 3, 4]);
        assert_eq!(of(Rank::Sum), [0, 2, 1, 3, 4]);
        assert_eq!(of(Rank::Turn), [0, 1, 2, 4, 3]);
    }
}
