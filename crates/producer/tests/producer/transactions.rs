//! Transactions in both versions of the protocol, against a scripted coordinator.

use std::task::Waker;
use std::time::Duration;

use thalweg_cluster::Role;
use thalweg_producer::{
    AppendRefusal, Appended, FailureKind, GroupMetadata, GroupOffsets, OffsetToCommit,
    ProducerConfig, ProducerError, TransactionTicket,
};
use thalweg_protocol::{ApiKey, ErrorCode, Str};

use crate::world::broker::{Brokers, Reaction};
use crate::world::coordinator::Reply;
use crate::world::{TOPIC, World, config, error, is_pending, offset};

const LEVELS: [i16; 2] = [1, 2];

pub(crate) fn transactional() -> ProducerConfig {
    ProducerConfig {
        transactional_id: Some("txn".to_owned()),
        request_timeout: Duration::from_secs(5),
        delivery_timeout: Duration::from_secs(20),
        ..config()
    }
}

pub(crate) fn new_world(level: i16, config: ProducerConfig, nodes: i32, partitions: i32) -> World {
    let mut brokers = Brokers::new(nodes, &[(TOPIC, partitions)]);
    brokers.transactional = true;
    brokers.coordinator.level = level;
    let mut world = World::with(config, brokers, None);
    world.know(TOPIC);
    world
}

/// Returns an initialized producer with one node and two partitions.
fn ready(level: i16) -> World {
    let mut world = new_world(level, transactional(), 1, 2);
    init(&mut world);
    world
}

type Ticket = Result<TransactionTicket, ProducerError>;
type Told = Option<Result<(), ProducerError>>;

pub(crate) fn told(ticket: &Ticket) -> Told {
    ticket
        .as_ref()
        .expect("the call is legal")
        .poll(Waker::noop())
}

/// Lets time pass until the ticket has an outcome.
pub(crate) fn wait(world: &mut World, ticket: Ticket) -> Result<(), ProducerError> {
    let ticket = ticket?;
    world.run();
    for _ in 0..4_000 {
        if let Some(outcome) = ticket.poll(Waker::noop()) {
            return outcome;
        }
        world.advance_ms(10);
    }
    panic!("the call never ends")
}

pub(crate) fn init(world: &mut World) {
    let ticket = world.sender.init_transactions();
    wait(world, ticket).expect("a producer id");
}

pub(crate) fn begin(world: &mut World) {
    world.sender.begin_transaction().expect("it is ready");
}

fn commit(world: &mut World) -> Result<(), ProducerError> {
    let ticket = world.sender.commit_transaction();
    wait(world, ticket)
}

fn abort(world: &mut World) -> Result<(), ProducerError> {
    let ticket = world.sender.abort_transaction();
    wait(world, ticket)
}

fn seen(world: &World, partition: i32) -> Vec<String> {
    let committed = &world.brokers.coordinator.committed;
    let found = committed.get(&(TOPIC.to_owned(), partition));
    found.cloned().unwrap_or_default()
}

fn asked(world: &World) -> Vec<ApiKey> {
    let asked = &world.brokers.coordinator.asked;
    asked.iter().map(|(key, _)| *key).collect()
}

fn count(world: &World, key: ApiKey) -> usize {
    world.brokers.coordinator.count(key)
}

/// Returns the epoch and first sequence of each batch.
fn numbers(world: &mut World, partition: i32) -> Vec<(i16, i32)> {
    let headers = &world.brokers.log(TOPIC, partition).headers;
    headers
        .iter()
        .map(|h| (h.producer_epoch, h.base_sequence))
        .collect()
}

fn is_abortable(error: &ProducerError) -> bool {
    matches!(error, ProducerError::TransactionAbortable(_))
}

fn kind(error: &ProducerError) -> (bool, FailureKind) {
    match error {
        ProducerError::TransactionAbortable(failure) => (false, failure.kind),
        ProducerError::TransactionFatal(failure) => (true, failure.kind),
        other => panic!("{other:?}"),
    }
}

fn group(id: &str) -> GroupMetadata {
    GroupMetadata {
        group_id: Str::from(id),
        generation_id: 4,
        member_id: Str::from("m"),
        group_instance_id: None,
    }
}

fn offsets(partition: i32, at: i64) -> GroupOffsets {
    let to = OffsetToCommit {
        offset: at,
        leader_epoch: -1,
        metadata: Str::default(),
    };
    GroupOffsets::from([((Str::from("in"), partition), to)])
}

