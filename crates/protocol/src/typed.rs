//! Helpers for the generated messages.

pub(crate) use std::fmt;

pub(crate) use bytes::Bytes;

pub(crate) use crate::{DecodeError, EncodeError, Message, Reader, Str, Uuid, put};

/// Stands for a secret where a message is shown.
pub(crate) struct Hidden;

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

#[cold]
pub(crate) fn unsupported(field: &'static str, version: i16) -> Result<(), EncodeError> {
    Err(EncodeError::UnsupportedField { field, version })
}

pub(crate) fn not_null<T>(
    value: Option<T>,
    allowed: bool,
    field: &'static str,
    version: i16,
) -> Result<Option<T>, EncodeError> {
    match value {
        None if !allowed => Err(EncodeError::UnexpectedNull { field, version }),
        value => Ok(value),
    }
}

macro_rules! message {
    ($name:ident, $min:literal, $max:literal) => {
        impl Message for $name {
            const NAME: &'static str = stringify!($name);
            const VERSIONS: std::ops::RangeInclusive<i16> = $min..=$max;

            fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError> {
                if !($min..=$max).contains(&version) {
                    return Err(EncodeError::UnsupportedVersion {
                        message: Self::NAME,
                        version,
                    });
                }
                self.write(out, version)
            }

            fn decode(input: &mut Reader, version: i16) -> Result<Self, DecodeError> {
                if !($min..=$max).contains(&version) {
                    return Err(DecodeError::UnsupportedVersion {
                        message: Self::NAME,
                        version,
                    });
                }
                Self::read(input, version)
            }
        }
    };
}

macro_rules! request {
    ($request:ident, $key:literal, $response:ident) => {
        impl crate::Request for $request {
            const KEY: crate::ApiKey = crate::ApiKey($key);
            type Response = $response;
        }
    };
}

pub(crate) use {message, request};
