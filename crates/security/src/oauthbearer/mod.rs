//! OAUTHBEARER (RFC 7628, KIP-255, KIP-342), the broker's side.
//!
//! ```text
//!   n,,^Aauth=Bearer token^Akey=value^A^A ─▶ ClientFirst::parse ─▶ the token
//!       unsecured::check, or Jwks::check ─▶ Verified, or refusal()
//! ```
//! If the token is refused, the broker responds with JSON. The client confirms with the byte
//! [`CONFIRMATION`], and then the exchange fails with the same JSON.

pub mod jwks;
mod message;
pub mod unsecured;

pub use message::ClientFirst;

use crate::Refusal;

/// Ends an exchange after a refusal.
pub const CONFIRMATION: &[u8] = b"\x01";

/// A token that has been accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verified {
    /// The name of the user.
    pub principal: String,
    /// When the token expires, in Unix milliseconds. `None`: unknown.
    pub expires_at_ms: Option<i64>,
}

/// Returns the JSON for a token that is refused. Like Kafka, it gives no reason.
pub fn refusal() -> Refusal {
    Refusal::new(r#"{"status":"invalid_token"}"#)
}