fn refusal(world: &World) -> ProducerError {
    match world.try_send(0, "refused") {
        Err(AppendRefusal::Closed(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn version_1_adds_partitions_and_numbers_on() {
    let mut world = ready(1);
    for n in 0..2 {
        begin(&mut world);
        let sent = [
            world.send(0, &format!("a{n}")),
            world.send(1, &format!("b{n}")),
        ];
        assert_eq!(commit(&mut world), Ok(()));
        for sent in &sent {
            assert_eq!(offset(sent), n);
        }
    }
    assert_eq!(
        asked(&world),
        [
            ApiKey::FIND_COORDINATOR,
            ApiKey::INIT_PRODUCER_ID,
            ApiKey::ADD_PARTITIONS_TO_TXN,
            ApiKey::END_TXN,
            ApiKey::ADD_PARTITIONS_TO_TXN,
            ApiKey::END_TXN
        ]
    );
    assert_eq!(numbers(&mut world, 0), [(0, 0), (0, 1)]);
    assert!(world.brokers.versions.iter().all(|&version| version == 11));
    assert_eq!(seen(&world, 1), ["b0", "b1"]);
}

#[test]
fn version_2_adds_nothing_and_starts_each_transaction_from_0() {
    let mut world = ready(2);
    for n in 0..3 {
        begin(&mut world);
        world.send_alone(0, &format!("a{n}"));
        world.send_alone(0, &format!("b{n}"));
        assert_eq!(commit(&mut world), Ok(()));
    }
    assert_eq!(count(&world, ApiKey::ADD_PARTITIONS_TO_TXN), 0);
    assert_eq!(count(&world, ApiKey::INIT_PRODUCER_ID), 1);
    let expected = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)];
    assert_eq!(numbers(&mut world, 0), expected);
    assert!(world.brokers.versions.iter().all(|&version| version >= 12));
    assert_eq!(seen(&world, 0).len(), 6);
}

#[test]
fn what_is_aborted_is_never_seen() {
    for level in LEVELS {
        let mut world = ready(level);
        begin(&mut world);
        world.send_alone(0, "aborted");
        assert_eq!(abort(&mut world), Ok(()));
        begin(&mut world);
        world.send_alone(0, "committed");
        assert_eq!(commit(&mut world), Ok(()));
        assert_eq!(seen(&world, 0), ["committed"], "version {level}");
        assert_eq!(world.values(0), ["aborted", "committed"]);
    }
}

#[test]
fn a_transaction_without_anything_in_it_asks_nobody() {
    for level in LEVELS {
        let mut world = ready(level);
        begin(&mut world);
        assert_eq!(commit(&mut world), Ok(()));
        begin(&mut world);
        assert_eq!(abort(&mut world), Ok(()));
        assert_eq!(count(&world, ApiKey::END_TXN), 0);
    }
}

#[test]
fn a_call_that_is_not_for_the_state_names_it() {
    type Call = fn(&mut World) -> Result<(), ProducerError>;
    type Row<'a> = (&'a str, &'a [&'a str], fn() -> World);
    let calls: [(&str, Call); 5] = [
        ("init_transactions", |w| {
            w.sender.init_transactions().map(drop)
        }),
        ("begin_transaction", |w| w.sender.begin_transaction()),
        ("send_offsets_to_transaction", |w| {
            w.sender
                .send_offsets_to_transaction(group("g"), offsets(0, 1))
                .map(drop)
        }),
        ("commit_transaction", |w| {
            w.sender.commit_transaction().map(drop)
        }),
        ("abort_transaction", |w| {
            w.sender.abort_transaction().map(drop)
        }),
    ];
    let states: [Row<'_>; 3] = [
        ("UNINITIALIZED", &["init_transactions"], || {
            new_world(2, transactional(), 1, 1)
        }),
        ("READY", &["begin_transaction"], || ready(2)),
        (
            "IN_TRANSACTION",
            &[
                "send_offsets_to_transaction",
                "commit_transaction",
                "abort_transaction",
            ],
            || {
                let mut world = ready(2);
                begin(&mut world);
                world
            },
        ),
    ];
    for (state, legal, reach) in states {
        for (name, call) in calls {
            let outcome = call(&mut reach());
            match outcome {
                Ok(()) => assert!(legal.contains(&name), "{name} in {state}"),
                Err(ProducerError::IllegalState(text)) => {
                    assert!(!legal.contains(&name), "{name} in {state}: {text}");
                    assert!(text.contains(name) && text.contains(state), "{text}");
                }
                Err(other) => panic!("{name} in {state}: {other:?}"),
            }
        }
    }
}

