//! The directory of an archive: the names of a crawl's files, and its sync.

use anyhow::Context as _;
use std::fs::{self, File};
use std::io;
use std::path::Path;

/// The names of the crawl's files that end in `suffix`, in the order in which the files were begun.
pub(super) fn names(dir: &Path, crawl: &str, suffix: &str) -> anyhow::Result<Vec<String>> {
    let prefix = format!("{crawl}-");
    let mut names = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))? {
        if let Ok(name) = entry?.file_name().into_string()
            && name.starts_with(&prefix)
            && name.ends_with(suffix)
        {
            names.push(name);
        }
    }
    // `<crawl>[-<topic>]-<time>-<number>-<instance>.…`
    names.sort_by_key(|name| {
        let mut parts = name.rsplitn(4, '-').map(str::to_owned);
        let instance = parts.next();
        let number = parts.next();
        let time = parts.next();
        (time, number, instance, parts.next())
    });
    Ok(names)
}

/// Syncs the directory, so that names given and taken survive a power cut.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}
