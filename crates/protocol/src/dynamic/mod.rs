//! The by-name codec: any API of Kafka 4.3, its fields by Kafka's own names.
//!
//! ```text
//! Value --encode--> bytes      an interpreter walks the static schema table (schema.rs), field by
//! bytes --decode--> Value      field: no code per API
//! ```
//!
//! Encoding: a field that is not given takes its default; a name the schema does not have is an
//! error. Decoding: every field of the schema is there, those the version lacks at their defaults.
//! Python and the tests live on this; what Rust itself speaks often has typed
//! [`messages`](crate::messages). Both write the same bytes.

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

/// A request's body: what comes after the header.
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

/// A response's body: what comes after the header.
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

/// Reads a request's body, which must fill the rest of the frame.
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

/// Reads a response's body, which must fill the rest of the frame.
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
