//! `Debug` of a message does not show its secrets, typed or by name.

use bytes::Bytes;
use thalweg_protocol::dynamic::{self, FieldSchema, Kind, StructSchema, Value};
use thalweg_protocol::fuzzing::{Visitor, visit};
use thalweg_protocol::{Message, Reader};

const SENTINEL: &str = "Sentinel-4711";

/// Returns a struct with the sentinel in each hidden field, or `None` if it hides nothing.
fn sample(schema: &'static StructSchema) -> Option<Value> {
    let fields: Vec<(&'static str, Value)> = schema
        .fields
        .iter()
        .filter_map(|field| Some((field.name, sample_of(field)?)))
        .collect();
    (!fields.is_empty()).then_some(Value::Struct(fields))
}

fn sample_of(field: &FieldSchema) -> Option<Value> {
    match field.kind {
        Kind::String if field.hidden => Some(Value::from(SENTINEL)),
        Kind::Bytes if field.hidden => Some(Bytes::from_static(SENTINEL.as_bytes()).into()),
        Kind::Struct(schema) => sample(schema),
        Kind::Array(Kind::Struct(schema)) => Some(Value::Array(vec![sample(schema)?])),
        _ => None,
    }
}

struct Debugged(Bytes, i16);

impl Visitor for Debugged {
    type Output = String;
    fn visit<M: Message>(self) -> Self::Output {
        let message = M::decode(&mut Reader::new(self.0), self.1).expect("valid");
        format!("{message:?} {message:#?}")
    }
}

fn assert_hidden(shown: &str, name: &str) {
    assert!(shown.contains("[hidden]"), "{name}: {shown}");
    assert!(!shown.contains(SENTINEL), "{name}: {shown}");
}

#[test]
fn debug_of_a_message_hides_its_secrets() {
    let (mut by_name, mut typed) = (0, 0);
    for api in dynamic::schemas() {
        for (response, schema) in [(false, &api.request), (true, &api.response)] {
            let Some(value) = sample(schema.root) else {
                continue;
            };
            by_name += 1;
            assert_hidden(&format!("{value:?} {value:#?}"), schema.name);
            let version = schema.versions.max;
            let mut bytes = Vec::new();
            dynamic::encode_message(schema, version, &value, &mut bytes).expect("valid");
            assert!(
                bytes
                    .windows(SENTINEL.len())
                    .any(|part| part == SENTINEL.as_bytes())
            );
            if let Some(shown) = visit(api.key, response, Debugged(Bytes::from(bytes), version)) {
                typed += 1;
                assert_hidden(&shown, schema.name);
            }
        }
    }
    assert_eq!((by_name, typed), (12, 10));
}

#[test]
fn other_fields_are_shown() {
    let value = Value::Struct(vec![
        ("TokenId", Value::from("t-1")),
        ("Hmac", Bytes::from_static(b"secret").into()),
        ("Renewers", Value::Array(vec![Value::Null, Value::Int(3)])),
    ]);
    let shown = r#"{"TokenId": "t-1", "Hmac": [hidden], "Renewers": [Null, 3]}"#;
    assert_eq!(format!("{value:?}"), shown);
}
