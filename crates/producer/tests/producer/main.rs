//! Tests of the producer's core in virtual time, with the real cluster core and scripted brokers.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    reason = "tests start their virtual time somewhere"
)]

mod appending;
mod broker;
mod bulk;
mod closing;
mod compression;
mod contents;
mod coordinator;
mod cost;
mod draining;
mod expiry;
mod hastening;
mod idempotence;
mod idle_topics;
mod metrics;
mod ordering;
mod outlets;
mod partitioning;
mod pool;
mod retries;
mod storm;
mod threads;
mod transactions;
mod transactions_storm;
mod world;
