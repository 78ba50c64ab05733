//! The consequences of the errors of coordinators and of batches that fail.

use thalweg_producer::{Appended, FailureKind, GroupOffsets, OffsetToCommit};
use thalweg_protocol::{ApiKey, ErrorCode, Str};

use crate::transactions::{
    ABORTABLE, FATAL, LEVELS, abort, begin, commit, count, group, init, is_abortable, kind,
    new_world, numbers, offsets, ready, refusal, seen, transactional, wait,
};
use crate::world::broker::Reaction;
use crate::world::coordinator::Reply;
use crate::world::{TOPIC, error, is_pending, offset};

/// The API, the coordinator's error, whether the producer fails for good, and the reported failure.
type Consequence = (ApiKey, ErrorCode, bool, FailureKind);

#[rustfmt::skip]
const OF_BOTH_VERSIONS: [Consequence; 13] = [
    (ApiKey::END_TXN, ErrorCode::PRODUCER_FENCED, FATAL, FailureKind::Fenced),
    (ApiKey::END_TXN, ErrorCode::INVALID_PRODUCER_EPOCH, FATAL, FailureKind::Fenced),
    (ApiKey::END_TXN, ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED, FATAL, FailureKind::NotAuthorized),
    (ApiKey::END_TXN, ErrorCode::INVALID_TXN_STATE, FATAL, FailureKind::Other),
    (ApiKey::END_TXN, ErrorCode::INVALID_PRODUCER_ID_MAPPING, FATAL, FailureKind::Other),
    (ApiKey::END_TXN, ErrorCode::TRANSACTION_ABORTABLE, ABORTABLE, FailureKind::ToldToAbort),
    (ApiKey::TXN_OFFSET_COMMIT, ErrorCode::ILLEGAL_GENERATION, ABORTABLE, FailureKind::CommitFailed),
    (ApiKey::TXN_OFFSET_COMMIT, ErrorCode::UNKNOWN_MEMBER_ID, ABORTABLE, FailureKind::CommitFailed),
    (ApiKey::TXN_OFFSET_COMMIT, ErrorCode::FENCED_INSTANCE_ID, ABORTABLE, FailureKind::CommitFailed),
    (ApiKey::TXN_OFFSET_COMMIT, ErrorCode::GROUP_AUTHORIZATION_FAILED, ABORTABLE, FailureKind::Other),
    (ApiKey::TXN_OFFSET_COMMIT, ErrorCode::TRANSACTION_ABORTABLE, ABORTABLE, FailureKind::ToldToAbort),
    (ApiKey::TXN_OFFSET_COMMIT, ErrorCode::INVALID_PRODUCER_EPOCH, FATAL, FailureKind::Fenced),
    (ApiKey::TXN_OFFSET_COMMIT, ErrorCode::UNSUPPORTED_FOR_MESSAGE_FORMAT, FATAL, FailureKind::Other),
];

#[rustfmt::skip]
const OF_VERSION_1: [Consequence; 7] = [
    (ApiKey::ADD_PARTITIONS_TO_TXN, ErrorCode::PRODUCER_FENCED, FATAL, FailureKind::Fenced),
    (ApiKey::ADD_PARTITIONS_TO_TXN, ErrorCode::INVALID_TXN_STATE, FATAL, FailureKind::Other),
    (ApiKey::ADD_PARTITIONS_TO_TXN, ErrorCode::TOPIC_AUTHORIZATION_FAILED, ABORTABLE, FailureKind::Other),
    (ApiKey::ADD_PARTITIONS_TO_TXN, ErrorCode::TRANSACTION_ABORTABLE, ABORTABLE, FailureKind::ToldToAbort),
    (ApiKey::ADD_PARTITIONS_TO_TXN, ErrorCode::UNKNOWN_PRODUCER_ID, ABORTABLE, FailureKind::Other),
    (ApiKey::ADD_OFFSETS_TO_TXN, ErrorCode::GROUP_AUTHORIZATION_FAILED, ABORTABLE, FailureKind::Other),
    (ApiKey::ADD_OFFSETS_TO_TXN, ErrorCode::INVALID_PRODUCER_EPOCH, FATAL, FailureKind::Fenced),
];

