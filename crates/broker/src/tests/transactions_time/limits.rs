//! Timeouts, the age of producers, and memory.

use thalweg_protocol::ErrorCode;

use super::*;

#[test]
fn a_transaction_is_rolled_back_at_its_timeout_and_its_producer_fenced() {
    let mut bench = bench();
    let writer = init(&mut bench, "x");
    writer.produce(&mut bench, "t", 0).unwrap();
    assert_eq!(
        bench.core.next_deadline(),
        bench.now + Duration::from_secs(30)
    );
    bench.pass(Duration::from_millis(59_999));
    tick(&mut bench);
    assert_eq!(state(&mut bench, "x"), "Ongoing");
    assert_eq!(
        bench.core.next_deadline(),
        bench.now + Duration::from_millis(1)
    );
    bench.pass(Duration::from_millis(1));
    tick(&mut bench);
    assert_eq!(state(&mut bench, "x"), "CompleteAbort");
    let fetched = fetch_committed(&mut bench, "t", 0);
    assert_eq!(
        (fetched.last_stable_offset, aborted(&fetched).len()),
        (2, 1)
    );
    let late = Err(ErrorCode::INVALID_PRODUCER_EPOCH);
    assert_eq!(writer.produce(&mut bench, "t", 1), late);
    assert_eq!(writer.add(&mut bench, "t"), Err(ErrorCode::PRODUCER_FENCED));
    assert_eq!(writer.commit(&mut bench), Err(ErrorCode::INVALID_TXN_STATE));
    // The producer may abort and continue. The response has its current epoch.
    assert_eq!(writer.abort(&mut bench), Ok(writer.at(1)));
    let (id, epoch) = (writer.id, writer.epoch);
    assert_eq!(
        try_init(&mut bench, "x", Some((id, epoch))),
        Ok(writer.at(1))
    );
}

#[test]
fn at_version_1_a_timeout_fences_for_good() {
    let mut bench = Bench::with_options(1, &[("thalweg.transaction.version", "1")]);
    bench.create("t", 1, &[]);
    let writer = init(&mut bench, "x");
    writer.add(&mut bench, "t").unwrap();
    writer.produce_in(&mut bench, 11, ("t", 0), 0).unwrap();
    bench.pass(Duration::from_secs(60));
    tick(&mut bench);
    assert_eq!(state(&mut bench, "x"), "CompleteAbort");
    let late = writer.produce_in(&mut bench, 11, ("t", 0), 1);
    assert_eq!(late, Err(ErrorCode::INVALID_PRODUCER_EPOCH));
    let ended = writer.end_in(&mut bench, 4, false);
    assert_eq!(ended, Err(ErrorCode::PRODUCER_FENCED));
    assert_eq!(init(&mut bench, "x").epoch, 2);
}

#[test]
fn whoever_sleeps_is_woken_if_a_transaction_ends_earlier() {
    let mut bench = bench();
    let waker = Waker::from(Arc::clone(&bench.woken));
    let first = bench.core.poll_deadline(&waker);
    let mut request = init_request("x", None);
    request.transaction_timeout_ms = 1000;
    let response = bench.ask(&request, 4);
    assert!(!bench.was_woken());
    let writer = Writer {
        transactional_id: "x".to_owned(),
        id: response.producer_id,
        epoch: response.producer_epoch,
    };
    writer.produce(&mut bench, "t", 0).unwrap();
    assert!(bench.was_woken());
    let second = bench.core.poll_deadline(&waker);
    assert!(second < first && second == bench.now + Duration::from_secs(1));
    writer.produce(&mut bench, "t", 1).unwrap();
    assert!(!bench.was_woken());
    writer.commit(&mut bench).unwrap();
    assert_eq!(bench.core.next_deadline(), first);
}

