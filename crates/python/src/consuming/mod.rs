//! The consumer of both APIs: polls, lookups, heartbeats and bounded reads.
//!
//! ```text
//! consumer.rs     the class that `KafkaConsumer` extends. opening.rs: creates and checks its core
//!   arguments.rs  arguments and results of both APIs
//!   usage.rs      only one thread at a time
//! polling/        the core: takes records, waits for them
//!   sleepers.rs   the calls of asyncio that wait for records
//! lookups.rs      offsets by time, and the ends of the logs
//! heartbeats.rs   what the I/O thread repeats for a member of a group
//! reader.rs       a range of one partition, for Spark
//! ```

pub(crate) mod arguments;
pub(crate) mod consumer;
mod heartbeats;
pub(crate) mod lookups;
pub(crate) mod opening;
pub(crate) mod polling;
pub(crate) mod reader;
mod sleepers;
mod usage;
