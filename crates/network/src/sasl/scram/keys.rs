//! The keys that SCRAM derives from a password (RFC 5802, section 3), and a cache for reconnects.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

use ring::{digest, hmac};
use thalweg_security::scram::{SaltedPassword, ScramHash};

use crate::sasl::Secret;

/// The keys of one password, salt and number of iterations. They are as secret as the password.
pub(super) struct Keys {
    client: hmac::Tag,
    stored: hmac::Key,
    server: hmac::Key,
}

impl Keys {
    /// Takes milliseconds: the iterations make it slow to guess passwords.
    pub(super) fn derive(
        hash: ScramHash,
        password: &Secret,
        salt: &[u8],
        iterations: NonZeroU32,
    ) -> Self {
        let password = password.reveal().as_bytes();
        let salted = SaltedPassword::derive(hash, password, salt, iterations);
        let (client, server) = (salted.client_key(), salted.server_key());
        let stored = digest::digest(hash.digest(), client.as_ref());
        Self {
            client,
            stored: hmac::Key::new(hash.hmac(), stored.as_ref()),
            server: hmac::Key::new(hash.hmac(), server.as_ref()),
        }
    }

    /// Returns the proof that the client knows the password.
    pub(super) fn proof(&self, auth_message: &[u8]) -> Vec<u8> {
        let signature = hmac::sign(&self.stored, auth_message);
        let pairs = self.client.as_ref().iter().zip(signature.as_ref());
        pairs.map(|(key, signature)| key ^ signature).collect()
    }

    /// Whether a broker with these keys has signed the message. The time that this takes does not
    /// depend on the signature.
    pub(super) fn have_signed(&self, auth_message: &[u8], signature: &[u8]) -> bool {
        hmac::verify(&self.server, auth_message, signature).is_ok()
    }

    #[cfg(test)]
    pub(super) fn sign(&self, auth_message: &[u8]) -> hmac::Tag {
        hmac::sign(&self.server, auth_message)
    }
}

/// The keys of the last derivation. All brokers of a cluster usually send the same salt, so
/// connections after the first one derive nothing.
#[derive(Default)]
pub(super) struct KeyCache(Mutex<Option<Cached>>);

struct Cached {
    salt: Vec<u8>,
    iterations: NonZeroU32,
    keys: Arc<Keys>,
}

impl KeyCache {
    /// Returns the keys. A thread that derives them holds the lock, so that connections that are
    /// opened at the same time wait for it instead of deriving the same keys.
    pub(super) fn get_or_derive(
        &self,
        salt: &[u8],
        iterations: NonZeroU32,
        derive: impl FnOnce() -> Keys,
    ) -> Arc<Keys> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = &*last
            && cached.salt == salt
            && cached.iterations == iterations
        {
            return Arc::clone(&cached.keys);
        }
        let keys = Arc::new(derive());
        *last = Some(Cached {
            salt: salt.to_vec(),
            iterations,
            keys: Arc::clone(&keys),
        });
        keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_reconnects_derive_keys_once() {
        let cache = KeyCache::default();
        let mut derived = 0;
        let mut get = |salt: &[u8], iterations: u32| {
            let iterations = NonZeroU32::new(iterations).expect("above 0");
            cache.get_or_derive(salt, iterations, || {
                derived += 1;
                Keys::derive(ScramHash::Sha256, &Secret::new("p"), salt, iterations)
            })
        };
        let first = get(b"salt", 1);
        for _ in 0..100 {
            assert!(Arc::ptr_eq(&first, &get(b"salt", 1)));
        }
        // The administrator has set the password again.
        get(b"other", 1);
        get(b"other", 2);
        assert_eq!(derived, 3);
    }
}
