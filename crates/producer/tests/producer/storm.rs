//! Many faults at once, drawn from a seed: brokers stop and start, leaders move, requests and
//! responses get lost while records are sent. Restarted brokers remember only the producer's last
//! batch.
//!
//! Elections are clean. So with acks=all and idempotence every record is in the log once, in the
//! order of sending. There is one exception: if a batch was split after it was possibly written,
//! and the brokers have restarted, a record may fail. Then its error says that it may be written,
//! and it is in the log at most once.
//!
//! A seed that fails is kept in `SEEDS_OF_OLD`.

use std::collections::BTreeSet;
use std::time::Duration;

use thalweg_producer::{Appended, ProducerConfig};
use thalweg_protocol::{ErrorCode, SplitMix64};
use thalweg_records::Compression;

use crate::world::broker::Reaction;
use crate::world::{TOPIC, World, config, outcome};

const NODES: i32 = 3;
const PARTITIONS: i32 = 4;
/// A limit of the brokers that is so small that batches must be split now and then.
const SPLITTING: usize = 400;
/// At full scale. `THALWEG_TEST_SCALE` is in units of 2%.
const SEEDS: u64 = 5_000;
const SEEDS_OF_OLD: &[u64] = &[];

struct Storm {
    world: World,
    random: SplitMix64,
    sent: Vec<(i32, Appended)>,
    may_doubt: bool,
}

