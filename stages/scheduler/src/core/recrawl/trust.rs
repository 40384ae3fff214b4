//! Trust: what is believed of what a server says of its pages, while a visit of one is taken in.
//!
//! In: the server's row. Out: what was learned, for the row.

use crate::servers::server::Server;
use crate::visits::{DateTrust, SignalTrust};

/// What is believed of what a server says of its pages.
#[derive(Debug, Default)]
pub(crate) struct Trust {
    /// Its `Last-Modified`, …
    pub(crate) dates: DateTrust,
    /// … and its signals.
    pub(crate) signals: SignalTrust,
}

impl Trust {
    /// That of a server; none yet where there is none.
    pub(crate) fn of(server: Option<&mut Server>) -> Self {
        server.map_or_else(Trust::default, |server| Trust {
            dates: server.date_trust,
            signals: server.signal_trust.clone(),
        })
    }

    /// It is that of a server from now on.
    pub(crate) fn keep(self, server: &mut Server) {
        server.date_trust = self.dates;
        server.signal_trust = self.signals;
    }
}
