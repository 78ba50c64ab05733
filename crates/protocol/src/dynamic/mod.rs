//! The by-name codec: handles any API of Kafka 4.3, with its fields under Kafka's names.
//!
//! ```text
//! Value --encode--> bytes      an interpreter walks the static schema table (schema.rs), field by
//! bytes --decode--> Value      field: no code per API
//! ```
//!
//! When encoding, a field that is not given gets its default, and a name that is not in the schema
//! is an error. When decoding, every field of the schema is present, and those that the version
//! lacks have their defaults. Python and the tests use this codec. For the APIs that the Rust code
//! uses there are typed [`messages`](crate::messages). Both write the same bytes.

mod decode;
mod encode;
mod nearest;
mod schema;
mod value;

pub use decode::{decode_message, default_value};
pub use encode::encode_message;
pub use schema::{
    ApiSchema, DefaultValue, FieldSchema, Kind, MessageSchema, StructSchema, Versions, data_schema,
    data_schemas, schema, schemas,
};
pub use value::Value;

use crate::{ApiKey, DecodeError, EncodeError, Reader};

fn encode(message: &MessageSchema, version: i16, value: &Value) -> Result<Vec<u8>, EncodeError> {
    let mut out = Vec::with_capacity(128);
    encode_message(message, version, value, &mut out)?;
    Ok(out)
}

/// Encodes a request's body: the bytes after the header.
pub fn encode_request_body(
    key: ApiKey,
    version: i16,
    value: &Value,
) -> Result<Vec<u8>, EncodeError> {
    encode(
        &schema(key).ok_or(EncodeError::UnknownApi(key.0))?.request,
        version,
        value,
    )
}

/// Encodes a response's body: the bytes after the header.
pub fn encode_response_body(
    key: ApiKey,
    version: i16,
    value: &Value,
) -> Result<Vec<u8>, EncodeError> {
    encode(
        &schema(key).ok_or(EncodeError::UnknownApi(key.0))?.response,
        version,
        value,
    )
}

/// Decodes a request's body, which must fill the rest of the frame.
pub fn decode_request_body(
    key: ApiKey,
    version: i16,
    input: &mut Reader,
) -> Result<Value, DecodeError> {
    let api = schema(key).ok_or(DecodeError::UnknownApi(key.0))?;
    let value = decode_message(&api.request, version, input)?;
    input.finish()?;
    Ok(value)
}

/// Decodes a response's body, which must fill the rest of the frame.
pub fn decode_response_body(
    key: ApiKey,
    version: i16,
    input: &mut Reader,
) -> Result<Value, DecodeError> {
    let api = schema(key).ok_or(DecodeError::UnknownApi(key.0))?;
    let value = decode_message(&api.response, version, input)?;
    input.finish()?;
    Ok(value)
}
