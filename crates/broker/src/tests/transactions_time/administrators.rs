//! Coordinators and leaders that move, and what administrators see and end.

use thalweg_protocol::ErrorCode;
use thalweg_protocol::messages::describe_producers::{
    DescribeProducersRequest, ProducerState, TopicRequest,
};
use thalweg_protocol::messages::find_coordinator::FindCoordinatorRequest;
use thalweg_protocol::messages::list_transactions::ListTransactionsRequest;
use thalweg_protocol::messages::write_txn_markers::{
    WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest,
};

use super::*;

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
    let mut response = bench.ask_node(node, &request, 0);
    response
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
    let response = bench.ask(&WriteTxnMarkersRequest { markers }, 1);
    ErrorCode(response.markers[0].topics[0].partitions[0].error_code)
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
        let response = bench.ask(request, 2);
        assert_eq!(response.error_code, 0);
        let states = response.transaction_states.iter();
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
