//! Files that are there whole or not at all, whenever the process or the machine stops.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Puts a file in the place of the one at `path`, whose folder it makes if there is none. It may
/// hold secrets: only its owner may read it.
///
/// # Errors
/// The file cannot be written; the one before is still there.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mut new = path.as_os_str().to_owned();
    new.push(".new");
    let mut file = File::options()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn the_new_file_takes_the_place_of_the_old() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/b.json");
        for text in ["first", "second"] {
            replace(&path, text.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(
            fs::read_dir(path.parent().unwrap()).unwrap().count(),
            1,
            "nothing is left beside it"
        );
    }

    #[test]
    fn what_cannot_be_written_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        replace(&path, b"old").unwrap();
        fs::create_dir(folder.path().join("a.new")).unwrap();
        replace(&path, b"new").unwrap_err();
        assert_eq!(fs::read(&path).unwrap(), b"old");
    }
}