#[test]
fn records_are_taken_within_a_transaction_only() {
    let mut world = new_world(2, transactional(), 1, 1);
    let refused = |world: &World, state: &str| {
        let error = refusal(world);
        assert!(matches!(error, ProducerError::IllegalState(_)), "{error:?}");
        assert!(error.to_string().contains(state), "{error}");
    };
    refused(&world, "UNINITIALIZED. Call init_transactions first");
    init(&mut world);
    refused(&world, "READY. Call begin_transaction first");
    begin(&mut world);
    world.send(0, "a");
    let ticket = world.sender.commit_transaction();
    refused(&world, "COMMITTING_TRANSACTION");
    assert_eq!(wait(&mut world, ticket), Ok(()));
    refused(&world, "READY");
    assert_eq!(world.values(0), ["a"]);
}

#[test]
fn a_refused_call_tells_what_to_call() {
    let mut world = new_world(2, transactional(), 1, 1);
    let refused = |outcome: Result<(), ProducerError>, hint: &str| {
        let text = outcome.expect_err("refused").to_string();
        assert!(text.ends_with(hint), "{text}");
    };
    let begun = world.sender.begin_transaction();
    refused(begun, ". Call init_transactions first");
    init(&mut world);
    let again = world.sender.init_transactions().map(drop);
    refused(
        again,
        ". Call init_transactions only once, before the first transaction",
    );
    let ended = world.sender.commit_transaction().map(drop);
    refused(ended, ". Call begin_transaction first");
    begin(&mut world);
    let begun = world.sender.begin_transaction();
    refused(begun, ". First commit or abort the open transaction");
}

#[test]
fn without_a_transactional_id_every_call_is_refused() {
    let mut world = World::ready(config(), 1, 1);
    let error = world.sender.begin_transaction().expect_err("refused");
    assert!(error.to_string().contains("transactional_id"), "{error}");
    assert!(world.sender.init_transactions().is_err());
    assert!(world.sender.commit_transaction().is_err());
}

#[test]
fn the_end_waits_for_every_batch_and_for_the_offsets() {
    for level in LEVELS {
        let mut world = ready(level);
        begin(&mut world);
        world.script([Reaction::Hold]);
        let sent = world.send_alone(0, "a");
        let to_group = world
            .sender
            .send_offsets_to_transaction(group("g"), offsets(0, 7));
        let ticket = world.sender.commit_transaction();
        world.advance_ms(1_000);
        assert_eq!(told(&to_group), Some(Ok(())));
        assert!(is_pending(&sent) && told(&ticket).is_none());
        assert_eq!(count(&world, ApiKey::END_TXN), 0);
        assert!(world.brokers.coordinator.offsets.is_empty());
        world.brokers.release();
        assert_eq!(wait(&mut world, ticket), Ok(()));
        assert_eq!(world.brokers.coordinator.offsets.len(), 1);
        assert_eq!(asked(&world).last(), Some(&ApiKey::END_TXN));
    }
}

#[test]
fn a_commit_lets_nothing_linger() {
    let lingering = ProducerConfig {
        linger: Duration::from_secs(10),
        ..transactional()
    };
    for level in LEVELS {
        let mut world = new_world(level, lingering.clone(), 1, 2);
        init(&mut world);
        begin(&mut world);
        let start = world.now;
        let sent = world.send(0, "a");
        assert_eq!(commit(&mut world), Ok(()));
        assert!(world.now - start < Duration::from_millis(100));
        assert_eq!(offset(&sent), 0);
    }
}

#[test]
fn an_abort_drops_what_was_not_sent_and_waits_for_what_was() {
    for level in LEVELS {
        let lingering = ProducerConfig {
            linger: Duration::from_millis(50),
            ..transactional()
        };
        let mut world = new_world(level, lingering, 1, 2);
        init(&mut world);
        begin(&mut world);
        world.script([Reaction::Hold]);
        let sent = world.send(0, "sent");
        world.advance_ms(60);
        let waiting = [world.send(0, "dropped"), world.send(1, "dropped")];
        let ticket = world.sender.abort_transaction();
        world.run();
        for dropped in &waiting {
            let error = error(dropped);
            assert!(
                matches!(error, ProducerError::TransactionAborted { .. }),
                "{error:?}"
            );
        }
        assert!(told(&ticket).is_none() && count(&world, ApiKey::END_TXN) == 0);
        world.brokers.release();
        assert_eq!(wait(&mut world, ticket), Ok(()));
        assert_eq!(offset(&sent), 0);
        assert_eq!(world.values(0), ["sent"]);
        assert!(seen(&world, 0).is_empty());
    }
}

