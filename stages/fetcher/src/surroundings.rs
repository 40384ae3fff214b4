//! What all jobs of a fetcher share: its settings, its counts, whether it ends, and the tags of
//! what is on its way to a stream.

use crate::absent::Absent;
use crate::http11::Http11;
use crate::settings::Settings;
use crate::tally::Tally;

/// What jobs need of their surroundings.
pub(crate) struct Surroundings {
    pub(crate) settings: Settings,
    pub(crate) tally: Tally,
    pub(crate) draining: bool,
    pub(crate) tags: u64,
    /// Requests that have not ended.
    pub(crate) asked: usize,
    pub(crate) absent: Absent,
    pub(crate) http11: Http11,
}

impl Surroundings {
    /// A tag that nothing else has.
    pub(crate) fn tag(&mut self) -> u64 {
        self.tags += 1;
        self.tags
    }
}
