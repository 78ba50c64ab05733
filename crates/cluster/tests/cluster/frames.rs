//! Strings read from a response are slices of its frame. What is kept must not keep the frame.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use thalweg_cluster::metadata::LeaderHint;
use thalweg_cluster::{ApiVersions, Coordinator, CoordinatorType, Event, Node};
use thalweg_protocol::messages::api_versions::{ApiVersionsResponse, FinalizedFeatureKey};
use thalweg_protocol::messages::find_coordinator::{
    Coordinator as Told, FindCoordinatorRequest, FindCoordinatorResponse,
};
use thalweg_protocol::messages::metadata::{MetadataRequest, MetadataResponse};
use thalweg_protocol::{ApiKey, ErrorCode, Message as _, Reader, Request, Str, frame};

use crate::metadata::connect;
use crate::support::{Bench, Written, brokers, failed_topic, topic};

/// Bytes that show when their last slice is dropped.
struct Frame {
    bytes: Vec<u8>,
    _alive: Arc<()>,
}

impl AsRef<[u8]> for Frame {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn watched(bytes: Vec<u8>) -> (Bytes, Weak<()>) {
    let alive = Arc::new(());
    let watch = Arc::downgrade(&alive);
    let frame = Frame {
        bytes,
        _alive: alive,
    };
    (Bytes::from_owner(frame), watch)
}

fn is_freed(watch: &Weak<()>) -> bool {
    watch.upgrade().is_none()
}

/// Responds to a request. The returned reference shows whether the response's frame is freed.
fn respond<R: Request>(bench: &mut Bench, to: &Written, response: &R::Response) -> Weak<()> {
    let bytes = frame::encode_response(to.key, to.version, to.correlation_id, response)
        .expect("the test's response is good");
    let (frame, watch) = watched(bytes);
    bench.event(Event::Frame {
        conn: to.conn,
        frame: frame.slice(4..),
    });
    watch
}

fn respond_with_metadata(bench: &mut Bench, response: &MetadataResponse) -> Weak<()> {
    bench.cluster.request_update();
    bench.advance(std::time::Duration::from_secs(2));
    connect(bench);
    let written = bench.take_write(ApiKey::METADATA);
    respond::<MetadataRequest>(bench, &written, response)
}

#[test]
fn metadata_frees_the_responses_that_it_came_from() {
    let mut bench = Bench::bootstrapped(3);
    let partitions = [(1, 5), (2, 5)];
    let mut told = brokers(
        3,
        &[
            topic("t", 1, &partitions),
            failed_topic("refused", ErrorCode::TOPIC_AUTHORIZATION_FAILED),
        ],
    );
    told.brokers[0].rack = Some(Str::from("rack"));
    let first = respond_with_metadata(&mut bench, &told);
    assert!(bench.cluster.metadata().topic("t").is_some(), "it is taken");
    assert!(bench.cluster.metadata().topic_error("refused").is_some());
    assert!(is_freed(&first));

    let places = |bench: &Bench| {
        let metadata = bench.cluster.metadata();
        let (topic, node) = (metadata.topic("t"), metadata.node(1));
        let names = [
            topic.map(|topic| topic.name.as_ptr()),
            node.map(|node| node.host.as_ptr()),
            metadata.cluster_id.as_ref().map(|id| id.as_ptr()),
        ];
        let mut errors = metadata.topic_errors();
        (names, errors.next().map(|(name, _)| name.as_ptr()))
    };
    let before = places(&bench);
    // Another epoch makes a different topic of the same name.
    told.topics[0].partitions[0].leader_epoch += 1;
    let second = respond_with_metadata(&mut bench, &told);
    assert!(is_freed(&second));
    assert_eq!(places(&bench), before, "equal strings are kept, not copied");
}

#[test]
fn a_leader_hint_frees_the_response_that_named_it() {
    let mut bench = Bench::bootstrapped(1);
    respond_with_metadata(&mut bench, &brokers(1, &[topic("t", 1, &[(1, 5)])]));
    let (bytes, watch) = watched(b"trackn7".to_vec());
    let text = |range| Str::from_utf8(bytes.slice(range)).expect("UTF-8");
    let hint = LeaderHint {
        topic: text(0..1),
        partition: 0,
        leader: 7,
        leader_epoch: 6,
    };
    let endpoint = Node {
        id: 7,
        host: text(5..7),
        port: 1,
        rack: Some(text(1..5)),
    };
    assert_eq!(bench.cluster.update_leaders(&[hint], &[endpoint]), 1);
    drop(bytes);
    let node = bench.cluster.metadata().node(7).expect("it is known now");
    assert_eq!((&*node.host, node.rack.as_deref()), ("n7", Some("rack")));
    assert!(is_freed(&watch));
}

#[test]
fn a_refusal_to_name_a_coordinator_frees_the_response() {
    let mut bench = Bench::bootstrapped(1);
    let kind = CoordinatorType::Group;
    let found = bench.cluster.coordinator(kind, "g");
    assert_eq!(found, Coordinator::Unknown);
    bench.turn();
    connect(&mut bench);
    let written = bench.take_write(ApiKey::FIND_COORDINATOR);
    let response = FindCoordinatorResponse {
        coordinators: vec![Told {
            key: Str::from("g"),
            error_code: ErrorCode::GROUP_AUTHORIZATION_FAILED.0,
            error_message: Some(Str::from("not yours")),
            ..Told::default()
        }],
        ..FindCoordinatorResponse::default()
    };
    let watch = respond::<FindCoordinatorRequest>(&mut bench, &written, &response);
    let Coordinator::Failed { message, .. } = bench.cluster.coordinator(kind, "g") else {
        panic!("it was refused");
    };
    assert_eq!(message.as_deref(), Some("not yours"));
    assert!(is_freed(&watch));
}

#[test]
fn the_features_of_a_broker_free_the_response_that_named_them() {
    let response = ApiVersionsResponse {
        finalized_features_epoch: 1,
        finalized_features: vec![FinalizedFeatureKey {
            name: Str::from("transaction.version"),
            max_version_level: 2,
            min_version_level: 0,
        }],
        ..ApiVersionsResponse::default()
    };
    let version = 3;
    let mut bytes = Vec::new();
    response
        .encode(&mut bytes, version)
        .expect("a good response");
    let (frame, watch) = watched(bytes);
    let decoded = ApiVersionsResponse::decode(&mut Reader::new(frame), version);
    let versions = ApiVersions::from_response(&decoded.expect("our own bytes"));
    assert_eq!(versions.finalized_level("transaction.version"), 2);
    assert!(is_freed(&watch));
}
