//! Transactions by requests and answers. The codes are those of a real Kafka 4.3, see
//! `tests/integration/transactions/test_transaction_requests.py`.

use thalweg_protocol::ErrorCode;
use thalweg_protocol::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use thalweg_records::ControlRecord;

use super::transactional::*;
use super::*;

const FENCED: Result<Writer, ErrorCode> = Err(ErrorCode::PRODUCER_FENCED);
const INVALID_STATE: Result<Writer, ErrorCode> = Err(ErrorCode::INVALID_TXN_STATE);

fn bench() -> Bench {
    let mut bench = Bench::new(1);
    bench.create("t", 2, &[]);
    bench
}

fn last_stable_offset(bench: &mut Bench, topic: &str) -> i64 {
    let request = ListOffsetsRequest {
        replica_id: -1,
        isolation_level: 1,
        topics: vec![ListOffsetsTopic {
            name: topic.into(),
            partitions: vec![ListOffsetsPartition {
                timestamp: -1,
                ..Default::default()
            }],
        }],
        ..ListOffsetsRequest::default()
    };
    let node = bench.leader(topic, 0);
    let answer = bench.ask_node(node, &request, 7);
    answer.topics[0].partitions[0].offset
}

/// Returns the control records of partition 0.
fn markers(bench: &mut Bench, topic: &str) -> Vec<(i64, i16, ControlRecord)> {
    let records = bench.fetch(topic, 0, 0).records.unwrap_or_default();
    let mut found = Vec::new();
    for batch in thalweg_records::batches(records) {
        let batch = batch.unwrap();
        batch.validate_crc().unwrap();
        if !batch.header.attributes.is_control() {
            continue;
        }
        assert!(batch.header.attributes.is_transactional());
        assert_eq!(batch.header.base_sequence, -1);
        let mut decompressor = thalweg_records::Decompressor::default();
        let decoded = batch.decode(&mut decompressor, 1 << 20).unwrap();
        let record = decoded.iter().next().unwrap().unwrap();
        let control = ControlRecord::parse(record.key.unwrap(), record.value).unwrap();
        found.push((record.offset, batch.header.producer_epoch, control));
    }
    found
}

#[test]
fn each_init_has_the_next_epoch_and_fences_the_producer_before() {
    let mut bench = bench();
    let first = init(&mut bench, "x");
    assert_eq!(first.epoch, 0);
    let second = init(&mut bench, "x");
    assert_eq!((second.id, second.epoch), (first.id, 1));
    assert_ne!(init(&mut bench, "y").id, first.id);
    let fenced = Err(ErrorCode::INVALID_PRODUCER_EPOCH);
    assert_eq!(first.produce(&mut bench, "t", 0), fenced);
    assert_eq!(first.add(&mut bench, "t"), Err(ErrorCode::PRODUCER_FENCED));
    assert_eq!(
        first.add_offsets(&mut bench, "g"),
        Err(ErrorCode::PRODUCER_FENCED)
    );
    let offset = first.commit_offset_in(&mut bench, 5, ("g", "t"), 1);
    assert_eq!(offset, Err(ErrorCode::INVALID_PRODUCER_EPOCH));
    assert_eq!(second.produce(&mut bench, "t", 0), Ok(0));
    assert_eq!(first.commit(&mut bench), FENCED);
}

#[test]
fn old_clients_know_a_fenced_producer_by_its_epoch_only() {
    let mut bench = bench();
    let first = init(&mut bench, "x");
    init(&mut bench, "x");
    init(&mut bench, "x");
    let ended = |version, bench: &mut Bench| first.end_in(bench, version, true).err();
    assert_eq!(
        ended(1, &mut bench),
        Some(ErrorCode::INVALID_PRODUCER_EPOCH)
    );
    assert_eq!(ended(2, &mut bench), Some(ErrorCode::PRODUCER_FENCED));
    let request = init_request("x", Some((first.id, first.epoch)));
    for (version, code) in [
        (3, ErrorCode::INVALID_PRODUCER_EPOCH),
        (4, ErrorCode::PRODUCER_FENCED),
    ] {
        let answer = bench.ask(&request, version);
        assert_eq!(ErrorCode(answer.error_code), code);
        assert_eq!((answer.producer_id, answer.producer_epoch), (-1, -1));
    }
}

#[test]
fn a_new_producer_rolls_the_open_transaction_of_the_old_one_back() {
    let mut bench = bench();
    let old = init(&mut bench, "x");
    old.produce(&mut bench, "t", 0).unwrap();
    assert_eq!(last_stable_offset(&mut bench, "t"), 0);
    let new = init(&mut bench, "x");
    // One epoch for the abort, one for the new producer.
    assert_eq!((new.id, new.epoch), (old.id, 2));
    let abort = ControlRecord::Abort {
        coordinator_epoch: 0,
    };
    assert_eq!(markers(&mut bench, "t"), [(1, 1, abort)]);
    let fetched = fetch_committed(&mut bench, "t", 0);
    assert_eq!(
        (fetched.last_stable_offset, aborted(&fetched)),
        (2, vec![(old.id, 0)])
    );
    let late = Err(ErrorCode::INVALID_PRODUCER_EPOCH);
    assert_eq!(old.produce(&mut bench, "t", 1), late);
    assert_eq!(old.commit(&mut bench), FENCED);
    assert_eq!(new.produce(&mut bench, "t", 0), Ok(2));
}