#[test]
fn ids_that_rest_for_long_are_forgotten_but_no_open_ones() {
    let mut bench = Bench::with_options(1, &[("transactional.id.expiration.ms", "60000")]);
    bench.create("t", 1, &[]);
    init(&mut bench, "idle");
    let open = init(&mut bench, "open");
    open.produce(&mut bench, "t", 0).unwrap();
    bench.core.retain(bench.now_ms + 59_999);
    assert_eq!(state(&mut bench, "idle"), "Empty");
    bench.core.retain(bench.now_ms + 60_000);
    let gone = describe(&mut bench, "idle");
    assert_eq!(
        ErrorCode(gone.error_code),
        ErrorCode::TRANSACTIONAL_ID_NOT_FOUND
    );
    assert_eq!(state(&mut bench, "open"), "Ongoing");
}

#[test]
fn what_is_old_goes_from_the_index_and_holds_nothing_back() {
    let mut bench = bench();
    let writer = init(&mut bench, "x");
    writer.produce(&mut bench, "t", 0).unwrap();
    let writer = writer.abort(&mut bench).unwrap();
    writer.produce(&mut bench, "t", 0).unwrap();
    let node = bench.leader("t", 0);
    let request = thalweg_protocol::messages::delete_records::DeleteRecordsRequest {
        topics: vec![
            thalweg_protocol::messages::delete_records::DeleteRecordsTopic {
                name: "t".into(),
                partitions: vec![
                    thalweg_protocol::messages::delete_records::DeleteRecordsPartition {
                        partition_index: 0,
                        offset: -1,
                    },
                ],
            },
        ],
        timeout_ms: 1000,
    };
    bench.ask_node(node, &request, 2);
    let fetched = fetch_committed(&mut bench, "t", 3);
    assert_eq!(
        (fetched.log_start_offset, fetched.last_stable_offset),
        (3, 3)
    );
    writer.commit(&mut bench).unwrap();
    let fetched = fetch_committed(&mut bench, "t", 3);
    assert_eq!(
        (fetched.last_stable_offset, aborted(&fetched).len()),
        (4, 0)
    );
}

#[test]
fn when_memory_is_full_transactions_still_end_and_idle_markers_take_nothing() {
    let mut bench = Bench::with_options(1, &[("thalweg.memory.max.bytes", "300")]);
    bench.create("t", 1, &[]);
    let open = init(&mut bench, "open");
    let mut sequence = 0;
    while open.produce(&mut bench, "t", sequence).is_ok() {
        sequence += 1;
    }
    assert!(sequence > 0);
    let idle = init(&mut bench, "idle");
    idle.add(&mut bench, "t").unwrap();
    let before = bench.core.memory_bytes;
    idle.commit(&mut bench).unwrap();
    assert_eq!(bench.core.memory_bytes, before);
    open.commit(&mut bench).unwrap();
    assert!(bench.core.memory_bytes > before);
    let fetched = fetch_committed(&mut bench, "t", 0);
    assert_eq!(fetched.last_stable_offset, i64::from(sequence) + 1);
}

#[test]
fn there_is_an_end_to_the_partitions_of_a_transaction() {
    let mut bench = Bench::new(1);
    bench.create("big", 10_001, &[]);
    let writer = init(&mut bench, "x");
    let add = |bench: &mut Bench, count: i32| {
        let mut request = writer.add_request("big");
        request.v3_and_below_topics[0].partitions = (0..count).collect();
        let response = bench.ask(&request, 3);
        let topic = &response.results_by_topic_v3_and_below[0];
        ErrorCode(topic.results_by_partition[0].partition_error_code)
    };
    assert_eq!(add(&mut bench, 10_001), ErrorCode::POLICY_VIOLATION);
    assert_eq!(state(&mut bench, "x"), "Empty");
    assert_eq!(add(&mut bench, 10_000), ErrorCode::NONE);
    assert_eq!(add(&mut bench, 10_000), ErrorCode::NONE);
    assert!(writer.commit(&mut bench).is_ok());
}
