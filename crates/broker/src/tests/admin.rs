use thalweg_protocol::ErrorCode;
use thalweg_protocol::messages::create_topics::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use thalweg_protocol::messages::delete_records::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use thalweg_protocol::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use thalweg_protocol::messages::describe_cluster::DescribeClusterRequest;
use thalweg_protocol::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource,
};
use thalweg_protocol::messages::describe_topic_partitions::{
    Cursor, DescribeTopicPartitionsRequest,
};
use thalweg_protocol::messages::incremental_alter_configs::{
    AlterConfigsResource, AlterableConfig, IncrementalAlterConfigsRequest,
};

use super::*;

fn create(name: &str, configs: &[(&str, &str)], validate_only: bool) -> CreateTopicsRequest {
    let config = |(name, value): &(&str, &str)| CreatableTopicConfig {
        name: (*name).into(),
        value: Some((*value).into()),
    };
    CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: name.into(),
            num_partitions: 2,
            replication_factor: -1,
            configs: configs.iter().map(config).collect(),
            ..CreatableTopic::default()
        }],
        timeout_ms: 1000,
        validate_only,
    }
}

#[test]
fn a_topic_is_created_once_with_its_options() {
    let mut bench = Bench::new(1);
    let request = create("t", &[("retention.ms", "-1")], true);
    assert_eq!(bench.ask(&request, 7).topics[0].error_code, 0);
    assert!(bench.core.topology.topic("t").is_none());
    let created = bench
        .ask(&create("t", &[("retention.ms", "-1")], false), 7)
        .topics
        .remove(0);
    assert_eq!(
        (
            created.error_code,
            created.num_partitions,
            created.replication_factor
        ),
        (0, 2, 1)
    );
    let topic = bench.core.topology.topic("t").unwrap();
    assert_eq!(
        (topic.id, topic.options.retention_ms),
        (created.topic_id, -1)
    );
    let again = bench.ask(&create("t", &[], false), 7).topics.remove(0);
    assert_eq!(ErrorCode(again.error_code), ErrorCode::TOPIC_ALREADY_EXISTS);
    for configs in [[("no.such", "1")], [("retention.ms", "soon")]] {
        let bad = bench.ask(&create("u", &configs, false), 7).topics.remove(0);
        assert_eq!(ErrorCode(bad.error_code), ErrorCode::INVALID_CONFIG);
    }
}

#[test]
fn a_deleted_topic_frees_its_memory_and_comes_back_with_another_id() {
    let mut bench = Bench::new(1);
    let id = bench.create("t", 1, &[]);
    bench.produce("t", 0, batch(&[NOW_MS]));
    assert!(bench.core.memory_bytes > 0);
    let by_id = DeleteTopicsRequest {
        topics: vec![DeleteTopicState {
            name: None,
            topic_id: id,
        }],
        ..DeleteTopicsRequest::default()
    };
    let deleted = bench.ask(&by_id, 6).responses.remove(0);
    assert_eq!(
        (deleted.error_code, deleted.name.as_deref()),
        (0, Some("t"))
    );
    assert_eq!(bench.core.memory_bytes, 0);
    let gone = bench.ask(&by_id, 6).responses.remove(0);
    assert_eq!(ErrorCode(gone.error_code), ErrorCode::UNKNOWN_TOPIC_ID);
    assert_ne!(bench.create("t", 1, &[]), id);
    let by_name = DeleteTopicsRequest {
        topic_names: vec!["t".into()],
        ..DeleteTopicsRequest::default()
    };
    assert_eq!(bench.ask(&by_name, 1).responses[0].error_code, 0);
}

#[test]
fn deleted_records_move_the_log_start() {
    let mut bench = Bench::new(1);
    bench.create("t", 1, &[]);
    bench.produce("t", 0, batch(&[NOW_MS, NOW_MS, NOW_MS]));
    let mut delete = |offset| {
        let request = DeleteRecordsRequest {
            topics: vec![DeleteRecordsTopic {
                name: "t".into(),
                partitions: vec![DeleteRecordsPartition {
                    partition_index: 0,
                    offset,
                }],
            }],
            timeout_ms: 1000,
        };
        let response = bench.ask(&request, 2);
        let partition = &response.topics[0].partitions[0];
        (ErrorCode(partition.error_code), partition.low_watermark)
    };
    assert_eq!(delete(2), (ErrorCode::NONE, 2));
    assert_eq!(delete(4), (ErrorCode::OFFSET_OUT_OF_RANGE, -1));
    assert_eq!(delete(-1), (ErrorCode::NONE, 3));
    let gone = bench.fetch("t", 0, 2);
    assert_eq!(ErrorCode(gone.error_code), ErrorCode::OFFSET_OUT_OF_RANGE);
    assert_eq!(
        (
            bench.core.memory_bytes,
            bench.fetch("t", 0, 3).log_start_offset
        ),
        (0, 3)
    );
}

