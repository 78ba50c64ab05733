//! A batch from its first record to its outcome, and the memory that its records use.
//!
//! ```text
//! record.rs        a record from the application, as slices
//! open_batch.rs    encodes records into a rope of chunks (chunk.rs)
//! buffer_pool.rs   hands out the chunks, below one limit for all records
//! compression_ratio.rs   how many bytes an open batch may hold
//! order.rs         which batch of a partition is the older one
//! completion.rs    its outcome, for its futures and for flushes
//! ```
//! The `sender` decides when a batch is closed and sent.

pub(crate) mod buffer_pool;
pub(crate) mod chunk;
pub(crate) mod completion;
pub(crate) mod compression_ratio;
pub(crate) mod open_batch;
pub(crate) mod order;
pub(crate) mod record;
