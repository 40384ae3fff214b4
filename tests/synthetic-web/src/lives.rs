//! Lives: the pages of a web that change, and where each of them stands now.
//!
//! A page that was never asked for takes no memory. One that was keeps its last version, from which
//! the next one is a step.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, PoisonError};

use super::life::{Life, Version};
use super::plan::{Link, Plan};
use super::resource::Resource;

/// Lives by host and page.
#[derive(Debug)]
pub(crate) struct Lives {
    hosts: Vec<Mutex<HashMap<u32, Life>>>,
}

/// A page that changes, at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Moment {
    /// Seconds since the start of the web.
    pub(crate) at_s: f64,
    pub(crate) version: Version,
    /// It answers 404 when it is not.
    pub(crate) is_there: bool,
}

impl Lives {
    pub(crate) fn new(hosts: u32) -> Self {
        Self {
            hosts: (0..hosts).map(|_| Mutex::default()).collect(),
        }
    }
}

impl Plan {
    /// The life of a page; `None` if it never changes because its host is hostile, because it
    /// redirects, or because nothing in this web changes.
    pub(crate) fn life(&self, host: u32, page: u32) -> Option<Life> {
        let change = self.profile.change.as_ref()?;
        let site = self.site(host);
        if site.hostility.is_some() || self.shape(host, page).redirect {
            return None;
        }
        let seed = self.profile.seed;
        let born = site
            .children(page)
            .iter()
            .map(|child| self.born_s(host, *child));
        let additions = born.filter(|born| *born > 0.0).collect();
        let gone = if self.is_leaf(host, page) {
            change.gone_s(seed, host, page)
        } else {
            0.0..0.0
        };
        Some(
            Life::new(change, seed, host, page)
                .between(self.born_s(host, page), gone)
                .with_additions(additions),
        )
    }

    /// A page at a time, in seconds since the start of the web; `None` if it has no life.
    pub(crate) fn moment(&self, host: u32, page: u32, at_s: f64) -> Option<Moment> {
        self.profile.change.as_ref()?;
        let mut lives = self.lives.hosts[host as usize]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let life = match lives.entry(page) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(self.life(host, page)?),
        };
        Some(Moment {
            at_s,
            version: life.version_at(at_s),
            is_there: life.is_there(at_s),
        })
    }

    /// Returns whether pages link to that at this time.
    pub(crate) fn is_linked_to(&self, link: Link, at_s: f64) -> bool {
        match link.resource {
            Resource::Page(page) => self.born_s(link.host, page) <= at_s,
            _ => true,
        }
    }
}
