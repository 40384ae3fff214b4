//! Secrets that nobody can guess.

use anyhow::Context as _;
use std::fs::File;
use std::io::Read as _;

/// So many random bytes, written as two digits each.
///
/// # Errors
/// The system gives none.
pub(crate) fn random<const BYTES: usize>() -> anyhow::Result<String> {
    let mut bytes = [0; BYTES];
    let random = File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes));
    random.context("reading /dev/urandom for a secret")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
