//! The broker's side of the exchange.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use ring::{digest, hmac};

use super::credential::Credential;
use super::hash::ScramHash;
use crate::Refusal;

/// The limit on a message of a client. It bounds the name and the nonce, too.
const MESSAGE_BYTES_MAX: usize = 4096;

/// A client's first message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientFirst {
    user: String,
    nonce: String,
    /// The header with the authorization ID, which the last message repeats.
    header: String,
    /// The message without its header. The signatures cover it.
    bare: String,
    has_tokenauth: bool,
}

impl ClientFirst {
    /// Reads the message.
    pub fn parse(message: &[u8]) -> Result<Self, Refusal> {
        let text = text(message)?;
        // No channel binding. Kafka's brokers refuse `y` and `p`, too.
        let rest = text.strip_prefix("n,").ok_or_else(malformed)?;
        let (authorization, bare) = rest.split_once(',').ok_or_else(malformed)?;
        let attributes = attributes(bare)?;
        let &[("n", name), ("r", nonce), ref extensions @ ..] = &attributes[..] else {
            return Err(malformed());
        };
        let user = name_in_clear(name)?;
        match authorization.strip_prefix("a=").map(name_in_clear) {
            None if authorization.is_empty() => {}
            Some(Ok(id)) if id == user => {}
            Some(Ok(_)) => {
                return Err(Refusal::new(
                    "Authentication failed: Client requested an authorization id that is \
                     different from username",
                ));
            }
            _ => return Err(malformed()),
        }
        if nonce.is_empty() || !nonce.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(malformed());
        }
        Ok(Self {
            user,
            nonce: nonce.to_owned(),
            header: format!("n,{authorization},"),
            bare: bare.to_owned(),
            has_tokenauth: extensions.contains(&("tokenauth", "true")),
        })
    }

    pub fn user(&self) -> &str {
        &self.user
    }

    /// Whether the user is the ID of a delegation token (KIP-48).
    pub fn has_tokenauth(&self) -> bool {
        self.has_tokenauth
    }

    /// Returns the broker's first message. `nonce` must be one that an attacker cannot guess.
    pub fn challenge(self, credential: Credential, nonce: &str) -> (Vec<u8>, Challenged) {
        let nonce = format!("{}{nonce}", self.nonce);
        let salt = BASE64_STANDARD.encode(&credential.salt);
        let server_first = format!("r={nonce},s={salt},i={}", credential.iterations());
        let message = server_first.clone().into_bytes();
        let challenged = Challenged {
            without_proof: format!("c={},r={nonce}", BASE64_STANDARD.encode(&self.header)),
            signed: format!("{},{server_first}", self.bare),
            user: self.user,
            credential,
        };
        (message, challenged)
    }
}

/// An exchange in which the client must prove that it knows the password.
#[derive(Debug, Clone)]
pub struct Challenged {
    user: String,
    /// The part of the client's last message that must precede its proof.
    without_proof: String,
    /// What the signatures cover, up to the client's last message.
    signed: String,
    credential: Credential,
}

impl Challenged {
    pub fn user(&self) -> &str {
        &self.user
    }

    pub fn hash(&self) -> ScramHash {
        self.credential.hash
    }

    /// Checks the client's last message. Returns the broker's last message.
    pub fn finish(self, message: &[u8]) -> Result<Vec<u8>, Refusal> {
        let text = text(message)?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or_else(malformed)?;
        // The nonce must be equal, not only have the same end (CVE-2024-56128). Extensions would be
        // between it and the proof. No client sends one.
        if without_proof != self.without_proof {
            return Err(malformed());
        }
        let proof = BASE64_STANDARD.decode(proof).map_err(|_| malformed())?;
        let Credential {
            hash,
            stored_key,
            server_key,
            ..
        } = &self.credential;
        let signed = format!("{},{without_proof}", self.signed);
        let stored = hmac::Key::new(hash.hmac(), stored_key);
        let signature = hmac::sign(&stored, signed.as_bytes());
        if proof.len() != signature.as_ref().len() {
            return Err(malformed());
        }
        let pairs = proof.iter().zip(signature.as_ref());
        let client_key: Vec<u8> = pairs.map(|(proof, signature)| proof ^ signature).collect();
        let hashed = digest::digest(hash.digest(), &client_key);
        if !are_equal(server_key, hashed.as_ref(), stored_key) {
            return Err(Refusal::new("Invalid client credentials"));
        }
        let signature = hmac::sign(server_key, signed.as_bytes());
        Ok(format!("v={}", BASE64_STANDARD.encode(signature)).into_bytes())
    }
}

/// Compares two secrets. The time that this takes does not depend on where they differ.
fn are_equal(key: &hmac::Key, one: &[u8], other: &[u8]) -> bool {
    hmac::verify(key, one, hmac::sign(key, other).as_ref()).is_ok()
}

fn text(message: &[u8]) -> Result<&str, Refusal> {
    if message.len() > MESSAGE_BYTES_MAX {
        return Err(malformed());
    }
    str::from_utf8(message).map_err(|_| malformed())
}

fn attributes(text: &str) -> Result<Vec<(&str, &str)>, Refusal> {
    let pairs = text.split(',').map(|attribute| attribute.split_once('='));
    pairs.collect::<Option<_>>().ok_or_else(malformed)
}

/// Undoes the escapes of a name.
fn name_in_clear(name: &str) -> Result<String, Refusal> {
    let mut parts = name.split('=');
    let mut clear = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (escaped, rest) = match (part.strip_prefix("2C"), part.strip_prefix("3D")) {
            (Some(rest), _) => (',', rest),
            (_, Some(rest)) => ('=', rest),
            _ => return Err(malformed()),
        };
        clear.push(escaped);
        clear.push_str(rest);
    }
    if clear.is_empty() || clear.contains('\0') {
        return Err(malformed());
    }
    Ok(clear)
}

fn malformed() -> Refusal {
    Refusal::new("Invalid SCRAM message")
}

#[cfg(test)]
#[path = "server_tests.rs"]
mod tests;
