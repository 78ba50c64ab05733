//! [`Nonces`] and [`Salts`]: values that an attacker cannot guess, from one secret seed.

use std::fmt;

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use ring::hmac;

/// The size of a seed.
pub const SEED_BYTES: usize = 32;

/// The size of a nonce, before Base64. It has no padding.
const NONCE_BYTES: usize = 24;

/// Makes bytes that are always the same for a purpose and a name, and as hard to guess as the seed.
#[derive(Clone)]
pub struct Salts(hmac::Key);

impl Salts {
    /// The seed must come from the system's source of random bytes.
    pub fn new(seed: &[u8; SEED_BYTES]) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA256, seed))
    }

    pub fn of(&self, purpose: &str, name: &[u8]) -> [u8; SEED_BYTES] {
        let mut context = hmac::Context::with_key(&self.0);
        // The length keeps ("a", "bc") and ("ab", "c") apart.
        context.update(&(purpose.len() as u64).to_be_bytes());
        context.update(purpose.as_bytes());
        context.update(name);
        let mut bytes = [0; SEED_BYTES];
        bytes.copy_from_slice(context.sign().as_ref());
        bytes
    }
}

impl fmt::Debug for Salts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Salts")
    }
}

/// Makes nonces. They are as hard to guess as the seed, and differ from each other.
#[derive(Debug)]
pub struct Nonces {
    salts: Salts,
    next: u64,
}

impl Nonces {
    /// Starts with the first nonce of the seed. A copy would return the same nonces.
    pub fn new(salts: Salts) -> Self {
        Self { salts, next: 0 }
    }

    /// Returns a nonce that no other call returns.
    pub fn nonce(&mut self) -> String {
        let number = self.next.to_be_bytes();
        self.next += 1;
        BASE64_URL_SAFE_NO_PAD.encode(&self.salts.of("nonce", &number)[..NONCE_BYTES])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonces_differ_and_depend_on_the_seed() {
        let nonces = |seed| Nonces::new(Salts::new(&[seed; SEED_BYTES]));
        let (mut one, mut other) = (nonces(1), nonces(2));
        let first = one.nonce();
        assert_eq!(first.len(), 32);
        assert_ne!(first, one.nonce());
        assert_ne!(first, other.nonce());
        assert_eq!(first, nonces(1).nonce());
    }

    #[test]
    fn salts_depend_on_purpose_and_name() {
        let salts = Salts::new(&[1; SEED_BYTES]);
        assert_eq!(salts.of("salt", b"alice"), salts.of("salt", b"alice"));
        assert_ne!(salts.of("salt", b"alice"), salts.of("salt", b"bob"));
        assert_ne!(salts.of("a", b"bc"), salts.of("ab", b"c"));
    }
}