#[test]
fn a_producer_that_recovers_names_its_epoch_and_may_ask_twice() {
    let mut bench = bench();
    let first = init(&mut bench, "x");
    let (id, epoch) = (first.id, first.epoch);
    assert_eq!(
        try_init(&mut bench, "x", Some((id, epoch))),
        Ok(first.at(1))
    );
    assert_eq!(
        try_init(&mut bench, "x", Some((id, epoch))),
        Ok(first.at(1))
    );
    assert_eq!(try_init(&mut bench, "x", Some((id, 1))), Ok(first.at(2)));
    for wrong in [(id, 0), (id, 3), (id + 100, 2)] {
        assert_eq!(try_init(&mut bench, "x", Some(wrong)), FENCED, "{wrong:?}");
    }
    let half = try_init(&mut bench, "x", Some((id, -1)));
    assert_eq!(half, Err(ErrorCode::INVALID_REQUEST));
    // For an id that is no longer known (it expired), any producer id and epoch are accepted.
    assert_eq!(try_init(&mut bench, "new", Some((id, 7))).unwrap().epoch, 0);
}

#[test]
fn timeouts_and_ids_out_of_range_are_refused() {
    let mut bench = bench();
    for timeout_ms in [0, -1, 900_001] {
        let mut request = init_request("x", None);
        request.transaction_timeout_ms = timeout_ms;
        let answer = bench.ask(&request, 4);
        assert_eq!(
            ErrorCode(answer.error_code),
            ErrorCode::INVALID_TRANSACTION_TIMEOUT
        );
    }
    let empty = try_init(&mut bench, "", None);
    assert_eq!(empty, Err(ErrorCode::INVALID_REQUEST));
    let mut nobody = init(&mut bench, "x");
    nobody.transactional_id = "unknown".to_owned();
    let unknown = ErrorCode::INVALID_PRODUCER_ID_MAPPING;
    assert_eq!(nobody.add(&mut bench, "t"), Err(unknown));
    assert_eq!(nobody.commit(&mut bench), Err(unknown));
    assert_eq!(nobody.produce(&mut bench, "t", 0), Err(unknown));
    assert_eq!(nobody.produce_in(&mut bench, 9, ("t", 0), 0), Err(unknown));
}

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
fn an_end_whose_answer_was_lost_is_answered_again_and_never_turned_around() {
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

#[test]
fn ends_of_other_producers_are_refused() {
    let mut bench = bench();
    let writer = init(&mut bench, "x");
    writer.produce(&mut bench, "t", 0).unwrap();
    assert_eq!(writer.at(1).commit(&mut bench), FENCED);
    assert_eq!(writer.at(-1).commit(&mut bench), FENCED);
    assert_eq!(writer.at(i16::MAX).abort(&mut bench), FENCED);
    let mut stranger = writer.clone();
    stranger.id += 1000;
    let unknown = Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING);
    assert_eq!(stranger.commit(&mut bench), unknown);
    assert!(markers(&mut bench, "t").is_empty());
}

#[test]
fn an_exhausted_epoch_brings_another_producer_id() {
    let mut bench = bench();
    let mut writer = init(&mut bench, "x");
    while writer.epoch < i16::MAX - 1 {
        writer = writer.abort(&mut bench).unwrap();
    }
    writer.produce(&mut bench, "t", 0).unwrap();
    let next = writer.commit(&mut bench).unwrap();
    assert_ne!(next.id, writer.id);
    assert_eq!(next.epoch, 0);
    assert_eq!(markers(&mut bench, "t")[0].1, i16::MAX);
    assert_eq!(writer.commit(&mut bench), Ok(next.clone()));
    let late = ErrorCode::INVALID_PRODUCER_EPOCH;
    assert_eq!(writer.produce(&mut bench, "t", 1), Err(late));
    assert_eq!(next.produce(&mut bench, "t", 0), Ok(2));
}

#[test]
fn an_exhausted_epoch_is_replaced_by_init_too() {
    let mut bench = bench();
    let mut writer = init(&mut bench, "x");
    while writer.epoch < i16::MAX - 1 {
        writer = init(&mut bench, "x");
    }
    let (id, epoch) = (writer.id, writer.epoch);
    let next = try_init(&mut bench, "x", Some((id, epoch))).unwrap();
    assert_eq!((next.id != id, next.epoch), (true, 0));
    // The same request may come again after a lost answer, but not one with an older epoch.
    assert_eq!(try_init(&mut bench, "x", Some((id, epoch))), Ok(next));
    assert_eq!(try_init(&mut bench, "x", Some((id, 5))), FENCED);
}

