//! The numbers of the scheduler, as `rhumb status` and its metrics have them.

use super::Scheduler;
use crate::core::dispatcher::ready;
use crate::servers::counts::{outcome_metric, visits_metric};
use rhumb_config::identity::serials_follow;
use rhumb_stage::Count;
use rhumb_wire::message::{Change, Outcome};

/// All of them.
pub(super) fn of(scheduler: &Scheduler) -> Vec<Count> {
    let servers = &scheduler.servers;
    let places = &scheduler.places;
    let dispatcher = &scheduler.dispatcher;
    let totals = servers.totals();
    let load = servers.load_of_all();
    let waits = places.queue.waits();
    let doors = &dispatcher.doors;
    let ready = ready(servers, places);
    let mut counts = vec![
        ("new_total", totals.new),
        (
            "new_in_generation",
            servers.new_after(serials_follow(scheduler.settings.generation)),
        ),
        ("waiting", load.waiting),
        ("in_flight", load.in_flight),
        ("waiting_over_budget", load.over_budget),
        ("waiting_paused", load.paused),
        ("waiting_trapped", load.trapped),
        ("servers", servers.len() as u64),
        ("servers_ready", ready as u64),
        ("connections_in_use", load.jobs),
        ("servers_waiting_delay", waits.delay),
        ("servers_waiting_back_off", waits.back_off),
        ("servers_waiting_retry", waits.retry),
        ("servers_waiting_address", waits.address),
        ("servers_waiting_robots", waits.robots),
        ("servers_waiting_budget", waits.budget),
        ("servers_waiting_room", waits.room),
        ("servers_waiting_trap", waits.trap),
        ("pauses", servers.paused().orders() as u64),
        ("drops", doors.drops.len() as u64),
        ("crawl_paused", servers.paused().has_all().into()),
        (
            "servers_waiting_pause",
            waits.pause + (places.queue.ready() - ready) as u64,
        ),
        ("retried_total", totals.retried),
        ("refetched_total", totals.refetched),
        ("contacts_total", totals.contacts),
        ("jobs_granted_total", totals.jobs),
        ("leases_expired_total", totals.leases_expired),
        ("jobs_yielded_total", doors.yields.asked()),
        (
            "failures_excused_total",
            dispatcher.grants.fetchers.excused(),
        ),
        ("bytes_total", totals.bytes),
        ("serials_repeated_total", totals.repeated),
        ("robots_fetched_total", totals.robots),
        ("sitemaps_left_out_total", totals.sitemaps_left_out),
        ("walls_total", totals.walls),
        ("pages_known_total", totals.known),
        ("pages_forgotten_total", totals.forgotten),
        ("visits_planned_total", totals.planned),
        ("visits_withdrawn_total", totals.withdrawn),
        ("visits_out", totals.visits_out()),
        ("pages_rested_total", totals.rested),
        ("pages_woken_total", totals.woken),
        ("pages_given_total", totals.given),
        ("pages_given_again_total", totals.given_again),
        ("visits_text_changed_total", totals.texts_changed),
        ("visits_text_unchanged_total", totals.texts_unchanged),
        ("foreign_total", dispatcher.foreign),
        ("malformed_total", dispatcher.malformed),
        ("foreign_urls_total", totals.foreign),
        ("malformed_urls_total", totals.malformed),
        ("traps_found_total", doors.traps.found()),
        ("boosts_lifted_total", doors.lifts.lifted()),
        ("boosts_dropped_total", doors.lifts.dropped()),
        ("invariants_broken_total", servers.invariants_broken()),
    ];
    for outcome in Outcome::ALL {
        counts.push((outcome_metric(outcome), totals.outcomes[outcome as usize]));
    }
    for change in Change::ALL {
        counts.push((visits_metric(change), totals.visits[change as usize]));
    }
    counts.extend(doors.recrawl.counts(&scheduler.settings, servers));
    counts
}
