//! Partitions, offsets and topics that are part of a transaction.

use thalweg_protocol::ErrorCode;

use super::*;

#[test]
fn batches_outside_of_the_transaction_are_refused_while_it_is_open() {
    let mut bench = bench();
    let writer = init(&mut bench, "x");
    writer.produce(&mut bench, "t", 0).unwrap();
    let plain = bench.produce("t", 0, sequenced(writer.id, 1, 1));
    assert_eq!(ErrorCode(plain.error_code), ErrorCode::INVALID_TXN_STATE);
    let next_epoch = BatchHeader {
        producer_id: writer.id,
        producer_epoch: writer.epoch + 1,
        base_sequence: 0,
        ..BatchHeader::default()
    };
    let bumped = bench.produce("t", 0, batch_of(next_epoch, &[NOW_MS]));
    assert_eq!(ErrorCode(bumped.error_code), ErrorCode::INVALID_TXN_STATE);
    let nameless = bench.produce("t", 0, writer.batch(1));
    let refused = ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED;
    assert_eq!(ErrorCode(nameless.error_code), refused);
    // A batch that was sent twice is written once.
    assert_eq!(writer.produce(&mut bench, "t", 0), Ok(0));
    // With version 2, a transaction starts with sequence 0 on a partition that does not know the
    // producer.
    let gap = writer.produce_in(&mut bench, 12, ("t", 1), 5);
    assert_eq!(gap, Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
}

#[test]
fn all_partitions_are_added_or_none() {
    let mut bench = bench();
    let writer = init(&mut bench, "x");
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    assert_eq!(writer.add(&mut bench, "nope"), Err(unknown));
    let internal = writer.add(&mut bench, "__consumer_offsets");
    assert_eq!(internal, Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED));
    assert_eq!(&*writer.describe(&mut bench).transaction_state, "Empty");
}

#[test]
fn offsets_of_a_transaction_are_visible_once_it_commits() {
    let mut bench = bench();
    let writer = init(&mut bench, "x");
    assert_eq!(
        writer.commit_offset_in(&mut bench, 5, ("g", "t"), 5),
        Ok(())
    );
    let described = writer.describe(&mut bench);
    assert_eq!(&*described.topics[0].topic, "__consumer_offsets");
    assert_eq!(committed_offset(&mut bench, "g", "t", false), Ok(-1));
    let unstable = Err(ErrorCode::UNSTABLE_OFFSET_COMMIT);
    assert_eq!(committed_offset(&mut bench, "g", "t", true), unstable);
    let writer = writer.commit(&mut bench).unwrap();
    assert_eq!(committed_offset(&mut bench, "g", "t", true), Ok(5));
    writer
        .commit_offset_in(&mut bench, 5, ("g", "t"), 9)
        .unwrap();
    assert_eq!(committed_offset(&mut bench, "g", "t", false), Ok(5));
    writer.abort(&mut bench).unwrap();
    assert_eq!(committed_offset(&mut bench, "g", "t", true), Ok(5));
}

#[test]
fn before_version_5_the_group_must_have_been_added() {
    let mut bench = bench();
    let writer = init(&mut bench, "x");
    let commit =
        |version, bench: &mut Bench| writer.commit_offset_in(bench, version, ("g", "t"), 5);
    assert_eq!(commit(4, &mut bench), Err(ErrorCode::TRANSACTION_ABORTABLE));
    assert_eq!(commit(2, &mut bench), Err(ErrorCode::INVALID_TXN_STATE));
    writer.add_offsets(&mut bench, "g").unwrap();
    assert_eq!(commit(3, &mut bench), Ok(()));
    let unknown = writer.commit_offset_in(&mut bench, 3, ("g", "nope"), 5);
    assert_eq!(unknown, Err(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    writer.end_in(&mut bench, 4, true).unwrap();
    assert_eq!(committed_offset(&mut bench, "g", "t", true), Ok(5));
}

#[test]
fn a_later_commit_is_not_replaced_by_a_transaction_that_wrote_before_it() {
    let mut bench = bench();
    let (one, two) = (init(&mut bench, "one"), init(&mut bench, "two"));
    one.commit_offset_in(&mut bench, 5, ("g", "t"), 5).unwrap();
    two.commit_offset_in(&mut bench, 5, ("g", "t"), 6).unwrap();
    two.commit(&mut bench).unwrap();
    let unstable = Err(ErrorCode::UNSTABLE_OFFSET_COMMIT);
    assert_eq!(committed_offset(&mut bench, "g", "t", true), unstable);
    one.commit(&mut bench).unwrap();
    assert_eq!(committed_offset(&mut bench, "g", "t", true), Ok(6));
}

#[test]
fn pending_offsets_go_with_their_topic_and_their_group() {
    let mut bench = bench();
    let id = bench.create("gone", 1, &[]);
    let writer = init(&mut bench, "x");
    writer
        .commit_offset_in(&mut bench, 5, ("g", "gone"), 5)
        .unwrap();
    writer
        .commit_offset_in(&mut bench, 5, ("h", "t"), 5)
        .unwrap();
    bench.core.delete_topic(id);
    assert!(bench.core.offsets.delete_group(&"h".into()));
    writer.commit(&mut bench).unwrap();
    assert_eq!(committed_offset(&mut bench, "g", "gone", true), Ok(-1));
    assert_eq!(committed_offset(&mut bench, "h", "t", true), Ok(-1));
    assert_eq!(bench.core.offsets.groups().count(), 0);
}

#[test]
fn a_deleted_topic_holds_no_transaction_up() {
    let mut bench = bench();
    let id = bench.create("gone", 1, &[]);
    let writer = init(&mut bench, "x");
    writer.produce(&mut bench, "gone", 0).unwrap();
    writer.produce(&mut bench, "t", 0).unwrap();
    bench.core.delete_topic(id);
    let next = writer.commit(&mut bench).unwrap();
    assert_eq!(last_stable_offset(&mut bench, "t"), 2);
    // The recreated topic does not know the producer.
    bench.create("gone", 1, &[]);
    assert_eq!(next.produce(&mut bench, "gone", 0), Ok(0));
    next.abort(&mut bench).unwrap();
    assert_eq!(last_stable_offset(&mut bench, "gone"), 2);
}

#[test]
fn a_topic_made_anew_within_a_transaction_is_part_of_it() {
    let mut bench = bench();
    let id = bench.create("again", 1, &[]);
    let writer = init(&mut bench, "x");
    writer.produce(&mut bench, "again", 0).unwrap();
    bench.core.delete_topic(id);
    bench.create("again", 1, &[]);
    let skipped = writer.produce(&mut bench, "again", 1);
    assert_eq!(skipped, Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER));
    assert_eq!(writer.produce(&mut bench, "again", 0), Ok(0));
    assert_eq!(last_stable_offset(&mut bench, "again"), 0);
    writer.commit(&mut bench).unwrap();
    assert_eq!(last_stable_offset(&mut bench, "again"), 2);
}
