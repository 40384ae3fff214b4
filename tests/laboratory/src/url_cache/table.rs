//! Table: everything that was measured, as CSV.

use super::curves::{Curves, Policy};

/// A row for each stream, policy and size. INFINITE has no size, and a recorded trace has no hosts
/// in flight: these fields are empty.
pub(super) fn csv(measured: &[Curves]) -> String {
    let mut text = String::from("stream,hosts_in_flight,policy,entries,links,hits,hit_rate\n");
    for curves in measured {
        let hosts = curves
            .hosts_in_flight
            .map(|hosts| hosts.to_string())
            .unwrap_or_default();
        let mut row = |policy: Policy, entries: &str, hits: u64| {
            let stream = curves.stream;
            let links = curves.links;
            let rate = curves.rate(hits);
            text.push_str(&format!(
                "{stream},{hosts},{policy},{entries},{links},{hits},{rate:.6}\n"
            ));
        };
        row(Policy::Infinite, "", curves.infinite);
        for point in &curves.points {
            row(point.policy, &point.entries.to_string(), point.hits);
        }
    }
    text
}
