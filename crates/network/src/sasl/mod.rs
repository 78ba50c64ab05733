//! SASL mechanisms: what a client says in `SaslAuthenticate`, message by message.
//!
//! PLAIN is here; SCRAM and OAUTHBEARER are further implementations of [`Mechanism`].

mod plain;

use std::fmt;

/// A secret: never shown, wiped by nobody (Python holds a copy anyway).
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

/// Which mechanism, with its credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SaslConfig {
    Plain { username: String, password: Secret },
}

impl SaslConfig {
    /// A fresh exchange for one connection.
    pub(crate) fn mechanism(&self) -> Box<dyn Mechanism> {
        match self {
            Self::Plain { username, password } => {
                Box::new(plain::Plain::new(username.clone(), password.clone()))
            }
        }
    }
}

/// One exchange on one connection: the client speaks first.
pub trait Mechanism: Send {
    /// The name in `SaslHandshake`.
    fn name(&self) -> &'static str;

    /// The client's first message.
    fn first(&mut self) -> Result<Vec<u8>, String>;

    /// The broker's message; Some = what to say next, None = done. An error says why the broker
    /// must not be trusted or what it said.
    fn next(&mut self, challenge: &[u8]) -> Result<Option<Vec<u8>>, String>;
}
