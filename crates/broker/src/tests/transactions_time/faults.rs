//! Markers that are delayed or fail, and faults of the requests of transactions.

use thalweg_protocol::{ApiKey, ErrorCode};

use super::*;
use crate::{FaultAction, FaultMatch};

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
