//! [`TokenKey`]: the passwords of delegation tokens (KIP-48).

use std::fmt;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use ring::{digest, hmac};

use crate::Secret;

/// The key that all brokers of a cluster share (`delegation.token.secret.key`).
#[derive(Clone)]
pub struct TokenKey(hmac::Key);

/// The HMAC of a token's ID. Anyone who knows it can use the token.
#[derive(Clone, PartialEq, Eq)]
pub struct TokenHmac(Vec<u8>);

impl TokenKey {
    pub fn new(key: &Secret) -> Self {
        Self(hmac::Key::new(hmac::HMAC_SHA512, key.reveal().as_bytes()))
    }

    pub fn hmac(&self, token_id: &str) -> TokenHmac {
        TokenHmac(hmac::sign(&self.0, token_id.as_bytes()).as_ref().to_vec())
    }
}

impl TokenHmac {
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns the password with which SCRAM logs in.
    pub fn password(&self) -> Secret {
        Secret::new(BASE64_STANDARD.encode(&self.0))
    }

    /// Returns the digest of an HMAC, as a key for maps. So the duration of a lookup does not
    /// reveal how much of a guessed HMAC is correct.
    pub fn digest(hmac: &[u8]) -> Vec<u8> {
        digest::digest(&digest::SHA256, hmac).as_ref().to_vec()
    }
}

impl fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenKey")
    }
}

impl fmt::Debug for TokenHmac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenHmac")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hmac_depends_on_the_key_and_the_id_and_is_not_shown() {
        let key = TokenKey::new(&Secret::new("key"));
        let one = key.hmac("id");
        assert_eq!(one.bytes().len(), 64);
        assert_eq!(one, TokenKey::new(&Secret::new("key")).hmac("id"));
        assert_ne!(one, key.hmac("id2"));
        assert_ne!(one, TokenKey::new(&Secret::new("other")).hmac("id"));
        assert_eq!(one.password().reveal().len(), 88);
        assert_eq!(format!("{key:?} {one:?}"), "TokenKey TokenHmac");
        assert_ne!(TokenHmac::digest(b"a"), TokenHmac::digest(b"b"));
    }

    /// As Python's `hmac.digest(b"the key", b"an-id", "sha512")` makes it.
    #[test]
    fn an_hmac_is_that_of_the_id_with_sha_512() {
        let hmac = TokenKey::new(&Secret::new("the key")).hmac("an-id");
        let text = hmac.password();
        assert_eq!(
            text.reveal(),
            "WnisiDEXtw5w1HtPMIHDKmklQOrIkI4VClVWw41FiHdH8C7RUq42LRy//Pg3\
             f3sPrV18By3O4TQK+YWo4YlXPw=="
        );
    }
}
