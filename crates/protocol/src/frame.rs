//! Encodes and decodes frames: a length, a header, a message. It does no I/O.
//!
//! ```text
//! request:  | length i32 | key i16, version i16, correlation id i32, client id, (tags) | body |
//! response: | length i32 | correlation id i32, (tags)                                  | body |
//! ```
//!
//! Flexible versions have tags, with one exception: the header of an `ApiVersions` response never
//! has them, as a client must be able to read it before it knows the version. Readers in this
//! module start after the length.

use crate::messages::header::RequestHeader;
use crate::{ApiKey, DecodeError, EncodeError, Message, Reader, Request, dynamic, put};

/// Returns the version of a request's header: 2 in flexible versions, otherwise 1.
pub fn request_header_version(key: ApiKey, version: i16) -> i16 {
    let flexible = dynamic::schema(key).is_some_and(|api| is_flexible(&api.request, version));
    if flexible { 2 } else { 1 }
}

/// Returns the version of a response's header: 1 in flexible versions, otherwise 0.
pub fn response_header_version(key: ApiKey, version: i16) -> i16 {
    if key == ApiKey::API_VERSIONS {
        return 0;
    }
    i16::from(dynamic::schema(key).is_some_and(|api| is_flexible(&api.response, version)))
}

/// Returns whether a version is flexible. An unknown newer version is flexible if the newest known
/// one is. So a broker can read the header of a newer request and refuse it properly.
fn is_flexible(message: &dynamic::MessageSchema, version: i16) -> bool {
    let flexible = message.flexible;
    flexible.contains(version)
        || (version > message.versions.max && flexible.contains(message.versions.max))
}

/// Encodes the whole frame of a request, including its length.
pub fn encode_request<R: Request>(
    request: &R,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
) -> Result<Vec<u8>, EncodeError> {
    encode_request_with_room(request, version, correlation_id, client_id, 0)
}

/// Encodes a request, and reserves `room` bytes more than a small request needs. So the buffer does
/// not grow, and leaves no copy of a secret in freed memory.
pub fn encode_request_with_room<R: Request>(
    request: &R,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
    room: usize,
) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::with_capacity(128 + client_id.map_or(0, str::len) + room);
    put::i32(&mut out, 0);
    put_request_header(&mut out, R::KEY, version, correlation_id, client_id)?;
    request.encode(&mut out, version)?;
    put_length(&mut out, 0)?;
    Ok(out)
}

/// Appends the header of a request: the bytes between the length and the body.
pub fn put_request_header(
    out: &mut Vec<u8>,
    key: ApiKey,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
) -> Result<(), EncodeError> {
    put::i16(out, key.0);
    put::i16(out, version);
    put::i32(out, correlation_id);
    // Never compact, so that every broker can read it.
    put::nullable_string(out, false, client_id)?;
    if request_header_version(key, version) >= 2 {
        put::uvarint(out, 0);
    }
    Ok(())
}

/// Encodes the length and header of a request whose body follows in pieces of `body_length` bytes
/// in total.
pub fn request_head(
    key: ApiKey,
    version: i16,
    correlation_id: i32,
    client_id: Option<&str>,
    body_length: usize,
) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::with_capacity(32 + client_id.map_or(0, str::len));
    put::i32(&mut out, 0);
    put_request_header(&mut out, key, version, correlation_id, client_id)?;
    put_length(&mut out, body_length)?;
    Ok(out)
}

/// Sets the length of a frame whose first four bytes were reserved for it.
fn put_length(frame: &mut [u8], more: usize) -> Result<(), EncodeError> {
    let length = frame.len() - 4 + more;
    let max = i32::MAX as usize;
    let value = i32::try_from(length).map_err(|_| EncodeError::TooLong {
        what: "a frame",
        length,
        max,
    })?;
    frame[..4].copy_from_slice(&value.to_be_bytes());
    Ok(())
}

/// Reads the header of a request of any API and version.
///
/// For an unknown API, tags may or may not follow. The reader is then after the client id, and the
/// body cannot be read.
pub fn decode_request_header(input: &mut Reader) -> Result<RequestHeader, DecodeError> {
    let request_api_key = input.i16()?;
    let request_api_version = input.i16()?;
    let correlation_id = input.i32()?;
    let client_id = input.nullable_string(false)?;
    if request_header_version(ApiKey(request_api_key), request_api_version) >= 2 {
        input.skip_tagged_fields()?;
    }
    Ok(RequestHeader {
        request_api_key,
        request_api_version,
        correlation_id,
        client_id,
    })
}

/// Encodes the whole frame of a response, including its length. `version` is that of the request.
pub fn encode_response<M: Message>(
    key: ApiKey,
    version: i16,
    correlation_id: i32,
    message: &M,
) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::with_capacity(128);
    put::i32(&mut out, 0);
    put_response_header(&mut out, key, version, correlation_id);
    message.encode(&mut out, version)?;
    put_length(&mut out, 0)?;
    Ok(out)
}

/// Appends the header of a response: the bytes between the length and the body.
pub fn put_response_header(out: &mut Vec<u8>, key: ApiKey, version: i16, correlation_id: i32) {
    put::i32(out, correlation_id);
    if response_header_version(key, version) >= 1 {
        put::uvarint(out, 0);
    }
}

/// Encodes the length and header of a response whose body follows in pieces.
pub fn response_head(
    key: ApiKey,
    version: i16,
    correlation_id: i32,
    body_length: usize,
) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::with_capacity(16);
    put::i32(&mut out, 0);
    put_response_header(&mut out, key, version, correlation_id);
    put_length(&mut out, body_length)?;
    Ok(out)
}

/// Reads the header of a response, and returns its correlation id.
pub fn decode_response_header(
    input: &mut Reader,
    key: ApiKey,
    version: i16,
) -> Result<i32, DecodeError> {
    let correlation_id = input.i32()?;
    if response_header_version(key, version) >= 1 {
        input.skip_tagged_fields()?;
    }
    Ok(correlation_id)
}
