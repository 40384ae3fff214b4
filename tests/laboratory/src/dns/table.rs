//! Tables: everything that was measured, as CSV.

use super::Findings;
use super::arm::{Arm, Clock, Way};
use super::hit_rates::HitRates;
use super::lookups::Lookup;
use super::rows::Measured;
use std::time::Duration;

/// Names and contents of all tables.
pub(super) fn all(findings: &Findings) -> [(&'static str, String); 4] {
    [
        ("dns-arms.csv", arms(&findings.arms)),
        ("dns-hit-rates.csv", hit_rates(&findings.hit_rates)),
        ("dns-tables.csv", lookups(&findings.lookups)),
        ("dns-rows.csv", rows(&findings.rows)),
    ]
}

/// A row for each arm.
fn arms(arms: &[Arm]) -> String {
    let mut text = String::from(
        "arm,time,window,names,lookups,hit_rate,seconds,names_per_s,seconds_before_tail,names_per_s_before_tail,lookup_ms,lookup_ms_modelled,bound_names_per_s,cpu_s,note\n",
    );
    for arm in arms {
        let time = if arm.clock == Clock::Real {
            "real"
        } else {
            "simulated"
        };
        let lookup_ms = |all: Duration| 1e3 * arm.each(all).as_secs_f64();
        let note = match arm.way {
            Way::Window => {
                "the first fifth of the trace as names are drawn independently; lookups of a name \
                 at once share an answer"
            }
            Way::SerialCachedUnrefreshed => "what the cache would bring if it never asked again",
            _ => "",
        };
        text.push_str(&format!(
            "{},{time},{},{},{},{:.6},{:.3},{:.3},{},{},{:.3},{:.3},{:.3},{},{note}\n",
            arm.way.name(),
            arm.window,
            arm.names,
            arm.queries,
            arm.hit_rate(),
            arm.elapsed.as_secs_f64(),
            arm.rate(),
            optional(arm.before_tail.map(|(_, elapsed)| elapsed.as_secs_f64())),
            optional(arm.rate_before_tail()),
            lookup_ms(arm.latency),
            lookup_ms(arm.latency_modelled),
            arm.bound(),
            optional(arm.cpu.map(|cpu| cpu.as_secs_f64())),
        ));
    }
    text
}

/// A row for each policy and size.
fn hit_rates(rates: &HitRates) -> String {
    let mut text = String::from("policy,entries,names,hits,hit_rate\n");
    for &point in &rates.points {
        let policy = point.policy.name();
        let rate = rates.rate(point);
        text.push_str(&format!(
            "{policy},{},{},{},{rate:.6}\n",
            point.entries, rates.names, point.hits
        ));
    }
    text
}

/// A row for each table and number of names.
fn lookups(lookups: &[Lookup]) -> String {
    let mut text = String::from(
        "table,names,slots_taken,candidates_per_lookup,characters_per_lookup,cpu_ns_per_lookup,lookups_per_cpu_s,bytes_per_name\n",
    );
    for lookup in lookups {
        text.push_str(&format!(
            "{},{},{},{},{},{:.1},{:.0},{:.1}\n",
            lookup.kind.name(),
            lookup.names,
            lookup
                .slots
                .map(|slots| slots.to_string())
                .unwrap_or_default(),
            optional(lookup.candidates),
            optional(lookup.characters),
            lookup.nanoseconds,
            lookup.rate(),
            lookup.bytes_per_name,
        ));
    }
    text
}

/// A row for each of the seven ways to build a crawler.
fn rows(rows: &[Measured]) -> String {
    let mut text = String::from(
        "sockets,dns_cache,workers,private_queues,pages_per_s,pages_per_s_least,pages_per_s_most,kilobytes_per_s,name_lookups,pages_per_s_of_the_paper\n",
    );
    for measured in rows {
        let row = measured.row;
        text.push_str(&format!(
            "{},{},{},{},{:.2},{:.2},{:.2},{:.1},{},{}\n",
            row.sockets.name(),
            row.caches_names,
            row.workers,
            row.has_private_queues,
            measured.pages_per_s,
            measured.spread.0,
            measured.spread.1,
            measured.kilobytes_per_s,
            measured.lookups,
            measured.paper_pages_per_s,
        ));
    }
    text
}

fn optional(number: Option<f64>) -> String {
    number
        .map(|number| format!("{number:.3}"))
        .unwrap_or_default()
}
