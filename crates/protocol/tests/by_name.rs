//! The by-name codec: round trips for every message and version, and what it refuses.

mod support;

use bytes::Bytes;
use proptest::prelude::*;
use thalweg_protocol::dynamic::{self, MessageSchema, Value};
use thalweg_protocol::{ApiKey, DecodeError, EncodeError, Reader, SplitMix64, Uuid};

/// Returns the schema of every message.
fn messages() -> impl Iterator<Item = &'static MessageSchema> {
    let apis = dynamic::schemas()
        .iter()
        .flat_map(|api| [&api.request, &api.response]);
    apis.chain(dynamic::data_schemas())
}

fn encode(schema: &MessageSchema, version: i16, value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    dynamic::encode_message(schema, version, value, &mut out)
        .unwrap_or_else(|e| panic!("{} {version}: {e}", schema.name));
    out
}

fn decode(schema: &MessageSchema, version: i16, bytes: &[u8]) -> Value {
    let mut input = Reader::new(Bytes::copy_from_slice(bytes));
    let value = dynamic::decode_message(schema, version, &mut input)
        .unwrap_or_else(|e| panic!("{} {version}: {e}", schema.name));
    input
        .finish()
        .unwrap_or_else(|e| panic!("{} {version}: {e}", schema.name));
    value
}

/// Checks that `all` contains every value of `given`.
fn assert_contains(all: &Value, given: &Value) {
    match (all, given) {
        (Value::Struct(_), Value::Struct(fields)) => {
            for (name, value) in fields {
                assert_contains(all.get(name).expect("every field is decoded"), value);
            }
        }
        (Value::Array(all), Value::Array(given)) => {
            assert_eq!(all.len(), given.len());
            all.iter()
                .zip(given)
                .for_each(|(all, given)| assert_contains(all, given));
        }
        _ => assert_eq!(all, given),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_message_comes_back_in_every_version(seed: u64, set in 0_u64..=100) {
        let mut random = SplitMix64::new(seed);
        for schema in messages() {
            for version in schema.versions.min..=schema.versions.max {
                let value = support::message(schema, version, set, &mut random);
                let bytes = encode(schema, version, &value);
                let read = decode(schema, version, &bytes);
                assert_contains(&read, &value);
                prop_assert_eq!(encode(schema, version, &read), bytes);
            }
        }
    }
}

#[test]
fn a_missing_field_takes_its_default() {
    let body = Value::Struct(vec![("Topics", Value::Null)]);
    let bytes = dynamic::encode_request_body(ApiKey::METADATA, 4, &body).expect("valid");
    // A null array, and AllowAutoTopicCreation, whose default is true.
    assert_eq!(bytes, [0xff, 0xff, 0xff, 0xff, 1]);
}

#[test]
fn a_field_the_version_lacks_is_decoded_as_its_default() {
    let mut input = Reader::new(Bytes::from_static(&[0, 0, 0, 0]));
    let value = dynamic::decode_request_body(ApiKey::METADATA, 0, &mut input).expect("valid");
    assert_eq!(
        value.get("AllowAutoTopicCreation"),
        Some(&Value::Bool(true))
    );
}

#[test]
fn an_unknown_name_is_an_error_with_the_nearest_valid_name() {
    for (wrong, right) in [
        ("topics", "Topics"),
        ("AllowAutoCreation", "AllowAutoTopicCreation"),
    ] {
        let body = Value::Struct(vec![(wrong, Value::Null)]);
        let error = dynamic::encode_request_body(ApiKey::METADATA, 9, &body).unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("MetadataRequest has no field `{wrong}`, did you mean `{right}`?")
        );
    }
    let topic = Value::Struct(vec![("name_of", Value::from("t"))]);
    let body = Value::Struct(vec![("Topics", Value::Array(vec![topic]))]);
    let error = dynamic::encode_request_body(ApiKey::METADATA, 9, &body).unwrap_err();
    assert_eq!(
        error.to_string(),
        "MetadataRequestTopic has no field `name_of`, did you mean `Name`?"
    );
}

