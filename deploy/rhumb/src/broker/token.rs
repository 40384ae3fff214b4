//! The token of a private broker: who knows it may read and command the crawl.
//!
//! In: a data directory. Out: its token, random, in a file that only its owner may read. It stays
//! the same as long as that file does, so that clients find the server again after a restart.

use crate::secret;
use anyhow::{Context, Result};
use rhumb_telemetry::whole_file;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

/// The file of the token in the data directory.
pub(crate) const TOKEN: &str = "broker.token";
/// Random bytes in a token, written as two digits each.
const BYTES: usize = 32;

/// The token of a data directory; made when there is none, or one that others could have read or
/// written.
///
/// # Errors
/// The file cannot be written.
pub(super) fn of(data: &Path) -> Result<String> {
    let path = data.join(TOKEN);
    if let Some(token) = kept(&path) {
        return Ok(token);
    }
    let token = secret::random::<BYTES>()?;
    whole_file::replace(&path, token.as_bytes())
        .with_context(|| format!("writing {}", path.display()))?;
    Ok(token)
}

fn kept(path: &Path) -> Option<String> {
    let is_private = path.metadata().ok()?.permissions().mode() & 0o077 == 0;
    let token = fs::read_to_string(path).ok()?;
    let is_whole = token.len() == 2 * BYTES && token.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_private && is_whole).then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_stays_unless_others_could_have_it_or_it_is_damaged() {
        let first = tempfile::tempdir().unwrap();
        let second = tempfile::tempdir().unwrap();
        let token = of(first.path()).unwrap();
        assert_eq!(token.len(), 64);
        assert_ne!(of(second.path()).unwrap(), token);
        let file = first.path().join(TOKEN);
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(of(first.path()).unwrap(), token);

        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
        let after = of(first.path()).unwrap();
        assert_ne!(after, token);
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        fs::write(&file, &after[..10]).unwrap();
        assert_ne!(of(first.path()).unwrap(), after);
    }
}
