//! How a crawl stands: a snapshot, its sums, the orders that hold, and what only its supervisor
//! knows.

use super::owners::owners;
use crate::control::{Awaited, SupervisorRequest, ask_supervisor};
use crate::handle::Running;
use crate::stages::WITH_STATE;
use crate::status::{Snapshot, Summary, Supervision};
use anyhow::Context as _;
use rhumb_bus::find_orders;

/// Takes a snapshot, and adds to its sums what only the supervisor knows. The numbers of processes
/// with state are those that the supervisor knows, in a look of its own that it takes when it is
/// asked: all who ask it see one row of sums, which do not fall. It also tells how many processes
/// answer: those that are busy are waited for.
pub(crate) async fn look(running: &Running) -> anyhow::Result<(Snapshot, Summary)> {
    let bus = &running.bus;
    let pipeline = &running.pipeline;
    let mut snapshot = Snapshot::of_streams(bus, pipeline).await?;
    let mut supervision = supervision(running).await?;
    snapshot
        .ask_processes(bus, all_that_answer(supervision.as_ref()))
        .await?;
    if let Some(supervision) = &mut supervision {
        snapshot.take_over(std::mem::take(&mut supervision.last_known));
    }
    if !snapshot.covers_partitions(pipeline) {
        for stage in WITH_STATE {
            // A broker that does not tell is asked with the next look.
            if let Ok(owners) = owners(running, stage).await {
                snapshot.miss(stage, owners.needed());
            }
        }
    }
    let mut summary = snapshot.summary();
    summary.complete = snapshot.visited_again().is_none()
        && summary.waiting == 0
        && snapshot.is_quiet(pipeline, snapshot.processes.len());
    summary.product_token = pipeline.product_token();
    // A crawl that an earlier version has begun has none before its init runs again.
    if let Some(orders) = find_orders(bus).await? {
        let orders = orders.read().await?.orders;
        (summary.paused, summary.dropped, summary.set) = (orders.paused, orders.drops, orders.set);
        summary.released = orders.released;
        // No process heeds one whose command was killed.
        summary.held = orders
            .hold
            .filter(|_| snapshot.processes.iter().any(|process| process.held));
    }
    if let Some(supervision) = supervision {
        summary.restarts = supervision.restarts;
        summary.elapsed_s = supervision.elapsed_s;
        summary.deployed = supervision.deployed;
        summary.conductor = supervision.listen;
        summary.processes.extend(supervision.broker);
        summary.consumers_removed = supervision.consumers_removed;
        summary.elsewhere = supervision.elsewhere;
        summary.waits = supervision.waits;
    }
    Ok((snapshot, summary))
}

/// For how many answers a question to all processes waits, as the conductor of the crawl knows it.
pub(crate) async fn awaited(running: &Running) -> Awaited {
    let supervision = supervision(running).await.ok().flatten();
    all_that_answer(supervision.as_ref())
}

fn all_that_answer(supervision: Option<&Supervision>) -> Awaited {
    Awaited::at_least(supervision.map_or(0, |known| known.answering))
}

/// What the conductor of the crawl says; nothing where none answers.
async fn supervision(running: &Running) -> anyhow::Result<Option<Supervision>> {
    let Ok(answer) = ask_supervisor(&running.bus, &SupervisorRequest::Status).await else {
        return Ok(None);
    };
    serde_json::from_slice(&answer.payload).context("the supervisor answers")
}