#[test]
fn each_error_of_a_coordinator_has_its_consequence() {
    let both = OF_BOTH_VERSIONS.iter();
    let both = both.flat_map(|case| LEVELS.map(|level| (level, *case)));
    for (level, case) in both.chain(OF_VERSION_1.map(|case| (1, case))) {
        has_its_consequence(level, case);
    }
}

fn has_its_consequence(level: i16, (api, code, fatal, expected): Consequence) {
    let mut world = ready(level);
    world.brokers.coordinator.on(api, [Reply::Error(code)]);
    begin(&mut world);
    world.send(0, "a");
    let ticket = world
        .sender
        .send_offsets_to_transaction(group("g"), offsets(0, 7));
    let sent = wait(&mut world, ticket);
    let failed = sent
        .and_then(|()| commit(&mut world))
        .expect_err("it fails");
    let what = format!("{api} {code} version {level}: {failed}");
    assert_eq!(kind(&failed), (fatal, expected), "{what}");
    let refused = refusal(&world);
    assert_eq!(kind(&refused).0, fatal, "{what}");
    if fatal {
        assert_eq!(abort(&mut world), Err(refused.clone()), "{what}");
        assert_eq!(world.sender.begin_transaction(), Err(refused), "{what}");
    } else {
        let again = world
            .sender
            .commit_transaction()
            .expect_err("still abortable");
        assert_eq!(kind(&again).0, ABORTABLE, "{what}");
        assert_eq!(abort(&mut world), Ok(()), "{what}");
        begin(&mut world);
        world.send(0, "b");
        assert_eq!(commit(&mut world), Ok(()), "{what}");
        assert_eq!(seen(&world, 0), ["b"], "{what}");
    }
    assert_eq!(world.accumulator.incomplete_batches(), 0);
}

/// There is no transaction yet that could be aborted.
#[test]
fn an_init_refused_as_abortable_fails_the_producer() {
    for level in LEVELS {
        let mut world = new_world(level, transactional(), 1, 1);
        let refused = Reply::Error(ErrorCode::TRANSACTION_ABORTABLE);
        world
            .brokers
            .coordinator
            .on(ApiKey::INIT_PRODUCER_ID, [refused; 50]);
        let ticket = world.sender.init_transactions();
        let failed = wait(&mut world, ticket).expect_err("it fails");
        assert_eq!(kind(&failed), (FATAL, FailureKind::ToldToAbort));
        assert_eq!(count(&world, ApiKey::INIT_PRODUCER_ID), 1);
    }
}

/// `INVALID_GROUP_ID` is an error of groups. For a group, it fails only the transaction.
#[test]
fn a_transactional_id_that_is_refused_as_a_group_fails_the_producer() {
    let mut world = new_world(2, transactional(), 1, 1);
    let refused = Reply::Error(ErrorCode::INVALID_GROUP_ID);
    world
        .brokers
        .coordinator
        .on(ApiKey::FIND_COORDINATOR, [refused; 50]);
    let ticket = world.sender.init_transactions();
    let failed = wait(&mut world, ticket).expect_err("it fails");
    assert_eq!(kind(&failed).0, FATAL);
    assert_eq!(count(&world, ApiKey::FIND_COORDINATOR), 1);
}

