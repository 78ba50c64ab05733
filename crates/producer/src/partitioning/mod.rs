//! Topics with their partitions, and the choice of a partition for a record.
//!
//! ```text
//! topic.rs            an entry for each topic, with its sticky partition
//! partition_table.rs  its partitions by index
//! partitioner.rs      by a hash of the key (murmur2.rs, CRC-32), or in rotation
//! ```

mod murmur2;
pub(crate) mod partition_table;
pub(crate) mod partitioner;
pub(crate) mod topic;
