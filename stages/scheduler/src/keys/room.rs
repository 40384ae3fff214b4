//! Room: what several servers share, and wait for when all of it is taken.

use crate::keys::circle::Circle;

/// What several servers share, and may find taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Room {
    /// The budget of a host, by the hash of its name. Room comes when one of its URLs ends.
    Host(u64),
    /// The budget of a registered domain, by the hash of its name. Room comes when one of its URLs
    /// ends, or with tokens.
    Domain(u64),
    /// The budgets of topics, of all whose URLs wait there. Room comes with a larger budget, or a
    /// URL of another topic.
    Topics,
    /// All its URLs that wait are of traps. Room comes with a URL that is not, when operators
    /// release them, or at the end of the crawl.
    Trap,
    /// An operator has paused the server. Room comes when that is taken back.
    Paused,
    /// Jobs in a circle. Room comes when one of them ends, when the delay of its group is over, or
    /// with tokens.
    Circle(Circle),
}
