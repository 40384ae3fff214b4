//! Setup: how a web is crawled, and from where.

use super::policy::Policy;
use super::web::Web;
use std::fmt;

/// How a web is crawled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Setup {
    pub(super) policy: Policy,
    /// Connections open at once, at most.
    pub(super) connections: usize,
    /// Schedulers, each with its share of the servers.
    pub(super) schedulers: u16,
    /// Returns whether servers serve more than one request per connection at all.
    pub(super) keep_alive: bool,
    /// The pages that are known from the beginning.
    pub(super) seeds: Seeds,
    /// Pages after which the crawl ends, if there are as many.
    pub(super) pages_max: usize,
    /// Time that a page takes on the CPU, in microseconds.
    pub(super) page_cpu_us: u64,
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} connections", self.connections)?;
        if self.schedulers > 1 {
            write!(f, ", {} schedulers", self.schedulers)?;
        }
        if !self.keep_alive {
            write!(f, ", one request per connection")?;
        }
        if self.seeds != Seeds::FirstPage {
            write!(f, ", from {}", self.seeds)?;
        }
        if self.pages_max < usize::MAX {
            write!(f, ", the first {} pages", self.pages_max)?;
        }
        if self.page_cpu_us > 0 {
            write!(
                f,
                ", {:.1} ms of CPU per page",
                self.page_cpu_us as f64 / 1e3
            )?;
        }
        Ok(())
    }
}

/// The pages that are known from the beginning; all others are found on pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seeds {
    /// The first page.
    FirstPage,
    /// The home page of each server.
    HomePages,
    /// All pages.
    AllPages,
}

impl fmt::Display for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Seeds::FirstPage => "first page",
            Seeds::HomePages => "home pages",
            Seeds::AllPages => "all pages",
        })
    }
}

impl Seeds {
    /// The pages that are known from the beginning.
    pub(super) fn pages(self, web: &Web) -> Vec<usize> {
        match self {
            Seeds::FirstPage => vec![0],
            Seeds::HomePages => web
                .servers
                .iter()
                .map(|server| server.pages.start)
                .collect(),
            Seeds::AllPages => (0..web.pages.len()).collect(),
        }
    }
}
