//! Kind: what may go wrong. A new kind is a variant here, its arm in `schedule` (upon what, for how
//! long), in `trial` (how it begins and ends) and in `verdict` (what it may cost).

use clap::ValueEnum;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Kind {
    /// A stage is killed
    Kill,
    /// A stage, the broker or rhumb itself stands still
    Stop,
    /// The broker is killed
    Broker,
    /// rhumb itself is killed, and started again with --resume
    Rhumb,
    /// The broker stands still for half of the time, as one with a slow disk
    Disk,
    /// A stage without state gets more instances, or fewer
    Scale,
    /// Any stages are scaled, and partitions move and split, ten times, with kills between and
    /// meanwhile
    Scalings,
    /// A stage, or all of them, are cut off from the broker
    Cut,
    /// The broker is killed and comes back with an earlier copy of its files
    Restore,
    /// One of the three servers of the broker is killed
    Node,
    /// The clock of all processes but the broker jumps by an hour, and back
    Clock,
    /// A further consumer of pages stands still
    Consumer,
    /// The web is cut off
    Web,
    /// The name servers answer no more
    Names,
    /// The state of dedup is removed
    State,
    /// An operator pauses a host or the crawl, and takes it back
    Pause,
    /// An operator has a longer delay set, and takes it back
    Set,
    /// An operator drops what waits at a host
    Drop,
}

impl Kind {
    /// Its name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }

    /// The broker that it needs; any, if none is named.
    pub(crate) fn broker(self) -> Option<BrokerKind> {
        match self {
            Kind::Cut | Kind::Restore => Some(BrokerKind::Own),
            Kind::Node => Some(BrokerKind::Cluster),
            _ => None,
        }
    }

    /// Whether it may befall a crawl with this broker.
    pub(crate) fn fits(self, broker: BrokerKind) -> bool {
        let is_about_one_server = matches!(self, Kind::Broker | Kind::Disk);
        self.broker().is_none_or(|needed| needed == broker)
            && !(is_about_one_server && broker == BrokerKind::Cluster)
    }

    /// A crawl meets it once at most: one refusal is enough to know of, and one operator gives
    /// orders.
    pub(crate) fn is_met_once(self) -> bool {
        self == Kind::Scalings || self.is_an_order() || self.may_be_refused()
    }

    /// It is no fault by itself: an operator wants it, and faults come between.
    pub(crate) fn is_an_order(self) -> bool {
        matches!(self, Kind::Pause | Kind::Set | Kind::Drop)
    }

    /// A crawl that it befalls may end with a refusal.
    pub(crate) fn may_be_refused(self) -> bool {
        matches!(self, Kind::Restore | Kind::State)
    }
}

/// Who runs the broker of a crawl.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BrokerKind {
    /// `rhumb`
    Private,
    /// The suite, behind a proxy.
    Own,
    /// The suite, as three servers.
    Cluster,
}
