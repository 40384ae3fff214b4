//! The work of a migration in the background: a task that sends, and one that takes in.
//!
//! In: work, as the [migration](Migration) says it. Out: what has become of it. The tasks end with
//! the life of the core; what was being taken in goes on in the next.

use super::desk::Desk;
use super::loading::{Event, Receiving};
use super::sending::Sending;
use rhumb_stage::node::{Background, Brought, Migration, Node};

/// The tasks.
pub(crate) struct Workers {
    sending: Sending,
    receiving: Receiving,
}

impl Workers {
    pub(crate) fn begin(desk: &Desk) -> Self {
        Workers {
            sending: Sending::begin(desk.clone()),
            receiving: Receiving::begin(desk.clone()),
        }
    }

    /// Tells the migration what the tasks have done.
    pub(crate) fn report(&mut self, migration: &mut Migration) {
        while let Some((partition, sent)) = self.sending.next_done() {
            migration.sent(partition, sent);
        }
        while let Some((partition, event)) = self.receiving.next_event() {
            receives(migration, partition, event);
        }
    }

    /// Has the tasks do what the migration says.
    pub(crate) fn take_on(&self, migration: &mut Migration) {
        while let Some(work) = migration.next_background() {
            match work {
                Background::Copy(copying) => self.sending.send(copying),
                Background::Load(coming) => self.receiving.load(coming),
                Background::GiveUp(partition) => self.receiving.give_up(partition),
            }
        }
    }

    /// Ends with the life of the core.
    pub(crate) async fn end<H: Clone>(mut self, mut node: Node<H>) -> Brought {
        if let Some(migration) = node.migration() {
            self.report(migration);
        }
        let (coming, last) = self.receiving.end().await;
        if let Some(migration) = node.migration() {
            for (partition, event) in last {
                receives(migration, partition, event);
            }
        }
        node.leave(coming.into_values().map(|coming| *coming))
    }
}

fn receives(migration: &mut Migration, partition: u16, event: Event) {
    match event {
        Event::Loaded(loaded) => migration.loaded(partition, loaded),
        Event::Ended => migration.ended(partition),
    }
}
