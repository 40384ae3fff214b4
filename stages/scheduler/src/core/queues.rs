//! What waits at servers: the answer to an operator who looks into the frontier.
//!
//! Invariant: a question changes nothing, brings no server into memory, and costs a bounded time.

use crate::core::idle::Inquiry;
use crate::frontier::queue::{Queue, Wanted};
use crate::frontier::rows::FrontierUrl;
use crate::keys::server_key::ServerKey;
use crate::keys::slot::{Lane, RETRIES, lane_of, quality_of};
use crate::keys::topic::TopicNumber;
use crate::ranking::ready_queue::QueuePlace;
use crate::robots::state::{ROBOTS, Rules};
use crate::servers::server::{SERVERS, Server};
use crate::store::rows::Rows;
use rhumb_robots::Robots;
use rhumb_stage::store::StoreError;
use rhumb_stage::{Estimates, Measure, QueueQuestion, RobotsTold, ServerQueue, Trap, WaitingUrl};
use rhumb_url::path_of;
use rhumb_url::time::Timestamp;
use std::cmp::Reverse;
use std::time::Duration;

/// URLs that one answer holds, at most.
const URLS_MAX: usize = 1000;
/// Bytes of them, about: well below the smallest `broker.max_payload`.
const BYTES_MAX: usize = 512 << 10;
/// Servers that one answer holds, at most.
const SERVERS_MAX: usize = 200;
/// Servers in a list of those with most, at most.
const TOP_MAX: usize = 2000;
/// What a server takes in an answer beside its name.
const SERVER_BESIDE: usize = 400;
/// What a URL takes in an answer beside its text.
const URL_BESIDE: usize = 128;
/// Rules of a robots.txt that are told, at most, and characters of each.
const RULES_MAX: usize = 50;
const RULE_MAX: usize = 200;
/// Traps that are told, at most.
const TRAPS_MAX: usize = 20;

