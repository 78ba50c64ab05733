use thalweg_protocol::ErrorCode;

use super::*;

fn large(bytes: usize) -> Vec<u8> {
    let mut builder = BatchBuilder::new(0);
    builder.append(NOW_MS, None, Some(&vec![7; bytes]), Headers::NONE);
    builder.finish()
}

#[test]
fn an_empty_fetch_waits_until_records_come() {
    let mut bench = Bench::new(1);
    bench.create("t", 1, &[]);
    let mut request = fetch_request("t", &[(0, 0)]);
    request.max_wait_ms = 500;
    let mut waiting = wait(bench.handle(1, &request, 12));
    assert_eq!(
        waiting.deadline(),
        Some(bench.now + Duration::from_millis(500))
    );
    assert!(bench.poll(&mut waiting).is_none());
    assert!(!bench.was_woken());
    bench.produce("t", 0, batch(&[NOW_MS]));
    assert!(bench.was_woken());
    let response = decode::<FetchRequest>(bench.poll(&mut waiting).unwrap(), 12);
    assert_eq!(base_offsets(&response.responses[0].partitions[0]), [0]);
}

#[test]
fn a_fetch_waits_for_min_bytes_and_at_most_for_max_wait() {
    let mut bench = Bench::new(1);
    bench.create("t", 1, &[]);
    let size = batch(&[NOW_MS]).len() as i32;
    let mut request = fetch_request("t", &[(0, 0)]);
    request.max_wait_ms = 500;
    request.min_bytes = 2 * size;
    let mut waiting = wait(bench.handle(1, &request, 12));
    assert!(bench.poll(&mut waiting).is_none());
    bench.produce("t", 0, batch(&[NOW_MS]));
    assert!(bench.was_woken());
    assert!(bench.poll(&mut waiting).is_none());
    let mut other = wait(bench.handle(1, &request, 12));
    assert!(bench.poll(&mut other).is_none());
    bench.pass(Duration::from_millis(500));
    let late = decode::<FetchRequest>(bench.poll(&mut other).unwrap(), 12);
    assert_eq!(base_offsets(&late.responses[0].partitions[0]), [0]);
    bench.produce("t", 0, batch(&[NOW_MS]));
    assert!(bench.was_woken());
    assert!(bench.poll(&mut waiting).is_some());
}

#[test]
fn a_waiting_fetch_learns_of_a_new_leader_and_of_deletion() {
    let mut bench = Bench::new(2);
    let id = bench.create("t", 1, &[]);
    let mut request = fetch_request("t", &[(0, 0)]);
    request.max_wait_ms = 500;
    let mut waiting = wait(bench.handle(1, &request, 12));
    assert!(bench.poll(&mut waiting).is_none());
    bench.core.topology.move_leader("t", 0, 2).unwrap();
    assert!(bench.was_woken());
    let response = decode::<FetchRequest>(bench.poll(&mut waiting).unwrap(), 12);
    assert_eq!(codes(&response), [ErrorCode::NOT_LEADER_OR_FOLLOWER]);
    let mut waiting = wait(bench.handle(2, &request, 12));
    assert!(bench.poll(&mut waiting).is_none());
    assert!(bench.core.delete_topic(id));
    assert!(bench.was_woken());
    let response = decode::<FetchRequest>(bench.poll(&mut waiting).unwrap(), 12);
    assert_eq!(codes(&response), [ErrorCode::UNKNOWN_TOPIC_OR_PARTITION]);
}

#[test]
fn limits_hold_but_the_first_batch_always_comes() {
    let mut bench = Bench::new(1);
    bench.create("t", 2, &[]);
    for partition in 0..2 {
        for _ in 0..3 {
            bench.produce("t", partition, large(10_000));
        }
    }
    let counts = |bench: &mut Bench, max_bytes, partition_max_bytes| -> Vec<usize> {
        let mut request = fetch_request("t", &[(0, 0), (1, 0)]);
        request.max_bytes = max_bytes;
        for partition in &mut request.topics[0].partitions {
            partition.partition_max_bytes = partition_max_bytes;
        }
        let response = bench.ask(&request, 12);
        response.responses[0]
            .partitions
            .iter()
            .map(|p| base_offsets(p).len())
            .collect()
    };
    assert_eq!(counts(&mut bench, 1 << 20, 1 << 20), [3, 3]);
    assert_eq!(counts(&mut bench, 1 << 20, 21_000), [2, 2]);
    assert_eq!(counts(&mut bench, 45_000, 1 << 20), [3, 1]);
    assert_eq!(counts(&mut bench, 1, 1), [1, 0]);
    assert_eq!(counts(&mut bench, 1 << 20, 1), [1, 0]);
}

#[test]
fn small_and_large_batches_come_whole_from_the_middle() {
    let mut bench = Bench::new(1);
    bench.create("t", 1, &[]);
    for size in [1, 100_000, 3, 5000, 2000] {
        bench.produce("t", 0, large(size));
    }
    assert_eq!(base_offsets(&bench.fetch("t", 0, 0)), [0, 1, 2, 3, 4]);
    assert_eq!(base_offsets(&bench.fetch("t", 0, 3)), [3, 4]);
    assert_eq!(bench.fetch("t", 0, 5).records.unwrap().len(), 0);
}

