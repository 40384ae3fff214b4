//! The WARC files of an archive: those in a folder and below it.
//!
//! In: a folder. Out: the paths of its files, in order. Limit: folders are entered `DEPTH_MAX`
//! deep. Files that still grow (`.open`) are left out.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders within each other that are looked into.
const DEPTH_MAX: usize = 8;
/// What the names of WARC files end in.
const ENDINGS: [&str; 3] = [".warc", ".warc.gz", ".warc.zst"];

/// The WARC files in a folder and below it, sorted.
///
/// # Errors
/// A folder cannot be read.
pub fn in_folder(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    collect(dir, DEPTH_MAX, &mut found)?;
    found.sort();
    Ok(found)
}

fn collect(dir: &Path, depth: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if depth > 0 {
                collect(&path, depth - 1, found)?;
            }
        } else if ENDINGS.iter().any(|ending| name.ends_with(ending)) {
            found.push(path);
        }
    }
    Ok(())
}

/// The WARC files of an archive that is to be read: at least one.
///
/// # Errors
/// There is none; the message says what to do.
pub fn of_archive(dir: &Path) -> Result<Vec<PathBuf>, String> {
    let shown = dir.display();
    match in_folder(dir) {
        Ok(files) if !files.is_empty() => Ok(files),
        Ok(_) => Err(format!(
            "there is no WARC file in the archive {shown} (stages.fetcher.archive): name a folder \
             with files whose names end in .warc, .warc.gz or .warc.zst, such as `archive` in the \
             data directory of a crawl that was kept"
        )),
        Err(error) => Err(format!(
            "the archive {shown} (stages.fetcher.archive) cannot be read: {error}; name a folder \
             with WARC files that every fetcher sees"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_found_in_folders_below_and_those_that_grow_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        assert!(
            of_archive(dir)
                .unwrap_err()
                .contains("there is no WARC file")
        );
        fs::create_dir_all(dir.join("b/c")).unwrap();
        for name in [
            "z.warc",
            "a.warc.gz",
            "b/c/x.warc.zst",
            "a.warc.gz.open",
            "a.cdxj",
        ] {
            fs::write(dir.join(name), "").unwrap();
        }
        let expected = ["a.warc.gz", "b/c/x.warc.zst", "z.warc"].map(|name| dir.join(name));
        assert_eq!(of_archive(dir).unwrap(), expected);
        assert!(
            of_archive(&dir.join("nothing"))
                .unwrap_err()
                .contains("cannot be read")
        );
    }
}
