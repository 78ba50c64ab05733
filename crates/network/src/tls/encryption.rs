//! Decrypts keys and stores that are encrypted with a password (PKCS#5, PKCS#12).
//!
//! | scheme | key from the password | cipher |
//! |---|---|---|
//! | PBES2 (RFC 8018) | PBKDF2 with SHA-1, SHA-256, SHA-384 or SHA-512, or scrypt | AES-CBC, 3DES |
//! | PKCS#12 (RFC 7292) | that of PKCS#12 with SHA-1 | 3DES, RC2 |
//!
//! The file says how much work the derivation is, so [`Work`] limits it before it starts.

use std::num::NonZeroU32;

use aes::{Aes128, Aes192, Aes256};
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{
    BlockCipherDecrypt, BlockModeDecrypt as _, InnerIvInit as _, KeyInit as _, KeyIvInit as _,
};
use des::{TdesEde2, TdesEde3};
use rc2::Rc2;
use ring::pbkdf2;

use super::der::{Der, Malformed, tag};
use super::pkcs12_kdf::{self, Purpose};

/// The number of hash operations that one file may cost, about four seconds.
const HASHES_MAX: u64 = 10_000_000;
/// The memory that scrypt may use. OpenSSL's own limit is 32 MiB.
const SCRYPT_BYTES_MAX: u64 = 128 << 20;
const KEY_BYTES_MAX: usize = 32;

/// Why something cannot be decrypted. It contains no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Problem {
    Malformed,
    WrongPassword,
    TooMuchWork,
    /// Names the algorithm.
    Unsupported(&'static str),
}

impl From<Malformed> for Problem {
    fn from(_: Malformed) -> Self {
        Self::Malformed
    }
}

/// The work that a file may still cost.
#[derive(Debug)]
pub(super) struct Work(u64);

impl Work {
    pub(super) fn new() -> Self {
        Self(HASHES_MAX)
    }

    /// Takes the number of hash operations that the next step costs.
    pub(super) fn spend(&mut self, hashes: u64) -> Result<(), Problem> {
        self.0 = self.0.checked_sub(hashes).ok_or(Problem::TooMuchWork)?;
        Ok(())
    }
}

mod oid {
    pub(super) const PBES2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 13];
    pub(super) const PBKDF2: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 5, 12];
    pub(super) const SCRYPT: &[u8] = &[0x2b, 6, 1, 4, 1, 0xda, 0x47, 4, 11];
    pub(super) const HMAC_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 7];
    pub(super) const HMAC_SHA256: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 9];
    pub(super) const HMAC_SHA384: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 10];
    pub(super) const HMAC_SHA512: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 2, 11];
    pub(super) const AES_128: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 2];
    pub(super) const AES_192: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 22];
    pub(super) const AES_256: &[u8] = &[0x60, 0x86, 0x48, 1, 0x65, 3, 4, 1, 42];
    pub(super) const DES_EDE3: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 3, 7];
    /// The schemes of PKCS#12 have this prefix and one more byte.
    pub(super) const PKCS12: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 1, 12, 1];
}

/// Decrypts `data`. `algorithm` is the contents of its `AlgorithmIdentifier`.
pub(super) fn decrypt(
    mut algorithm: Der<'_>,
    data: &[u8],
    password: &str,
    work: &mut Work,
) -> Result<Vec<u8>, Problem> {
    match algorithm.expect(tag::OID)? {
        oid::PBES2 => pbes2(algorithm.sequence()?, data, password.as_bytes(), work),
        other => match other.strip_prefix(oid::PKCS12) {
            Some([number]) => pkcs12(*number, algorithm.sequence()?, data, password, work),
            _ => Err(Problem::Unsupported("an old or unknown scheme")),
        },
    }
}