const FATAL: bool = true;
const ABORTABLE: bool = false;

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
        .chain([Reply::LoseRequest, Reply::LoseAnswer])
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
fn a_delivery_timeout_makes_it_abortable_and_the_abort_waits_for_the_request() {
    for level in LEVELS {
        let config = ProducerConfig {
            request_timeout: Duration::from_secs(15),
            ..transactional()
        };
        let mut world = new_world(level, config, 1, 2);
        init(&mut world);
        begin(&mut world);
        world.script([Reaction::Silence, Reaction::Silence]);
        let sent = world.send_alone(0, "a");
        world.advance_ms(20_100);
        let expired = error(&sent);
        assert!(
            matches!(expired, ProducerError::DeliveryTimeout { .. }),
            "{expired:?}"
        );
        assert!(expired.possibly_written());
        assert!(is_abortable(&refusal(&world)));
        let ticket = world.sender.abort_transaction();
        world.advance_ms(5_000);
        assert!(
            told(&ticket).is_none(),
            "a request that may still write is in flight"
        );
        assert_eq!(wait(&mut world, ticket), Ok(()));
        begin(&mut world);
        world.send_alone(0, "b");
        assert_eq!(commit(&mut world), Ok(()));
        assert_eq!(seen(&world, 0), ["b"]);
    }
}

/// franz-go 1.21.4: after `UNKNOWN_SERVER_ERROR` a transaction was reported as committed.
#[test]
fn bug_11_an_unknown_outcome_of_the_end_is_asked_for_again_and_never_guessed() {
    let unknown = Reply::ErrorAfter(ErrorCode::UNKNOWN_SERVER_ERROR);
    let replies = [
        Reply::LoseAnswer,
        Reply::LoseRequest,
        Reply::Silence,
        unknown,
    ];
    for level in LEVELS {
        for reply in replies {
            for committing in [true, false] {
                let mut world = ready(level);
                begin(&mut world);
                world.send_alone(0, "a");
                world
                    .brokers
                    .coordinator
                    .on(ApiKey::END_TXN, [reply, reply]);
                let ticket = if committing {
                    world.sender.commit_transaction()
                } else {
                    world.sender.abort_transaction()
                };
                world.run();
                assert!(told(&ticket).is_none(), "{reply:?}");
                assert_eq!(wait(&mut world, ticket), Ok(()), "{reply:?}");
                let coordinator = &world.brokers.coordinator;
                let ended = (coordinator.commits, coordinator.aborts);
                assert_eq!(ended, (usize::from(committing), usize::from(!committing)));
                assert!(coordinator.ends.iter().all(|&end| end == committing));
                begin(&mut world);
                world.send_alone(0, "b");
                assert_eq!(commit(&mut world), Ok(()));
                let expected: &[&str] = if committing { &["a", "b"] } else { &["b"] };
                assert_eq!(seen(&world, 0), expected, "version {level} {reply:?}");
            }
        }
    }
}

#[test]
fn scenario_17_a_call_made_again_takes_up_the_one_that_nobody_saw_the_end_of() {
    for level in LEVELS {
        let mut world = ready(level);
        begin(&mut world);
        world.send_alone(0, "a");
        world
            .brokers
            .coordinator
            .on(ApiKey::END_TXN, [Reply::Silence]);
        let first = world.sender.commit_transaction();
        world.advance_ms(1_000);
        assert!(told(&first).is_none(), "the caller gives up here");
        let others = [
            world.sender.abort_transaction().map(drop),
            world.sender.begin_transaction(),
            world.sender.init_transactions().map(drop),
        ];
        for other in others {
            let text = other
                .expect_err("not before the outcome is known")
                .to_string();
            assert!(
                text.contains("commit_transaction was called before"),
                "{text}"
            );
        }
        let second = world.sender.commit_transaction();
        world.advance_ms(10_000);
        assert_eq!(world.brokers.coordinator.commits, 1);
        // It has ended meanwhile, but nobody has seen its outcome.
        assert!(world.sender.begin_transaction().is_err());
        assert_eq!(told(&second), Some(Ok(())));
        begin(&mut world);
        assert_eq!(commit(&mut world), Ok(()));
        assert_eq!(seen(&world, 0), ["a"]);
    }
}