#[test]
fn offsets_outside_of_the_log_are_out_of_range() {
    let mut bench = Bench::new(1);
    bench.create("t", 1, &[]);
    bench.produce("t", 0, batch(&[NOW_MS]));
    for offset in [-1, 2] {
        let response = bench.fetch("t", 0, offset);
        assert_eq!(
            ErrorCode(response.error_code),
            ErrorCode::OFFSET_OUT_OF_RANGE
        );
        assert_eq!(response.high_watermark, -1);
    }
    assert_eq!(bench.fetch("t", 0, 1).error_code, 0);
}

#[test]
fn leader_epochs_are_compared() {
    let mut bench = Bench::new(2);
    let id = bench.create("t", 1, &[]);
    bench.produce("t", 0, batch(&[NOW_MS]));
    bench.core.topology.move_leader("t", 0, 2).unwrap();
    let ask = |bench: &mut Bench, node, epoch| {
        let mut request = fetch_request("t", &[(0, 0)]);
        request.topics[0].topic_id = id;
        request.topics[0].partitions[0].current_leader_epoch = epoch;
        bench.ask_node(node, &request, 16)
    };
    assert_eq!(codes(&ask(&mut bench, 2, 1)), [ErrorCode::NONE]);
    assert_eq!(codes(&ask(&mut bench, 2, -1)), [ErrorCode::NONE]);
    assert_eq!(
        codes(&ask(&mut bench, 2, 2)),
        [ErrorCode::UNKNOWN_LEADER_EPOCH]
    );
    for (node, code) in [
        (2, ErrorCode::FENCED_LEADER_EPOCH),
        (1, ErrorCode::FENCED_LEADER_EPOCH),
    ] {
        assert_eq!(codes(&ask(&mut bench, node, 0)), [code]);
    }
    let hint = ask(&mut bench, 1, -1);
    assert_eq!(codes(&hint), [ErrorCode::NOT_LEADER_OR_FOLLOWER]);
    let leader = &hint.responses[0].partitions[0].current_leader;
    assert_eq!((leader.leader_id, leader.leader_epoch), (2, 1));
    assert_eq!(
        (hint.node_endpoints[0].node_id, hint.node_endpoints[0].port),
        (2, 9093)
    );
}

#[test]
fn a_log_that_parted_is_told_where() {
    let mut bench = Bench::new(2);
    bench.create("t", 1, &[]);
    bench.produce("t", 0, batch(&[NOW_MS, NOW_MS]));
    bench.core.topology.move_leader("t", 0, 2).unwrap();
    bench.produce("t", 0, batch(&[NOW_MS, NOW_MS]));
    let mut ask = |last_fetched_epoch, offset| {
        let mut request = fetch_request("t", &[(0, offset)]);
        request.topics[0].partitions[0].last_fetched_epoch = last_fetched_epoch;
        let mut response = bench.ask_node(2, &request, 12);
        response.responses.remove(0).partitions.remove(0)
    };
    assert_eq!(ask(0, 2).diverging_epoch.end_offset, -1);
    assert_eq!(ask(1, 4).diverging_epoch.end_offset, -1);
    let parted = ask(0, 3);
    assert_eq!(
        (
            parted.diverging_epoch.epoch,
            parted.diverging_epoch.end_offset
        ),
        (0, 2)
    );
    assert_eq!(
        ErrorCode(ask(7, 2).error_code),
        ErrorCode::OFFSET_OUT_OF_RANGE
    );
}

#[test]
fn the_hand_written_response_is_that_of_the_generated_message() {
    let mut bench = Bench::new(2);
    let id = bench.create("t", 2, &[]);
    bench.produce("t", 0, batch(&[NOW_MS]));
    let other = bench.create("u", 1, &[]);
    bench.core.topology.move_leader("u", 0, 2).unwrap();
    for version in 4..=18 {
        for isolation_level in 0..2 {
            let mut request = fetch_request("t", &[(0, 0), (1, 5), (9, 0)]);
            request.isolation_level = isolation_level;
            let mut topic = request.topics[0].clone();
            topic.topic = "u".into();
            request.topics[0].topic_id = id;
            topic.topic_id = other;
            request.topics.push(topic);
            let node = bench.leader("t", 0);
            let outcome = bench.handle(node, &request, version);
            let Outcome::Response(Response { pieces, .. }) = outcome else {
                panic!("no response")
            };
            let ours = pieces.concat();
            let mut input = Reader::new(Bytes::from(ours.clone()).slice(4..));
            frame::decode_response_header(&mut input, FetchRequest::KEY, version).unwrap();
            let message = FetchResponse::decode(&mut input, version).unwrap();
            assert_eq!(message.responses.len(), 2);
            let theirs = frame::encode_response(FetchRequest::KEY, version, 7, &message).unwrap();
            assert_eq!(ours, theirs, "version {version}");
        }
    }
}
