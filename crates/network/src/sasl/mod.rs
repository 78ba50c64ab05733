//! SASL mechanisms: what the client says in `SaslAuthenticate`, and which brokers it accepts.
//!
//! ```text
//!   SaslConfig ─▶ Mechanism (one per client) ─▶ Session (one per connection) ─▶ step, step, ...
//! ```
//! Nothing here does I/O. `connection/authentication.rs` carries the messages. A new mechanism is a
//! variant of [`SaslConfig`] and of `Mechanism`, and a `Session`.

mod plain;
mod scram;

use std::fmt;
use std::sync::Arc;

use plain::Plain;
use scram::{Credentials, Scram};

pub use scram::{ScramConfig, ScramHash};

/// The longest text of a broker, or name of a user, that becomes part of an error.
const SHOWN_CHARS_MAX: usize = 1000;

/// A secret. It is never shown. It is not wiped from memory, as Python holds a copy anyway.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    pub fn new(secret: impl Into<String>) -> Self {
        Self(secret.into())
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

/// The options of a mechanism, with its credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaslConfig {
    Plain { username: String, password: Secret },
    Scram(ScramConfig),
}

/// A mechanism with its credentials. All connections of a client share it.
pub(crate) enum Mechanism {
    Plain { username: String, password: Secret },
    Scram(Arc<Credentials>),
}

impl Mechanism {
    pub(crate) fn new(config: &SaslConfig) -> Self {
        match config.clone() {
            SaslConfig::Plain { username, password } => Self::Plain { username, password },
            SaslConfig::Scram(config) => Self::Scram(Arc::new(Credentials::new(config))),
        }
    }

    /// Returns the name for `SaslHandshake`.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Plain { .. } => "PLAIN",
            Self::Scram(credentials) => credentials.config.hash.mechanism(),
        }
    }

    /// Returns the name of the user, for errors.
    pub(crate) fn username(&self) -> &str {
        match self {
            Self::Plain { username, .. } => username,
            Self::Scram(credentials) => &credentials.config.username,
        }
    }

    /// Returns what to check if a broker refuses the credentials.
    pub(crate) fn advice(&self) -> String {
        let options = "Check sasl_plain_username and sasl_plain_password";
        match self {
            Self::Plain { .. } => options.to_owned(),
            Self::Scram(_) => {
                let name = self.name();
                format!("{options}, and that the user has a credential for {name} on the brokers")
            }
        }
    }

    /// Starts an exchange for one connection.
    pub(crate) fn start(&self) -> Result<Box<dyn Session>, SaslError> {
        let session: Box<dyn Session> = match self {
            Self::Plain { username, password } => {
                Box::new(Plain::new(username.clone(), password.clone()))
            }
            Self::Scram(credentials) => {
                Box::new(Scram::new(Arc::clone(credentials), scram::nonce()?))
            }
        };
        Ok(session)
    }
}

/// One exchange on one connection. The client sends the first message.
pub(crate) trait Session: Send {
    /// Handles the broker's message and returns the client's next message. `None` means that the
    /// exchange has succeeded. The first call gets an empty message, because the client begins.
    fn step(&mut self, received: &[u8]) -> Result<Option<Vec<u8>>, SaslError>;

    /// Whether the next step may take milliseconds. Then it must not run on the I/O thread.
    fn is_slow(&self) -> bool {
        false
    }
}

/// Why an exchange failed. It never contains a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SaslError {
    /// The broker refused the client, in its own words.
    ByBroker(String),
    /// The client refused the broker, or cannot send its credentials.
    ByClient(String),
}

/// Makes a foreign text fit for an error message: cuts it, and escapes control characters.
pub(crate) fn shown(text: &str) -> String {
    let mut shown = String::new();
    for (index, char) in text.chars().enumerate() {
        if index == SHOWN_CHARS_MAX {
            shown.push_str("...");
            break;
        }
        if char.is_control() {
            shown.extend(char.escape_default());
        } else {
            shown.push(char);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_texts_are_cut_and_cannot_forge_lines_of_a_log() {
        assert_eq!(shown("no\nsuch\u{1b}[1m user"), "no\\nsuch\\u{1b}[1m user");
        assert_eq!(shown(&"x".repeat(SHOWN_CHARS_MAX)).len(), SHOWN_CHARS_MAX);
        let cut = shown(&"x".repeat(1_000_000));
        assert_eq!(cut.len(), SHOWN_CHARS_MAX + "...".len());
    }

    #[test]
    fn debug_hides_passwords() {
        let plain = SaslConfig::Plain {
            username: "alice".into(),
            password: Secret::new("s3cret"),
        };
        let scram = SaslConfig::Scram(ScramConfig::new(
            ScramHash::Sha256,
            "alice",
            Secret::new("s3cret"),
        ));
        assert!(!format!("{plain:?} {scram:?}").contains("s3cret"));
    }
}
