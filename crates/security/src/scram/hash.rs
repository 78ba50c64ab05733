//! [`ScramHash`], and the keys that both sides derive from a password (RFC 5802, section 3).

use std::num::NonZeroU32;

use ring::{digest, hmac, pbkdf2};
use zeroize::Zeroizing;

/// The hash function of SCRAM.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScramHash {
    Sha256,
    Sha512,
}

impl ScramHash {
    pub const ALL: [Self; 2] = [Self::Sha256, Self::Sha512];

    /// Returns the name of the mechanism with this hash function.
    pub fn mechanism(self) -> &'static str {
        match self {
            Self::Sha256 => "SCRAM-SHA-256",
            Self::Sha512 => "SCRAM-SHA-512",
        }
    }

    /// Returns the number of the mechanism in Kafka's protocol (KIP-554).
    pub fn wire_id(self) -> i8 {
        match self {
            Self::Sha256 => 1,
            Self::Sha512 => 2,
        }
    }

    /// Returns the hash function with this number.
    pub fn from_wire_id(id: i8) -> Option<Self> {
        Self::ALL.into_iter().find(|hash| hash.wire_id() == id)
    }

    pub fn hmac(self) -> hmac::Algorithm {
        match self {
            Self::Sha256 => hmac::HMAC_SHA256,
            Self::Sha512 => hmac::HMAC_SHA512,
        }
    }

    pub fn digest(self) -> &'static digest::Algorithm {
        self.hmac().digest_algorithm()
    }

    fn pbkdf2(self) -> pbkdf2::Algorithm {
        match self {
            Self::Sha256 => pbkdf2::PBKDF2_HMAC_SHA256,
            Self::Sha512 => pbkdf2::PBKDF2_HMAC_SHA512,
        }
    }
}

/// The key that the iterations make expensive. All other keys follow from it, so it is as secret as
/// the password.
pub struct SaltedPassword(hmac::Key);

impl SaltedPassword {
    /// Takes milliseconds: the iterations make it slow to guess passwords.
    pub fn derive(hash: ScramHash, password: &[u8], salt: &[u8], iterations: NonZeroU32) -> Self {
        let mut salted = Zeroizing::new(vec![0; hash.digest().output_len()]);
        pbkdf2::derive(hash.pbkdf2(), iterations, salt, password, &mut salted);
        Self::new(hash, &salted)
    }

    /// Takes the result of the derivation, as an administrator sends it.
    pub fn new(hash: ScramHash, salted: &[u8]) -> Self {
        Self(hmac::Key::new(hash.hmac(), salted))
    }

    pub fn client_key(&self) -> hmac::Tag {
        hmac::sign(&self.0, b"Client Key")
    }

    pub fn server_key(&self) -> hmac::Tag {
        hmac::sign(&self.0, b"Server Key")
    }
}
