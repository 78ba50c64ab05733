//! Typed messages have the same bytes as in the by-name codec, defaults included.

mod support;

use bytes::Bytes;
use proptest::prelude::*;
use thalweg_protocol::dynamic::{self, MessageSchema, Value};
use thalweg_protocol::fuzzing::{Visitor, recode_typed, visit};
use thalweg_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic};
use thalweg_protocol::messages::header::{RequestHeader, ResponseHeader};
use thalweg_protocol::messages::metadata::MetadataRequest;
use thalweg_protocol::{ApiKey, DecodeError, EncodeError, Message, Reader, SplitMix64};

/// Returns all requests and responses: the key, whether it is the response, and the schema.
fn messages() -> impl Iterator<Item = (ApiKey, bool, &'static MessageSchema)> {
    dynamic::schemas().iter().flat_map(|api| {
        [
            (api.key, false, &api.request),
            (api.key, true, &api.response),
        ]
    })
}

struct Name;

impl Visitor for Name {
    type Output = (&'static str, i16, i16);
    fn visit<M: Message>(self) -> Self::Output {
        (M::NAME, *M::VERSIONS.start(), *M::VERSIONS.end())
    }
}

#[test]
fn typed_messages_exist_for_what_rust_speaks_and_know_the_schemas_versions() {
    let mut count = 0;
    for (key, response, schema) in messages() {
        if let Some(found) = visit(key, response, Name) {
            assert_eq!(
                found,
                (schema.name, schema.versions.min, schema.versions.max)
            );
            count += 1;
        }
    }
    assert_eq!(count, 2 * 54);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn typed_messages_come_back_as_the_by_name_codec_wrote_them(seed: u64, set in 0_u64..=100) {
        let mut random = SplitMix64::new(seed);
        for (key, response, schema) in messages() {
            for version in schema.versions.min..=schema.versions.max {
                let value = support::message(schema, version, set, &mut random);
                let mut bytes = Vec::new();
                dynamic::encode_message(schema, version, &value, &mut bytes).expect("valid");
                let body = Bytes::from(bytes.clone());
                if let Some(typed) = recode_typed(key, response, version, body) {
                    prop_assert_eq!(typed, Ok(bytes), "{} version {}", schema.name, version);
                }
            }
        }
    }
}

/// Encodes a message with no field set, in this version.
struct Default(i16);

impl Visitor for Default {
    type Output = Result<Vec<u8>, EncodeError>;
    fn visit<M: Message>(self) -> Self::Output {
        let mut out = Vec::new();
        M::default().encode(&mut out, self.0)?;
        let read = M::decode(&mut Reader::new(Bytes::from(out.clone())), self.0);
        assert_eq!(read, Ok(M::default()));
        Ok(out)
    }
}

#[test]
fn defaults_are_the_schemas() {
    for (key, response, schema) in messages() {
        for version in schema.versions.min..=schema.versions.max {
            let mut bytes = Vec::new();
            dynamic::encode_message(schema, version, &Value::Struct(vec![]), &mut bytes)
                .expect("a message of defaults can be sent in any version");
            if let Some(typed) = visit(key, response, Default(version)) {
                assert_eq!(typed, Ok(bytes), "{} version {version}", schema.name);
            }
        }
    }
}

/// Decodes in one version and encodes in another.
struct Convert(Bytes, i16, i16);

impl Visitor for Convert {
    type Output = Option<Vec<u8>>;
    fn visit<M: Message>(self) -> Self::Output {
        let message = M::decode(&mut Reader::new(self.0), self.1).expect("valid");
        let mut out = Vec::new();
        message.encode(&mut out, self.2).ok().map(|()| out)
    }
}

#[test]
fn typed_and_by_name_agree_on_what_a_version_cannot_carry() {
    let mut random = SplitMix64::new(11);
    let (mut sent, mut refused) = (0, 0);
    for (key, response, schema) in messages() {
        let versions = schema.versions.min..=schema.versions.max;
        for from in versions.clone() {
            let value = support::message(schema, from, 15, &mut random);
            let mut bytes = Vec::new();
            dynamic::encode_message(schema, from, &value, &mut bytes).expect("valid");
            let bytes = Bytes::from(bytes);
            let value = dynamic::decode_message(schema, from, &mut Reader::new(bytes.clone()))
                .expect("valid");
            for to in versions.clone() {
                let Some(typed) = visit(key, response, Convert(bytes.clone(), from, to)) else {
                    continue;
                };
                let mut out = Vec::new();
                let by_name = dynamic::encode_message(schema, to, &value, &mut out);
                assert_eq!(
                    typed,
                    by_name.ok().map(|()| out),
                    "{} {from} to {to}",
                    schema.name
                );
                *if typed.is_some() {
                    &mut sent
                } else {
                    &mut refused
                } += 1;
            }
        }
    }
    assert!(sent > 500 && refused > 50, "{sent} sent, {refused} refused");
}

#[test]
fn the_headers_are_typed_too() {
    fn check<M: Message>(seed: u64) {
        let schema = dynamic::data_schema(M::NAME).expect("headers have a schema");
        for version in M::VERSIONS {
            let value = support::message(schema, version, 90, &mut SplitMix64::new(seed));
            let mut bytes = Vec::new();
            dynamic::encode_message(schema, version, &value, &mut bytes).expect("valid");
            let mut input = Reader::new(Bytes::from(bytes.clone()));
            let mut out = Vec::new();
            M::decode(&mut input, version)
                .expect("valid")
                .encode(&mut out, version)
                .expect("valid");
            assert_eq!(out, bytes);
        }
    }
    for seed in 0..20 {
        check::<RequestHeader>(seed);
        check::<ResponseHeader>(seed);
    }
}

#[test]
fn a_field_set_in_a_version_that_lacks_it_is_named() {
    let partition = FetchPartition {
        last_fetched_epoch: 3,
        ..FetchPartition::default()
    };
    let topic = FetchTopic {
        partitions: vec![partition],
        ..FetchTopic::default()
    };
    let request = FetchRequest {
        topics: vec![topic],
        ..FetchRequest::default()
    };
    let error = request.encode(&mut Vec::new(), 11).unwrap_err();
    assert_eq!(
        error.to_string(),
        "FetchPartition.LastFetchedEpoch cannot be sent in version 11"
    );
    let all_topics = MetadataRequest {
        topics: None,
        ..MetadataRequest::default()
    };
    assert_eq!(
        all_topics.encode(&mut Vec::new(), 0),
        Err(EncodeError::UnexpectedNull {
            field: "MetadataRequest.Topics",
            version: 0
        })
    );
    assert_eq!(
        request.encode(&mut Vec::new(), 19),
        Err(EncodeError::UnsupportedVersion {
            message: "FetchRequest",
            version: 19
        })
    );
}

#[test]
fn records_are_slices_of_the_frame() {
    let body = Value::Struct(vec![(
        "Responses",
        Value::Array(vec![Value::Struct(vec![(
            "Partitions",
            Value::Array(vec![Value::Struct(vec![(
                "Records",
                Bytes::from_static(b"batches").into(),
            )])]),
        )])]),
    )]);
    let frame =
        Bytes::from(dynamic::encode_response_body(ApiKey::FETCH, 12, &body).expect("valid"));
    let response = FetchResponse::decode(&mut Reader::new(frame.clone()), 12).expect("valid");
    let records = response.responses[0].partitions[0]
        .records
        .clone()
        .expect("not null");
    assert_eq!(records, "batches");
    assert!(
        frame.as_ptr_range().contains(&records.as_ptr()),
        "copied out of the frame"
    );
}

#[test]
fn tags_must_rise_and_known_ones_fill_their_size() {
    let decode = |tags: &[u8]| {
        let mut body = vec![0; 4 + 2 + 4];
        body.push(1); // no responses
        body.extend_from_slice(tags);
        FetchResponse::decode(&mut Reader::new(Bytes::from(body)), 16)
    };
    assert!(decode(&[0]).is_ok());
    assert!(decode(&[2, 5, 0, 6, 0]).is_ok());
    assert_eq!(
        decode(&[2, 5, 0, 5, 0]),
        Err(DecodeError::TagOrder { offset: 14, tag: 5 })
    );
    assert_eq!(
        decode(&[2, 6, 0, 5, 0]),
        Err(DecodeError::TagOrder { offset: 14, tag: 5 })
    );
    // NodeEndpoints: an empty array uses one of the two bytes that its size claims.
    assert_eq!(
        decode(&[1, 0, 2, 1, 1]),
        Err(DecodeError::TagSize {
            offset: 15,
            tag: 0,
            unread: 1
        })
    );
    // Its size is zero, but reading the field needs a byte.
    assert!(matches!(
        decode(&[1, 0, 0, 1]),
        Err(DecodeError::Truncated { .. })
    ));
}
