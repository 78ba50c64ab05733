//! Transactions under many faults, drawn from a seed: requests and responses get lost, coordinators
//! move, brokers stop, leaders move, batches fail. Whatever happens, a confirmed commit is visible
//! exactly once and in order, and nothing of an abort is ever visible.
//!
//! A seed that fails is kept in `SEEDS_OF_OLD`.

use std::time::Duration;

use thalweg_producer::{ProducerConfig, ProducerError};
use thalweg_protocol::{ApiKey, ErrorCode, SplitMix64};

use crate::transactions::{begin, init, new_world, transactional, wait};
use crate::world::broker::Reaction;
use crate::world::coordinator::Reply;
use crate::world::{TOPIC, World};

const NODES: i32 = 3;
const PARTITIONS: i32 = 3;
/// At full scale. `THALWEG_TEST_SCALE` is in units of 2%.
const SEEDS: u64 = 5_000;
const TRANSACTIONS: usize = 12;
const SEEDS_OF_OLD: &[u64] = &[];

fn one_of<T: Copy>(random: &mut SplitMix64, all: &[T]) -> T {
    all[random.below(all.len() as u64) as usize]
}

struct Storm {
    world: World,
    random: SplitMix64,
    /// The records that a reader of committed records must see.
    expected: Vec<Vec<String>>,
    number: usize,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let level = one_of(&mut random, &[1, 2]);
        let config = ProducerConfig {
            linger: Duration::from_millis(random.below(3) * 5),
            batch_size: one_of(&mut random, &[300, 16_384]),
            max_in_flight_requests_per_connection: one_of(&mut random, &[1, 2, 5]),
            delivery_timeout: Duration::from_secs(one_of(&mut random, &[8, 600])),
            seed,
            ..transactional()
        };
        let mut world = new_world(level, config, NODES, PARTITIONS);
        init(&mut world);
        Self {
            world,
            random,
            expected: vec![Vec::new(); PARTITIONS as usize],
            number: 0,
        }
    }

    fn run(&mut self) {
        for _ in 0..TRANSACTIONS {
            begin(&mut self.world);
            let mut sent = vec![Vec::new(); PARTITIONS as usize];
            let mut whole = true;
            for _ in 0..self.random.below(25) {
                whole &= self.step(&mut sent);
            }
            self.finish(whole, sent);
        }
        self.check();
    }

    /// Runs one random step. Returns false if a record was refused: the transaction has then
    /// failed.
    fn step(&mut self, sent: &mut [Vec<String>]) -> bool {
        match self.random.below(100) {
            0..=49 => return self.send(sent),
            50..=69 => {
                let ms = one_of(&mut self.random, &[1, 5, 30, 300]);
                self.world.advance_ms(ms);
            }
            70..=81 => self.trouble_a_batch(),
            82..=91 => self.trouble_the_coordinator(),
            92..=93 => self
                .world
                .brokers
                .disconnect(1 + self.random.below(3) as i32),
            94..=96 => {
                let partition = self.random.below(PARTITIONS as u64) as i32;
                let to = 1 + self.random.below(NODES as u64) as i32;
                self.world.brokers.move_leader(TOPIC, partition, to);
            }
            97 => self.world.brokers.coordinator.node = 1 + self.random.below(3) as i32,
            _ => {
                if self.world.brokers.held() > 0 {
                    self.world.brokers.release();
                }
            }
        }
        true
    }

    fn send(&mut self, sent: &mut [Vec<String>]) -> bool {
        let partition = self.random.below(PARTITIONS as u64) as i32;
        let value = self.number.to_string();
        self.number += 1;
        let taken = self.world.try_send(partition, &value).is_ok();
        if taken {
            sent[partition as usize].push(value);
            self.world.turn();
        }
        taken
    }

    fn trouble_a_batch(&mut self) {
        let reactions = [
            Reaction::LoseRequest,
            Reaction::LoseResponse,
            Reaction::Hold,
            Reaction::Silence,
            Reaction::Forget,
            Reaction::Refuse(ErrorCode::NOT_ENOUGH_REPLICAS),
            Reaction::Refuse(ErrorCode::CONCURRENT_TRANSACTIONS),
            Reaction::Refuse(ErrorCode::TRANSACTION_ABORTABLE),
            Reaction::Refuse(ErrorCode::INVALID_RECORD),
            Reaction::RefuseAfterWriting(ErrorCode::REQUEST_TIMED_OUT),
            Reaction::RefuseAfterWriting(ErrorCode::NOT_LEADER_OR_FOLLOWER),
        ];
        let at = self.random.below(reactions.len() as u64) as usize;
        self.world.script([reactions[at].clone()]);
    }

    fn trouble_the_coordinator(&mut self) {
        let apis = [
            ApiKey::FIND_COORDINATOR,
            ApiKey::INIT_PRODUCER_ID,
            ApiKey::ADD_PARTITIONS_TO_TXN,
            ApiKey::END_TXN,
            ApiKey::END_TXN,
        ];
        let api = one_of(&mut self.random, &apis);
        let mut replies = vec![
            Reply::LoseRequest,
            Reply::LoseResponse,
            Reply::Silence,
            Reply::Error(ErrorCode::COORDINATOR_NOT_AVAILABLE),
            Reply::Error(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS),
        ];
        if api != ApiKey::FIND_COORDINATOR {
            replies.push(Reply::Error(ErrorCode::NOT_COORDINATOR));
            replies.push(Reply::Error(ErrorCode::CONCURRENT_TRANSACTIONS));
        }
        if api == ApiKey::END_TXN {
            replies.push(Reply::ErrorAfter(ErrorCode::UNKNOWN_SERVER_ERROR));
        }
        let reply = one_of(&mut self.random, &replies);
        self.world.brokers.coordinator.on(api, [reply]);
    }

    /// Commits or aborts. Either call may be interrupted and repeated.
    fn finish(&mut self, whole: bool, sent: Vec<Vec<String>>) {
        while self.random.below(2) == 0 && self.world.brokers.held() > 0 {
            self.world.brokers.release();
        }
        let mut failed = !whole;
        if self.random.below(4) > 0 {
            let ticket = self.world.sender.commit_transaction();
            if self.random.below(3) == 0 && ticket.is_ok() {
                // The caller timed out, but the commit continues.
                self.world.advance_ms(40);
                assert!(self.world.sender.abort_transaction().is_err());
            }
            let ticket = ticket.and_then(|_| self.world.sender.commit_transaction());
            self.let_go();
            match wait(&mut self.world, ticket) {
                Ok(()) => {
                    assert!(!failed, "a record was refused, so it cannot commit");
                    for (all, new) in self.expected.iter_mut().zip(sent) {
                        all.extend(new);
                    }
                    return;
                }
                Err(ProducerError::TransactionAbortable(_)) => failed = true,
                Err(other) => panic!("{other:?}"),
            }
        }
        let _ = failed;
        let ticket = self.world.sender.abort_transaction();
        self.let_go();
        assert_eq!(wait(&mut self.world, ticket), Ok(()));
    }

    /// Releases the held responses, now that somebody waits for them.
    fn let_go(&mut self) {
        self.world.advance_ms(20);
        while self.world.brokers.held() > 0 {
            self.world.brokers.release();
            self.world.advance_ms(5);
        }
    }

    fn check(&mut self) {
        for (partition, expected) in self.expected.iter().enumerate() {
            let place = (TOPIC.to_owned(), partition as i32);
            let seen = self.world.brokers.coordinator.committed.get(&place);
            assert_eq!(
                seen.unwrap_or(&Vec::new()),
                expected,
                "partition {partition}"
            );
        }
        assert_eq!(self.world.accumulator.incomplete_batches(), 0);
        let pool = self.world.accumulator.pool();
        assert_eq!(pool.available_bytes(), pool.request_bytes_max());
    }
}

fn seeds() -> u64 {
    let scale = std::env::var("THALWEG_TEST_SCALE")
        .ok()
        .and_then(|scale| scale.parse().ok());
    SEEDS * scale.unwrap_or(1) / 50
}

#[test]
fn no_storm_tears_a_transaction() {
    for seed in SEEDS_OF_OLD.iter().copied().chain(0..seeds()) {
        let result = std::panic::catch_unwind(|| Storm::new(seed).run());
        assert!(result.is_ok(), "seed {seed}");
    }
}
