//! Commits and aborts in both versions of transactions.

use thalweg_protocol::ErrorCode;
use thalweg_records::ControlRecord;

use super::*;

#[test]
fn with_version_2_of_transactions_produce_adds_and_each_end_has_its_epoch() {
    let mut bench = bench();
    let writer = init(&mut bench, "x");
    assert_eq!(writer.produce(&mut bench, "t", 0), Ok(0));
    assert_eq!(writer.produce(&mut bench, "t", 1), Ok(1));
    let described = writer.describe(&mut bench);
    assert_eq!(&*described.transaction_state, "Ongoing");
    assert_eq!(
        (&*described.topics[0].topic, &described.topics[0].partitions),
        ("t", &vec![0])
    );
    let next = writer.commit(&mut bench).unwrap();
    assert_eq!((next.id, next.epoch), (writer.id, 1));
    let commit = ControlRecord::Commit {
        coordinator_epoch: 0,
    };
    assert_eq!(markers(&mut bench, "t"), [(2, 1, commit)]);
    assert_eq!(
        &*next.describe(&mut bench).transaction_state,
        "CompleteCommit"
    );
    let late = Err(ErrorCode::INVALID_PRODUCER_EPOCH);
    assert_eq!(writer.produce(&mut bench, "t", 2), late);
    assert_eq!(next.produce(&mut bench, "t", 0), Ok(3));
    assert!(aborted(&fetch_committed(&mut bench, "t", 0)).is_empty());
}

#[test]
fn an_end_whose_response_was_lost_is_answered_again_and_never_turned_around() {
    let mut bench = bench();
    let writer = init(&mut bench, "x");
    writer.produce(&mut bench, "t", 0).unwrap();
    let next = writer.commit(&mut bench).unwrap();
    assert_eq!(writer.commit(&mut bench), Ok(next.clone()));
    assert_eq!(writer.abort(&mut bench), INVALID_STATE);
    assert_eq!(markers(&mut bench, "t").len(), 1);
    next.produce(&mut bench, "t", 0).unwrap();
    // It is too late, and must not end the next transaction.
    assert_eq!(writer.commit(&mut bench), FENCED);
    assert_eq!(writer.abort(&mut bench), FENCED);
    let last = next.abort(&mut bench).unwrap();
    assert_eq!(next.abort(&mut bench), Ok(last.clone()));
    assert_eq!(next.commit(&mut bench), INVALID_STATE);
    assert_eq!(last.epoch, 2);
}

#[test]
fn an_empty_transaction_can_be_aborted_but_not_committed() {
    let mut bench = bench();
    let writer = init(&mut bench, "x");
    assert_eq!(writer.commit(&mut bench), INVALID_STATE);
    let next = writer.abort(&mut bench).unwrap();
    assert_eq!(next.epoch, 1);
    assert_eq!(writer.abort(&mut bench), Ok(next.clone()));
    assert_eq!(next.commit(&mut bench), INVALID_STATE);
    assert_eq!(next.abort(&mut bench).unwrap().epoch, 2);
    // Before KIP-890, neither was possible.
    let old = init(&mut bench, "y");
    assert_eq!(old.end_in(&mut bench, 4, true), INVALID_STATE);
    assert_eq!(old.end_in(&mut bench, 4, false), INVALID_STATE);
}

#[test]
fn with_version_1_partitions_are_added_first_and_the_epoch_stays() {
    let mut bench = bench();
    let writer = init(&mut bench, "x");
    let not_added = |version, bench: &mut Bench| writer.produce_in(bench, version, ("t", 0), 0);
    for (version, code) in [
        (11, ErrorCode::TRANSACTION_ABORTABLE),
        (10, ErrorCode::INVALID_TXN_STATE),
        (3, ErrorCode::INVALID_TXN_STATE),
    ] {
        assert_eq!(not_added(version, &mut bench), Err(code));
    }
    assert_eq!(&*writer.describe(&mut bench).transaction_state, "Empty");
    writer.add(&mut bench, "t").unwrap();
    assert_eq!(writer.produce_in(&mut bench, 11, ("t", 0), 0), Ok(0));
    let other = writer.produce_in(&mut bench, 11, ("t", 1), 0);
    assert_eq!(other, Err(ErrorCode::TRANSACTION_ABORTABLE));
    writer.end_in(&mut bench, 4, true).unwrap();
    writer.end_in(&mut bench, 4, true).unwrap();
    assert_eq!(writer.end_in(&mut bench, 4, false), INVALID_STATE);
    assert_eq!(markers(&mut bench, "t")[0].1, writer.epoch);
    // Sequences continue, but the partition must be added again.
    let late = writer.produce_in(&mut bench, 11, ("t", 0), 1);
    assert_eq!(late, Err(ErrorCode::TRANSACTION_ABORTABLE));
    writer.add(&mut bench, "t").unwrap();
    assert_eq!(writer.produce_in(&mut bench, 11, ("t", 0), 1), Ok(2));
    writer.end_in(&mut bench, 4, false).unwrap();
    writer.end_in(&mut bench, 4, false).unwrap();
    assert_eq!(writer.end_in(&mut bench, 4, true), INVALID_STATE);
}
