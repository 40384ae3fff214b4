//! Robots.txt across servers: answers for a server, and requests that a redirect leads to another
//! one.
//!
//! A robots.txt that lies on another server is fetched by a job of that server, so that P1 and P2
//! hold for it too. When the partition of that server belongs to another instance, that instance is
//! asked. It keeps what it is asked as soft state, and it is asked again until it answers.

use crate::core::work::Work;
use crate::keys::server_key::ServerKey;
use crate::robots::sitemaps::{leads_on, left_out, sitemaps_of};
use crate::robots::state::{Found, ROBOTS, Rules, text_of};
use crate::servers::in_play::InPlay;
use crate::servers::server::{ErrandTask, Server};
use crate::step::staged::Staged;
use crate::store::rows::corrupt;
use rhumb_robots::Robots;
use rhumb_stage::store::StoreError;
use rhumb_url::server_of;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::{Errand, RobotsResponse};
use std::sync::Arc;

/// Errands that a server takes at a time; those that find no room are asked for again.
const ERRANDS_MAX: usize = 64;

/// Takes a message from the scheduler of another partition; `key` is the server of this instance
/// that it is about.
///
/// # Errors
///
/// The store cannot be read, or a row is not understood.
pub(crate) fn take(work: &mut Work<'_>, key: ServerKey, errand: Errand) -> Result<(), StoreError> {
    match errand {
        Errand::Wanted { url, server } => take_on(work, key, url, server),
        Errand::Found { response, .. } => found(work, key, response.as_ref()),
        Errand::Quota { .. } => Ok(()),
    }
}

/// Notes that `asker` wants to know what lies at `url`, on another server.
///
/// # Errors
///
/// The store cannot be read, or a row is not understood.
pub(crate) fn want(work: &mut Work<'_>, url: String, asker: String) -> Result<(), StoreError> {
    let Some(key) = work.servers.key_of(server_of(&url)) else {
        return deliver(work, &asker, None);
    };
    if work.servers.owns(key.partition) {
        return take_on(work, key, url, asker);
    }
    work.staged
        .messages
        .errand(key.partition, Errand::Wanted { url, server: asker });
    Ok(())
}

/// Tells `asker` the answer to what it wanted; none when the other server cannot be reached.
///
/// # Errors
///
/// The store cannot be read, or a row is not understood.
pub(crate) fn deliver(
    work: &mut Work<'_>,
    asker: &str,
    response: Option<RobotsResponse>,
) -> Result<(), StoreError> {
    let Some(key) = work.servers.key_of(asker) else {
        return Ok(());
    };
    if work.servers.owns(key.partition) {
        return found(work, key, response.as_ref());
    }
    work.staged.messages.errand(
        key.partition,
        Errand::Found {
            server: asker.to_owned(),
            response,
        },
    );
    Ok(())
}

/// Takes the answer to an errand. An answer that nobody waits for any more is ignored.
fn found(
    work: &mut Work<'_>,
    key: ServerKey,
    response: Option<&RobotsResponse>,
) -> Result<(), StoreError> {
    work.staged.unsettle(key);
    let Some(url) = work
        .servers
        .load(key)?
        .and_then(|server| server.robots.errand_url())
    else {
        return Ok(());
    };
    answered(work, key, &url, response, work.staged.now)
}

/// Takes the answer to the request for a server's robots.txt at `url`, wherever that was; none when
/// there was no answer. It did not come before `since`, from when on its rules count (P5).
///
/// # Errors
///
/// The store cannot be read, or a row is not understood.
pub(crate) fn answered(
    work: &mut Work<'_>,
    key: ServerKey,
    url: &str,
    response: Option<&RobotsResponse>,
    since: Timestamp,
) -> Result<(), StoreError> {
    let Work {
        servers,
        rules,
        staged,
        ..
    } = work;
    let now = staged.now;
    let settings = staged.settings;
    let Some(in_play) = servers.in_play(key, "taking a robots.txt") else {
        return Ok(());
    };
    let server = in_play.server;
    let partition = in_play.partition;
    staged.touch(key);
    partition.counts.robots += u64::from(response.is_some());
    match server
        .robots
        .answered(since, &server.name, url, response, settings)
    {
        Found::Text(body) => {
            let robots = Robots::parse(body, &settings.product_token);
            server
                .robots
                .set_text(since, robots.crawl_delay().unwrap_or_default(), settings);
            partition.counts.sitemaps_left_out += find_sitemaps(key, server, &robots, url, staged)?;
            rules.put(key, Arc::new(robots));
            staged.rows.put(ROBOTS, key.to_bytes(), body.to_vec());
            // Its Crawl-delay counts from now on, wherever it came from.
            let gap = server.gap(settings);
            server.leave_alone(now, gap);
        }
        Found::Wait(wait) => server.leave_alone(now, wait),
        Found::AllowAll => {
            find_sitemaps(key, server, &Robots::allow_all(), url, staged)?;
        }
        Found::Redirect | Found::Unreachable => {}
    }
    Ok(())
}

