//! How a crawl stands: a snapshot, its sums, the orders that hold, and what only its supervisor knows.

use crate::control::{SupervisorRequest, ask_supervisor};
use crate::handle::Running;
use crate::status::{Snapshot, Summary, Supervision};
use anyhow::Context as _;
use shared::bus::find_orders;

/// Takes a snapshot, and adds to its sums what only the supervisor knows.
pub(crate) async fn look(running: &Running) -> anyhow::Result<(Snapshot, Summary)> {
    let (bus, pipeline) = (&running.bus, &running.pipeline);
    let snapshot = Snapshot::take(bus, pipeline, None).await?;
    let mut summary = snapshot.summary();
    summary.complete = summary.waiting == 0 && snapshot.is_quiet(pipeline, snapshot.processes.len());
    // A crawl that an earlier version has begun has none before its init runs again.
    if let Some(orders) = find_orders(bus).await? {
        let orders = orders.read().await?.orders;
        (summary.paused, summary.dropped, summary.set) = (orders.paused, orders.drops, orders.set);
        summary.released = orders.released;
        // No process heeds one whose command was killed.
        summary.held = orders.hold.filter(|_| snapshot.processes.iter().any(|process| process.held));
    }
    // Where stages are deployed one by one nobody supervises them all.
    if let Ok(answer) = ask_supervisor(bus, &SupervisorRequest::Status).await {
        let supervision: Supervision = serde_json::from_slice(&answer.payload).context("the supervisor answers")?;
        summary.restarts = supervision.restarts;
        summary.elapsed_s = supervision.elapsed_s;
        summary.deployed = supervision.deployed;
        summary.conductor = supervision.listen;
        summary.processes.extend(supervision.broker);
        summary.consumers_removed = supervision.consumers_removed;
        summary.elsewhere = supervision.elsewhere;
    }
    Ok((snapshot, summary))
}
