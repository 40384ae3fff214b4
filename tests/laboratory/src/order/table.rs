//! Tables: what came of each run, and the curves of the orders, as CSV.

use super::rules::{Order, Rules};
use super::runs::{Run, plain};

/// A row for each run.
pub(super) fn csv(runs: &[Run]) -> String {
    let mut text = String::from(
        "servers,order,factor,delay,area,way,lifts,late_lifts,rounds,jobs,lifts_late\n",
    );
    for Run {
        rules,
        area,
        way,
        lifts,
        late_lifts,
        rounds,
        ..
    } in runs
    {
        let Rules {
            order,
            factor,
            delay,
            lifts_late,
            servers,
            jobs,
        } = rules;
        text.push_str(&format!(
            "{servers},{order},{factor},{delay},{area:.5},{way:.4},{lifts:.3},{late_lifts:.3},{rounds},{jobs},{lifts_late}\n"
        ));
    }
    text
}

/// A row for each hundredth of the pages and each order with all servers.
pub(super) fn curves(runs: &[Run]) -> String {
    let mut text = String::from("order,pages,page_rank\n");
    for order in Order::ALL {
        let curve = plain(runs, order, 0.0)
            .map(|run| run.curve.as_slice())
            .unwrap_or_default();
        for (part, share) in curve.iter().enumerate() {
            text.push_str(&format!("{order},{:.2},{share:.5}\n", part as f64 / 100.0));
        }
    }
    text
}
