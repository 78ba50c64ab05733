//! Topics, partitions, leaders and nodes as the brokers last reported them, and when to ask again.
//!
//! ```text
//!   add_topic / request_update / max age ──▶ Requests ──▶ MetadataRequest
//!                                                              │
//!   SharedMetadata (Arc swap, version, waiters) ◀── merge ◀── MetadataResponse
//! ```
//! The snapshot is immutable and shared. Each response makes a new one that reuses what did not
//! change.

mod hints;
mod merge;
mod name;
mod requests;
mod shared;
mod snapshot;

pub use hints::LeaderHint;
pub(crate) use hints::with_leaders;
pub(crate) use merge::merge;
pub use name::{InvalidTopic, validate_topic_name};
pub(crate) use requests::{Due, MetadataQuery, Requests};
pub use shared::{SharedMetadata, TopicLookup};
pub(crate) use snapshot::NODES_MAX;
pub use snapshot::{Metadata, Node, Partition, Topic};
