//! `rhumb lab`: experiments of the papers, run here; a verdict line per claim.

use crate::output::line;
use laboratory::url_cache;
use std::path::PathBuf;

/// Runs the experiment on URL caches; whether all claims hold.
pub fn url_cache(folder: PathBuf, trace: Option<PathBuf>) -> anyhow::Result<bool> {
    let settings = url_cache::Settings { folder: folder.clone(), trace, ..url_cache::Settings::default() };
    let verdicts = url_cache::run(&settings, &mut |progress| tracing::info!("{progress}"))?;
    line(format_args!("written  {0}/url-cache.csv {0}/url-cache.svg", folder.display()));
    for verdict in &verdicts {
        line(verdict);
    }
    Ok(verdicts.iter().all(|verdict| verdict.holds))
}
