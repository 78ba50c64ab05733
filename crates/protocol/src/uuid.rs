//! [`Uuid`]: a topic id or another id, in Kafka's text form.

use std::fmt;
use std::str::FromStr;

use crate::DecodeError;

/// An id of 16 bytes. It is displayed as URL-safe base64 without padding, as in Kafka.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid(pub [u8; 16]);

impl Uuid {
    /// The value for "no id".
    pub const ZERO: Self = Self([0; 16]);

    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    pub const fn from_u64_pair(high: u64, low: u64) -> Self {
        Self((((high as u128) << 64) | low as u128).to_be_bytes())
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0; 22];
        // 128 bits and four padding bits of zero make 22 digits of six bits.
        let bits = u128::from_be_bytes(self.0);
        for (i, digit) in text.iter_mut().enumerate() {
            let value = if i == 21 {
                bits << 4
            } else {
                bits >> (122 - 6 * i)
            };
            *digit = ALPHABET[(value & 63) as usize];
        }
        f.write_str(std::str::from_utf8(&text).expect("the alphabet is ASCII"))
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Uuid {
    type Err = DecodeError;

    fn from_str(text: &str) -> Result<Self, DecodeError> {
        let bad = || DecodeError::NotUuid(text.chars().take(40).collect());
        if text.len() != 22 {
            return Err(bad());
        }
        let mut bits: u128 = 0;
        for (i, digit) in text.bytes().enumerate() {
            let value = ALPHABET.iter().position(|c| *c == digit).ok_or_else(bad)? as u128;
            bits = if i < 21 {
                (bits << 6) | value
            } else if value.trailing_zeros() >= 4 {
                (bits << 2) | (value >> 4)
            } else {
                return Err(bad());
            };
        }
        Ok(Self(bits.to_be_bytes()))
    }
}
