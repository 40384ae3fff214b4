//! How servers are left alone: pauses, the length of a visit, trouble and what follows from it,
//! circles.

pub(crate) mod circles;
pub(crate) mod paused;
pub(crate) mod pauses;
pub(crate) mod strain;
pub(crate) mod trouble;
pub(crate) mod url_fate;
pub(crate) mod visit;

#[cfg(test)]
pub(crate) mod tests {
    //! What the tests of this room share.

    use rhumb_wire::message::{RequestEnd, ResponseSummary};

    /// A whole answer of one byte.
    pub(crate) fn response(status: u16, retry_after_s: Option<u32>) -> RequestEnd {
        RequestEnd::Response(ResponseSummary {
            status,
            bytes: 1,
            elapsed_us: 1,
            retry_after_s,
            ..ResponseSummary::default()
        })
    }
}
