//! What a configuration was read from.

use serde_json::Value;
use std::fmt;
use std::sync::Arc;

/// What a configuration was read from: all layers in one.
#[derive(Clone, Default)]
pub(super) struct Given(pub(super) Arc<Value>);

impl Given {
    /// The value of a key, if there is one.
    pub(super) fn value(&self, key: &str) -> Option<&Value> {
        self.0.pointer(&format!("/{}", key.replace('.', "/")))
    }
}

/// There may be passwords in it.
impl fmt::Debug for Given {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}
