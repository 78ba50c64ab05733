//! The broker's side of the SASL mechanisms, and the keys of SCRAM, which both sides derive.
//!
//! ```text
//! client's message ─▶ ClientFirst::parse ─▶ challenge ─▶ the broker's message, the user or a refusal
//! ```
//! Each mechanism is a chain of types: a step consumes its state and returns the next one. So a
//! caller cannot repeat or skip a step. The client's side is in the crate `network`, whose tests
//! run both sides against each other.
//!
//! This crate has no I/O, clock, threads or random source. Nonces come from a secret
//! seed ([`Nonces`]), and the time is an argument. It does not know Kafka's protocol, and it does not
//! keep users: the caller passes the credential of the user.
//!
//! Everything that a peer sends has a limit before it costs memory or time, and no error contains a
//! secret. Secrets are compared in constant time.
#![forbid(unsafe_code)]

pub mod acl;
mod address;
pub mod aws;
pub mod certificate;
pub mod fuzzing;
mod nonces;
pub mod oauthbearer;
pub mod plain;
pub mod scram;
mod secret;
mod token_key;

pub use address::canonical_address;
pub use nonces::{Nonces, SEED_BYTES, Salts};
pub use secret::Secret;
pub use token_key::{TokenHmac, TokenKey};

/// Why a message is refused, in words for the peer. They never contain a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal(String);

impl Refusal {
    pub fn new(words: impl Into<String>) -> Self {
        Self(words.into())
    }

    /// Returns the words.
    pub fn words(&self) -> &str {
        &self.0
    }
}