/// PBES2: `SEQUENCE { keyDerivationFunc, encryptionScheme }`.
fn pbes2(
    mut params: Der<'_>,
    data: &[u8],
    password: &[u8],
    work: &mut Work,
) -> Result<Vec<u8>, Problem> {
    let (derivation, mut cipher) = (params.sequence()?, params.sequence()?);
    let (cipher, iv) = (
        cipher.expect(tag::OID)?,
        cipher.optional(tag::OCTET_STRING)?,
    );
    let length = match cipher {
        oid::AES_128 => 16,
        oid::AES_192 | oid::DES_EDE3 => 24,
        oid::AES_256 => 32,
        _ => return Err(Problem::Unsupported("a cipher other than AES-CBC and 3DES")),
    };
    let iv = iv.ok_or(Problem::Malformed)?;
    let mut buffer = [0; KEY_BYTES_MAX];
    let key = &mut buffer[..length];
    derive(derivation, password, key, work)?;
    match cipher {
        oid::AES_128 => cbc(cbc::Decryptor::<Aes128>::new_from_slices(key, iv), data),
        oid::AES_192 => cbc(cbc::Decryptor::<Aes192>::new_from_slices(key, iv), data),
        oid::AES_256 => cbc(cbc::Decryptor::<Aes256>::new_from_slices(key, iv), data),
        _ => cbc(cbc::Decryptor::<TdesEde3>::new_from_slices(key, iv), data),
    }
}

fn derive(
    mut derivation: Der<'_>,
    password: &[u8],
    key: &mut [u8],
    work: &mut Work,
) -> Result<(), Problem> {
    match derivation.expect(tag::OID)? {
        oid::PBKDF2 => with_pbkdf2(derivation.sequence()?, password, key, work),
        oid::SCRYPT => with_scrypt(derivation.sequence()?, password, key, work),
        _ => Err(Problem::Unsupported(
            "a key derivation other than PBKDF2 and scrypt",
        )),
    }
}

/// `SEQUENCE { salt, iterationCount, keyLength OPTIONAL, prf DEFAULT hmacWithSHA1 }`.
fn with_pbkdf2(
    mut params: Der<'_>,
    password: &[u8],
    key: &mut [u8],
    work: &mut Work,
) -> Result<(), Problem> {
    let salt = params.expect(tag::OCTET_STRING)?;
    let iterations = params.number()?;
    if params.optional(tag::INTEGER)?.is_some_and(|length| {
        length
            .iter()
            .fold(0, |sum, byte| sum << 8 | usize::from(*byte))
            != key.len()
    }) {
        return Err(Problem::Malformed);
    }
    let hash = if params.is_empty() {
        oid::HMAC_SHA1
    } else {
        params.sequence()?.expect(tag::OID)?
    };
    // The number of hashes per iteration depends on the lengths of the key and of the hash.
    let (hash, blocks) = match hash {
        oid::HMAC_SHA1 => (pbkdf2::PBKDF2_HMAC_SHA1, 2),
        oid::HMAC_SHA256 => (pbkdf2::PBKDF2_HMAC_SHA256, 1),
        oid::HMAC_SHA384 => (pbkdf2::PBKDF2_HMAC_SHA384, 1),
        oid::HMAC_SHA512 => (pbkdf2::PBKDF2_HMAC_SHA512, 1),
        _ => return Err(Problem::Unsupported("PBKDF2 with an unusual hash")),
    };
    work.spend(iterations.saturating_mul(blocks))?;
    let iterations = u32::try_from(iterations).ok().and_then(NonZeroU32::new);
    let iterations = iterations.ok_or(Problem::Malformed)?;
    pbkdf2::derive(hash, iterations, salt, password, key);
    Ok(())
}

const HASHES_PER_BLOCK: u64 = 5;

/// `SEQUENCE { salt, costParameter, blockSize, parallelization, keyLength OPTIONAL }`.
fn with_scrypt(
    mut params: Der<'_>,
    password: &[u8],
    key: &mut [u8],
    work: &mut Work,
) -> Result<(), Problem> {
    let salt = params.expect(tag::OCTET_STRING)?;
    let (cost, block, parallel) = (params.number()?, params.number()?, params.number()?);
    let unit = block.saturating_mul(128);
    let bytes = cost.saturating_mul(unit);
    let blocks = parallel.saturating_mul(unit);
    if bytes.saturating_add(blocks) > SCRYPT_BYTES_MAX {
        return Err(Problem::TooMuchWork);
    }
    // Two passes over the memory, 64 bytes at a time. PBKDF2 writes and reads the blocks, 32 bytes
    // at a time, with several hashes for each.
    work.spend((bytes / 32).saturating_mul(parallel))?;
    work.spend((blocks / 32).saturating_mul(HASHES_PER_BLOCK))?;
    if !cost.is_power_of_two() || cost < 2 {
        return Err(Problem::Malformed);
    }
    let word = |number: u64| u32::try_from(number).map_err(|_| Problem::Malformed);
    let params = scrypt::Params::new(cost.ilog2() as u8, word(block)?, word(parallel)?);
    let params = params.map_err(|_| Problem::Malformed)?;
    scrypt::scrypt(password, salt, &params, key).map_err(|_| Problem::Malformed)
}