#[test]
fn errors_that_pass_are_waited_out() {
    let passing = [
        ErrorCode::NOT_COORDINATOR,
        ErrorCode::COORDINATOR_NOT_AVAILABLE,
        ErrorCode::COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode::CONCURRENT_TRANSACTIONS,
        ErrorCode::REQUEST_TIMED_OUT,
    ];
    let replies: Vec<Reply> = passing
        .map(Reply::Error)
        .into_iter()
        .chain([Reply::LoseRequest, Reply::LoseResponse])
        .collect();
    let apis = [
        ApiKey::INIT_PRODUCER_ID,
        ApiKey::ADD_PARTITIONS_TO_TXN,
        ApiKey::ADD_OFFSETS_TO_TXN,
        ApiKey::TXN_OFFSET_COMMIT,
        ApiKey::END_TXN,
    ];
    for level in LEVELS {
        for api in apis {
            let mut world = new_world(level, transactional(), 1, 2);
            world.brokers.coordinator.on(api, replies.clone());
            init(&mut world);
            begin(&mut world);
            world.send(0, "a");
            let ticket = world
                .sender
                .send_offsets_to_transaction(group("g"), offsets(0, 7));
            assert_eq!(wait(&mut world, ticket), Ok(()), "{api}");
            assert_eq!(commit(&mut world), Ok(()), "{api} version {level}");
            assert_eq!(seen(&world, 0), ["a"], "{api} version {level}");
            assert_eq!(world.brokers.coordinator.commits, 1);
        }
    }
}

#[test]
fn a_coordinator_that_moved_is_found_again() {
    let mut world = new_world(2, transactional(), 3, 1);
    init(&mut world);
    begin(&mut world);
    world.send_alone(0, "a");
    world.brokers.coordinator.node = 3;
    let moved = Reply::Error(ErrorCode::NOT_COORDINATOR);
    world.brokers.coordinator.on(ApiKey::END_TXN, [moved]);
    assert_eq!(commit(&mut world), Ok(()));
    assert_eq!(count(&world, ApiKey::FIND_COORDINATOR), 2);
    assert_eq!(seen(&world, 0), ["a"]);
}

#[test]
fn the_first_partition_is_asked_for_again_soon() {
    let mut world = ready(1);
    let busy = Reply::Error(ErrorCode::CONCURRENT_TRANSACTIONS);
    let coordinator = &mut world.brokers.coordinator;
    coordinator.on(ApiKey::ADD_PARTITIONS_TO_TXN, [busy; 3]);
    begin(&mut world);
    let sent = world.send_alone(0, "a");
    world.advance_ms(59);
    assert!(is_pending(&sent));
    world.advance_ms(2);
    assert_eq!(offset(&sent), 0);
}

#[test]
fn a_batch_that_fails_costs_the_transaction_and_nothing_else() {
    for level in LEVELS {
        let mut world = ready(level);
        begin(&mut world);
        world.send_alone(1, "other");
        let refused = Reaction::Refuse(ErrorCode::MESSAGE_TOO_LARGE);
        world.script([refused]);
        let failed = world.send_alone(0, "a");
        assert_eq!(error(&failed).code(), Some(ErrorCode::MESSAGE_TOO_LARGE));
        let refused = refusal(&world);
        assert!(is_abortable(&refused), "{refused:?}");
        assert!(
            refused.to_string().contains("abort_transaction()"),
            "{refused}"
        );
        let at_commit = world.sender.commit_transaction().expect_err("it cannot");
        assert!(is_abortable(&at_commit));
        assert_eq!(count(&world, ApiKey::INIT_PRODUCER_ID), 1, "bug 3");
        assert_eq!(abort(&mut world), Ok(()));
        // Version 1: the abort raises the epoch by an `InitProducerId` that names the producer
        // (KIP-360).
        let bumped = usize::from(level == 1);
        assert_eq!(count(&world, ApiKey::INIT_PRODUCER_ID), 1 + bumped);
        begin(&mut world);
        world.send_alone(0, "b");
        world.send_alone(1, "c");
        assert_eq!(commit(&mut world), Ok(()));
        assert_eq!(
            (seen(&world, 0), seen(&world, 1)),
            (vec!["b".into()], vec!["c".into()])
        );
        assert_eq!(numbers(&mut world, 0), [(1, 0)], "version {level}");
        assert_eq!(numbers(&mut world, 1), [(0, 0), (1, 0)]);
    }
}

#[test]
fn a_batch_that_fails_during_the_commit_ends_it() {
    for level in LEVELS {
        let mut world = ready(level);
        begin(&mut world);
        world.send_alone(0, "a");
        world.script([Reaction::Refuse(ErrorCode::INVALID_RECORD)]);
        world.send(0, "b");
        let failed = commit(&mut world).expect_err("a record failed");
        assert!(is_abortable(&failed), "{failed:?}");
        assert_eq!(count(&world, ApiKey::END_TXN), 0);
        assert_eq!(abort(&mut world), Ok(()));
        assert!(seen(&world, 0).is_empty());
    }
}

