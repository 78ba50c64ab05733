//! Tests of the producer's core in virtual time, with the real cluster core and scripted brokers.
#![forbid(unsafe_code)]
#![allow(
    clippy::disallowed_methods,
    reason = "tests start their virtual time somewhere"
)]

mod batching;
mod closing;
mod cost;
mod metrics;
mod sending;
mod storm;
mod threads;
mod transactions;
mod transactions_storm;
mod world;
