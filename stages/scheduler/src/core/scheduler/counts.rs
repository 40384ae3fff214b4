//! The numbers of the scheduler, as `rhumb status` and its metrics have them.

use super::Scheduler;
use crate::servers::counts::outcome_metric;
use rhumb_config::identity::serials_follow;
use rhumb_stage::Count;
use rhumb_wire::message::Outcome;

/// All of them.
pub(super) fn of(scheduler: &Scheduler) -> Vec<Count> {
    let totals = scheduler.servers.totals();
    let load = scheduler.servers.load_of_all();
    let waits = scheduler.places.queue.waits();
    let mut counts = vec![
        ("new_total", totals.new),
        (
            "new_in_generation",
            scheduler
                .servers
                .new_after(serials_follow(scheduler.settings.generation)),
        ),
        ("waiting", load.waiting),
        ("in_flight", load.in_flight),
        ("waiting_over_budget", load.over_budget),
        ("waiting_paused", load.paused),
        ("waiting_trapped", load.trapped),
        ("servers", scheduler.servers.len() as u64),
        ("servers_ready", scheduler.ready() as u64),
        ("connections_in_use", load.jobs),
        ("servers_waiting_delay", waits.delay),
        ("servers_waiting_back_off", waits.back_off),
        ("servers_waiting_retry", waits.retry),
        ("servers_waiting_address", waits.address),
        ("servers_waiting_robots", waits.robots),
        ("servers_waiting_budget", waits.budget),
        ("servers_waiting_room", waits.room),
        ("servers_waiting_trap", waits.trap),
        ("pauses", scheduler.servers.paused().orders() as u64),
        ("drops", scheduler.drops.len() as u64),
        ("crawl_paused", scheduler.servers.paused().has_all().into()),
        (
            "servers_waiting_pause",
            waits.pause + (scheduler.places.queue.ready() - scheduler.ready()) as u64,
        ),
        ("retried_total", totals.retried),
        ("refetched_total", totals.refetched),
        ("contacts_total", totals.contacts),
        ("jobs_granted_total", totals.jobs),
        ("leases_expired_total", totals.leases_expired),
        ("jobs_yielded_total", scheduler.places.yields.asked()),
        (
            "failures_excused_total",
            scheduler.grants.fetchers.excused(),
        ),
        ("bytes_total", totals.bytes),
        ("serials_repeated_total", totals.repeated),
        ("robots_fetched_total", totals.robots),
        ("sitemaps_left_out_total", totals.sitemaps_left_out),
        ("foreign_total", scheduler.foreign),
        ("malformed_total", scheduler.malformed),
        ("foreign_urls_total", totals.foreign),
        ("malformed_urls_total", totals.malformed),
        ("traps_found_total", scheduler.traps.found()),
        ("boosts_lifted_total", scheduler.lifts.lifted()),
        ("boosts_dropped_total", scheduler.lifts.dropped()),
        (
            "invariants_broken_total",
            scheduler.servers.invariants_broken(),
        ),
    ];
    for outcome in Outcome::ALL {
        counts.push((outcome_metric(outcome), totals.outcomes[outcome as usize]));
    }
    counts
}
