//! Transactions in both versions of the protocol, against a scripted coordinator.

mod calls;
mod closing;
mod commits;
mod errors;
mod fencing;
mod preparing;
mod unknown_outcomes;

use std::task::Waker;
use std::time::Duration;

use thalweg_producer::{
    AppendRefusal, FailureKind, GroupMetadata, GroupOffsets, OffsetToCommit, ProducerConfig,
    ProducerError, TransactionTicket,
};
use thalweg_protocol::{ApiKey, Str};

use crate::world::broker::Brokers;
use crate::world::{TOPIC, World, config};

const LEVELS: [i16; 2] = [1, 2];
/// Whether the producer fails for good, or only its transaction.
const FATAL: bool = true;
const ABORTABLE: bool = false;

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