fn refusal(key: ApiKey, version: i16, fields: Vec<(&'static str, Value)>) -> EncodeError {
    dynamic::encode_request_body(key, version, &Value::Struct(fields)).unwrap_err()
}

#[test]
fn a_value_that_would_be_lost_is_refused_and_an_ignorable_one_is_dropped() {
    assert_eq!(
        refusal(
            ApiKey::METADATA,
            3,
            vec![("AllowAutoTopicCreation", false.into())]
        ),
        EncodeError::UnsupportedField {
            field: "AllowAutoTopicCreation",
            version: 3
        }
    );
    let body = Value::Struct(vec![("RackId", "r".into())]);
    let without = dynamic::encode_request_body(ApiKey::FETCH, 10, &body).expect("ignorable");
    let nothing = Value::Struct(vec![]);
    assert_eq!(
        Ok(without),
        dynamic::encode_request_body(ApiKey::FETCH, 10, &nothing)
    );
}

#[test]
fn values_of_the_wrong_type_range_or_number_are_refused() {
    let wrong = |value| refusal(ApiKey::PRODUCE, 9, vec![("Acks", value)]);
    assert_eq!(
        wrong(Value::Int(40_000)).to_string(),
        "40000 does not fit into Acks, which is an int16"
    );
    assert_eq!(
        wrong("1".into()).to_string(),
        "Acks takes an int16, not a string"
    );
    assert_eq!(
        wrong(Value::Null).to_string(),
        "Acks takes an int16, not null"
    );
    assert_eq!(
        refusal(
            ApiKey::PRODUCE,
            9,
            vec![("Acks", 1_i16.into()), ("Acks", 0_i16.into())]
        ),
        EncodeError::RepeatedField { field: "Acks" }
    );
    // A null within an array of strings.
    let topics = Value::Array(vec![Value::Null]);
    assert_eq!(
        refusal(ApiKey::DELETE_TOPICS, 4, vec![("TopicNames", topics)]).to_string(),
        "TopicNames takes a string, not null"
    );
}

#[test]
fn a_null_that_only_newer_versions_know_is_refused() {
    assert_eq!(
        refusal(ApiKey::METADATA, 0, vec![("Topics", Value::Null)]),
        EncodeError::UnexpectedNull {
            field: "Topics",
            version: 0
        }
    );
}

#[test]
fn a_string_too_long_for_kafka_is_refused() {
    let long = "x".repeat(40_000);
    for version in [0, 5] {
        let fields = vec![("GroupId", Value::from(long.as_str()))];
        assert!(matches!(
            refusal(ApiKey::SYNC_GROUP, version, fields),
            EncodeError::TooLong { length: 40_000, .. }
        ));
    }
}

#[test]
fn unstable_and_unknown_versions_and_keys_are_refused() {
    let nothing = Value::Struct(vec![]);
    for (key, version) in [(ApiKey::INIT_PRODUCER_ID, 6), (ApiKey::PRODUCE, 2)] {
        assert!(matches!(
            dynamic::encode_request_body(key, version, &nothing),
            Err(EncodeError::UnsupportedVersion { .. })
        ));
        assert!(matches!(
            dynamic::decode_response_body(key, version, &mut Reader::new(Bytes::new())),
            Err(DecodeError::UnsupportedVersion { .. })
        ));
    }
    assert_eq!(
        dynamic::encode_request_body(ApiKey(-5), 0, &nothing),
        Err(EncodeError::UnknownApi(-5))
    );
}

#[test]
fn a_uuid_may_be_given_as_text() {
    let id = Uuid::from_u64_pair(7, 9);
    let body = |id: Value| {
        let topic = Value::Struct(vec![("TopicId", id)]);
        Value::Struct(vec![("Topics", Value::Array(vec![topic]))])
    };
    let key = ApiKey::METADATA;
    let text = Value::from(id.to_string().as_str());
    assert_eq!(
        dynamic::encode_request_body(key, 12, &body(text)),
        dynamic::encode_request_body(key, 12, &body(id.into()))
    );
    assert!(matches!(
        dynamic::encode_request_body(key, 12, &body("not one".into())),
        Err(EncodeError::WrongType {
            field: "TopicId",
            ..
        })
    ));
}

#[test]
fn unknown_tagged_fields_are_stepped_over() {
    let body = Value::Struct(vec![("ErrorCode", 3_i16.into())]);
    let mut bytes = dynamic::encode_response_body(ApiKey::HEARTBEAT, 4, &body).expect("valid");
    assert_eq!(bytes.pop(), Some(0), "no tagged fields");
    bytes.extend([2, 5, 2, b'h', b'i', 0x80, 0x01, 0]);
    let mut input = Reader::new(Bytes::from(bytes));
    let value = dynamic::decode_response_body(ApiKey::HEARTBEAT, 4, &mut input).expect("valid");
    assert_eq!(value.get("ErrorCode"), Some(&Value::Int(3)));
}
