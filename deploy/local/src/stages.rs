//! What the command knows of the stages by name.

/// They own the state of partitions: their number is fixed for the life of a crawl, and what they hold is counted.
pub(crate) const OWNERS: [&str; 2] = ["dedup", "scheduler"];
/// Its instances end first, while there are schedulers that hear what they did last.
pub(crate) const FETCHER: &str = "fetcher";
/// Its instances end last, when all that the others did is archived.
pub(crate) const ARCHIVER: &str = "archiver";
/// The stages that know something of a URL, in the order in which a URL passes them.
pub(crate) const WAY_OF_A_URL: [&str; 4] = ["host-splitter", "dedup", "resolver", "scheduler"];
