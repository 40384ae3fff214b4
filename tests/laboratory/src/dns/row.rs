//! Row: one way to build a crawler.
//!
//! Source: Yin, Yin and Huang 2008, their table of results.

/// How a worker fetches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sockets {
    /// Several connections at once; a document ends where its length says.
    Event,
    /// Several connections at once; a document ends when nothing has come for a while.
    Select,
    /// One connection that blocks; a document ends where its length says.
    Blocking,
}

impl Sockets {
    /// The name in table and figure.
    pub(super) fn name(self) -> &'static str {
        match self {
            Sockets::Event => "event",
            Sockets::Select => "select",
            Sockets::Blocking => "blocking",
        }
    }
}

/// A crawler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) sockets: Sockets,
    /// Returns whether names are remembered.
    pub(super) caches_names: bool,
    pub(super) workers: usize,
    /// Returns whether each worker has a queue of its own.
    pub(super) has_private_queues: bool,
}

impl Row {
    const BEST: Row = Row {
        sockets: Sockets::Event,
        caches_names: true,
        workers: 30,
        has_private_queues: true,
    };
    const BLOCKING: Row = Row {
        sockets: Sockets::Blocking,
        caches_names: false,
        ..Row::BEST
    };

    /// All rows, in the order of the paper's table, with its pages a second.
    pub(super) const ALL: [(Row, f64); 7] = [
        (Row::BEST, 26.0),
        (
            Row {
                has_private_queues: false,
                ..Row::BEST
            },
            5.0,
        ),
        (
            Row {
                workers: 20,
                ..Row::BEST
            },
            13.0,
        ),
        (
            Row {
                caches_names: false,
                ..Row::BEST
            },
            16.0,
        ),
        (
            Row {
                sockets: Sockets::Select,
                ..Row::BEST
            },
            14.0,
        ),
        (Row::BLOCKING, 6.0),
        (
            Row {
                has_private_queues: false,
                ..Row::BLOCKING
            },
            3.0,
        ),
    ];

    /// Its name in figure and claims.
    pub(super) fn name(self) -> String {
        let queues = if self.has_private_queues {
            "private"
        } else {
            "shared"
        };
        let cache = if self.caches_names {
            "cache"
        } else {
            "no cache"
        };
        format!(
            "{}, {cache}, {} workers, {queues}",
            self.sockets.name(),
            self.workers
        )
    }
}
