//! The I/O half: which partitions are fetched from which node, and what comes back.
//!
//! `fetcher` runs the turns. `survey` finds what is due, `session` is KIP-227's, `request` and
//! `response` are the two ends of a fetch, `closer_replicas` is KIP-392's, and `memory` counts what
//! undrained records hold.

mod closer_replicas;
pub(crate) mod fetcher;
pub(crate) mod memory;
mod request;
mod response;
pub(crate) mod session;
pub(crate) mod survey;
