//! [`Credential`]: what a broker keeps of a user's password.

use std::fmt;
use std::num::NonZeroU32;

use ring::{digest, hmac};

use super::hash::{SaltedPassword, ScramHash};
use crate::{Salts, Secret};

/// RFC 7677, section 4.
pub const ITERATIONS_MIN: u32 = 4096;

/// The maximum that Kafka 4.3 lets an administrator set.
pub const ITERATIONS_MAX: u32 = 16_384;

const SALT_BYTES: usize = 24;

/// The salt, the number of iterations, and the two keys of a user.
#[derive(Clone)]
pub struct Credential {
    pub(super) hash: ScramHash,
    pub(super) salt: Vec<u8>,
    iterations: u32,
    /// The hash of the client's key.
    pub(super) stored_key: Vec<u8>,
    pub(super) server_key: hmac::Key,
}

impl Credential {
    /// Derives the keys of a password. This takes milliseconds.
    pub fn derive(hash: ScramHash, user: &str, password: &Secret, salts: &Salts) -> Self {
        let salt = salt_of(salts, "salt of a user", hash, user);
        let iterations = NonZeroU32::new(ITERATIONS_MIN).expect("the constant is not 0");
        let password = password.reveal().as_bytes();
        let salted = SaltedPassword::derive(hash, password, &salt, iterations);
        Self::with_keys(hash, &salted, salt, ITERATIONS_MIN)
    }

    /// Takes the salted password that an administrator has derived (KIP-554).
    pub fn from_salted(hash: ScramHash, salted: &[u8], salt: &[u8], iterations: u32) -> Self {
        let salted = SaltedPassword::new(hash, salted);
        Self::with_keys(hash, &salted, salt.to_vec(), iterations)
    }

    pub(super) fn with_keys(
        hash: ScramHash,
        salted: &SaltedPassword,
        salt: Vec<u8>,
        iterations: u32,
    ) -> Self {
        let stored_key = digest::digest(hash.digest(), salted.client_key().as_ref());
        Self {
            hash,
            salt,
            iterations,
            stored_key: stored_key.as_ref().to_vec(),
            server_key: hmac::Key::new(hash.hmac(), salted.server_key().as_ref()),
        }
    }

    /// Returns a credential that matches no password, for a user who does not exist. Each call
    /// returns the same one, as for a real user. So a response does not reveal which users exist.
    pub fn of_nobody(hash: ScramHash, user: &str, salts: &Salts) -> Self {
        let name = user.as_bytes();
        // No value with this hash is known.
        let mut stored_key = salts.of("stored key of nobody", name).to_vec();
        stored_key.resize(hash.digest().output_len(), 0);
        let server_key = salts.of("server key of nobody", name);
        Self {
            hash,
            salt: salt_of(salts, "salt of nobody", hash, user),
            iterations: ITERATIONS_MIN,
            stored_key,
            server_key: hmac::Key::new(hash.hmac(), &server_key),
        }
    }

    /// Changes only the number that a client gets, for tests of clients.
    #[must_use]
    pub fn announcing(self, iterations: u32) -> Self {
        Self { iterations, ..self }
    }

    pub fn iterations(&self) -> u32 {
        self.iterations
    }
}

/// The salts of both mechanisms differ.
fn salt_of(salts: &Salts, purpose: &str, hash: ScramHash, user: &str) -> Vec<u8> {
    let name = [hash.mechanism().as_bytes(), user.as_bytes()].concat();
    salts.of(purpose, &name)[..SALT_BYTES].to_vec()
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credential")
            .field("mechanism", &self.hash.mechanism())
            .field("iterations", &self.iterations)
            .finish_non_exhaustive()
    }
}
