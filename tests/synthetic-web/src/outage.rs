//! Outage: the network between the web and who crawls it is down for a while, or its name server
//! is.
//!
//! While the network is down no request is read and no answer is sent. Connections that stood then,
//! or came meanwhile, are reset: what a crawler has given up is not counted later.

use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;

/// What a crawler sees of a network that is down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// Nothing: its connections stand, and bring nothing.
    Silent,
    /// The end of its connections, at once.
    Broken,
}

/// The way to all hosts, and to the name server.
#[derive(Debug, Default)]
pub(crate) struct Network {
    outage: watch::Sender<Option<Outage>>,
    names_are_silent: AtomicBool,
    answers_wait: AtomicBool,
}

impl Network {
    /// Takes it down, or up again.
    pub(crate) fn set(&self, outage: Option<Outage>) {
        self.outage.send_replace(outage);
    }

    /// Lets the name server answer no more, or again.
    pub(crate) fn silence_names(&self, silent: bool) {
        self.names_are_silent.store(silent, Ordering::Relaxed);
    }

    pub(crate) fn names_are_silent(&self) -> bool {
        self.names_are_silent.load(Ordering::Relaxed)
    }

    /// Lets answers wait, or go.
    pub(crate) fn hold_answers(&self, held: bool) {
        self.answers_wait.store(held, Ordering::Relaxed);
    }

    pub(crate) fn answers_wait(&self) -> bool {
        self.answers_wait.load(Ordering::Relaxed)
    }

    pub(crate) fn is_down(&self) -> bool {
        self.outage.borrow().is_some()
    }

    /// Waits until it is down.
    pub(crate) async fn goes_down(&self) {
        // The sender lives as long as `self`.
        let _ = self.outage.subscribe().wait_for(Option::is_some).await;
    }

    /// Waits until a connection over it is to end that stood when it went down.
    pub(crate) async fn lets_go(&self) {
        let _ = self
            .outage
            .subscribe()
            .wait_for(|outage| *outage != Some(Outage::Silent))
            .await;
    }
}
