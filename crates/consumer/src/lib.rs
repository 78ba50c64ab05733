//! The consumer core: which records are read, from where, and in which order they are returned.
//!
//! ```text
//!                     application's thread                I/O thread
//!  assign, seek  -->  Subscription  <-------------------  Fetcher  <--> Cluster <--> brokers
//!  drain(n)      <--  FetchBuffer   <-- completed --------'  |  ^
//!   |                                                        v  |
//!   '-> RecordSink (Python objects, Arrow columns)      decode jobs (codec threads)
//! ```
//!
//! The core has no sockets, clock or threads: `now` is an argument, and the caller does the
//! waiting. Group membership and commits are not here either. The coordinator sets what is
//! assigned ([`Consumer::assign`]) and what is committed ([`Consumer::set_committed`]), and
//! commits [`Subscription::all_consumed`].
#![forbid(unsafe_code)]

mod aborted;
mod absence;
mod assigned;
mod closer_replicas;
mod completed_fetch;
mod config;
mod consumer;
mod decode_queue;
mod distances;
mod drain;
mod error;
mod fetch_buffer;
mod fetch_request;
mod fetch_response;
mod fetch_session;
mod fetcher;
mod job;
mod leaders;
mod list_offsets;
mod memory;
mod metrics;
mod offset_spec;
mod partition_state;
mod pending;
mod poll_metrics;
mod positions;
mod queued_errors;
mod range_reader;
mod record_sets;
mod sink;
mod stepping;
mod subscription;
mod survey;
mod sync;
mod topic_partition;
mod validation;

pub use absence::Absence;
pub use config::ConsumerConfig;
pub use consumer::Consumer;
pub use drain::Drained;
pub use error::ConsumerError;
pub use fetch_buffer::FetchBuffer;
pub use fetcher::Fetcher;
pub use job::{DecodeDone, DecodeJob};
pub use list_offsets::ListedOffset;
pub use metrics::{ConsumerMetrics, Counter};
pub use offset_spec::{IsolationLevel, OffsetReset, OffsetSpec};
pub use partition_state::{FetchPosition, HandedOut};
pub use pending::Pending;
pub use poll_metrics::{PollBegan, PollMetrics};
pub use range_reader::{RANGE_EARLIEST, RANGE_LATEST, Range, RangeReader, RangeStep};
pub use sink::{BatchInfo, Offer, RecordSink};
pub use subscription::Subscription;
pub use sync::run_lock_waits;
pub use topic_partition::TopicPartition;
