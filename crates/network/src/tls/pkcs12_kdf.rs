//! Derives keys from a password as PKCS#12 does (RFC 7292, appendix B).

use ring::digest::{Algorithm, digest};

use super::encryption::{Problem, Work};

/// What the key is for. The number is part of the derivation.
#[derive(Debug, Clone, Copy)]
pub(super) enum Purpose {
    Key = 1,
    Iv = 2,
    Mac = 3,
}

/// Derives `length` bytes. An empty password is that of a store "without a password".
pub(super) fn derive(
    hash: &'static Algorithm,
    password: &str,
    salt: &[u8],
    purpose: Purpose,
    iterations: u64,
    length: usize,
    work: &mut Work,
) -> Result<Vec<u8>, Problem> {
    if iterations == 0 {
        return Err(Problem::Malformed);
    }
    let rounds = length.div_ceil(hash.output_len()) as u64;
    work.spend(iterations.saturating_mul(rounds))?;
    let block = hash.block_len();
    // Java and OpenSSL both end the password with a NUL, also an empty one.
    let password: Vec<u8> = password
        .encode_utf16()
        .chain([0])
        .flat_map(u16::to_be_bytes)
        .collect();
    let mut input = repeated(salt, block);
    input.extend(repeated(&password, block));
    let diversifier = vec![purpose as u8; block];
    let mut derived = Vec::new();
    loop {
        let mut last = digest(hash, &[&diversifier[..], &input].concat());
        for _ in 1..iterations {
            last = digest(hash, last.as_ref());
        }
        derived.extend_from_slice(last.as_ref());
        if derived.len() >= length {
            derived.truncate(length);
            return Ok(derived);
        }
        let addend: Vec<u8> = last.as_ref().iter().copied().cycle().take(block).collect();
        for chunk in input.chunks_mut(block) {
            add(chunk, &addend);
        }
    }
}

/// Repeats the bytes until they fill whole blocks. Nothing stays nothing.
fn repeated(bytes: &[u8], block: usize) -> Vec<u8> {
    let length = bytes.len().div_ceil(block) * block;
    bytes.iter().copied().cycle().take(length).collect()
}

/// Adds `addend + 1` to a big-endian number.
fn add(number: &mut [u8], addend: &[u8]) {
    let mut carry = 1;
    for (digit, other) in number.iter_mut().zip(addend).rev() {
        let sum = u16::from(*digit) + u16::from(*other) + carry;
        *digit = sum as u8;
        carry = sum >> 8;
    }
}

#[cfg(test)]
mod tests {
    use ring::digest::SHA1_FOR_LEGACY_USE_ONLY as SHA1;

    use super::*;

    fn hex(bytes: &[u8]) -> String {
        use std::fmt::Write as _;
        bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }

    /// Vectors of OpenSSL and of other libraries' tests, for the password "smeg".
    #[test]
    fn keys_are_those_of_other_libraries() {
        let salt = [0x0a, 0x58, 0xcf, 0x64, 0x53, 0x0d, 0x82, 0x3f];
        let mut work = Work::new();
        let key = derive(&SHA1, "smeg", &salt, Purpose::Key, 1, 24, &mut work);
        let key = key.expect("little work");
        assert_eq!(
            hex(&key),
            "8aaae6297b6cb04642ab5b077851284eb7128f1a2a7fbca3"
        );
        let iv = derive(&SHA1, "smeg", &salt, Purpose::Iv, 1, 8, &mut work);
        assert_eq!(hex(&iv.expect("little work")), "79993dfe048d3b76");
    }

    #[test]
    fn the_work_is_limited_before_it_starts() {
        let mut work = Work::new();
        let endless = derive(&SHA1, "p", b"salt", Purpose::Key, u64::MAX, 24, &mut work);
        assert_eq!(endless, Err(Problem::TooMuchWork));
        let none = derive(&SHA1, "p", b"salt", Purpose::Key, 0, 24, &mut work);
        assert_eq!(none, Err(Problem::Malformed));
    }
}