fn value(bench: &mut Bench, name: &str) -> (String, i8) {
    let request = DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type: 2,
            resource_name: "t".into(),
            configuration_keys: Some(vec![name.into()]),
        }],
        ..DescribeConfigsRequest::default()
    };
    let result = bench.ask(&request, 4).results.remove(0);
    let config = &result.configs[0];
    (
        config.value.as_ref().unwrap().to_string(),
        config.config_source,
    )
}

#[test]
fn options_change_at_once_and_go_back() {
    let mut bench = Bench::with_options(1, &[("message.max.bytes", "500")]);
    bench.create("t", 1, &[]);
    assert_eq!(
        value(&mut bench, "max.message.bytes"),
        ("500".to_owned(), 4)
    );
    assert_eq!(value(&mut bench, "retention.bytes"), ("-1".to_owned(), 5));
    let alter = |bench: &mut Bench, name: &str, config_operation, value: Option<&str>| {
        let request = IncrementalAlterConfigsRequest {
            resources: vec![AlterConfigsResource {
                resource_type: 2,
                resource_name: "t".into(),
                configs: vec![AlterableConfig {
                    name: name.into(),
                    config_operation,
                    value: value.map(Into::into),
                }],
            }],
            validate_only: false,
        };
        ErrorCode(bench.ask(&request, 1).responses[0].error_code)
    };
    let large = batch(&vec![NOW_MS; 40]);
    assert_eq!(
        bench.produce("t", 0, large.clone()).error_code,
        ErrorCode::MESSAGE_TOO_LARGE.0
    );
    assert_eq!(
        alter(&mut bench, "max.message.bytes", 0, Some("5000")),
        ErrorCode::NONE
    );
    assert_eq!(
        value(&mut bench, "max.message.bytes"),
        ("5000".to_owned(), 1)
    );
    assert_eq!(bench.produce("t", 0, large).error_code, 0);
    assert_eq!(
        alter(&mut bench, "max.message.bytes", 1, None),
        ErrorCode::NONE
    );
    assert_eq!(
        value(&mut bench, "max.message.bytes"),
        ("500".to_owned(), 4)
    );
    assert_eq!(
        alter(&mut bench, "cleanup.policy", 2, Some("compact")),
        ErrorCode::NONE
    );
    assert_eq!(
        value(&mut bench, "cleanup.policy"),
        ("delete,compact".to_owned(), 1)
    );
    assert_eq!(
        alter(&mut bench, "cleanup.policy", 3, Some("delete")),
        ErrorCode::NONE
    );
    assert_eq!(
        value(&mut bench, "cleanup.policy"),
        ("compact".to_owned(), 1)
    );
    assert_eq!(
        alter(&mut bench, "no.such", 0, Some("1")),
        ErrorCode::INVALID_CONFIG
    );
}

#[test]
fn topics_are_described_page_by_page() {
    let mut bench = Bench::new(1);
    for (name, partitions) in [("b", 3), ("a", 2), ("c", 1)] {
        bench.create(name, partitions, &[]);
    }
    let mut pages = Vec::new();
    let mut cursor: Option<Cursor> = None;
    loop {
        let request = DescribeTopicPartitionsRequest {
            response_partition_limit: 2,
            cursor: cursor.take(),
            ..DescribeTopicPartitionsRequest::default()
        };
        let response = bench.ask(&request, 0);
        for topic in &response.topics {
            let name = topic.name.as_deref().unwrap_or_default().to_owned();
            let indexes = topic
                .partitions
                .iter()
                .map(|p| p.partition_index)
                .collect::<Vec<_>>();
            pages.push((name, indexes));
        }
        cursor = response.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    let expected = [
        ("a", vec![0, 1]),
        ("b", vec![0, 1]),
        ("b", vec![2]),
        ("c", vec![0]),
    ];
    assert_eq!(
        pages,
        expected.map(|(name, indexes)| (name.to_owned(), indexes))
    );
}

#[test]
fn stopped_nodes_are_fenced_ones() {
    let mut bench = Bench::new(2);
    bench.core.stop_node(1, bench.now).unwrap();
    let mut ask = |include_fenced_brokers| {
        let request = DescribeClusterRequest {
            include_fenced_brokers,
            ..DescribeClusterRequest::default()
        };
        let response = bench.ask_node(2, &request, 2);
        assert_eq!(response.controller_id, 2);
        response
            .brokers
            .iter()
            .map(|b| (b.broker_id, b.is_fenced))
            .collect::<Vec<_>>()
    };
    assert_eq!(ask(false), [(2, false)]);
    assert_eq!(ask(true), [(1, true), (2, false)]);
}
