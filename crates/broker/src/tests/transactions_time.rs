//! Transactions with timeouts, several nodes, faults, and administrators.

use thalweg_protocol::messages::describe_producers::{
    DescribeProducersRequest, ProducerState, TopicRequest,
};
use thalweg_protocol::messages::find_coordinator::FindCoordinatorRequest;
use thalweg_protocol::messages::list_transactions::ListTransactionsRequest;
use thalweg_protocol::messages::write_txn_markers::{
    WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest,
};
use thalweg_protocol::{ApiKey, ErrorCode};

use super::transactional::*;
use super::*;
use crate::{FaultAction, FaultMatch};

fn bench() -> Bench {
    let mut bench = Bench::new(1);
    bench.create("t", 1, &[]);
    bench
}

fn tick(bench: &mut Bench) {
    bench.core.tick(bench.now, bench.now_ms);
}

fn state(bench: &mut Bench, id: &str) -> String {
    describe(bench, id).transaction_state.to_string()
}

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
    // The producer may abort and continue. The answer has its current epoch.
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
    let answer = bench.ask(&request, 4);
    assert!(!bench.was_woken());
    let writer = Writer {
        transactional_id: "x".to_owned(),
        id: answer.producer_id,
        epoch: answer.producer_epoch,
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

fn fault(bench: &mut Bench, api: ApiKey, action: FaultAction) {
    let matches = FaultMatch {
        api: Some(api),
        ..FaultMatch::default()
    };
    bench.core.faults.add(matches, action, Some(1));
}

#[test]
fn markers_that_are_held_back_make_the_next_transaction_wait() {
    let mut bench = bench();
    let writer = init(&mut bench, "x");
    writer.produce(&mut bench, "t", 0).unwrap();
    let delay = Duration::from_millis(700);
    fault(
        &mut bench,
        ApiKey::WRITE_TXN_MARKERS,
        FaultAction::Delay(delay),
    );
    let next = writer.commit(&mut bench).unwrap();
    assert_eq!(state(&mut bench, "x"), "PrepareCommit");
    assert_eq!(fetch_committed(&mut bench, "t", 0).last_stable_offset, 0);
    let wait = ErrorCode::CONCURRENT_TRANSACTIONS;
    assert_eq!(next.produce(&mut bench, "t", 0), Err(wait));
    assert_eq!(next.add(&mut bench, "t"), Err(wait));
    assert_eq!(writer.commit(&mut bench), Err(wait));
    assert_eq!(writer.abort(&mut bench), Err(ErrorCode::INVALID_TXN_STATE));
    assert_eq!(try_init(&mut bench, "x", None), Err(wait));
    let old_client = next.produce_in(&mut bench, 11, ("t", 0), 0);
    assert_eq!(old_client, Err(ErrorCode::NOT_ENOUGH_REPLICAS));
    let offsets = next.commit_offset_in(&mut bench, 4, ("g", "t"), 0);
    assert_eq!(offsets, Err(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS));
    assert_eq!(bench.core.next_deadline(), bench.now + delay);
    bench.pass(delay);
    tick(&mut bench);
    assert_eq!(state(&mut bench, "x"), "CompleteCommit");
    assert_eq!(next.produce(&mut bench, "t", 0), Ok(2));
}

#[test]
fn a_delay_that_lasts_delays_the_markers_of_each_transaction_once() {
    let mut bench = bench();
    let mut writer = init(&mut bench, "x");
    let matches = FaultMatch {
        api: Some(ApiKey::WRITE_TXN_MARKERS),
        ..FaultMatch::default()
    };
    let delay = Duration::from_millis(700);
    let action = FaultAction::Delay(delay);
    let lasting = bench.core.faults.add(matches, action, None);
    for hits in 1..3 {
        writer.produce(&mut bench, "t", 0).unwrap();
        writer = writer.commit(&mut bench).unwrap();
        assert_eq!(state(&mut bench, "x"), "PrepareCommit");
        bench.pass(delay);
        tick(&mut bench);
        assert_eq!(state(&mut bench, "x"), "CompleteCommit");
        assert_eq!(bench.core.faults.hits(lasting), Some(hits));
    }
}

#[test]
fn faults_of_any_api_are_not_for_markers() {
    let mut bench = bench();
    let writer = init(&mut bench, "x");
    writer.produce(&mut bench, "t", 0).unwrap();
    let of_topic = FaultMatch {
        topic: Some("t".into()),
        ..FaultMatch::default()
    };
    let unused = bench
        .core
        .faults
        .add(of_topic, FaultAction::Disconnect, Some(1));
    writer.commit(&mut bench).unwrap();
    assert_eq!(state(&mut bench, "x"), "CompleteCommit");
    assert_eq!(bench.core.faults.hits(unused), Some(0));
}

#[test]
fn the_producer_that_replaces_an_exhausted_one_waits_for_its_markers() {
    let mut bench = bench();
    let mut writer = init(&mut bench, "x");
    while writer.epoch < i16::MAX - 1 {
        writer = writer.abort(&mut bench).unwrap();
    }
    writer.produce(&mut bench, "t", 0).unwrap();
    let delay = Duration::from_millis(700);
    fault(
        &mut bench,
        ApiKey::WRITE_TXN_MARKERS,
        FaultAction::Delay(delay),
    );
    let next = writer.commit(&mut bench).unwrap();
    assert_ne!(next.id, writer.id);
    let wait = ErrorCode::CONCURRENT_TRANSACTIONS;
    assert_eq!(next.produce(&mut bench, "t", 0), Err(wait));
    assert_eq!(next.add(&mut bench, "t"), Err(wait));
    let old_client = next.produce_in(&mut bench, 11, ("t", 0), 0);
    assert_eq!(old_client, Err(ErrorCode::NOT_ENOUGH_REPLICAS));
    let mut stranger = next.clone();
    stranger.id += 1000;
    let unknown = Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING);
    assert_eq!(stranger.add(&mut bench, "t"), unknown);
    bench.pass(delay);
    tick(&mut bench);
    assert_eq!(next.produce(&mut bench, "t", 0), Ok(2));
}

