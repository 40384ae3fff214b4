//! Rules: in which order pages are fetched, and what is known of them by then.

use std::fmt;

/// Which page of a server is the best.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// The one that was found first.
    Discovery,
    /// The one with the most worth when it was found: a seed has 1, a page shares its own equally
    /// among its links.
    Flow,
    /// The one that the most links lead to, as far as is known (backlink count, Cho, Garcia-Molina
    /// and Page 1998).
    Links,
    /// The one with the most cash: like flow, but all links of pages that were fetched count (OPIC,
    /// Abiteboul, Preda and Cobena 2003).
    Cash,
    /// The same, but each page has a part of its own, as in PageRank: it shares 0.15 and 0.85 times
    /// its cash.
    DampedCash,
    /// The one with the highest PageRank in the whole web, as far as pages are known: the best that
    /// an order can do.
    PageRank,
}

impl Order {
    pub(super) const ALL: [Order; 6] = [
        Order::Discovery,
        Order::Flow,
        Order::Links,
        Order::Cash,
        Order::DampedCash,
        Order::PageRank,
    ];

    /// Those in which further links to a page count.
    pub(super) const LIFTED: [Order; 3] = [Order::Links, Order::Cash, Order::DampedCash];

    pub(super) fn is_lifted(self) -> bool {
        Self::LIFTED.contains(&self)
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Order::Discovery => "discovery",
            Order::Flow => "flow",
            Order::Links => "links",
            Order::Cash => "cash",
            Order::DampedCash => "damped cash",
            Order::PageRank => "PageRank",
        })
    }
}

/// Which servers fetch a page in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Servers {
    /// All that have one waiting.
    All,
    /// As many as there are connections.
    Some { connections: usize, rank: Rank },
}

/// Which servers come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rank {
    /// Those whose best page is the best.
    Best,
    /// Those where the most worth waits.
    Sum,
    /// Those that have been ready for longest.
    Turn,
}

impl Rank {
    pub(super) const ALL: [Rank; 3] = [Rank::Best, Rank::Sum, Rank::Turn];
}

impl fmt::Display for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Servers::All => f.write_str("all"),
            Servers::Some {
                connections,
                rank: Rank::Best,
            } => write!(f, "{connections} by best page"),
            Servers::Some {
                connections,
                rank: Rank::Sum,
            } => write!(f, "{connections} by sum"),
            Servers::Some {
                connections,
                rank: Rank::Turn,
            } => write!(f, "{connections} in turn"),
        }
    }
}

/// How many pages a server takes together, in the order that they have then: what becomes known
/// later does not change it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Jobs {
    /// So many.
    Of(usize),
    /// A quarter of what waits, and at least ten.
    PartOfWaiting,
    /// Half as many as the server took before, and at least four, as in the crawler.
    Growing,
}

impl Jobs {
    pub(super) const ALL: [Jobs; 5] = [
        Jobs::Of(1),
        Jobs::Growing,
        Jobs::Of(10),
        Jobs::PartOfWaiting,
        Jobs::Of(50),
    ];

    /// Pages of the next job of a server where so many wait and so many were taken before.
    pub(super) fn pages(self, waiting: usize, taken: usize) -> usize {
        match self {
            Jobs::Of(pages) => pages,
            Jobs::PartOfWaiting => waiting.div_ceil(4).clamp(10, 50),
            Jobs::Growing => (taken / 2).clamp(4, 50),
        }
    }
}

impl fmt::Display for Jobs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Jobs::Of(pages) => write!(f, "{pages}"),
            Jobs::PartOfWaiting => f.write_str("part of waiting"),
            Jobs::Growing => f.write_str("growing"),
        }
    }
}

/// The rules of a crawl.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rules {
    pub(super) order: Order,
    /// Further worth of a page leaves for its server when it is as many times what has left before.
    pub(super) factor: f64,
    /// Rounds until news are there, beside the one in which they leave.
    pub(super) delay: usize,
    /// Rounds by which lifts are later than pages that are found.
    pub(super) lifts_late: usize,
    pub(super) servers: Servers,
    /// Where all servers fetch. Where servers are chosen each page is chosen.
    pub(super) jobs: Jobs,
}

impl Rules {
    /// All servers, a page at a time, everything known at once.
    pub(super) fn plain(order: Order) -> Rules {
        Rules {
            order,
            factor: 0.0,
            delay: 0,
            lifts_late: 0,
            servers: Servers::All,
            jobs: Jobs::Of(1),
        }
    }
}
