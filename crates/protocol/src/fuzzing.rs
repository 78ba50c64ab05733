//! Entry points for fuzzing: plain functions that accept any bytes.
//!
//! They must return, whatever the bytes are. Each message that can be decoded must decode again
//! after it was encoded, and the typed and the by-name codec must agree on every byte. The fuzzer
//! calls these functions, and an ordinary test runs them over the committed corpus.
//!
//! An input of a message starts with API key and version, one byte each.

use bytes::Bytes;

use crate::dynamic::{self, MessageSchema};
use crate::{ApiKey, DecodeError, EncodeError, Message, Reader, frame};

/// Why a message could not be decoded and encoded again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecodeError {
    #[error("not read: {0}")]
    Decode(#[from] DecodeError),
    #[error("not written: {0}")]
    Encode(#[from] EncodeError),
}

/// An operation that works with any message type.
pub trait Visitor {
    type Output;
    fn visit<M: Message>(self) -> Self::Output;
}

/// Calls the visitor with the type of an API's request or response. Returns `None` for APIs without
/// typed messages.
pub fn visit<V: Visitor>(key: ApiKey, response: bool, visitor: V) -> Option<V::Output> {
    crate::generated::messages::visit(key.0, response, visitor)
}

struct Recode(i16, Bytes);

impl Visitor for Recode {
    type Output = Result<Vec<u8>, RecodeError>;

    fn visit<M: Message>(self) -> Self::Output {
        let mut input = Reader::new(self.1);
        let message = M::decode(&mut input, self.0)?;
        input.finish()?;
        let mut out = Vec::new();
        message.encode(&mut out, self.0)?;
        Ok(out)
    }
}

/// Decodes a typed request or response and encodes it again. Returns `None` for APIs without typed
/// messages.
pub fn recode_typed(
    key: ApiKey,
    response: bool,
    version: i16,
    body: Bytes,
) -> Option<Result<Vec<u8>, RecodeError>> {
    visit(key, response, Recode(version, body))
}

/// Decodes a message by name and encodes it again.
pub fn recode_by_name(
    schema: &MessageSchema,
    version: i16,
    body: Bytes,
) -> Result<Vec<u8>, RecodeError> {
    let mut input = Reader::new(body);
    let value = dynamic::decode_message(schema, version, &mut input)?;
    input.finish()?;
    let mut out = Vec::new();
    dynamic::encode_message(schema, version, &value, &mut out)?;
    Ok(out)
}

/// Decodes arbitrary bytes as a request, as a broker does.
pub fn fuzz_decode_request(data: &[u8]) {
    decode(data, false);
}

/// Decodes arbitrary bytes as a response, as a client does.
pub fn fuzz_decode_response(data: &[u8]) {
    decode(data, true);
}

fn decode(data: &[u8], response: bool) {
    let [key, version, body @ ..] = data else {
        return;
    };
    let (key, version) = (ApiKey(i16::from(*key)), i16::from(*version));
    let Some(api) = dynamic::schema(key) else {
        return;
    };
    let schema = if response {
        &api.response
    } else {
        &api.request
    };
    let by_name = check(schema, version, body);
    let typed = recode_typed(key, response, version, Bytes::copy_from_slice(body));
    if let Some(typed) = typed {
        let (typed, by_name) = (typed.ok(), by_name.ok());
        assert_eq!(
            typed, by_name,
            "the typed codec and the codec by name of {} differ",
            schema.name
        );
    }
}

/// Checks that a decoded message can be encoded, and that decoding and encoding it again gives the
/// same bytes.
fn check(schema: &MessageSchema, version: i16, body: &[u8]) -> Result<Vec<u8>, RecodeError> {
    let once = recode_by_name(schema, version, Bytes::copy_from_slice(body));
    match &once {
        Ok(bytes) => {
            let twice = recode_by_name(schema, version, Bytes::from(bytes.clone()));
            assert_eq!(
                twice.as_ref(),
                Ok(bytes),
                "encoding {} and decoding it again changes it",
                schema.name
            );
        }
        Err(RecodeError::Encode(error)) => panic!("{} was decoded: {error}", schema.name),
        Err(RecodeError::Decode(_)) => {}
    }
    once
}

/// Decodes arbitrary bytes as a message that is neither a request nor a response. The first byte
/// selects the message, the second is the version.
pub fn fuzz_decode_data(data: &[u8]) {
    let [which, version, body @ ..] = data else {
        return;
    };
    let schemas = dynamic::data_schemas();
    let schema = &schemas[usize::from(*which) % schemas.len()];
    // The result does not matter: `check` asserts what must hold.
    let _ = check(schema, i16::from(*version), body);
}

/// Decodes arbitrary bytes as the headers of a request and of a response.
pub fn fuzz_decode_headers(data: &[u8]) {
    let mut input = Reader::new(Bytes::copy_from_slice(data));
    if let Ok(header) = frame::decode_request_header(&mut input) {
        let (key, version) = (ApiKey(header.request_api_key), header.request_api_version);
        let client_id = header.client_id.as_deref();
        let head = frame::request_head(key, version, header.correlation_id, client_id, 0)
            .expect("a decoded client id is short enough to be encoded");
        let again = frame::decode_request_header(&mut Reader::new(Bytes::from(head).slice(4..)));
        assert_eq!(again, Ok(header));
    }
    if let [key, version, header @ ..] = data {
        let mut input = Reader::new(Bytes::copy_from_slice(header));
        let (key, version) = (ApiKey(i16::from(*key)), i16::from(*version));
        if let Ok(correlation_id) = frame::decode_response_header(&mut input, key, version) {
            assert_eq!(
                Some(correlation_id.to_be_bytes().as_slice()),
                header.get(..4)
            );
        }
    }
}
