//! A page about a crawl, running or finished, and the model that it is made from.
//!
//! In: what the processes of the crawl tell. Out: `report.json` and `report.html`, one file each,
//! which need nothing else.
//!
//! - `gathering`: asks the schedulers; `model`: what a report says;
//! - `page`: the model as HTML; `tables`, `curves`: its parts; `words`: numbers and foreign text
//!   for people.

mod curves;
mod gathering;
mod model;
mod page;
mod tables;
mod words;

pub(crate) use gathering::{Gathered, gather};
pub(crate) use model::Of;
pub use model::{Report, State, Urls};
pub(crate) use page::page;

use anyhow::Context as _;
use rhumb_telemetry::whole_file;
use std::path::{Path, PathBuf};

/// The files in the data directory of a crawl that has ended.
pub(crate) const PAGE: &str = "report.html";
pub(crate) const MODEL: &str = "report.json";
/// Hosts and servers of each list, unless another number is asked for.
pub(crate) const HOSTS: usize = 50;

/// Writes a report into a data directory. Gives the path of the page.
///
/// # Errors
/// A file cannot be written.
pub(crate) fn write(data: &Path, report: &Report) -> anyhow::Result<PathBuf> {
    let model = data.join(MODEL);
    let html = data.join(PAGE);
    let write = |path: &Path, bytes: &[u8]| {
        whole_file::replace(path, bytes).with_context(|| format!("cannot write {}", path.display()))
    };
    write(&model, &serde_json::to_vec_pretty(report)?)?;
    write(&html, page(report).as_bytes())?;
    Ok(html)
}

/// Removes the report of an earlier end, which says nothing of what came later.
pub(crate) fn remove(data: &Path) {
    for name in [PAGE, MODEL] {
        let _ = std::fs::remove_file(data.join(name));
    }
}

/// Reads the model that a crawl wrote at its end; none when there is no such file.
///
/// # Errors
/// It cannot be read, is damaged, or a later version of the program wrote it.
pub(crate) fn read(data: &Path) -> anyhow::Result<Option<Report>> {
    let path = data.join(MODEL);
    let bytes = match std::fs::read(&path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    Report::read(&bytes)
        .with_context(|| format!("{} cannot be used", path.display()))
        .map(Some)
}
