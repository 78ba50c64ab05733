//! SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677, KIP-84): the client's side.
//!
//! ```text
//!   client-first  n,,n=user,r=nonce          ─▶
//!                 ◀─ r=nonce+more,s=salt,i=iterations   server-first
//!   client-final  c=biws,r=nonce+more,p=proof ─▶
//!                 ◀─ v=signature                         server-final
//! ```
//! The password never leaves the client, and the signature proves that the broker knows its salted
//! hash. Without the check of the signature, the client would trust any broker.
//!
//! Java's client does not normalize names and passwords (`SASLprep`), and the brokers store keys that
//! were derived without it, so this client does not normalize them either. Kafka has no channel
//! binding, so the client never offers it.

mod keys;
mod messages;

use std::sync::Arc;

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use ring::rand::{SecureRandom as _, SystemRandom};

use super::{SaslError, Secret, Session};
use keys::{KeyCache, Keys};
use messages::ServerFirst;

pub use thalweg_security::scram::ScramHash;

const NONCE_BYTES: usize = 24;

/// Eight times what Kafka 4.3 lets an administrator set. At this limit a key takes about 0.1 s.
const ITERATIONS_MAX: u32 = 131_072;

/// The options of SCRAM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScramConfig {
    pub hash: ScramHash,
    pub username: String,
    pub password: Secret,
    /// `sasl_scram_tokenauth`: the user is the ID of a delegation token, and the password its HMAC
    /// (KIP-48).
    pub tokenauth: bool,
    /// `sasl_scram_iterations_max`: the limit on the work that a broker may ask for.
    pub iterations_max: u32,
}

impl ScramConfig {
    pub fn new(hash: ScramHash, username: impl Into<String>, password: Secret) -> Self {
        Self {
            hash,
            username: username.into(),
            password,
            tokenauth: false,
            iterations_max: ITERATIONS_MAX,
        }
    }
}

/// The options, and the keys that the last connection derived from them.
pub(crate) struct Credentials {
    pub(super) config: ScramConfig,
    keys: KeyCache,
}

impl Credentials {
    pub(super) fn new(config: ScramConfig) -> Self {
        Self {
            config,
            keys: KeyCache::default(),
        }
    }

    /// Returns the same options with another user and password.
    pub(super) fn with(&self, username: String, password: Secret) -> Self {
        Self::new(ScramConfig {
            username,
            password,
            ..self.config.clone()
        })
    }

    fn keys(&self, server: &ServerFirst<'_>) -> Arc<Keys> {
        let ScramConfig { hash, password, .. } = &self.config;
        self.keys
            .get_or_derive(&server.salt, server.iterations, || {
                Keys::derive(*hash, password, &server.salt, server.iterations)
            })
    }
}

/// Returns a nonce that no other exchange has had.
pub(super) fn nonce() -> Result<String, SaslError> {
    let mut bytes = [0; NONCE_BYTES];
    SystemRandom::new().fill(&mut bytes).map_err(|_| {
        SaslError::ByClient("the system has no random bytes for a nonce".to_owned())
    })?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

enum State {
    Start,
    /// The client has sent client-first. `bare` is that message without its header.
    First {
        bare: String,
    },
    /// The client has sent its proof, which covers `auth_message`.
    Final {
        keys: Arc<Keys>,
        auth_message: String,
    },
    Ended,
}

/// One exchange.
pub(super) struct Scram {
    credentials: Arc<Credentials>,
    nonce: String,
    state: State,
}

impl Scram {
    pub(super) fn new(credentials: Arc<Credentials>, nonce: String) -> Self {
        Self {
            credentials,
            nonce,
            state: State::Start,
        }
    }

    fn client_first(&mut self) -> Result<Vec<u8>, SaslError> {
        let ScramConfig {
            username,
            tokenauth,
            ..
        } = &self.credentials.config;
        let bare = messages::client_first_bare(username, &self.nonce, *tokenauth)?;
        let message = messages::client_first(&bare);
        self.state = State::First { bare };
        Ok(message)
    }

    fn client_final(&mut self, bare: &str, received: &[u8]) -> Result<Vec<u8>, SaslError> {
        let iterations_max = self.credentials.config.iterations_max;
        let server = ServerFirst::parse(received, &self.nonce, iterations_max)?;
        let keys = self.credentials.keys(&server);
        let without_proof = messages::client_final_without_proof(server.nonce);
        let auth_message = format!("{bare},{},{without_proof}", server.text);
        let proof = keys.proof(auth_message.as_bytes());
        let message = messages::client_final(&without_proof, &proof);
        self.state = State::Final { keys, auth_message };
        Ok(message)
    }
}

impl Session for Scram {
    fn step(&mut self, received: &[u8]) -> Result<Option<Vec<u8>>, SaslError> {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Start => self.client_first().map(Some),
            State::First { bare } => self.client_final(&bare, received).map(Some),
            State::Final { keys, auth_message } => {
                let signature = messages::server_signature(received)?;
                if keys.have_signed(auth_message.as_bytes(), &signature) {
                    return Ok(None);
                }
                let reason = "the broker does not prove that it knows the password (wrong server \
                              signature). Check that the address belongs to a broker that you trust";
                Err(SaslError::ByClient(reason.to_owned()))
            }
            State::Ended => {
                let reason = "the broker sent a message after the end of the SASL exchange";
                Err(SaslError::ByClient(reason.to_owned()))
            }
        }
    }

    /// Deriving the keys takes milliseconds. Whether the cache has them depends on the salt, which
    /// only the step itself reads.
    fn is_slow(&self) -> bool {
        matches!(self.state, State::First { .. })
    }
}

#[cfg(test)]
mod tests;
