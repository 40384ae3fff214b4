//! Carries out what is to be done between two lives of an instance's core, with the broker and the
//! store: what that is, the [handover](Handover) says.

use super::desk::Desk;
use rhumb_stage::Beside;
use rhumb_stage::node::{Action, Handover, NotSettled, Settled};
use rhumb_stage::settlement::LeaseOver;
use rhumb_url::time::Timestamp;
use std::time::Instant;

/// Gives what was sent, and takes what has come. `open`: what the stage keeps beside its tables.
///
/// # Errors
/// The broker does not answer, the state cannot be read, or the lease is over.
pub(crate) async fn settle(
    desk: &Desk,
    mut handover: Handover,
    open: impl Fn() -> anyhow::Result<Box<dyn Beside>>,
) -> anyhow::Result<Settled> {
    let began = Instant::now();
    let now = || Timestamp::ZERO + began.elapsed();
    loop {
        match handover.next_action(now()).map_err(of_handover)? {
            Action::Open => handover.opened(open()?),
            Action::Commit(changes) => {
                if !desk.fence.is_held() {
                    return Err(LeaseOver.into());
                }
                let written = desk.rows.store.commit(&changes);
                handover.committed(written).map_err(of_handover)?;
            }
            Action::Change(change) if change.may_fail() => {
                match desk.try_to_change(&change).await {
                    Some(table) => handover.changed(table).map_err(of_handover)?,
                    None => handover.unchanged(),
                }
            }
            Action::Change(change) => {
                let table = desk.change(&change).await?;
                handover.changed(table).map_err(of_handover)?;
            }
            Action::Publish(partition, version, parts) => {
                let published = desk.stream.publish(partition, version, parts).await;
                handover.published(now(), published.map_err(|error| format!("{error:#}")));
            }
            Action::Purge(taken) => {
                let stream = desk.stream.clone();
                tokio::spawn(async move {
                    for (partition, version) in taken {
                        stream.purge(partition, version).await;
                    }
                });
            }
            Action::End(settled) => return Ok(*settled),
        }
    }
}

/// What ends a process is told by its type.
fn of_handover(error: NotSettled) -> anyhow::Error {
    match error {
        NotSettled::Store(error) => error.into(),
        NotSettled::Misfit(misfit) => misfit.into(),
    }
}
