//! Headers and whole frames, compared with bytes written by hand from Kafka's protocol guide.

use bytes::Bytes;
use thalweg_protocol::messages::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use thalweg_protocol::messages::header::RequestHeader;
use thalweg_protocol::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use thalweg_protocol::messages::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use thalweg_protocol::produce::{PartitionBatches, ProduceBatches, TopicBatches};
use thalweg_protocol::{ApiKey, EncodeError, Message, Reader, Uuid, frame};

fn reader(frame: Vec<u8>) -> Reader {
    let mut input = Reader::new(Bytes::from(frame));
    let length = input.i32().expect("a frame starts with its length");
    assert_eq!(length as usize, input.remaining());
    input
}

#[test]
fn a_request_in_the_old_form() {
    let request = HeartbeatRequest {
        group_id: "g".into(),
        generation_id: 3,
        member_id: "m".into(),
        ..HeartbeatRequest::default()
    };
    let frame = frame::encode_request(&request, 0, 258, Some("me")).expect("valid");
    assert_eq!(
        frame,
        [
            0, 0, 0, 22, // length
            0, 12, 0, 0, 0, 0, 1, 2, 0, 2, b'm',
            b'e', // key, version, correlation id, client id
            0, 1, b'g', 0, 0, 0, 3, 0, 1, b'm'
        ]
    );
}

#[test]
fn a_request_in_the_flexible_form_keeps_an_old_client_id() {
    let request = ApiVersionsRequest {
        client_software_name: "thalweg".into(),
        client_software_version: "1".into(),
    };
    let frame = frame::encode_request(&request, 3, 1, None).expect("valid");
    assert_eq!(
        frame,
        [
            0, 0, 0, 22, 0, 18, 0, 3, 0, 0, 0, 1, 0xff, 0xff, 0, // header: null id, no tags
            8, b't', b'h', b'a', b'l', b'w', b'e', b'g', 2, b'1', 0
        ]
    );
    let mut input = reader(frame);
    let header = frame::decode_request_header(&mut input).expect("valid");
    let expected = RequestHeader {
        request_api_key: 18,
        request_api_version: 3,
        correlation_id: 1,
        client_id: None,
    };
    assert_eq!(header, expected);
    assert_eq!(ApiVersionsRequest::decode(&mut input, 3), Ok(request));
    assert_eq!(input.finish(), Ok(()));
}

