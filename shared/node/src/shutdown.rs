//! When a process is to end: SIGTERM, SIGINT, and what is wished of an instance that may have to
//! give its partitions away.
//!
//! ```text
//!            SIGTERM, no supervisor, has state        no longer wanted              has none any more
//!  works ─────────────────────────────────────▶ looks ────────────────▶ gives away ──────────────────▶ ends
//!    │                                            │ still wanted after          │
//!    └─ SIGINT, or SIGTERM with a supervisor      │ `moves.sigterm_wait`        │ another SIGTERM, SIGINT
//!                     └───────────────────────────┴─────────────────────────────┴───────▶ stops in place
//! ```
//!
//! In: signals; the tables of owners. Out: that the process is to end. Who supervises the process
//! knows what is wanted, and ends no instance that is to give something away: nothing is waited for
//! then. Invariant: the process works, and its partitions move, until it is told to end.

use super::owners_watch::{Seat, Tables};
use anyhow::Context as _;
use rhumb_partition::Owners;
use std::time::{Duration, Instant};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// How often it is looked what is wished, once that matters.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What ends a process.
pub(super) struct Shutdown {
    terminate: Signal,
    interrupt: Signal,
    is_supervised: bool,
    /// Where it stands what is wished of an instance of a stage with state.
    wishes: Option<Wishes>,
    /// When the first SIGTERM came, if it did not end the process.
    asked_at: Option<Instant>,
    /// The operator knows that partitions are given away.
    has_said: bool,
}

struct Wishes {
    tables: watch::Receiver<Tables>,
    seat: Seat,
    /// For so long after SIGTERM the instance may find out that it is no longer wanted.
    wait: Duration,
}

impl Shutdown {
    /// Listens to the signals. `is_supervised`: another process started this one, and ends it.
    ///
    /// # Errors
    /// The signals cannot be listened to.
    pub(super) fn listen(is_supervised: bool) -> anyhow::Result<Self> {
        Ok(Shutdown {
            terminate: signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?,
            is_supervised,
            wishes: None,
            asked_at: None,
            has_said: false,
        })
    }

    /// From now on the instance gives its partitions away at SIGTERM, if it is no longer wanted
    /// then or within `wait`.
    pub(super) fn heed(&mut self, tables: watch::Receiver<Tables>, seat: Seat, wait: Duration) {
        if !self.is_supervised {
            self.wishes = Some(Wishes { tables, seat, wait });
        }
    }

    /// Completes when a signal ends the process, whatever is wished. May be dropped and called
    /// again.
    pub(super) async fn signalled(&mut self) {
        loop {
            tokio::select! {
                _ = self.interrupt.recv() => return,
                _ = self.terminate.recv() => {
                    let (Some(Wishes { seat, wait, .. }), None) = (&self.wishes, self.asked_at) else { return };
                    self.asked_at = Some(Instant::now());
                    let stage = seat.stage.name();
                    let instance = seat.instance;
                    let wait = wait.as_secs_f64();
                    tracing::info!(stage, instance, "SIGTERM: goes on for {wait} s, in case it is no longer wanted");
                }
            }
        }
    }

    /// Completes when the process is to end. May be dropped and called again.
    pub(super) async fn told(&mut self) {
        while !self.is_over() {
            let looks = self.asked_at.is_some();
            tokio::select! {
                () = self.signalled() => return,
                () = tokio::time::sleep(LOOK_EVERY), if looks => {}
            }
        }
    }

    /// Returns whether the process is to end after a SIGTERM that it outlived.
    fn is_over(&mut self) -> bool {
        let (Some(asked_at), Some(Wishes { tables, seat, wait })) = (self.asked_at, &self.wishes)
        else {
            return false;
        };
        let tables = tables.borrow();
        let instance = seat.instance;
        let Some(table) = tables.get(&seat.stage) else {
            return true;
        };
        let wish = wish(&table.owners, instance);
        if wish == Wish::Leave && !self.has_said {
            self.has_said = true;
            let stage = seat.stage.name();
            tracing::info!(
                stage,
                instance,
                "is no longer wanted: ends when it has given its partitions away"
            );
        }
        match wish {
            Wish::End => true,
            Wish::Leave => false,
            Wish::Stay => asked_at.elapsed() >= *wait,
        }
    }
}

/// What is wished of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// It is to have partitions.
    Stay,
    /// It is to give all partitions away, and has some.
    Leave,
    /// It is to have none, and has none.
    End,
}

fn wish(owners: &Owners, instance: u16) -> Wish {
    let is_its =
        |(_, of): (u16, &rhumb_partition::OwnerOf)| of.owner == instance || of.comes_to(instance);
    match (
        owners.receivers().contains(&instance),
        owners.all().any(is_its),
    ) {
        (true, _) => Wish::Stay,
        (false, true) => Wish::Leave,
        (false, false) => Wish::End,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_that_is_not_wanted_leaves_until_the_last_partition_was_taken() {
        let mut owners = Owners::new(2, 2);
        assert_eq!(
            (wish(&owners, 0), wish(&owners, 1)),
            (Wish::Stay, Wish::Stay)
        );
        owners.want(1, &[].into());
        assert_eq!(
            (wish(&owners, 0), wish(&owners, 1), wish(&owners, 7)),
            (Wish::Stay, Wish::Leave, Wish::End)
        );
        owners.want(2, &[1].into());
        assert_eq!(wish(&owners, 1), Wish::Leave);
        assert_eq!(owners.plan(|_| true), 1);
        let (partition, _) = owners.leaving(1)[0];
        assert!(owners.copied(partition, 1, 7, 0) && owners.give(partition, 7, 1));
        assert_eq!(
            wish(&owners, 1),
            Wish::Leave,
            "it keeps the partition if nobody takes it"
        );
        assert!(owners.take(partition, 1, 0));
        assert_eq!(wish(&owners, 1), Wish::End);
    }
}
