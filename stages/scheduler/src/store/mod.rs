//! The scheduler's rows: how they are written, how a step reads and changes them, and how they hold
//! points in time.

pub(crate) mod clock;
pub(crate) mod codec;
pub(crate) mod rows;
