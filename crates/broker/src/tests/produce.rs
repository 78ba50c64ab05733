use std::time::Duration;

use thalweg_protocol::ErrorCode;
use thalweg_protocol::messages::init_producer_id::InitProducerIdRequest;
use thalweg_protocol::messages::produce::PartitionProduceResponse;
use thalweg_records::batch_header::set_log_append_time;

use super::*;

fn code(response: &PartitionProduceResponse) -> ErrorCode {
    ErrorCode(response.error_code)
}

#[test]
fn offsets_follow_each_other_and_records_come_back_as_they_went() {
    let mut bench = Bench::new(1);
    bench.create("t", 1, &[]);
    let sent = batch(&[NOW_MS, NOW_MS]);
    assert_eq!(bench.produce("t", 0, sent.clone()).base_offset, 0);
    assert_eq!(bench.produce("t", 0, sent.clone()).base_offset, 2);
    let response = bench.fetch("t", 0, 2);
    assert_eq!((response.high_watermark, response.log_start_offset), (4, 0));
    let records = response.records.unwrap();
    assert_eq!(records[..8], 2_i64.to_be_bytes());
    assert_eq!(records[12..16], 0_i32.to_be_bytes());
    assert_eq!(records[16..], sent[16..]);
}

#[test]
fn a_batch_sent_again_is_written_once_and_answered_with_its_first_offset() {
    let mut bench = Bench::new(1);
    bench.create("t", 1, &[]);
    let id = bench.ask(
        &InitProducerIdRequest {
            transactional_id: None,
            ..Default::default()
        },
        4,
    );
    assert_eq!((id.error_code, id.producer_epoch), (0, 0));
    let send = |bench: &mut Bench, first| {
        let response = bench.produce("t", 0, sequenced(id.producer_id, first, 3));
        (code(&response), response.base_offset)
    };
    assert_eq!(send(&mut bench, 0), (ErrorCode::NONE, 0));
    assert_eq!(send(&mut bench, 3), (ErrorCode::NONE, 3));
    assert_eq!(send(&mut bench, 0), (ErrorCode::NONE, 0));
    assert_eq!(
        send(&mut bench, 9),
        (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
    );
    assert_eq!(bench.fetch("t", 0, 0).high_watermark, 6);
}

#[test]
fn a_restart_leaves_the_last_batch_of_each_producer() {
    // As in Kafka, whose snapshot contains only that batch.
    let mut bench = Bench::new(1);
    bench.create("t", 1, &[]);
    let send = |bench: &mut Bench, first| {
        let response = bench.produce("t", 0, sequenced(7, first, 3));
        (code(&response), response.base_offset)
    };
    for first in [0, 3, 6] {
        send(&mut bench, first);
    }
    bench.core.stop_node(1, bench.now).unwrap();
    bench.core.start_node(1, bench.now).unwrap();
    for first in [0, 3] {
        let refused = send(&mut bench, first);
        assert_eq!(refused, (ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER, -1));
    }
    assert_eq!(send(&mut bench, 6), (ErrorCode::NONE, 6));
    assert_eq!(send(&mut bench, 9), (ErrorCode::NONE, 9));
}

#[test]
fn every_idempotent_producer_gets_an_id_of_its_own() {
    let mut bench = Bench::new(1);
    let request = InitProducerIdRequest {
        transactional_id: None,
        ..Default::default()
    };
    let mut init = || bench.ask(&request, 4);
    assert_ne!(init().producer_id, init().producer_id);
}

#[test]
fn a_broker_gives_other_producer_ids_than_the_one_before_it_unless_the_seed_is_the_same() {
    let first_id = |seed| {
        let mut bench = Bench::seeded(seed, 1, &[]);
        let request = InitProducerIdRequest {
            transactional_id: None,
            ..Default::default()
        };
        bench.ask(&request, 4).producer_id
    };
    let mut ids: Vec<i64> = (0..100).map(first_id).collect();
    assert_eq!(first_id(7), ids[7]);
    ids.sort_unstable();
    let apart = ids.windows(2).map(|pair| pair[1] - pair[0]);
    assert!(apart.min() >= Some(1000), "{ids:?}");
}

#[test]
fn the_wrong_node_names_the_leader_and_its_address() {
    let mut bench = Bench::new(3);
    bench.create("t", 1, &[]);
    bench.core.topology.move_leader("t", 0, 3).unwrap();
    let response = bench.ask(&produce_request("t", 0, batch(&[NOW_MS])), 12);
    let partition = &response.responses[0].partition_responses[0];
    assert_eq!(code(partition), ErrorCode::NOT_LEADER_OR_FOLLOWER);
    assert_eq!(
        (
            partition.current_leader.leader_id,
            partition.current_leader.leader_epoch
        ),
        (3, 1)
    );
    let node = &response.node_endpoints[0];
    assert_eq!(
        (node.node_id, node.host.as_str(), node.port),
        (3, "broker", 9094)
    );
    // Before version 10 there is no field for it.
    bench.ask(&produce_request("t", 0, batch(&[NOW_MS])), 9);
}

#[test]
fn topics_are_found_by_id_from_version_13_on() {
    let mut bench = Bench::new(1);
    let id = bench.create("t", 1, &[]);
    let mut request = produce_request("", 0, batch(&[NOW_MS]));
    request.topic_data[0].topic_id = id;
    let response = bench.ask(&request, 13);
    assert_eq!(response.responses[0].topic_id, id);
    assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
    request.topic_data[0].topic_id = Uuid::from_u64_pair(1, 1);
    let response = bench.ask(&request, 13);
    let partition = &response.responses[0].partition_responses[0];
    assert_eq!(code(partition), ErrorCode::UNKNOWN_TOPIC_ID);
}

#[test]
fn acks_0_has_no_response_and_an_error_closes_the_connection() {
    let mut bench = Bench::new(1);
    bench.create("t", 1, &[]);
    let mut request = produce_request("t", 0, batch(&[NOW_MS]));
    request.acks = 0;
    assert!(matches!(bench.handle(1, &request, 12), Outcome::Nothing));
    assert_eq!(bench.fetch("t", 0, 0).high_watermark, 1);
    request.topic_data[0].name = "unknown".into();
    assert!(matches!(bench.handle(1, &request, 12), Outcome::Close));
}

#[test]
fn acks_and_replicas_are_checked() {
    let mut bench = Bench::new(3);
    bench.create("single", 1, &[("min.insync.replicas", "2")]);
    assert_eq!(bench.produce("single", 0, batch(&[NOW_MS])).error_code, 0);
    let wish = NewTopic {
        name: "t".to_owned(),
        replicas: NewReplicas::Assigned(vec![vec![1, 2]]),
        options: texts(&[("min.insync.replicas", "2")]),
    };
    let Core {
        topology,
        options,
        random,
        ..
    } = &mut bench.core;
    topology.create_topic(wish, false, options, random).unwrap();
    assert_eq!(bench.produce("t", 0, batch(&[NOW_MS])).error_code, 0);
    bench.core.stop_node(2, bench.now).unwrap();
    assert_eq!(
        code(&bench.produce("t", 0, batch(&[NOW_MS]))),
        ErrorCode::NOT_ENOUGH_REPLICAS
    );
    let mut request = produce_request("t", 0, batch(&[NOW_MS]));
    request.acks = 1;
    let response = bench.ask(&request, 12);
    assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
    request.acks = 2;
    let response = bench.ask(&request, 12);
    let partition = &response.responses[0].partition_responses[0];
    assert_eq!(code(partition), ErrorCode::INVALID_REQUIRED_ACKS);
}

#[test]
fn one_bad_partition_does_not_harm_another() {
    let mut bench = Bench::new(1);
    bench.create("t", 2, &[]);
    let mut request = produce_request("t", 0, batch(&[NOW_MS]));
    let mut corrupt = batch(&[NOW_MS]);
    corrupt[70] ^= 1;
    request.topic_data[0]
        .partition_data
        .push(PartitionProduceData {
            index: 1,
            records: Some(corrupt.into()),
        });
    request.topic_data[0]
        .partition_data
        .push(PartitionProduceData {
            index: 2,
            records: Some(batch(&[NOW_MS]).into()),
        });
    let response = bench.ask(&request, 12);
    let codes: Vec<ErrorCode> = response.responses[0]
        .partition_responses
        .iter()
        .map(code)
        .collect();
    let expected = [
        ErrorCode::NONE,
        ErrorCode::CORRUPT_MESSAGE,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
    ];
    assert_eq!(codes, expected);
}

#[test]
fn the_memory_limit_refuses_with_a_reason_and_retention_makes_room() {
    let limit = ("thalweg.memory.max.bytes", "2000");
    let mut bench = Bench::with_options(1, &[limit, ("log.retention.ms", "1000")]);
    bench.create("t", 1, &[]);
    let large = |bench: &Bench| {
        let mut builder = BatchBuilder::new(0);
        builder.append(bench.now_ms, None, Some(&[1; 1500]), Headers::NONE);
        builder.finish()
    };
    let records = large(&bench);
    assert_eq!(bench.produce("t", 0, records.clone()).error_code, 0);
    let refused = bench.produce("t", 0, records);
    assert_eq!(code(&refused), ErrorCode::POLICY_VIOLATION);
    assert!(
        refused
            .error_message
            .unwrap()
            .contains("thalweg.memory.max.bytes")
    );
    bench.pass(Duration::from_secs(2));
    let records = large(&bench);
    assert_eq!(bench.produce("t", 0, records).base_offset, 1);
    assert!(bench.core.memory_bytes < 2000);
}

#[test]
fn records_of_2013_vanish_at_the_next_look_unless_retention_is_off() {
    let old = 1_372_636_800_000;
    let mut bench = Bench::new(1);
    bench.create("default", 1, &[]);
    bench.create("kept", 1, &[("retention.ms", "-1")]);
    for topic in ["default", "kept"] {
        assert_eq!(bench.produce(topic, 0, batch(&[old])).error_code, 0);
    }
    let tick = |bench: &mut Bench| bench.core.tick(bench.now, bench.now_ms);
    tick(&mut bench);
    assert_eq!(bench.fetch("default", 0, 0).log_start_offset, 0);
    bench.now = bench.core.next_deadline();
    tick(&mut bench);
    let gone = bench.fetch("default", 0, 0);
    assert_eq!(ErrorCode(gone.error_code), ErrorCode::OFFSET_OUT_OF_RANGE);
    assert_eq!(bench.fetch("default", 0, 1).log_start_offset, 1);
    assert_eq!(base_offsets(&bench.fetch("kept", 0, 0)), [0]);
    assert!(bench.core.next_deadline() > bench.now);
}

#[test]
fn append_time_is_the_brokers() {
    let mut bench = Bench::new(1);
    bench.create("t", 1, &[("message.timestamp.type", "LogAppendTime")]);
    let response = bench.produce("t", 0, batch(&[5]));
    assert_eq!(response.log_append_time_ms, NOW_MS);
    let records = bench.fetch("t", 0, 0).records.unwrap();
    let raw = thalweg_records::batches(records).next().unwrap().unwrap();
    raw.validate_crc().unwrap();
    assert_eq!(raw.header.max_timestamp, NOW_MS);
}

#[test]
fn a_producer_may_not_claim_the_brokers_append_time() {
    let mut bench = Bench::new(1);
    bench.create("stamped", 1, &[("message.timestamp.type", "LogAppendTime")]);
    bench.create("t", 1, &[]);
    let claimed = |timestamp| {
        let mut records = batch(&[timestamp]);
        set_log_append_time(&mut records, timestamp);
        records
    };
    for (topic, timestamp) in [("stamped", NOW_MS), ("t", -1)] {
        let refused = bench.produce(topic, 0, claimed(timestamp));
        assert_eq!(code(&refused), ErrorCode::INVALID_TIMESTAMP);
        let reason = refused.record_errors[0]
            .batch_index_error_message
            .as_deref();
        assert!(reason.unwrap().contains("should not set timestamp type"));
    }
    // As in Kafka: if the producer sets timestamps, only their range counts.
    assert_eq!(bench.produce("t", 0, claimed(NOW_MS)).error_code, 0);
    let far = bench.produce("t", 0, claimed(NOW_MS + 7_200_000));
    assert_eq!(code(&far), ErrorCode::INVALID_TIMESTAMP);
}