#[test]
fn the_last_epoch_is_followed_by_another_producer_id() {
    for level in LEVELS {
        let mut world = new_world(level, transactional(), 1, 1);
        world.brokers.coordinator.first_epoch = i16::MAX - 2;
        init(&mut world);
        for n in 0..4 {
            begin(&mut world);
            world.send_alone(0, &n.to_string());
            // Version 1 starts a new epoch only after a failure.
            if level == 1 {
                world.script([Reaction::Refuse(ErrorCode::INVALID_RECORD)]);
                world.send_alone(0, "x");
                assert_eq!(abort(&mut world), Ok(()));
            } else {
                assert_eq!(commit(&mut world), Ok(()));
            }
        }
        let headers = &world.brokers.log(TOPIC, 0).headers;
        let found: Vec<_> = headers
            .iter()
            .map(|h| (h.producer_id, h.producer_epoch))
            .collect();
        let (last, max) = (501, i16::MAX);
        assert_eq!(
            found,
            [(last, max - 2), (last, max - 1), (502, 0), (502, 1)]
        );
    }
}

#[test]
fn scenario_15_an_older_producer_is_fenced_for_good() {
    for level in LEVELS {
        let mut world = ready(level);
        begin(&mut world);
        world.send_alone(0, "a");
        let values = world.brokers.all_values();
        world.brokers.coordinator.take_over(&values);
        world.send_alone(0, "b");
        let failed = match commit(&mut world) {
            Err(error) if is_abortable(&error) => abort(&mut world).expect_err("fenced"),
            other => other.expect_err("fenced"),
        };
        assert_eq!(
            kind(&failed),
            (true, FailureKind::Fenced),
            "version {level}"
        );
        assert_eq!(refusal(&world), failed);
        assert_eq!(world.sender.begin_transaction(), Err(failed));
        assert!(seen(&world, 0).is_empty());
    }
}

#[test]
fn scenario_16_a_transaction_that_ran_out_of_time_can_be_aborted_under_version_2() {
    let mut world = ready(2);
    begin(&mut world);
    world.send_alone(0, "a");
    let values = world.brokers.all_values();
    world.brokers.coordinator.time_out(&values);
    let late = world.send_alone(0, "b");
    assert_eq!(error(&late).code(), Some(ErrorCode::INVALID_PRODUCER_EPOCH));
    let failed = commit(&mut world).expect_err("the broker has aborted it");
    assert!(is_abortable(&failed), "{failed:?}");
    assert_eq!(abort(&mut world), Ok(()));
    begin(&mut world);
    world.send_alone(0, "c");
    assert_eq!(commit(&mut world), Ok(()));
    assert_eq!(seen(&world, 0), ["c"]);
}

/// The `InitProducerId` of a newer producer found no transaction to abort. So the coordinator
/// reports an invalid state for the abort, and not an old epoch.
#[test]
fn an_old_epoch_without_a_transaction_to_abort_was_fenced() {
    let mut world = ready(2);
    begin(&mut world);
    world.send_alone(0, "a");
    let values = world.brokers.all_values();
    world.brokers.coordinator.time_out(&values);
    let late = world.send_alone(0, "b");
    assert_eq!(error(&late).code(), Some(ErrorCode::INVALID_PRODUCER_EPOCH));
    let refused = [Reply::Error(ErrorCode::INVALID_TXN_STATE)];
    world.brokers.coordinator.on(ApiKey::END_TXN, refused);
    let failed = abort(&mut world).expect_err("there is nothing to abort");
    assert_eq!(kind(&failed), (FATAL, FailureKind::Fenced), "{failed}");
    assert_eq!(world.sender.begin_transaction(), Err(failed));
}

