//! A request by Kafka's own field names, as Python and the heartbeats make it.

use thalweg_protocol::dynamic::{self, Value};
use thalweg_protocol::{ApiKey, EncodeError};

use super::request::{Request, RequestTarget, Response};
use crate::error::ClientError;

/// An API and its fields: one body for all versions, or one for each range of versions.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedRequest {
    api_key: ApiKey,
    /// Sorted by the lowest version of each range, the highest first.
    bodies: Vec<(i16, Value)>,
}

impl NamedRequest {
    /// Makes a request. Each body is used from its version up to the one where the next body
    /// begins.
    pub fn new(api_key: ApiKey, mut bodies: Vec<(i16, Value)>) -> Self {
        bodies.sort_by_key(|(least, _)| std::cmp::Reverse(*least));
        Self { api_key, bodies }
    }

    pub fn api_key(&self) -> ApiKey {
        self.api_key
    }

    /// Encodes the body in this version. Fails if no body is for it, or if the body has a field
    /// that the version lacks.
    pub fn encode(&self, version: i16) -> Result<Vec<u8>, EncodeError> {
        let fitting = self.bodies.iter().find(|(least, _)| *least <= version);
        let (_, body) = fitting.ok_or(EncodeError::UnsupportedVersion {
            message: "the given request",
            version,
        })?;
        dynamic::encode_request_body(self.api_key, version, body)
    }

    pub fn into_request(self, target: RequestTarget) -> Request {
        Request::new(target, self.api_key, move |version| self.encode(version))
    }

    /// Returns a top-level field, from the newest body that has it.
    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        self.bodies
            .iter()
            .find_map(|(_, body)| body.get(name)?.as_int())
    }

    /// Changes a field wherever it occurs, also in structs within arrays.
    pub(crate) fn set(&mut self, name: &str, value: &Value) {
        for (_, body) in &mut self.bodies {
            set_in(body, name, value);
        }
    }
}

fn set_in(body: &mut Value, name: &str, value: &Value) {
    match body {
        Value::Struct(fields) => {
            for (known, field) in fields {
                if *known == name {
                    field.clone_from(value);
                } else {
                    set_in(field, name, value);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| set_in(item, name, value)),
        _ => {}
    }
}

impl Response {
    /// Decodes the response into a value with Kafka's field names.
    pub fn decode_by_name(mut self) -> Result<Value, ClientError> {
        let found = dynamic::decode_response_body(self.api_key, self.version, &mut self.reader)?;
        Ok(found)
    }
}
