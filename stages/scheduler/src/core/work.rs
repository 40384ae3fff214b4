//! Work: the parts of the core that one step changes, and what the step has made of them.
//!
//! All that happens in a step happens to the work: whoever acts takes it, and nothing beside it but
//! what is the actor's own. Features ([`doors`](crate::core::doors)) take it as well, so nothing of
//! theirs is in it.

use crate::budget::shares::Shares;
use crate::core::places::Places;
use crate::keys::server_key::ServerKey;
use crate::robots::rules_cache::RulesCache;
use crate::servers::in_play::{InPlay, Servers};
use crate::servers::partition::Partition;
use crate::servers::server::Server;
use crate::step::staged::Staged;

/// The work of one step.
pub(crate) struct Work<'a> {
    pub(crate) servers: &'a mut Servers,
    pub(crate) places: &'a mut Places,
    /// Rules of servers in play.
    pub(crate) rules: &'a mut RulesCache,
    pub(crate) staged: Staged<'a>,
}

/// The work at one server in play.
pub(crate) struct At<'a, 'w> {
    pub(crate) key: ServerKey,
    pub(crate) server: &'a mut Server,
    pub(crate) partition: &'a mut Partition,
    pub(crate) shares: &'a mut Shares,
    pub(crate) places: &'a mut Places,
    pub(crate) staged: &'a mut Staged<'w>,
}

impl<'w> Work<'w> {
    /// The work at a server that must be in play; `doing` says what needs it.
    pub(crate) fn at(&mut self, key: ServerKey, doing: &'static str) -> Option<At<'_, 'w>> {
        let InPlay {
            server,
            partition,
            shares,
        } = self.servers.in_play(key, doing)?;
        Some(At {
            key,
            server,
            partition,
            shares,
            places: &mut *self.places,
            staged: &mut self.staged,
        })
    }
}