#[test]
fn offsets_are_committed_with_the_transaction_or_not_at_all() {
    for level in LEVELS {
        let mut world = ready(level);
        for (at, committing) in [(5, true), (9, false)] {
            begin(&mut world);
            let ticket = world
                .sender
                .send_offsets_to_transaction(group("g"), offsets(0, at));
            assert_eq!(wait(&mut world, ticket), Ok(()));
            let ended = if committing {
                commit(&mut world)
            } else {
                abort(&mut world)
            };
            assert_eq!(ended, Ok(()));
        }
        let kept: Vec<i64> = world
            .brokers
            .coordinator
            .offsets
            .values()
            .copied()
            .collect();
        assert_eq!(kept, [5]);
        let added = count(&world, ApiKey::ADD_OFFSETS_TO_TXN);
        assert_eq!(added, if level == 1 { 2 } else { 0 });
    }
}

#[test]
fn a_record_that_only_its_future_knows_of_is_not_left_out_of_a_commit() {
    let mut world = ready(2);
    begin(&mut world);
    world.send(0, "a");
    world
        .accumulator
        .note_refused("topic x: TOPIC_AUTHORIZATION_FAILED");
    let failed = world
        .sender
        .commit_transaction()
        .expect_err("a record is missing");
    assert!(
        is_abortable(&failed) && failed.to_string().contains("topic x"),
        "{failed}"
    );
    assert_eq!(abort(&mut world), Ok(()));
    begin(&mut world);
    assert_eq!(commit(&mut world), Ok(()));
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

#[test]
fn brokers_that_learn_version_2_are_met_with_another_epoch() {
    let mut world = ready(1);
    begin(&mut world);
    world.send_alone(0, "a");
    // A new connection reports the new level, but the open transaction keeps the old one.
    world.brokers.disconnect(1);
    world.brokers.coordinator.level_told = Some(2);
    world.advance_ms(2_000);
    world.send_alone(0, "b");
    world.advance_ms(2_000);
    world.brokers.coordinator.learn_when_ended = true;
    assert_eq!(commit(&mut world), Ok(()));
    assert_eq!(world.brokers.coordinator.inits, [(-1, -1), (501, 0)]);
    begin(&mut world);
    world.send_alone(0, "c");
    assert_eq!(commit(&mut world), Ok(()));
    assert_eq!(count(&world, ApiKey::ADD_PARTITIONS_TO_TXN), 1);
    assert_eq!(numbers(&mut world, 0), [(0, 0), (0, 1), (1, 0)]);
    assert_eq!(seen(&world, 0), ["a", "b", "c"]);
}

#[test]
fn closing_aborts_what_is_open() {
    for level in LEVELS {
        let lingering = ProducerConfig {
            linger: Duration::from_secs(1),
            ..transactional()
        };
        let mut world = new_world(level, lingering, 1, 1);
        init(&mut world);
        begin(&mut world);
        world.send(0, "a");
        world.advance_ms(1_100);
        let dropped = world.send(0, "b");
        let deadline = world.now + Duration::from_secs(10);
        world.sender.close(deadline, &mut world.cluster, world.now);
        world.run();
        assert!(world.sender.is_closed());
        assert!(matches!(
            error(&dropped),
            ProducerError::TransactionAborted { .. }
        ));
        assert_eq!(world.brokers.coordinator.aborts, 1);
        assert!(seen(&world, 0).is_empty());
    }
}

#[test]
fn closing_waits_no_longer_than_the_coordinator_lets_a_transaction_live() {
    let config = ProducerConfig {
        transaction_timeout: Duration::from_secs(7),
        ..transactional()
    };
    let mut world = new_world(2, config, 1, 1);
    init(&mut world);
    begin(&mut world);
    world.send_alone(0, "a");
    let never = [Reply::LoseRequest; 1_000];
    world.brokers.coordinator.on(ApiKey::END_TXN, never);
    let deadline = world.now + Duration::from_secs(10_000);
    world.sender.close(deadline, &mut world.cluster, world.now);
    world.advance_ms(6_900);
    assert!(!world.sender.is_closed());
    world.advance_ms(200);
    assert!(world.sender.is_closed());
}

#[test]
fn whoever_waits_hears_that_the_client_has_ended() {
    let mut world = ready(2);
    begin(&mut world);
    world.send_alone(0, "a");
    world
        .brokers
        .coordinator
        .on(ApiKey::END_TXN, [Reply::Silence]);
    let ticket = world.sender.commit_transaction();
    world.run();
    world.sender.close(world.now, &mut world.cluster, world.now);
    assert!(!world.sender.is_closed(), "the outcome is still to come");
    world.sender.abort(world.now);
    assert_eq!(told(&ticket), Some(Err(ProducerError::Closed)));
}