#[test]
fn records_are_stable_up_to_the_first_that_belongs_to_an_open_transaction() {
    let mut bench = bench();
    let (one, two) = (init(&mut bench, "one"), init(&mut bench, "two"));
    bench.produce("t", 0, batch(&[NOW_MS]));
    one.produce(&mut bench, "t", 0).unwrap();
    two.produce(&mut bench, "t", 0).unwrap();
    bench.produce("t", 0, batch(&[NOW_MS]));
    let fetched = fetch_committed(&mut bench, "t", 0);
    assert_eq!((fetched.last_stable_offset, fetched.high_watermark), (1, 4));
    assert_eq!(base_offsets(&fetched), [0]);
    assert!(base_offsets(&fetch_committed(&mut bench, "t", 1)).is_empty());
    assert_eq!(base_offsets(&bench.fetch("t", 0, 0)), [0, 1, 2, 3]);
    assert_eq!(bench.fetch("t", 0, 0).aborted_transactions, None);
    one.abort(&mut bench).unwrap();
    let fetched = fetch_committed(&mut bench, "t", 0);
    assert_eq!(fetched.last_stable_offset, 2);
    assert_eq!(aborted(&fetched), [(one.id, 1)]);
    two.commit(&mut bench).unwrap();
    let fetched = fetch_committed(&mut bench, "t", 0);
    assert_eq!(base_offsets(&fetched), [0, 1, 2, 3, 4, 5]);
    assert_eq!(aborted(&fetched), [(one.id, 1)]);
    assert!(aborted(&fetch_committed(&mut bench, "t", 5)).is_empty());
    assert_eq!(last_stable_offset(&mut bench, "t"), 6);
}

#[test]
fn aborted_transactions_are_told_in_every_version_of_fetch() {
    let mut bench = bench();
    let writer = init(&mut bench, "x");
    writer.produce(&mut bench, "t", 0).unwrap();
    writer.abort(&mut bench).unwrap();
    let id = bench.core.topology.topic("t").unwrap().id;
    for version in 4..=18 {
        let mut request = fetch_request("t", &[(0, 0)]);
        request.isolation_level = 1;
        if version >= 13 {
            request.topics[0].topic_id = id;
        }
        let answer = bench.ask(&request, version);
        let partition = &answer.responses[0].partitions[0];
        assert_eq!(aborted(partition), [(writer.id, 0)], "version {version}");
    }
}

#[test]
fn a_reader_of_committed_records_is_woken_by_the_marker() {
    let mut bench = bench();
    let writer = init(&mut bench, "x");
    writer.produce(&mut bench, "t", 0).unwrap();
    let request = FetchRequest {
        isolation_level: 1,
        max_wait_ms: 10_000,
        ..fetch_request("t", &[(0, 0)])
    };
    let mut waiting = wait(bench.handle(1, &request, 12));
    assert!(bench.poll(&mut waiting).is_none());
    // Another record of the same transaction does not end the wait.
    writer.produce(&mut bench, "t", 1).unwrap();
    assert!(bench.poll(&mut waiting).is_none());
    bench.was_woken();
    writer.commit(&mut bench).unwrap();
    assert!(bench.was_woken());
    let answer = decode::<FetchRequest>(bench.poll(&mut waiting).unwrap(), 12);
    assert_eq!(base_offsets(&answer.responses[0].partitions[0]), [0, 1, 2]);
}

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

#[test]
fn many_producers_at_once_do_not_disturb_each_other() {
    let mut bench = bench();
    let mut writers: Vec<Writer> = (0..40)
        .map(|index| init(&mut bench, &format!("id-{index}")))
        .collect();
    let mut committed = 0;
    for round in 0..5 {
        for sequence in 0..3 {
            for writer in &writers {
                writer.produce(&mut bench, "t", sequence).unwrap();
            }
        }
        for (index, writer) in writers.iter_mut().enumerate() {
            let commit = (index + round) % 3 != 0;
            committed += i64::from(commit) * 3;
            *writer = writer.end_in(&mut bench, 5, commit).unwrap();
        }
    }
    assert_eq!(last_stable_offset(&mut bench, "t"), 5 * 40 * 4);
    assert_eq!(count_committed(&mut bench), committed);
}

/// Counts committed records like a client, by markers and aborted transactions.
fn count_committed(bench: &mut Bench) -> i64 {
    let fetched = fetch_committed(bench, "t", 0);
    let mut left = aborted(&fetched);
    left.sort_by_key(|(_, first)| *first);
    let mut rolled_back = std::collections::BTreeSet::new();
    let mut count = 0;
    for batch in thalweg_records::batches(fetched.records.unwrap()) {
        let header = batch.unwrap().header;
        while left
            .first()
            .is_some_and(|(_, first)| *first <= header.base_offset)
        {
            rolled_back.insert(left.remove(0).0);
        }
        if header.attributes.is_control() {
            rolled_back.remove(&header.producer_id);
        } else if !rolled_back.contains(&header.producer_id) {
            count += i64::from(header.records_count);
        }
    }
    count
}
