//! The traits of typed messages.

use std::fmt::Debug;
use std::ops::RangeInclusive;

use crate::{ApiKey, DecodeError, EncodeError, Reader};

/// A request, response, header or other message with versions.
pub trait Message: Sized + Default + Clone + PartialEq + Debug {
    const NAME: &'static str;
    const VERSIONS: RangeInclusive<i16>;

    /// Appends the message. A field that this version does not carry is left out if it is at its
    /// default or may be ignored, else it is an error.
    fn encode(&self, out: &mut Vec<u8>, version: i16) -> Result<(), EncodeError>;

    /// Reads the message and leaves what follows it. Fields that this version does not carry have
    /// their defaults, tagged fields that nobody knows are stepped over.
    fn decode(input: &mut Reader, version: i16) -> Result<Self, DecodeError>;
}

/// A message that has an API key and an answer.
pub trait Request: Message {
    const KEY: ApiKey;
    type Response: Message;
}