#[test]
fn markers_that_failed_are_written_soon_after() {
    let mut bench = bench();
    let writer = init(&mut bench, "x");
    writer.produce(&mut bench, "t", 0).unwrap();
    let fail = FaultAction::Fail(ErrorCode::NOT_LEADER_OR_FOLLOWER);
    fault(&mut bench, ApiKey::WRITE_TXN_MARKERS, fail);
    // A new producer must wait until the previous transaction is completely rolled back.
    let wait = Err(ErrorCode::CONCURRENT_TRANSACTIONS);
    assert_eq!(try_init(&mut bench, "x", None), wait);
    assert_eq!(state(&mut bench, "x"), "PrepareAbort");
    bench.now = bench.core.next_deadline();
    tick(&mut bench);
    assert_eq!(init(&mut bench, "x").epoch, 2);
}

#[test]
fn faults_apply_to_each_api_of_transactions_and_change_nothing() {
    let mut bench = bench();
    let writer = init(&mut bench, "x");
    let code = ErrorCode::COORDINATOR_NOT_AVAILABLE;
    let fail = FaultAction::Fail(code);
    fault(&mut bench, ApiKey::INIT_PRODUCER_ID, fail);
    assert_eq!(try_init(&mut bench, "x", None), Err(code));
    fault(&mut bench, ApiKey::ADD_PARTITIONS_TO_TXN, fail);
    assert_eq!(writer.add(&mut bench, "t"), Err(code));
    fault(&mut bench, ApiKey::ADD_OFFSETS_TO_TXN, fail);
    assert_eq!(writer.add_offsets(&mut bench, "g"), Err(code));
    fault(&mut bench, ApiKey::TXN_OFFSET_COMMIT, fail);
    let offset = writer.commit_offset_in(&mut bench, 5, ("g", "t"), 5);
    assert_eq!(offset, Err(code));
    fault(&mut bench, ApiKey::DESCRIBE_TRANSACTIONS, fail);
    assert_eq!(ErrorCode(describe(&mut bench, "x").error_code), code);
    assert_eq!(state(&mut bench, "x"), "Empty");
    writer.produce(&mut bench, "t", 0).unwrap();
    fault(&mut bench, ApiKey::END_TXN, fail);
    assert_eq!(writer.commit(&mut bench), Err(code));
    assert_eq!(state(&mut bench, "x"), "Ongoing");
    fault(
        &mut bench,
        ApiKey::END_TXN,
        FaultAction::ApplyThenDisconnect,
    );
    let lost = bench.handle(1, &writer.end_request(true), 5);
    assert!(matches!(lost, Outcome::Close));
    assert_eq!(writer.commit(&mut bench), Ok(writer.at(1)));
}

