//! Fields that JSON shows in another form than the message has them: bodies as their length,
//! headers as text.

use super::fetch::Truncation;
use serde::ser::SerializeMap as _;
use serde::{Serialize as _, Serializer};
use serde_json::json;

/// A body as its length in bytes.
pub(super) fn length<S: Serializer>(body: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    json!({ "bytes": body.len() }).serialize(serializer)
}

/// Headers with their values as text; what is not UTF-8 is replaced.
pub(super) fn headers<S: Serializer>(
    headers: &[(String, Vec<u8>)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(
        headers
            .iter()
            .map(|(name, value)| (name, String::from_utf8_lossy(value))),
    )
}

/// Whether a body is not whole, as it was before reasons were told, and why.
pub(super) fn truncation<S: Serializer>(
    reason: &Option<Truncation>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let mut fields = serializer.serialize_map(Some(2))?;
    fields.serialize_entry("truncated", &reason.is_some())?;
    fields.serialize_entry("truncation", reason)?;
    fields.end()
}
