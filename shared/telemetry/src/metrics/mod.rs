//! Metrics: tables that say what each is called and means, and the text that Prometheus reads.
//!
//! ```text
//!  table of rows ─┐
//!  numbers        ├─▶ Exposition ─▶ /metrics
//!  histograms    ─┘
//! ```
//!
//! In: [`Row`]s, which each stage keeps in a constant table, and the numbers of a process. Out:
//! text in the Prometheus format. Invariant: a label is one of a few words known beforehand, such
//! as an edge; never a host or a URL.

mod exposition;
mod histogram;
mod process;
mod row;

pub use exposition::{Exposition, Family};
pub use histogram::{BOUNDS_US, Histogram};
pub use process::{PROCESS, tell_process};
pub use row::{Kind, Row, page, unlike};

/// Something that has metrics to tell.
pub trait Source: Send + Sync {
    /// Writes them all.
    fn tell(&self, to: &mut Exposition);
}