impl Inquiry<'_> {
    /// The servers of this instance that are asked for, with what waits at them.
    ///
    /// # Errors
    /// The store cannot be read, or a row is not understood.
    pub(crate) fn queue(&self, question: &QueueQuestion) -> Result<Vec<ServerQueue>, StoreError> {
        match question {
            QueueQuestion::OfHost { host, limit } => self.of_host(host, (*limit).min(URLS_MAX)),
            QueueQuestion::Top { n, by } => self.top((*n).min(TOP_MAX), *by),
        }
    }

    fn of_host(&self, host: &str, limit: usize) -> Result<Vec<ServerQueue>, StoreError> {
        let Some(ServerKey {
            host, partition, ..
        }) = self.servers.key_of(&format!("http://{host}"))
        else {
            return Ok(Vec::new());
        };
        let (first, last) = ServerKey::all_of(host).into_inner();
        let mut keys = Vec::new();
        let mut end = last.to_bytes();
        end.push(0);
        self.servers
            .store()
            .scan(SERVERS, &first.to_bytes(), &end, &mut |key, _| {
                keys.extend(ServerKey::from_bytes(partition, key));
                keys.len() < SERVERS_MAX
            })?;
        let mut queues = Vec::new();
        let mut bytes = 0;
        for key in keys {
            // Another instance has its partition.
            let Some(server) = self.servers.look_up(key)? else {
                continue;
            };
            let mut queue = self.of_server(key, server.clone())?;
            let rules;
            (queue.robots, rules) = self.robots_of(key, &server)?;
            bytes += queue.robots.rules.iter().map(String::len).sum::<usize>();
            queue.urls = self.urls_of(key, server, rules.as_ref(), limit, &mut bytes)?;
            queues.push(queue);
        }
        Ok(queues)
    }

    fn top(&self, n: usize, by: Measure) -> Result<Vec<ServerQueue>, StoreError> {
        let measure = |server: &Server| match by {
            Measure::Waiting => server.queues.len(),
            Measure::Errors => server.failures().into(),
            Measure::Age => age(self.now, server).map_or(0, |age| age.as_micros() as u64),
            Measure::Slow => server.response_us.into(),
            // The sooner the more.
            Measure::Next if server.queues.has_none_to_go() || server.lease.is_some() => 0,
            Measure::Next => u64::MAX - self.next(server).as_micros() as u64,
        };
        let keys = self.servers.keys().into_iter();
        let mut all: Vec<_> = keys
            .filter_map(|key| Some((measure(self.servers.get(key)?), key)))
            .collect();
        all.retain(|(measured, _)| *measured > 0);
        all.sort_unstable_by_key(|&(measured, key)| (Reverse(measured), key));
        all.truncate(n);
        let mut bytes = 0;
        let fits = |(_, server): &(ServerKey, Server)| {
            bytes += SERVER_BESIDE + server.name.len();
            bytes <= BYTES_MAX
        };
        let servers = all
            .into_iter()
            .filter_map(|(_, key)| Some((key, self.servers.get(key)?.clone())))
            .take_while(fits);
        servers
            .map(|(key, server)| self.of_server(key, server))
            .collect()
    }

    /// The traps whose URLs are kept back, those of the servers with most of them first.
    pub(crate) fn traps(&self) -> Vec<Trap> {
        let mut traps = Vec::new();
        for server in self
            .servers
            .with_traps()
            .into_iter()
            .filter_map(|key| self.servers.get(key))
        {
            let waiting = server.queues.trapped();
            let of_traps = server
                .shapes
                .verdicts()
                .filter(|(_, verdict)| waiting > 0 && verdict.lane == Lane::Trapped);
            traps.extend(of_traps.map(|(_, verdict)| Trap {
                server: server.name.to_string(),
                shape: verdict.shape.to_owned(),
                pages: verdict.pages,
                repeats_percent: verdict.repeats_permille / 10,
                waiting,
            }));
        }
        traps.sort_by(|one, other| {
            (Reverse(one.waiting), &one.server).cmp(&(Reverse(other.waiting), &other.server))
        });
        traps.truncate(TRAPS_MAX);
        traps
    }

    /// When a server may be contacted, as far as that is a matter of time.
    fn next(&self, server: &Server) -> Duration {
        let retries = if server.queues.has_none_to_go() {
            Timestamp::ZERO
        } else {
            server.queues.ready_at()
        };
        server.next_contact.max(retries).since(self.now)
    }

    /// All but its URLs and rules.
    fn of_server(&self, key: ServerKey, mut server: Server) -> Result<ServerQueue, StoreError> {
        let rows = Rows::new(self.servers.store().as_ref());
        let waiting: Vec<TopicNumber> = server.queues.waiting().map(Queue::topic).collect();
        let ranks = waiting.into_iter().map(|topic| {
            server.rank(
                &rows,
                key,
                (topic, self.now),
                self.settings,
                &self.places.speeds,
            )
        });
        // The highest sorts first.
        let best = ranks
            .min_by_key(|rank| rank.as_ref().copied().unwrap_or_default())
            .transpose()?
            .unwrap_or_default();
        let ms = |us: u32| (us > 0).then(|| f64::from(us) / 1000.0);
        Ok(ServerQueue {
            why: self.why_idle(&server.name)?.to_string(),
            waiting: server.queues.len(),
            in_flight: server.load().in_flight,
            failures: server.failures(),
            next_s: self.next(&server).as_secs_f64(),
            age_s: age(self.now, &server).map(|age| age.as_secs_f64()),
            addresses: server.address.addresses().to_vec(),
            addresses_for_s: server.address.until().since(self.now).as_secs_f64(),
            estimates: Estimates {
                connect_ms: ms(server.connect_us),
                response_ms: ms(server.response_us),
                requests: (server.requests_learned > 0).then_some(server.requests_learned),
                overlap: ms(server.overlap_permille),
                rank: best.value(),
            },
            server: server.name.into(),
            ..ServerQueue::default()
        })
    }

    fn robots_of(
        &self,
        key: ServerKey,
        server: &Server,
    ) -> Result<(RobotsTold, Option<Robots>), StoreError> {
        let rules = server.robots.rules(self.now);
        let mut told = RobotsTold {
            is: match rules {
                _ if !self.settings.politeness.respect_robots => {
                    "not respected (politeness.respect_robots)"
                }
                None => "not known",
                Some(Rules::AllowAll) => "none: all is allowed",
                Some(Rules::Unreachable) => "cannot be reached: nothing is allowed",
                Some(Rules::Text) => "rules",
            }
            .to_owned(),
            for_s: server
                .robots
                .until()
                .unwrap_or_default()
                .since(self.now)
                .as_secs_f64(),
            crawl_delay_s: server.robots.crawl_delay().as_secs_f64(),
            ..RobotsTold::default()
        };
        let text = match rules {
            Some(Rules::Text) => self.servers.store().get(ROBOTS, &key.to_bytes())?,
            _ => None,
        };
        let robots = text.map(|text| Robots::parse(&text, &self.settings.product_token));
        if let Some(robots) = &robots {
            told.rules = robots
                .rules()
                .take(RULES_MAX)
                .map(|rule| rule.chars().take(RULE_MAX).collect())
                .collect();
            told.more_rules = robots.rules().skip(RULES_MAX).count();
        }
        Ok((told, robots))
    }

    /// The first URLs of a server, in the order in which its next jobs would take them.
    fn urls_of(
        &self,
        key: ServerKey,
        mut server: Server,
        robots: Option<&Robots>,
        limit: usize,
        bytes: &mut usize,
    ) -> Result<Vec<WaitingUrl>, StoreError> {
        let (Some(clock), rows) = (
            self.servers.clock_of(key),
            Rows::new(self.servers.store().as_ref()),
        ) else {
            return Ok(Vec::new());
        };
        let out = server
            .lease
            .take()
            .map(|lease| lease.slots)
            .unwrap_or_default();
        let wanted = Wanted {
            fresh_first: server.was_set_aside(),
            ..Wanted::all(limit + out.len())
        };
        let restore = |stored| clock.restore(stored);
        let mut taken = server.queues.take(&rows, key, self.now, restore, wanted)?;
        let end_of_time = Timestamp::from_micros(u64::MAX);
        let rest = Wanted::all(wanted.limit - taken.len());
        taken.extend(server.queues.take(&rows, key, end_of_time, restore, rest)?);
        let mut urls = Vec::new();
        for (slot, url) in taken {
            *bytes += url.bytes() + URL_BESIDE;
            if urls.len() == limit || *bytes > BYTES_MAX {
                break;
            }
            // What is in flight has its row still.
            if !out.contains(&slot) {
                let not_before = if url.not_before == 0 {
                    Timestamp::ZERO
                } else {
                    restore(url.not_before)
                };
                urls.push(self.told(slot, url, not_before, &server, robots));
            }
        }
        Ok(urls)
    }

    fn told(
        &self,
        slot: u64,
        url: FrontierUrl,
        not_before: Timestamp,
        server: &Server,
        robots: Option<&Robots>,
    ) -> WaitingUrl {
        let FrontierUrl {
            url,
            origin,
            attempts,
            ..
        } = url;
        let wait = not_before.since(self.now);
        let is_allowed = robots.is_none_or(|robots| robots.allows(path_of(&url)));
        let is_paused = server.is_paused || self.servers.paused().has_all();
        let is_trapped = slot < RETRIES && lane_of(slot) == Lane::Trapped;
        // Later links may have added to what it was when it was found.
        let quality = match self.settings.later_links_count(&origin.topic) && slot < RETRIES {
            true => quality_of(slot),
            false => self.settings.quality.quality(&url, &origin),
        };
        WaitingUrl {
            quality: quality.get().into(),
            depth: origin.depth,
            attempts,
            in_s: (!is_paused).then(|| {
                not_before
                    .max(server.next_contact)
                    .since(self.now)
                    .as_secs_f64()
            }),
            why: match (is_allowed, wait.is_zero()) {
                _ if is_trapped => {
                    Some("kept back until nothing else waits (rhumb why says why)".to_owned())
                }
                (false, _) => Some("robots.txt disallows it: it ends without a contact".to_owned()),
                (true, false) => Some(format!("failed, and is tried again in {wait:.1?}")),
                (true, true) => None,
            },
            found_on: origin.found_on().to_owned(),
            url,
        }
    }
}

/// Time since a server with something to fetch might have been contacted again, or since the clock
/// began.
fn age(now: Timestamp, server: &Server) -> Option<std::time::Duration> {
    let waits = !server.queues.has_none_to_go()
        && server.lease.is_none()
        && !matches!(server.place, QueuePlace::Held(..));
    let since = server.next_contact.max(server.queues.ready_at());
    (waits && since <= now).then(|| now.since(since))
}
