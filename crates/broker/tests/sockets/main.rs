//! Tests the broker over real sockets, with raw frames.

#![allow(clippy::disallowed_methods)] // a client with sockets and a clock

mod brokers;
mod client;
mod faults;
mod requests;
