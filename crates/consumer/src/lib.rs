//! The consumer core: which records are read, from where, and in which order they are returned.
//!
//! ```text
//!                     application's thread              I/O thread
//!  assign, seek  -->  Consumer --.                 .--- Fetcher  <--> Cluster <--> brokers
//!                                 '-> Partitions <-'     |  ^
//!  drain(n)      <--  drain, step <--'   ^               v  |
//!   |                                    '--- decoded -- decode jobs (codec threads)
//!   '-> RecordSink (Python objects, Arrow columns)
//! ```
//!
//! | room | what it knows |
//! |---|---|
//! | `partitions` | what is assigned, the positions, and what was fetched but not yet returned |
//! | `positions`  | how a position is found and confirmed: leaders, resets, validations, lookups |
//! | `fetching`   | the I/O half: what to fetch from which node, sessions, requests, responses |
//! | `decoding`   | from the bytes of a response to batches: checksums, codecs, aborted records |
//! | `draining`   | from batches to the application's records |
//! | `metrics`    | counters and Kafka's names for them |
//!
//! The core has no sockets, clock or threads: `now` is an argument, and the caller does the
//! waiting. Group membership and commits are not here either. The coordinator sets what is
//! assigned ([`Consumer::assign`]) and what is committed ([`Consumer::set_committed`]), and
//! commits [`Partitions::all_consumed`].
#![forbid(unsafe_code)]

mod config;
mod consumer;
mod decoding;
mod draining;
mod error;
mod fetching;
mod metrics;
mod offset_spec;
mod partitions;
mod pending;
mod positions;
mod range_reader;
mod signals;
mod sync;
mod topic_partition;

pub use config::ConsumerConfig;
pub use consumer::Consumer;
pub use decoding::job::{DecodeDone, DecodeJob};
pub use draining::drain::{Demand, Drained};
pub use draining::sink::{BatchInfo, Offer, RecordSink};
pub use error::ConsumerError;
pub use fetching::fetcher::Fetcher;
pub use metrics::polls::{PollBegan, PollMetrics};
pub use metrics::{ConsumerMetrics, Counter};
pub use offset_spec::{IsolationLevel, OffsetReset, OffsetSpec};
pub use partitions::Partitions;
pub use partitions::state::{FetchPosition, HandedOut};
pub use pending::Pending;
pub use positions::absence::Absence;
pub use positions::list_offsets::ListedOffset;
pub use range_reader::{LostRange, Range, RangeLimits, RangeReader, RangeStep};
pub use sync::run_lock_waits;
pub use topic_partition::TopicPartition;