/// Takes the answer to a server's own request for its robots.txt that came nobody knows when. Its
/// rules are not used (P5), but what it says of pauses holds from now on (P2).
pub(crate) fn heed(work: &mut Work<'_>, key: ServerKey, response: &RobotsResponse) {
    let now = work.staged.now;
    let settings = work.staged.settings;
    let Some(InPlay { server, .. }) = work.servers.in_play(key, "heeding a robots.txt") else {
        return;
    };
    let asked_for = text_of(response)
        .and_then(|text| Robots::parse(text, &settings.product_token).crawl_delay());
    if let Some(delay) = asked_for {
        server.robots.heed_crawl_delay(delay);
        let gap = server.gap(settings);
        server.leave_alone(now, gap);
    }
}

/// The rules that the server's URLs are matched against; none when all are allowed, or when the
/// server is not in memory.
///
/// # Errors
///
/// The store cannot be read, or the text is missing.
pub(crate) fn rules(
    work: &mut Work<'_>,
    key: ServerKey,
) -> Result<Option<Arc<Robots>>, StoreError> {
    let settings = work.staged.settings;
    let Some(server) = work
        .servers
        .get(key)
        .filter(|_| settings.politeness.respect_robots)
    else {
        return Ok(None);
    };
    match server.robots.rules(work.staged.now) {
        Some(Rules::AllowAll) => Ok(None),
        Some(Rules::Text) => {
            if let Some(robots) = work.rules.get(key) {
                return Ok(Some(robots));
            }
            let text = work.staged.rows.get(ROBOTS, &key.to_bytes())?;
            let text = text.ok_or_else(|| corrupt(ROBOTS, "a robots.txt is missing"))?;
            let robots = Arc::new(Robots::parse(&text, &settings.product_token));
            work.rules.put(key, Arc::clone(&robots));
            Ok(Some(robots))
        }
        Some(Rules::Unreachable) | None => Ok(Some(Arc::new(Robots::disallow_all()))),
    }
}

/// Gives a server an errand for another one, unless it has that errand already or has too many.
fn take_on(
    work: &mut Work<'_>,
    key: ServerKey,
    url: String,
    asker: String,
) -> Result<(), StoreError> {
    work.servers.load_or_make(key, server_of(&url))?;
    let Some(in_play) = work.servers.in_play(key, "taking on an errand") else {
        return Ok(());
    };
    let server = in_play.server;
    let under_way = server
        .lease
        .as_ref()
        .and_then(|lease| lease.robots.as_ref());
    let under_way = under_way.is_some_and(|task| task.url == url && task.askers.contains(&asker));
    let task = ErrandTask { url, asker };
    if !under_way && server.errands.len() < ERRANDS_MAX && !server.errands.contains(&task) {
        server.errands.push(task);
    }
    work.staged.unsettle(key);
    Ok(())
}

/// Passes on the sitemaps that a robots.txt names, or the guessed one. Returns how many a limit
/// left out.
fn find_sitemaps(
    key: ServerKey,
    server: &Server,
    robots: &Robots,
    url: &str,
    staged: &mut Staged<'_>,
) -> Result<u64, StoreError> {
    let settings = staged.settings;
    if settings.limits.sitemaps_per_server == 0 && !settings.limits.sitemap_guess {
        return Ok(0);
    }
    let firsts = server.queues.firsts(&staged.rows, key)?;
    let found = firsts
        .iter()
        .filter_map(|first| sitemaps_of(settings, robots, &server.name, url, &first.origin));
    found.for_each(|found| staged.messages.found(found));
    if !firsts.iter().any(|first| leads_on(settings, &first.origin)) {
        return Ok(0);
    }
    let left_out = left_out(settings, robots);
    if left_out > 0 {
        let server = &server.name;
        tracing::info!(%server, left_out, "sitemaps of a robots.txt are left out: limits.sitemaps_per_server, or too long");
    }
    Ok(left_out)
}
