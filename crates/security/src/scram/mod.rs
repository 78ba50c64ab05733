//! SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677, KIP-84): keys, and the broker's side.
//!
//! ```text
//!   n,,n=user,r=nonce ─▶ ClientFirst ─challenge(credential, nonce)─▶ r=..,s=salt,i=iterations
//!   c=biws,r=..,p=proof ─▶ Challenged ─finish─▶ v=signature
//! ```
//! A broker keeps a [`Credential`] of each user, from which an attacker cannot compute the password
//! or log in. Like Kafka, it does not support channel binding, and does not normalize names or
//! passwords.

mod credential;
mod hash;
mod server;

pub use credential::{Credential, ITERATIONS_MAX, ITERATIONS_MIN};
pub use hash::{SaltedPassword, ScramHash};
pub use server::{Challenged, ClientFirst};