#[test]
fn responses_have_tags_in_their_header_but_for_api_versions() {
    assert_eq!(frame::response_header_version(ApiKey::HEARTBEAT, 3), 0);
    assert_eq!(frame::response_header_version(ApiKey::HEARTBEAT, 4), 1);
    for version in 0..=4 {
        assert_eq!(
            frame::response_header_version(ApiKey::API_VERSIONS, version),
            0
        );
    }
    let frame = frame::encode_response(ApiKey::HEARTBEAT, 4, 7, &HeartbeatResponse::default())
        .expect("valid");
    assert_eq!(frame, [0, 0, 0, 12, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut input = reader(frame);
    assert_eq!(
        frame::decode_response_header(&mut input, ApiKey::HEARTBEAT, 4),
        Ok(7)
    );
    assert_eq!(
        HeartbeatResponse::decode(&mut input, 4),
        Ok(HeartbeatResponse::default())
    );

    let response = ApiVersionsResponse {
        error_code: 35,
        ..ApiVersionsResponse::default()
    };
    let frame = frame::encode_response(ApiKey::API_VERSIONS, 3, 7, &response).expect("valid");
    assert_eq!(frame[4..12], [0, 0, 0, 7, 0, 35, 1, 0]);
}

#[test]
fn the_header_of_a_version_from_the_future_can_be_read() {
    let mut frame = vec![0, 18, 0, 99, 0, 0, 0, 5, 0, 1, b'x'];
    frame.extend([1, 9, 2, 1, 2]); // an unknown tag
    frame.extend([1, 2, 3]); // a body of an unknown version
    let mut input = Reader::new(Bytes::from(frame));
    let header = frame::decode_request_header(&mut input).expect("valid");
    assert_eq!((header.request_api_version, header.correlation_id), (99, 5));
    assert_eq!(input.rest(), Bytes::from_static(&[1, 2, 3]));
}

#[test]
fn the_header_of_an_unknown_api_can_be_read() {
    let mut input = Reader::new(Bytes::from_static(&[3, 231, 0, 0, 0, 0, 0, 5, 0xff, 0xff]));
    let header = frame::decode_request_header(&mut input).expect("valid");
    assert_eq!((header.request_api_key, header.correlation_id), (999, 5));
}

#[test]
fn a_head_counts_the_body_that_follows_it() {
    let body = [1, 2, 3];
    let head = frame::request_head(ApiKey::PRODUCE, 9, 4, Some("c"), body.len()).expect("valid");
    let input = reader([head.as_slice(), &body].concat());
    assert_eq!(input.remaining(), 8 + 3 + 1 + 3);
    let head = frame::response_head(ApiKey::FETCH, 12, 4, body.len()).expect("valid");
    assert_eq!(
        reader([head.as_slice(), &body].concat()).remaining(),
        4 + 1 + 3
    );
}

#[test]
fn a_client_id_too_long_is_refused() {
    let long = "x".repeat(40_000);
    assert!(matches!(
        frame::request_head(ApiKey::FETCH, 4, 0, Some(&long), 0),
        Err(EncodeError::TooLong { .. })
    ));
}

/// Longer than one byte of a varint can express.
const LONG: &str = match std::str::from_utf8(&[b'x'; 300]) {
    Ok(text) => text,
    Err(_) => unreachable!(),
};

type Partitions = &'static [(i32, &'static [&'static str])];

/// Builds the same request typed and in chunks. The chunks of a partition are parts of its batch.
fn produce(topics: &[(&str, Partitions)]) -> (ProduceRequest, ProduceBatches) {
    let mut typed = ProduceRequest {
        transactional_id: Some("tx".into()),
        acks: -1,
        timeout_ms: 30_000,
        ..ProduceRequest::default()
    };
    let mut chunked = ProduceBatches {
        transactional_id: Some("tx".into()),
        acks: -1,
        timeout_ms: 30_000,
        ..ProduceBatches::default()
    };
    for (name, partitions) in topics {
        let topic_id = Uuid::from_u64_pair(1, name.len() as u64);
        typed.topic_data.push(TopicProduceData {
            name: (*name).into(),
            topic_id,
            partition_data: partitions
                .iter()
                .map(|(index, chunks)| PartitionProduceData {
                    index: *index,
                    records: Some(Bytes::from(chunks.concat())),
                })
                .collect(),
        });
        chunked.topics.push(TopicBatches {
            name: (*name).into(),
            topic_id,
            partitions: partitions
                .iter()
                .map(|(index, chunks)| PartitionBatches {
                    index: *index,
                    records: chunks
                        .iter()
                        .map(|c| Bytes::from_static(c.as_bytes()))
                        .collect(),
                })
                .collect(),
        });
    }
    (typed, chunked)
}

#[test]
fn a_produce_request_in_chunks_has_the_bytes_of_the_typed_one() {
    let cases: [&[(&str, Partitions)]; 4] = [
        &[],
        &[("a", &[])],
        &[("a", &[(0, &["batch"])])],
        &[
            ("a", &[(0, &["one", "two", "three"]), (7, &[])]),
            ("longer", &[(1, &[LONG, ""])]),
        ],
    ];
    for case in cases {
        for version in ProduceRequest::VERSIONS {
            let (typed, chunked) = produce(case);
            let mut expected = Vec::new();
            typed.encode(&mut expected, version).expect("valid");
            let segments = chunked.encode(version).expect("valid");
            assert_eq!(segments.to_vec(), expected, "version {version}");
            assert_eq!(segments.len(), expected.len());
            assert!(segments.segments.iter().all(|segment| !segment.is_empty()));
        }
    }
}

#[test]
fn the_chunks_of_a_produce_request_are_not_copied() {
    let batch = Bytes::from(vec![1; 1000]);
    let partition = PartitionBatches {
        index: 0,
        records: vec![batch.clone()],
    };
    let topic = TopicBatches {
        partitions: vec![partition],
        ..TopicBatches::default()
    };
    let request = ProduceBatches {
        topics: vec![topic],
        ..ProduceBatches::default()
    };
    let segments = request.encode(13).expect("valid").segments;
    assert_eq!(segments[0].as_ptr(), batch.as_ptr());
}

#[test]
fn a_produce_request_of_another_version_is_refused() {
    for version in [2, 14] {
        assert_eq!(
            ProduceBatches::default().encode(version),
            Err(EncodeError::UnsupportedVersion {
                message: "ProduceRequest",
                version
            })
        );
    }
}