#[test]
fn the_wrong_node_coordinates_nothing_and_is_found_out_by_asking() {
    let mut bench = Bench::new(3);
    bench.create("t", 1, &[]);
    let node = coordinator(&bench, "x");
    let other = node % 3 + 1;
    let refused = bench.ask_node(other, &init_request("x", None), 4);
    assert_eq!(ErrorCode(refused.error_code), ErrorCode::NOT_COORDINATOR);
    let find = FindCoordinatorRequest {
        key_type: 1,
        coordinator_keys: vec!["x".into()],
        ..FindCoordinatorRequest::default()
    };
    assert_eq!(bench.ask(&find, 4).coordinators[0].node_id, node);
    bench.core.move_coordinator("x", other, bench.now).unwrap();
    assert_eq!(bench.ask(&find, 4).coordinators[0].node_id, other);
    let refused = bench.ask_node(node, &init_request("x", None), 4);
    assert_eq!(ErrorCode(refused.error_code), ErrorCode::NOT_COORDINATOR);
    assert!(bench.core.move_coordinator("x", 4, bench.now).is_err());
}

#[test]
fn transactions_survive_the_moves_of_coordinators_and_leaders() {
    let mut bench = Bench::new(3);
    bench.create("t", 1, &[]);
    let writer = init(&mut bench, "x");
    writer.produce(&mut bench, "t", 0).unwrap();
    let (coordinator_before, leader) = (coordinator(&bench, "x"), bench.leader("t", 0));
    bench.core.stop_node(coordinator_before, bench.now).unwrap();
    assert_ne!(coordinator(&bench, "x"), coordinator_before);
    bench.core.stop_node(leader, bench.now).unwrap();
    writer.produce(&mut bench, "t", 1).unwrap();
    let next = writer.commit(&mut bench).unwrap();
    bench
        .core
        .start_node(coordinator_before, bench.now)
        .unwrap();
    assert_eq!(writer.commit(&mut bench), Ok(next.clone()));
    assert_eq!(
        base_offsets(&fetch_committed(&mut bench, "t", 0)),
        [0, 1, 2]
    );
    // Each move has increased the coordinator epoch, which partitions remember.
    next.produce(&mut bench, "t", 0).unwrap();
    next.commit(&mut bench).unwrap();
    assert!(producers(&mut bench)[0].coordinator_epoch >= 2);
}

fn producers(bench: &mut Bench) -> Vec<ProducerState> {
    let request = DescribeProducersRequest {
        topics: vec![TopicRequest {
            name: "t".into(),
            partition_indexes: vec![0],
        }],
    };
    let node = bench.leader("t", 0);
    let mut answer = bench.ask_node(node, &request, 0);
    answer
        .topics
        .remove(0)
        .partitions
        .remove(0)
        .active_producers
}

#[test]
fn producers_of_a_partition_show_their_open_transactions() {
    let mut bench = bench();
    let writer = init(&mut bench, "x");
    bench.produce("t", 0, batch(&[NOW_MS]));
    writer.produce(&mut bench, "t", 0).unwrap();
    let shown = |bench: &mut Bench| {
        let state = producers(bench).remove(0);
        (
            state.producer_epoch,
            state.coordinator_epoch,
            state.current_txn_start_offset,
        )
    };
    assert_eq!(shown(&mut bench), (0, -1, 1));
    writer.commit(&mut bench).unwrap();
    assert_eq!(shown(&mut bench), (1, 0, -1));
}

fn mark(bench: &mut Bench, writer: &Writer, coordinator_epoch: i32, topic: &str) -> ErrorCode {
    let marker = WritableTxnMarker {
        producer_id: writer.id,
        producer_epoch: writer.epoch,
        coordinator_epoch,
        topics: vec![WritableTxnMarkerTopic {
            name: topic.into(),
            partition_indexes: vec![0],
        }],
        ..WritableTxnMarker::default()
    };
    let markers = vec![marker];
    let answer = bench.ask(&WriteTxnMarkersRequest { markers }, 1);
    ErrorCode(answer.markers[0].topics[0].partitions[0].error_code)
}

