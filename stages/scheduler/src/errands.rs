//! Robots.txt across servers: answers for a server, and requests that a redirect leads to another one.
//!
//! A robots.txt that lies on another server is fetched by a job of that server, so that P1 and P2 hold for it
//! too. When its partition is another instance's, that one is asked; what is asked is soft state there, and is
//! asked again until it is answered.

use crate::robots::Robots;
use crate::robots_policy::{Found, ROBOTS};
use crate::scheduler::Scheduler;
use crate::server::{ErrandTask, ServerKey};
use crate::sitemaps::sitemaps_of;
use crate::staged::Staged;
use shared::message::{Errand, RobotsResponse};
use shared::stage::store::StoreError;
use shared::time::Timestamp;
use shared::url::server_of;
use std::sync::Arc;

/// Errands that a server takes at a time; those that find no room are asked for again.
const ERRANDS_MAX: usize = 64;

impl Scheduler {
    /// A message from the scheduler of another partition.
    pub(crate) fn errand(&mut self, now: Timestamp, errand: Errand, staged: &mut Staged<'_>) -> Result<(), StoreError> {
        let name = match &errand {
            Errand::Wanted { url, .. } => server_of(url),
            Errand::Found { server, .. } => server,
            Errand::Tokens { domain } => return self.shares.call(now, domain.as_deref(), self.store.as_ref()),
        };
        if name.parse::<shared::url::Server>().is_err() {
            self.malformed += 1;
            return Ok(());
        }
        let key = self.key_of(name);
        if !self.partitions.contains_key(&key.partition) {
            self.foreign += 1;
            return Ok(());
        }
        match errand {
            Errand::Wanted { url, server } => self.take_errand(key, url, server, staged),
            Errand::Found { response, .. } => self.found(now, key, response.as_ref(), staged),
            Errand::Tokens { .. } => Ok(()),
        }
    }

    /// `asker` wants to know what lies at `url`, on another server.
    pub(crate) fn want(&mut self, url: String, asker: String, staged: &mut Staged<'_>) -> Result<(), StoreError> {
        let key = self.key_of(server_of(&url));
        if self.partitions.contains_key(&key.partition) {
            return self.take_errand(key, url, asker, staged);
        }
        staged.errand(key.partition, Errand::Wanted { url, server: asker });
        Ok(())
    }

    fn take_errand(
        &mut self,
        key: ServerKey,
        url: String,
        asker: String,
        staged: &mut Staged<'_>,
    ) -> Result<(), StoreError> {
        self.load_or_make(key, server_of(&url))?;
        let Some(server) = self.servers.get_mut(&key) else { return Ok(()) };
        let under_way = server.lease.as_ref().and_then(|lease| lease.robots.as_ref());
        let under_way = under_way.is_some_and(|task| task.url == url && task.askers.contains(&asker));
        let task = ErrandTask { url, asker };
        if !under_way && server.errands.len() < ERRANDS_MAX && !server.errands.contains(&task) {
            server.errands.push(task);
        }
        staged.unsettle(key);
        Ok(())
    }

    /// The answer to what `asker` wanted; none when the other server cannot be reached.
    pub(crate) fn deliver(
        &mut self,
        now: Timestamp,
        asker: &str,
        response: Option<RobotsResponse>,
        staged: &mut Staged<'_>,
    ) -> Result<(), StoreError> {
        let key = self.key_of(asker);
        if self.partitions.contains_key(&key.partition) {
            return self.found(now, key, response.as_ref(), staged);
        }
        staged.errand(key.partition, Errand::Found { server: asker.to_owned(), response });
        Ok(())
    }

    /// The answer to an errand; one that nobody waits for any more is ignored.
    fn found(
        &mut self,
        now: Timestamp,
        key: ServerKey,
        response: Option<&RobotsResponse>,
        staged: &mut Staged<'_>,
    ) -> Result<(), StoreError> {
        staged.unsettle(key);
        let Some(url) = self.load(key)?.and_then(|server| server.robots.errand_url()) else { return Ok(()) };
        self.robots_answered(now, key, &url, response, staged)
    }

    /// The answer to the request for a server's robots.txt at `url`, wherever that was; none when there was none.
    pub(crate) fn robots_answered(
        &mut self,
        now: Timestamp,
        key: ServerKey,
        url: &str,
        response: Option<&RobotsResponse>,
        staged: &mut Staged<'_>,
    ) -> Result<(), StoreError> {
        let (Some(server), Some(partition)) = (self.servers.get_mut(&key), self.partitions.get_mut(&key.partition))
        else {
            return Ok(());
        };
        staged.touch(key);
        partition.counts.robots += u64::from(response.is_some());
        match server.robots.answered(now, &server.name, url, response, &self.settings) {
            Found::Text(body) => {
                let robots = Robots::parse(body, &self.settings.agent);
                server.robots.set_text(now, robots.crawl_delay().unwrap_or_default(), &self.settings);
                if self.settings.sitemaps_per_server > 0
                    && let Some(first) = server.queue.first(staged, key)?
                    && let Some(found) = sitemaps_of(&self.settings, &robots, url, &first)
                {
                    staged.found(found);
                }
                self.rules.put(key, Arc::new(robots));
                staged.put(ROBOTS, key.to_bytes(), body.to_vec());
                // Its Crawl-delay counts from now on, wherever it came from.
                let gap = server.gap(&self.settings);
                server.leave_alone(now, gap);
            }
            Found::Wait(wait) => server.leave_alone(now, wait),
            Found::AllowAll | Found::Redirect | Found::Unreachable => {}
        }
        Ok(())
    }
}
