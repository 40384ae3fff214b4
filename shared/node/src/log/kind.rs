//! What kind of event it is, among those of one place in the code.
//!
//! In: an event. Out: the hash of the fields that count, and the beginning of its message.

use std::fmt::{Debug, Write as _};
use tracing::Event;
use tracing::field::{Field, Visit};

/// Fields that tell two events of one place apart.
const KEY_FIELDS: [&str; 8] = [
    "stage",
    "instance",
    "partition",
    "edge",
    "stream",
    "subject",
    "server",
    "trace",
];
/// Bytes of a message that are kept for the line about the events that were left out, at least.
const MESSAGE_BYTES_MAX: usize = 200;

/// The kind of an event.
#[derive(Debug, Default)]
pub(super) struct Kind {
    /// Of the fields that count.
    pub(super) hash: u64,
    /// The beginning of the event's message.
    pub(super) message: String,
}

impl Kind {
    pub(super) fn of(event: &Event<'_>) -> Self {
        let mut fields = Fields {
            key: String::new(),
            message: String::new(),
        };
        event.record(&mut fields);
        let mut message = fields.message;
        message.truncate(message.floor_char_boundary(MESSAGE_BYTES_MAX));
        Kind {
            hash: xxhash_rust::xxh3::xxh3_64(fields.key.as_bytes()),
            message,
        }
    }
}

struct Fields {
    key: String,
    message: String,
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        // Writing to a string cannot fail.
        if field.name() == "message" {
            let _ = write!(self.message, "{value:?}");
        } else if KEY_FIELDS.contains(&field.name()) {
            let _ = write!(self.key, "{field}={value:?} ");
        }
    }
}
