//! The laboratory: experiments of the papers, repeated with the parts that the crawler runs.
//!
//! In: the settings of an experiment. Out: a table (CSV), a figure (SVG) and each [`Claim`] of the
//! papers with what was found.
//!
//! Invariants: the same settings give the same files and findings, except what is measured in real
//! time, which each experiment names. A claim states its tolerance before it is judged. A claim
//! that fails is reported like one that holds.
//!
//! - [`dns`]: name caches, concurrent lookups, and the queues and sockets of a crawler (Yin, Yin
//!   and Huang 2008; the cached, non-blocking resolver for crawlers, 2008).
//! - [`fresh`]: pages that are visited again, by value (Cho and Garcia-Molina 2000 and 2003; Azar
//!   and others 2018; Busa-Fekete and others 2025).
//! - [`order`]: the order in which a crawl comes to the pages that matter (Cho, Garcia-Molina and
//!   Page 1998; Abiteboul, Preda and Cobena 2003).
//! - [`partitions`]: how instances share the hosts, and what moves when one comes or goes (PQ-MCSA;
//!   Fagin, Nievergelt, Pippenger and Strong 1979).
//! - [`scheduling`]: which server next, and which of its URLs (Cao, Jiang and Singh 2003).
//! - [`topics`]: topics that share one node (PQ-MCSA, Fan and Li 2015).
//! - [`url_cache`]: URL caching in front of the URL-seen test (Broder, Najork and Wiener 2003).

use std::fmt;

mod cpu;
pub mod dns;
pub mod fresh;
mod instance;
pub mod order;
mod page_rank;
pub mod partitions;
mod plot;
mod random;
pub mod scheduling;
mod text;
pub mod topics;
pub mod url_cache;
mod zipf;

pub use zipf::zipf;

/// What a paper says, and what was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// What the paper claims, with its tolerance.
    pub statement: String,
    /// What was found.
    pub measured: String,
    /// Returns whether what was found agrees with the claim.
    pub holds: bool,
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.holds { "holds" } else { "FAILS" };
        write!(f, "{word}    {}: {}", self.statement, self.measured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_that_fails_is_seen_at_once() {
        let mut claim = Claim {
            statement: "a is b".into(),
            measured: "a is b".into(),
            holds: true,
        };
        assert_eq!(claim.to_string(), "holds    a is b: a is b");
        claim.holds = false;
        assert_eq!(claim.to_string(), "FAILS    a is b: a is b");
    }
}
