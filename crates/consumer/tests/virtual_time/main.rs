//! Tests the consumer core against a scripted broker, in virtual time.

mod absence;
mod batches;
mod broker;
mod corruption;
mod draining;
mod isolation;
mod leader_changes;
mod memory;
mod model;
mod one_partition;
mod panics;
mod positions;
mod range_lookups;
mod ranges;
mod reading_ahead;
mod sessions;
mod silence;
mod stepping;
mod world;