#[test]
fn an_administrator_ends_a_transaction_that_hangs() {
    let mut bench = bench();
    init(&mut bench, "x");
    let writer = init(&mut bench, "x");
    writer.produce(&mut bench, "t", 0).unwrap();
    assert_eq!(
        mark(&mut bench, &writer, 0, "nope"),
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
    );
    let older = mark(&mut bench, &writer.at(0), 0, "t");
    assert_eq!(older, ErrorCode::INVALID_PRODUCER_EPOCH);
    assert_eq!(
        mark(&mut bench, &writer.at(-1), 0, "t"),
        ErrorCode::INVALID_REQUEST
    );
    assert_eq!(fetch_committed(&mut bench, "t", 0).last_stable_offset, 0);
    assert_eq!(mark(&mut bench, &writer, 0, "t"), ErrorCode::NONE);
    let fetched = fetch_committed(&mut bench, "t", 0);
    assert_eq!(
        (fetched.last_stable_offset, aborted(&fetched).len()),
        (2, 1)
    );
    let late = mark(&mut bench, &writer, -1, "t");
    assert_eq!(late, ErrorCode::TRANSACTION_COORDINATOR_FENCED);
    // The coordinator finds nothing open there, and its commit still succeeds.
    assert!(writer.commit(&mut bench).is_ok());
}

#[test]
fn transactions_are_listed_by_state_producer_age_and_name() {
    let mut bench = bench();
    let open = init(&mut bench, "orders-1");
    open.produce(&mut bench, "t", 0).unwrap();
    let idle = init(&mut bench, "orders-2");
    bench.pass(Duration::from_secs(5));
    let list = |bench: &mut Bench, request: &ListTransactionsRequest| -> Vec<String> {
        let answer = bench.ask(request, 2);
        assert_eq!(answer.error_code, 0);
        let states = answer.transaction_states.iter();
        states
            .map(|state| state.transactional_id.to_string())
            .collect()
    };
    let all = ListTransactionsRequest::default();
    assert_eq!(list(&mut bench, &all), ["orders-1", "orders-2"]);
    let by_state = ListTransactionsRequest {
        state_filters: vec!["Ongoing".into(), "Dead".into()],
        ..Default::default()
    };
    assert_eq!(list(&mut bench, &by_state), ["orders-1"]);
    let by_producer = ListTransactionsRequest {
        producer_id_filters: vec![idle.id],
        ..Default::default()
    };
    assert_eq!(list(&mut bench, &by_producer), ["orders-2"]);
    let by_name = ListTransactionsRequest {
        transactional_id_pattern: Some(".*-[2-9]".into()),
        ..Default::default()
    };
    assert_eq!(list(&mut bench, &by_name), ["orders-2"]);
    let by_age = |ms| ListTransactionsRequest {
        duration_filter: ms,
        state_filters: vec!["Ongoing".into()],
        ..Default::default()
    };
    assert_eq!(list(&mut bench, &by_age(4999)), ["orders-1"]);
    assert!(list(&mut bench, &by_age(5000)).is_empty());
    let nonsense = ListTransactionsRequest {
        state_filters: vec!["Nonsense".into()],
        ..Default::default()
    };
    assert_eq!(bench.ask(&nonsense, 2).unknown_state_filters, ["Nonsense"]);
    let wrong = ListTransactionsRequest {
        transactional_id_pattern: Some("(".into()),
        ..Default::default()
    };
    let code = ErrorCode(bench.ask(&wrong, 2).error_code);
    assert_eq!(code, ErrorCode::INVALID_REGULAR_EXPRESSION);
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
        let answer = bench.ask(&request, 3);
        let topic = &answer.results_by_topic_v3_and_below[0];
        ErrorCode(topic.results_by_partition[0].partition_error_code)
    };
    assert_eq!(add(&mut bench, 10_001), ErrorCode::POLICY_VIOLATION);
    assert_eq!(state(&mut bench, "x"), "Empty");
    assert_eq!(add(&mut bench, 10_000), ErrorCode::NONE);
    assert_eq!(add(&mut bench, 10_000), ErrorCode::NONE);
    assert!(writer.commit(&mut bench).is_ok());
}
