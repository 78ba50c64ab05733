//! Reads private keys from PEM, also encrypted ones (PKCS#8).

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::pem::{self, PemObject as _};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

use super::der::{Der, tag};
use super::encryption::{self, Problem, Work};

const BEGIN_ENCRYPTED: &str = "-----BEGIN ENCRYPTED PRIVATE KEY-----";
const END_ENCRYPTED: &str = "-----END ENCRYPTED PRIVATE KEY-----";

/// Why a private key cannot be read. The text completes a sentence that begins with the name of an
/// option or a file. It contains no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyError {
    /// There is no private key in the text.
    Missing,
    /// A part of the text is not PEM, or not a key.
    Malformed,
    /// A BEGIN line has no END line.
    Unfinished,
    /// The key is encrypted, and there is no password.
    NoPassword,
    WrongPassword,
    /// The key is encrypted in the way of OpenSSL before 1.0, which is easy to break.
    OldEncryption,
    /// The derivation of the key from the password would take too long.
    TooMuchWork,
    /// Names the algorithm.
    Unsupported(&'static str),
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "contains no PEM private key (BEGIN PRIVATE KEY)",
            Self::Malformed => {
                "contains a private key that cannot be read. Convert it with `openssl pkcs8 -topk8 \
                 -in old.key -out new.key`"
            }
            Self::Unfinished => {
                "a BEGIN line has no END line. Check that the text still has its line breaks"
            }
            Self::NoPassword => "the private key is encrypted, and there is no password for it",
            Self::WrongPassword => "the private key is encrypted with another password",
            Self::OldEncryption => {
                "the private key is encrypted in an old and weak way (Proc-Type: 4,ENCRYPTED). \
                 Convert it with `openssl pkcs8 -topk8 -in old.key -out new.key`"
            }
            Self::TooMuchWork => {
                "the private key needs too much work to derive its key from the password. \
                 Encrypt it again with fewer iterations"
            }
            Self::Unsupported(what) => {
                return write!(
                    f,
                    "the private key is encrypted with {what}, which is not supported. Convert it \
                     with `openssl pkcs8 -topk8 -in old.key -out new.key`"
                );
            }
        })
    }
}

impl From<Problem> for KeyError {
    fn from(problem: Problem) -> Self {
        match problem {
            Problem::Malformed => Self::Malformed,
            Problem::WrongPassword => Self::WrongPassword,
            Problem::TooMuchWork => Self::TooMuchWork,
            Problem::Unsupported(what) => Self::Unsupported(what),
        }
    }
}

/// Whether the first private key of a PEM text needs a password.
pub fn is_encrypted(pem: &[u8]) -> bool {
    find(pem, BEGIN_ENCRYPTED).is_some()
}

/// Returns the first private key of a PEM text. The password is only used for an encrypted key.
///
/// It may take seconds for an encrypted key, so it must not run on the I/O thread.
pub fn private_key(pem: &[u8], password: Option<&str>) -> Result<PrivateKeyDer<'static>, KeyError> {
    if find(pem, "Proc-Type: 4,ENCRYPTED").is_some() {
        return Err(KeyError::OldEncryption);
    }
    if let Some(begin) = find(pem, BEGIN_ENCRYPTED) {
        let body = &pem[begin + BEGIN_ENCRYPTED.len()..];
        let end = find(body, END_ENCRYPTED).ok_or(KeyError::Unfinished)?;
        let base64: Vec<u8> = body[..end]
            .iter()
            .copied()
            .filter(|byte| !byte.is_ascii_whitespace())
            .collect();
        let der = STANDARD.decode(base64).map_err(|_| KeyError::Malformed)?;
        let password = password.ok_or(KeyError::NoPassword)?;
        let key = decrypted(&der, password, &mut Work::new())?;
        return Ok(PrivatePkcs8KeyDer::from(key).into());
    }
    PrivateKeyDer::from_pem_slice(pem).map_err(|error| match error {
        pem::Error::NoItemsFound => KeyError::Missing,
        pem::Error::MissingSectionEnd { .. } | pem::Error::IllegalSectionStart { .. } => {
            KeyError::Unfinished
        }
        _ => KeyError::Malformed,
    })
}

/// Decrypts an `EncryptedPrivateKeyInfo`: `SEQUENCE { algorithm, encryptedData }`.
pub(super) fn decrypted(der: &[u8], password: &str, work: &mut Work) -> Result<Vec<u8>, Problem> {
    let mut info = Der::new(der).sequence()?;
    let algorithm = info.sequence()?;
    let data = info.expect(tag::OCTET_STRING)?;
    let key = encryption::decrypt(algorithm, data, password, work)?;
    // One wrong password of 256 gives a padding that looks right.
    if is_private_key(&key) {
        Ok(key)
    } else {
        Err(Problem::WrongPassword)
    }
}

/// Whether this is a `PrivateKeyInfo`: `SEQUENCE { version, algorithm, privateKey, ... }`.
fn is_private_key(der: &[u8]) -> bool {
    let mut outside = Der::new(der);
    let Ok(mut info) = outside.sequence() else {
        return false;
    };
    outside.is_empty()
        && info.number().is_ok()
        && info.sequence().is_ok()
        && info.expect(tag::OCTET_STRING).is_ok()
}

fn find(text: &[u8], word: &str) -> Option<usize> {
    text.windows(word.len())
        .position(|window| window == word.as_bytes())
}