/// The schemes of PKCS#12: `SEQUENCE { salt, iterations }`.
fn pkcs12(
    number: u8,
    mut params: Der<'_>,
    data: &[u8],
    password: &str,
    work: &mut Work,
) -> Result<Vec<u8>, Problem> {
    let (salt, iterations) = (params.expect(tag::OCTET_STRING)?, params.number()?);
    let length = match number {
        3 => 24,
        4 | 5 => 16,
        6 => 5,
        _ => return Err(Problem::Unsupported("RC4")),
    };
    let mut derive = |purpose, length| {
        pkcs12_kdf::derive(
            &ring::digest::SHA1_FOR_LEGACY_USE_ONLY,
            password,
            salt,
            purpose,
            iterations,
            length,
            work,
        )
    };
    let (key, iv) = (derive(Purpose::Key, length)?, derive(Purpose::Iv, 8)?);
    match number {
        3 => cbc(cbc::Decryptor::<TdesEde3>::new_from_slices(&key, &iv), data),
        4 => cbc(cbc::Decryptor::<TdesEde2>::new_from_slices(&key, &iv), data),
        _ => {
            // The effective length is that of the key, which `new_from_slice` makes sure of.
            let cipher = Rc2::new_from_slice(&key).map_err(|_| Problem::Malformed)?;
            cbc(cbc::Decryptor::inner_iv_slice_init(cipher, &iv), data)
        }
    }
}

/// Decrypts and removes the padding. A wrong password usually gives a wrong padding.
fn cbc<C: BlockCipherDecrypt, E>(
    cipher: Result<cbc::Decryptor<C>, E>,
    data: &[u8],
) -> Result<Vec<u8>, Problem> {
    let cipher = cipher.map_err(|_| Problem::Malformed)?;
    let mut buffer = data.to_vec();
    let length = match cipher.decrypt_padded::<Pkcs7>(&mut buffer) {
        Ok(plain) => plain.len(),
        Err(_) => return Err(Problem::WrongPassword),
    };
    buffer.truncate(length);
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::super::der::push;
    use super::*;

    /// Returns PBES2 with PBKDF2 and AES-256.
    fn pbkdf2(iterations: &[u8]) -> Vec<u8> {
        let mut params = Vec::new();
        push(&mut params, tag::OCTET_STRING, b"saltsalt");
        push(&mut params, tag::INTEGER, iterations);
        let mut derivation = Vec::new();
        push(&mut derivation, tag::OID, oid::PBKDF2);
        push(&mut derivation, tag::SEQUENCE, &params);
        let mut cipher = Vec::new();
        push(&mut cipher, tag::OID, oid::AES_256);
        push(&mut cipher, tag::OCTET_STRING, &[0; 16]);
        let mut both = Vec::new();
        push(&mut both, tag::SEQUENCE, &derivation);
        push(&mut both, tag::SEQUENCE, &cipher);
        let mut algorithm = Vec::new();
        push(&mut algorithm, tag::OID, oid::PBES2);
        push(&mut algorithm, tag::SEQUENCE, &both);
        algorithm
    }

    #[test]
    fn the_number_of_iterations_is_limited_before_the_first_one() {
        let refused = |iterations: &[u8]| {
            let algorithm = pbkdf2(iterations);
            decrypt(Der::new(&algorithm), &[0; 16], "password", &mut Work::new())
        };
        for endless in [&[0x7f; 4][..], &[0x7f; 8], &[0, 0xff, 0xff, 0xff, 0xff]] {
            assert_eq!(refused(endless), Err(Problem::TooMuchWork));
        }
        for nonsense in [&[0][..], &[0xff], &[1; 9]] {
            assert_eq!(refused(nonsense), Err(Problem::Malformed));
        }
        assert_eq!(refused(&[1]), Err(Problem::WrongPassword));
    }

    #[test]
    fn the_parts_of_a_file_share_the_limit() {
        let mut work = Work::new();
        assert_eq!(work.spend(HASHES_MAX - 1), Ok(()));
        assert_eq!(work.spend(1), Ok(()));
        assert_eq!(work.spend(1), Err(Problem::TooMuchWork));
    }
}
