//! Known pages: what is stored of each page that was visited, and of when it is visited next.
//!
//! In: how visits ended. Out: records, and what a visit found ([`judge`](finding::judge)).
//!
//! Two tables. [`KNOWN`](record::KNOWN) has a record for each page. [`VISITS`](table::VISITS) has a
//! row for each page whose next visit is not planned yet: by server, class and last visit, so that
//! the first row of a class is the page of it that is worth most.

pub(crate) mod finding;
pub(crate) mod record;
pub(crate) mod table;
pub(crate) mod text;
pub(crate) mod unjudged;
