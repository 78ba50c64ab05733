use thalweg_protocol::ErrorCode;
use thalweg_protocol::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse,
};

use super::*;

fn of(names: &[&str], allow_auto_topic_creation: bool) -> MetadataRequest {
    let topic = |name: &&str| MetadataRequestTopic {
        name: Some((*name).into()),
        ..MetadataRequestTopic::default()
    };
    MetadataRequest {
        topics: Some(names.iter().map(topic).collect()),
        allow_auto_topic_creation,
        ..MetadataRequest::default()
    }
}

fn topic_codes(response: &MetadataResponse) -> Vec<ErrorCode> {
    response
        .topics
        .iter()
        .map(|topic| ErrorCode(topic.error_code))
        .collect()
}

#[test]
fn a_topic_is_created_only_if_both_sides_allow_it() {
    let mut bench = Bench::with_options(1, &[("num.partitions", "3")]);
    let unknown = [ErrorCode::UNKNOWN_TOPIC_OR_PARTITION];
    assert_eq!(topic_codes(&bench.ask(&of(&["t"], false), 12)), unknown);
    let created = bench.ask(&of(&["t"], true), 12);
    assert_eq!(topic_codes(&created), [ErrorCode::NONE]);
    assert_eq!(created.topics[0].partitions.len(), 3);
    // Version 3 cannot disallow it.
    assert_eq!(
        topic_codes(&bench.ask(&of(&["u"], true), 3)),
        [ErrorCode::NONE]
    );
    let mut bench = Bench::with_options(1, &[("auto.create.topics.enable", "false")]);
    assert_eq!(topic_codes(&bench.ask(&of(&["t"], true), 12)), unknown);
    let bad = [ErrorCode::INVALID_TOPIC_EXCEPTION];
    assert_eq!(topic_codes(&bench.ask(&of(&["a b"], true), 12)), bad);
}

#[test]
fn stopped_nodes_are_omitted_and_their_partitions_led_by_others() {
    let mut bench = Bench::new(3);
    bench.create("t", 3, &[]);
    let ids = |response: &MetadataResponse| -> Vec<i32> {
        response
            .brokers
            .iter()
            .map(|broker| broker.node_id)
            .collect()
    };
    let before = bench.ask(&of(&["t"], false), 12);
    assert_eq!(ids(&before), [1, 2, 3]);
    bench.core.stop_node(2, bench.now).unwrap();
    let after = bench.ask(&of(&["t"], false), 12);
    assert_eq!(ids(&after), [1, 3]);
    let partition = &after.topics[0].partitions[1];
    assert_ne!(partition.leader_id, 2);
    assert_eq!(
        partition.leader_epoch,
        before.topics[0].partitions[1].leader_epoch + 1
    );
    bench.core.start_node(2, bench.now).unwrap();
    assert_eq!(ids(&bench.ask(&of(&["t"], false), 12)), [1, 2, 3]);
}

#[test]
fn topics_are_found_by_id_and_listed() {
    let mut bench = Bench::new(1);
    let id = bench.create("t", 1, &[]);
    bench.create("__consumer_offsets", 1, &[]);
    let by_id = |topic_id| MetadataRequest {
        topics: Some(vec![MetadataRequestTopic {
            topic_id,
            name: None,
        }]),
        ..MetadataRequest::default()
    };
    let response = bench.ask(&by_id(id), 12);
    assert_eq!(response.topics[0].name.as_deref(), Some("t"));
    let unknown = bench.ask(&by_id(Uuid::from_u64_pair(1, 1)), 12);
    assert_eq!(topic_codes(&unknown), [ErrorCode::UNKNOWN_TOPIC_ID]);
    assert_eq!(unknown.topics[0].name, None);
    let all = bench.ask(
        &MetadataRequest {
            topics: None,
            ..Default::default()
        },
        12,
    );
    let internal: Vec<bool> = all.topics.iter().map(|topic| topic.is_internal).collect();
    assert_eq!(internal, [true, false]);
    let none = MetadataRequest {
        topics: Some(Vec::new()),
        ..Default::default()
    };
    assert!(bench.ask(&none, 12).topics.is_empty());
    assert_eq!(bench.ask(&none, 0).topics.len(), 2);
}
