//! From decoded batches to the application: `drain` moves records into a `sink`.

pub(crate) mod bounded;
pub(crate) mod drain;
pub(crate) mod sink;
