//! The network crate against scripted brokers: in memory with virtual time, and over real sockets.

#![allow(clippy::disallowed_methods, reason = "that list is for the cores")]

mod broker;
mod credentials;
mod embedded;
mod framing;
mod handshake;
mod heartbeats;
mod oauthbearer;
mod panics;
mod process;
mod reauthentication;
mod requests;
mod roles;
mod scram;
mod sessions;
mod support;
mod tls;
mod waiting;
