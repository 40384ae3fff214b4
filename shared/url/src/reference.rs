//! References to URLs in the heads of responses.

use std::fmt::Write as _;

/// A header's value, the bytes outside ASCII escaped one by one: whatever encoding the server
/// meant, it gets its own bytes back.
pub fn header_reference(value: &[u8]) -> String {
    let mut text = String::with_capacity(value.len());
    for &byte in value.trim_ascii() {
        if byte.is_ascii() {
            text.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}
