//! The producer of both APIs: from the application's arguments to batches and futures.
//!
//! ```text
//! producer.rs    the class that `KafkaProducer` extends. open_producer.rs: what both APIs share
//! sending.rs     one `send` in steps. append.rs: slices into a batch, and what follows a refusal
//!   outgoing.rs  arguments as slices. topics.rs: topic entries by name
//!   hooks.rs     Python steps: interceptors, serializers, a partitioner
//! send_many.rs   `send_many` and `send_arrow`. list_source.rs: lists as rows
//! transactions.rs    arguments of calls on transactions
//! futures.rs, batch_futures.rs, batch_metadata.rs    the results
//! ```

pub(crate) mod append;
pub(crate) mod batch_futures;
pub(crate) mod batch_metadata;
pub(crate) mod futures;
pub(crate) mod hooks;
mod list_source;
pub(crate) mod open_producer;
pub(crate) mod outgoing;
pub(crate) mod producer;
pub(crate) mod send_many;
pub(crate) mod sending;
mod topics;
pub(crate) mod transactions;
