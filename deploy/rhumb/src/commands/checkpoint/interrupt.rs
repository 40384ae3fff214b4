//! Interrupts: what tells a command to end before it is through.
//!
//! In: signals. Out: that one has come.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Ctrl-C, and SIGTERM.
pub(super) struct Interrupt {
    interrupt: Signal,
    terminate: Signal,
}

impl Interrupt {
    pub(super) fn listen() -> anyhow::Result<Self> {
        Ok(Interrupt {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Comes with the next of them.
    pub(super) async fn comes(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