impl Storm {
    fn new(seed: u64) -> Self {
        let mut random = SplitMix64::new(seed);
        let compressed = random.below(3) == 0;
        let config = ProducerConfig {
            linger: Duration::from_millis(random.below(3) * 5),
            batch_size: [300, 1_000, 16_384][random.below(3) as usize],
            max_in_flight_requests_per_connection: [1, 2, 5][random.below(3) as usize],
            delivery_timeout: Duration::from_secs(7_200),
            request_timeout: Duration::from_secs(5),
            compression: if compressed {
                Compression::Lz4
            } else {
                Compression::None
            },
            seed,
            ..config()
        };
        let mut world = World::ready(config, NODES, PARTITIONS);
        // Both limits are large enough for any record.
        world.brokers.message_max_bytes = [SPLITTING, 1 << 20][random.below(2) as usize];
        Self {
            world,
            random,
            sent: Vec::new(),
            may_doubt: false,
        }
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..=39 => self.send(),
            40..=64 => {
                let ms = [1, 3, 10, 40, 300, 2_000][self.random.below(6) as usize];
                self.world.advance_ms(ms);
            }
            65..=79 => {
                let reaction = self.reaction();
                self.world.script([reaction]);
            }
            80..=84 => self.release(),
            85..=89 => self.stop(),
            90..=93 => (1..=NODES).for_each(|node| self.world.brokers.start(node)),
            94..=96 => {
                let partition = self.random.below(PARTITIONS as u64) as i32;
                self.move_leader(partition);
            }
            97 => self.world.cluster.request_update(),
            98 => {
                self.world.brokers.restart();
                self.may_doubt = self.world.brokers.message_max_bytes == SPLITTING;
            }
            _ => {
                let node = 1 + self.random.below(NODES as u64) as i32;
                self.world.brokers.disconnect(node);
            }
        }
    }

    fn send(&mut self) {
        for _ in 0..=self.random.below(6) {
            let partition = self.random.below(PARTITIONS as u64) as i32;
            let filler = "x".repeat(self.random.below(120) as usize);
            let value = format!("{} {filler}", self.sent.len());
            self.sent
                .push((partition, self.world.send(partition, &value)));
        }
        self.world.turn();
    }

    fn reaction(&mut self) -> Reaction {
        let partition = self.random.below(PARTITIONS as u64) as i32;
        let all = [
            Reaction::LoseRequest,
            Reaction::LoseResponse,
            Reaction::Hold,
            Reaction::Silence,
            Reaction::Forget,
            Reaction::Garbage,
            Reaction::Throttle(20),
            Reaction::Refuse(ErrorCode::NOT_ENOUGH_REPLICAS),
            Reaction::Refuse(ErrorCode::KAFKA_STORAGE_ERROR),
            Reaction::Refuse(ErrorCode::LEADER_NOT_AVAILABLE),
            Reaction::RefusePartition(partition, ErrorCode::CORRUPT_MESSAGE),
            Reaction::RefuseAfterWriting(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND),
            Reaction::RefuseAfterWriting(ErrorCode::REQUEST_TIMED_OUT),
            Reaction::RefuseAfterWriting(ErrorCode::NOT_LEADER_OR_FOLLOWER),
        ];
        all[self.random.below(all.len() as u64) as usize].clone()
    }

    fn release(&mut self) {
        if self.world.brokers.held() > 0 {
            if self.random.below(3) == 0 {
                self.world.brokers.release_without_response();
            } else {
                self.world.brokers.release();
            }
        }
    }

    /// Stops one node if at least two are up. Its partitions get other leaders.
    fn stop(&mut self) {
        let up: Vec<i32> = self.world.brokers.nodes.iter().copied().collect();
        if up.len() < 2 {
            return;
        }
        let node = up[self.random.below(up.len() as u64) as usize];
        self.world.brokers.stop(node);
        for partition in 0..PARTITIONS {
            if self.world.brokers.topics[TOPIC].leaders[partition as usize].0 == node {
                self.move_leader(partition);
            }
        }
    }

    fn move_leader(&mut self, partition: i32) {
        let up: Vec<i32> = self.world.brokers.nodes.iter().copied().collect();
        let to = up[self.random.below(up.len() as u64) as usize];
        self.world.brokers.move_leader(TOPIC, partition, to);
    }

    fn calm_and_check(mut self) {
        self.world.brokers.script.clear();
        (1..=NODES).for_each(|node| self.world.brokers.start(node));
        while self.world.brokers.held() > 0 {
            self.world.brokers.release();
        }
        self.world.advance(Duration::from_secs(120));
        assert_eq!(
            self.world.accumulator.incomplete_batches(),
            0,
            "all is done"
        );
        let mut acknowledged = vec![Vec::new(); PARTITIONS as usize];
        let mut doubtful = BTreeSet::new();
        for (number, (partition, appended)) in self.sent.iter().enumerate() {
            match outcome(appended) {
                Some(Ok(told)) => acknowledged[*partition as usize].push((number, told.offset)),
                Some(Err(error)) if self.may_doubt && error.possibly_written() => {
                    doubtful.insert(number);
                }
                other => panic!("record {number}: {other:?}"),
            }
        }
        for (partition, acknowledged) in acknowledged.into_iter().enumerate() {
            let values = self.world.values(partition as i32);
            let numbers: Vec<usize> = values
                .iter()
                .map(|value| value.split(' ').next().unwrap_or_default())
                .map(|number| number.parse().expect("a record's number"))
                .collect();
            assert!(numbers.is_sorted_by(|a, b| a < b), "partition {partition}");
            // -1: a later batch proved it.
            for &(number, offset) in acknowledged.iter().filter(|(_, offset)| *offset != -1) {
                assert_eq!(numbers[offset as usize], number, "partition {partition}");
            }
            let certain = numbers.into_iter().filter(|n| !doubtful.contains(n));
            let expected = acknowledged.into_iter().map(|(number, _)| number);
            assert!(certain.eq(expected), "partition {partition}");
        }
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
fn no_storm_loses_doubles_or_reorders_a_record() {
    for seed in SEEDS_OF_OLD.iter().copied().chain(0..seeds()) {
        let result = std::panic::catch_unwind(|| {
            let mut storm = Storm::new(seed);
            for _ in 0..250 {
                storm.step();
            }
            storm.calm_and_check();
        });
        assert!(result.is_ok(), "seed {seed}");
    }
}
