//! Signs JSON Web Tokens (RFC 7515), with which a client proves who it is to an identity provider.
//!
//! ```text
//!   header.payload + private key (PEM) ─▶ RS256 or ES256 ─▶ signature
//! ```
//! The keys are those that TLS reads: PKCS#8, also encrypted, PKCS#1 for RSA, and SEC 1 for EC.

use std::fmt;

use rustls::SignatureScheme;
use rustls::crypto::ring::sign::any_supported_type;

use crate::tls::{KeyError, private_key};

/// The bytes of each of the two numbers of a signature with P-256.
const P256_BYTES: usize = 32;
const CANNOT_SIGN: &str = "the private key cannot sign";

/// An algorithm of RFC 7518.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JwtAlgorithm {
    Rs256,
    Es256,
}

impl JwtAlgorithm {
    /// Returns the algorithm with a name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "RS256" => Some(Self::Rs256),
            "ES256" => Some(Self::Es256),
            _ => None,
        }
    }

    fn scheme(self) -> SignatureScheme {
        match self {
            Self::Rs256 => SignatureScheme::RSA_PKCS1_SHA256,
            Self::Es256 => SignatureScheme::ECDSA_NISTP256_SHA256,
        }
    }
}

/// Why nothing was signed. The text follows the name of an option and a colon. It contains nothing
/// of the key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SigningError {
    /// The private key cannot be read.
    Key(KeyError),
    /// The private key cannot sign with the algorithm.
    Unfit(&'static str),
}

impl fmt::Display for SigningError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Key(error) => error.fmt(f),
            Self::Unfit(words) => f.write_str(words),
        }
    }
}

impl std::error::Error for SigningError {}

/// Signs a message. It takes milliseconds, so it must not run on the I/O thread.
pub fn sign_jwt(
    algorithm: JwtAlgorithm,
    pem: &str,
    passphrase: Option<&str>,
    message: &[u8],
) -> Result<Vec<u8>, SigningError> {
    let key = private_key(pem.as_bytes(), passphrase).map_err(SigningError::Key)?;
    let key = any_supported_type(&key).map_err(|_| {
        SigningError::Unfit(
            "the private key is not a key that can sign. Use an RSA key of 2048 to 4096 bits, or \
             an EC key of the curve P-256 with its public key (`openssl pkey -in old.pem -out \
             new.pem` adds it)",
        )
    })?;
    let signer = key
        .choose_scheme(&[algorithm.scheme()])
        .ok_or(SigningError::Unfit(match algorithm {
            JwtAlgorithm::Rs256 => {
                "the private key is not an RSA key, which the algorithm RS256 needs"
            }
            JwtAlgorithm::Es256 => {
                "the private key is not an EC key of the curve P-256, which ES256 needs"
            }
        }))?;
    let signature = signer
        .sign(message)
        .map_err(|_| SigningError::Unfit(CANNOT_SIGN))?;
    match algorithm {
        JwtAlgorithm::Rs256 => Ok(signature),
        JwtAlgorithm::Es256 => fixed(&signature).ok_or(SigningError::Unfit(CANNOT_SIGN)),
    }
}

/// Converts a signature from ASN.1 to the two numbers that a JWT has (RFC 7518, section 3.4).
fn fixed(asn1: &[u8]) -> Option<Vec<u8>> {
    let body = asn1.strip_prefix(&[0x30])?.split_first()?.1;
    let mut rest = body;
    let mut signature = Vec::with_capacity(2 * P256_BYTES);
    for _ in 0..2 {
        let (&length, after) = rest.strip_prefix(&[0x02])?.split_first()?;
        let (number, after) = after.split_at_checked(usize::from(length))?;
        // A leading zero says that the number is positive.
        let number = number.strip_prefix(&[0]).unwrap_or(number);
        let zeros = P256_BYTES.checked_sub(number.len())?;
        signature.extend(std::iter::repeat_n(0, zeros));
        signature.extend_from_slice(number);
        rest = after;
    }
    rest.is_empty().then_some(signature)
}

#[cfg(test)]
mod tests {
    use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PublicKeyData as _};
    use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};

    use super::*;

    const MESSAGE: &[u8] = b"header.payload";

    fn key() -> KeyPair {
        KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).expect("a key")
    }

    #[test]
    fn es256_signs_as_other_implementations_verify() {
        for _ in 0..50 {
            let key = key();
            let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, key.der_bytes());
            let signature = sign_jwt(JwtAlgorithm::Es256, &key.serialize_pem(), None, MESSAGE)
                .expect("a signature");
            assert_eq!(signature.len(), 2 * P256_BYTES);
            public.verify(MESSAGE, &signature).expect("valid");
            assert!(public.verify(b"header.other", &signature).is_err());
        }
    }

    #[test]
    fn an_encrypted_key_signs_with_its_passphrase() {
        let pem = include_str!("../../tests/keys/scrypt.key");
        let sign = |passphrase| sign_jwt(JwtAlgorithm::Es256, pem, passphrase, MESSAGE);
        assert!(sign(Some("correct horse")).is_ok());
        for (passphrase, words) in [(Some("wrong"), "another password"), (None, "no password")] {
            let error = sign(passphrase).expect_err("not this one").to_string();
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn numbers_of_a_signature_have_a_fixed_length() {
        let short = [0x30, 8, 0x02, 1, 5, 0x02, 3, 0, 0xff, 1];
        let signature = fixed(&short).expect("two numbers");
        assert_eq!(signature[31], 5);
        assert_eq!(signature[62..], [0xff, 1]);
        let too_long = [&[0x30, 38, 0x02, 33][..], &[1; 33], &[0x02, 1, 1]].concat();
        for broken in [&short[..9], &[0x30], &[], &[0x30, 0], &[0x31, 0], &too_long] {
            assert_eq!(fixed(broken), None);
        }
    }

    #[test]
    fn a_key_that_cannot_sign_is_refused_without_its_text() {
        let other = KeyPair::generate_for(&PKCS_ECDSA_P384_SHA384).expect("a key");
        let good = key().serialize_pem();
        let cases = [
            (String::new(), "contains no PEM private key"),
            (good.replace("-----END", "END"), "has no END line"),
            (good.replace("MIG", "MIH"), "is not a key that can sign"),
            (other.serialize_pem(), "is not an EC key of the curve P-256"),
            (
                good.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"),
                "there is no password",
            ),
        ];
        for (pem, words) in cases {
            let error = sign_jwt(JwtAlgorithm::Es256, &pem, None, MESSAGE).expect_err("no key");
            assert!(error.to_string().contains(words), "{error}");
            assert!(!error.to_string().contains("MI"));
        }
        let error = sign_jwt(JwtAlgorithm::Rs256, &good, None, MESSAGE).expect_err("no RSA");
        assert!(error.to_string().contains("is not an RSA key"), "{error}");
    }
}
