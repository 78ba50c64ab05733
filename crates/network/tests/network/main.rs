//! The network crate against scripted brokers: in memory with virtual time, and over real sockets.

mod broker;
mod framing;
mod handshake;
mod process;
mod requests;
mod roles;
mod tls;
mod waiting;
