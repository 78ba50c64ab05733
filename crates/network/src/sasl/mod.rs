//! SASL mechanisms: the client's messages in `SaslAuthenticate`.
//!
//! PLAIN is implemented here. Implement [`Mechanism`] to add SCRAM or OAUTHBEARER.

mod plain;

use std::fmt;

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

/// The mechanism, with its credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaslConfig {
    Plain { username: String, password: Secret },
}

impl SaslConfig {
    /// Starts an exchange for one connection.
    pub(crate) fn mechanism(&self) -> Box<dyn Mechanism> {
        match self {
            Self::Plain { username, password } => {
                Box::new(plain::Plain::new(username.clone(), password.clone()))
            }
        }
    }
}

/// One exchange on one connection. The client sends the first message.
pub trait Mechanism: Send {
    /// Returns the name for `SaslHandshake`.
    fn name(&self) -> &'static str;

    /// Returns the client's first message.
    fn first(&mut self) -> Result<Vec<u8>, String>;

    /// Handles the broker's message. Returns the client's next message, or `None` when done. An
    /// error says why the broker cannot be trusted, or what the broker reported.
    fn next(&mut self, challenge: &[u8]) -> Result<Option<Vec<u8>>, String>;
}
