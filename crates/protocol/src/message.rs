//! The traits of typed messages.

use std::fmt::Debug;
use std::ops::RangeInclusive;

use crate::{ApiKey, DecodeError, EncodeError, Reader};

/// A request, response, header or other message with versions.
pub trait Message: Sized + Default + Clone + PartialEq + Debug {
    const NAME: &'static str;
    const VERSIONS: RangeInclusive<i16>;

    /// Appends the message. A field that this version does not carry is left out if it has its
    /// default value or may be ignored. Otherwise it is an error.
    fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError>;

    /// Reads the message, and leaves the bytes after it unread. Fields that this version does not
    /// carry get their defaults, and unknown tagged fields are skipped.
    fn decode(input: &mut Reader, version: i16) -> Result<Self, DecodeError>;
}

/// A message that has an API key and a response.
pub trait Request: Message {
    const KEY: ApiKey;
    type Response: Message;
}
