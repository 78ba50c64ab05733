//! Entry points for fuzzing: plain functions over arbitrary bytes. They must return, whatever the
//! bytes, and assert that what was read can be written and read again to the same.

use bytes::Bytes;

use crate::{ApiKey, DecodeError, EncodeError, Reader};

/// Why a message did not come out again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecodeError {
    #[error("not read: {0}")]
    Decode(#[from] DecodeError),
    #[error("not written: {0}")]
    Encode(#[from] EncodeError),
}

/// Reads a typed request or response and writes it again; `None` for APIs without typed messages.
pub fn recode_typed(
    key: ApiKey,
    response: bool,
    version: i16,
    body: Bytes,
) -> Option<Result<Vec<u8>, RecodeError>> {
    crate::generated::messages::recode(key.0, response, version, &mut Reader::new(body))
}
