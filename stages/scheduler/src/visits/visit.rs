//! A visit of a known page: what it found.

/// What a visit found. Failures, refusals and a server that is away are no visits: they tell
/// nothing about the page.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Visit {
    /// Time since the visit before, in seconds.
    pub wait_s: f64,
    /// The page has changed since.
    pub is_changed: bool,
    /// Signals of a change since the visit before.
    pub signals: u32,
    /// How long ago the page changed last, in seconds, where its `Last-Modified` is believed.
    pub age_s: Option<f64>,
}
