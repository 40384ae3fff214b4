//! Placement: finds each server its place, and ends the URLs of servers that will not be contacted.
//!
//! In: servers that a step touched, and those whose wait is over. Out: questions that have to be
//! answered before a server can be contacted (its address, its robots.txt), and outcomes of URLs
//! that end without a contact.

use crate::core::doors::Doors;
use crate::core::errands;
use crate::core::work::Work;
use crate::frontier::queue::Wanted;
use crate::frontier::url_end::UrlEnd;
use crate::keys::room::Room;
use crate::keys::server_key::ServerKey;
use crate::ranking::ready_queue::MoveTo;
use crate::servers::todo::Todo;
use rhumb_stage::store::StoreError;
use rhumb_url::time::Timestamp;
use rhumb_wire::message::Outcome;

/// Puts a server where it belongs, and asks the questions that have to be answered first.
///
/// A server that is not in memory has no place: a report may name a server that is not known.
///
/// # Errors
///
/// The store cannot be read, or a row is not understood.
pub(crate) fn find(
    work: &mut Work<'_>,
    doors: &mut Doors,
    key: ServerKey,
) -> Result<(), StoreError> {
    let now = work.staged.now;
    let settings = work.staged.settings;
    work.servers.account(key);
    let connections = work.servers.load_of_all().jobs;
    // Each round but the last takes away what made it: a question asked, errands refused, robots
    // given up.
    loop {
        if work.servers.get(key).is_none() {
            return Ok(());
        }
        let budgets = work.servers.budgets(key);
        let Some(mut at) = work.at(key, "finding its place") else {
            return Ok(());
        };
        let circles = &at.places.circles;
        let to = match at.server.todo(key, now, settings, budgets, circles) {
            Todo::Nothing => {
                at.staged.idle.insert(key);
                MoveTo::Idle
            }
            Todo::Wait(until, what) => MoveTo::Until(until, what),
            Todo::Hold(room) => {
                if let Room::Circle(circle) = room {
                    at.places.circles.want(circle, now, settings);
                }
                MoveTo::Held(room)
            }
            Todo::Job => {
                let topics = &at.partition.topics;
                at.places.ready(key, at.server, topics, at.staged)?
            }
            Todo::End => MoveTo::Ending,
            Todo::Resolve => {
                at.server.address.asked(now, settings);
                let name = at.server.name.to_string();
                at.staged.messages.refresh(key.partition, name);
                continue;
            }
            Todo::Errand(url) => {
                at.server.robots.asked(now, settings);
                let asker = at.server.name.to_string();
                errands::want(work, url, asker)?;
                continue;
            }
            Todo::Refuse => {
                for task in std::mem::take(&mut at.server.errands) {
                    errands::deliver(work, &task.asker, None)?;
                }
                continue;
            }
        };
        at.places.put(key, at.server, to, budgets, at.staged);
        doors.placed(&mut at, connections);
        return Ok(());
    }
}

/// Ends waiting URLs of a server that will not be contacted, as many as the step may.
///
/// # Errors
///
/// The store cannot be read, or a row is not understood.
pub(crate) fn end_waiting(work: &mut Work<'_>, key: ServerKey) -> Result<(), StoreError> {
    let Work {
        servers, staged, ..
    } = work;
    staged.unsettle(key);
    let budgets = servers.budgets(key);
    let Some(in_play) = servers.in_play(key, "ending the URLs of a server") else {
        return Ok(());
    };
    let server = in_play.server;
    let partition = in_play.partition;
    let Some((outcome, reason)) = server.why_urls_end(staged.now, staged.settings, budgets) else {
        return Ok(());
    };
    let clock = partition.clock;
    let limit = staged.endings_left;
    let end_of_time = Timestamp::from_micros(u64::MAX);
    let restore = |stored| clock.restore(stored);
    let urls = match outcome {
        Outcome::Trapped => server.queues.take_trapped(&staged.rows, key, limit)?,
        _ => server
            .queues
            .take(&staged.rows, key, end_of_time, restore, Wanted::all(limit))?,
    };
    staged.endings_left -= urls.len();
    let mut left = Vec::new();
    for (slot, url) in urls {
        // No budget is one of visits.
        if url.is_planned() && outcome == Outcome::OverBudget {
            left.push(slot);
            continue;
        }
        partition.end(
            staged,
            key,
            slot,
            url,
            UrlEnd::without_response(outcome, reason),
        );
    }
    let head_max = staged.settings.head_max();
    server.queues.give_back(left.into_iter(), head_max);
    staged.touch(key);
    Ok(())
}
