//! Traits: what the paper does not say of its web, beside what the shape holds.
//!
//! In: nothing. Out: the traits of the web on which the claims are judged ([`Traits::CHOSEN`]), and
//! the orders by which a search hands them to the servers in other ways.
//!
//! Invariant: with the chosen traits nothing of a server depends on anything else of it.

use std::cmp::Ordering;

/// What the other tenth of the servers allow: requests per connection, drawn evenly.
const OTHER_LIMITS: &[u32] = &[5, 10, 20, 50, 200, 1_000];

/// How a web is made where the paper leaves it open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Traits {
    /// Share of the pages that the first server has, as a university's main site; 0 for a server
    /// like the others.
    pub(super) main_site: f64,
    pub(super) spread: Spread,
    /// The servers that answer fastest.
    pub(super) fast: Which,
    /// The servers that allow one request per connection.
    pub(super) one_request: Which,
    /// The servers that take the shortest time to connect to.
    pub(super) near: Which,
    /// Requests per connection of the servers that allow neither one nor a hundred.
    pub(super) other_limits: &'static [u32],
    /// Mean connection time, in parts of the mean response time.
    pub(super) connect_mean: f64,
    /// Deviation of the logarithm of a page's response time from its server's.
    pub(super) response_deviation: f64,
    /// Links of a page on average.
    pub(super) links_mean: f64,
    pub(super) targets: Targets,
    pub(super) depth: Depth,
    /// Exponent of Zipf's law for what pages are worth.
    pub(super) zipf_exponent: f64,
    /// Returns whether the pages that Zipf's law favours lie on the same servers.
    pub(super) zipf_by_server: bool,
}

impl Traits {
    /// Those of the web on which the claims are judged. [`super::web`] says why.
    pub(super) const CHOSEN: Traits = Traits {
        main_site: 0.0,
        spread: Spread::Normal,
        fast: Which::Any,
        one_request: Which::Any,
        near: Which::Any,
        other_limits: OTHER_LIMITS,
        connect_mean: 0.75,
        response_deviation: 0.3,
        links_mean: 8.0,
        targets: Targets::Popular,
        depth: Depth::Tree,
        zipf_exponent: 1.0,
        zipf_by_server: false,
    };
}

/// How the logarithms of the servers' response times are distributed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spread {
    /// Few servers are as slow as the slowest.
    Normal,
    /// As many are slow as are fast.
    Even,
}

/// The servers that come first when something is handed out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// As it is drawn.
    Any,
    Largest,
    Smallest,
    Fastest,
    Slowest,
}

impl Which {
    /// Hands values, the least first, to servers in this order.
    pub(super) fn hand_out<T: Copy + PartialOrd>(
        self,
        values: &mut [T],
        pages: &[usize],
        responses: &[f64],
    ) {
        let mut order: Vec<usize> = (0..values.len()).collect();
        match self {
            Which::Any => return,
            Which::Largest => order.sort_by_key(|&server| std::cmp::Reverse(pages[server])),
            Which::Smallest => order.sort_by_key(|&server| pages[server]),
            Which::Fastest => {
                order.sort_by(|&one, &other| responses[one].total_cmp(&responses[other]))
            }
            Which::Slowest => {
                order.sort_by(|&one, &other| responses[other].total_cmp(&responses[one]))
            }
        }
        let mut ascending = values.to_vec();
        ascending.sort_by(|one, other| one.partial_cmp(other).unwrap_or(Ordering::Equal));
        for (server, value) in order.into_iter().zip(ascending) {
            values[server] = value;
        }
    }
}

/// The pages that links lead to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Targets {
    /// Server and page by Zipf's law.
    Popular,
    /// The same, but of another server its home page.
    HomePages,
    /// Any server, and any page of it, with the same chance.
    Even,
}

/// How far pages lie from their home page. Each page but the home page stands on an earlier page of
/// its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Depth {
    /// On any of them.
    Tree,
    /// On one of the three before it.
    Deep,
    /// On the home page.
    Flat,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_go_to_the_servers_that_are_first() {
        let pages = [5, 9, 1];
        let responses = [0.3, 0.1, 0.2];
        let handed = |which: Which| {
            let mut values = [20, 30, 10];
            which.hand_out(&mut values, &pages, &responses);
            values
        };
        assert_eq!(handed(Which::Any), [20, 30, 10]);
        assert_eq!(handed(Which::Largest), [20, 10, 30]);
        assert_eq!(handed(Which::Smallest), [20, 30, 10]);
        assert_eq!(handed(Which::Fastest), [30, 10, 20]);
        assert_eq!(handed(Which::Slowest), [10, 30, 20]);
    }
}
