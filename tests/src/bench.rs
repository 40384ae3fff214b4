//! Bench: the pipeline in turn with what it is compared with, and parts of it alone.
//!
//! In: webs, or loads for one part. Out: CPU time, throughput and memory.

pub mod bisect;
pub mod checkpoints;
mod driven;
pub mod figures;
pub mod freshness;
pub mod frontier;
pub mod known_pages;
pub mod known_urls;
pub mod moves;
pub mod order;
mod process;
pub mod scaling;
pub mod slow_dns;
pub mod turns;
pub mod url_cache;
pub mod url_seen;
pub mod visits;

/// The median of some numbers; 0 of none.
pub fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(0.0)
}
