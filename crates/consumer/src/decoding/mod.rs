//! From the bytes of a fetch response to decoded batches.
//!
//! `completed_fetch` walks a partition's batches, `aborted` hides those of aborted transactions,
//! `job` is what codec threads do, and `queue` decides which batch is decoded next.

pub(crate) mod aborted;
pub(crate) mod completed_fetch;
pub(crate) mod job;
pub(crate) mod queue;