#[test]
fn bug_3_an_out_of_order_batch_is_never_given_another_number() {
    // The batches after the gap fail, the transaction is aborted, and the next one is complete.
    for level in LEVELS {
        let mut world = ready(level);
        begin(&mut world);
        world.send_alone(0, "0");
        world.script([Reaction::Hold, Reaction::Usual, Reaction::Usual]);
        let sent: Vec<Appended> = (1..4)
            .map(|n| world.send_alone(0, &n.to_string()))
            .collect();
        let out_of_order = ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER;
        world.brokers.release_with(&Reaction::Refuse(out_of_order));
        world.advance_ms(2_000);
        for sent in &sent {
            error(sent);
        }
        assert!(is_abortable(&refusal(&world)));
        assert_eq!(world.values(0), ["0"]);
        assert_eq!(abort(&mut world), Ok(()));
        begin(&mut world);
        world.send_alone(0, "4");
        assert_eq!(commit(&mut world), Ok(()));
        assert_eq!(seen(&world, 0), ["4"], "version {level}");
        assert_eq!(numbers(&mut world, 0), [(0, 0), (1, 0)]);
    }
}

#[test]
fn a_topic_made_anew_in_the_middle_costs_the_transaction() {
    for level in LEVELS {
        let mut world = ready(level);
        begin(&mut world);
        world.send_alone(0, "a");
        world.brokers.recreate_topic(TOPIC);
        world.cluster.request_update();
        world.advance_ms(1_000);
        world.send_alone(0, "b");
        let failed = commit(&mut world).expect_err("the first record went with its topic");
        assert!(is_abortable(&failed), "{failed:?}");
        world.brokers.coordinator.committed.clear();
        world.brokers.coordinator.forget_logs();
        assert_eq!(abort(&mut world), Ok(()));
        begin(&mut world);
        world.send_alone(0, "c");
        assert_eq!(commit(&mut world), Ok(()));
        assert_eq!(seen(&world, 0), ["c"], "version {level}");
    }
}

/// Without this, records could be written to a partition that gets no marker.
#[test]
fn a_partition_that_the_response_does_not_name_is_added_again() {
    let mut world = ready(1);
    let api = ApiKey::ADD_PARTITIONS_TO_TXN;
    world
        .brokers
        .coordinator
        .on(api, [Reply::Omit, Reply::Omit]);
    begin(&mut world);
    let sent = world.send_alone(0, "a");
    world.run();
    assert_eq!(count(&world, api), 1, "it waits before the next request");
    assert!(is_pending(&sent));
    assert_eq!(commit(&mut world), Ok(()));
    assert_eq!(count(&world, api), 3);
    assert_eq!(seen(&world, 0), ["a"]);
}

#[test]
fn offsets_that_no_request_can_contain_fail_only_the_transaction() {
    for level in LEVELS {
        let long = "x".repeat(40_000);
        let metadata = GroupOffsets::from([(
            (Str::from(TOPIC), 0),
            OffsetToCommit {
                offset: 7,
                leader_epoch: -1,
                metadata: Str::from(long.as_str()),
            },
        )]);
        for (group, offsets) in [(group(&long), offsets(0, 7)), (group("g"), metadata)] {
            let mut world = ready(level);
            begin(&mut world);
            world.send(0, "a");
            let ticket = world.sender.send_offsets_to_transaction(group, offsets);
            let failed = wait(&mut world, ticket).expect_err("it fails");
            assert!(is_abortable(&failed), "{failed}");
            assert!(failed.to_string().contains("40000"), "{failed}");
            assert_eq!(abort(&mut world), Ok(()));
            begin(&mut world);
            world.send(0, "b");
            assert_eq!(commit(&mut world), Ok(()));
            assert_eq!(seen(&world, 0), ["b"]);
        }
    }
}
