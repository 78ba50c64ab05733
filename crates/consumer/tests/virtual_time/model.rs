//! In any order of appends, polls, seeks, pauses, revocations, lost connections and leader
//! changes, each partition's records are returned from its position on, without a gap or a
//! duplicate.

use std::time::Duration;

use proptest::prelude::*;
use thalweg_consumer::{Consumer, ConsumerConfig};
use thalweg_records::Compression;

use crate::batches::compressed;
use crate::broker::Broker;
use crate::world::{Taken, World, config, tp};

const PARTITIONS: i32 = 4;

#[derive(Clone, Debug)]
enum Step {
    Append {
        partition: i32,
        count: u8,
        codec: u8,
    },
    Drain {
        max: u8,
    },
    Iterate {
        max: u8,
    },
    Seek {
        partition: i32,
        back: u8,
    },
    SeekWithinDrain {
        partition: i32,
        back: u8,
    },
    Pause(i32),
    Resume(i32),
    Reassign {
        without: i32,
    },
    Advance {
        ms: u16,
    },
    Hold(bool),
    HoldJobs(bool),
    Disconnect,
    MoveLeader {
        partition: i32,
        to: i32,
    },
    ForgetSessions,
}

fn step() -> impl Strategy<Value = Step> {
    let partition = 0..PARTITIONS;
    prop_oneof![
        5 => (partition.clone(), 1..40_u8, 0..5_u8)
            .prop_map(|(partition, count, codec)| Step::Append { partition, count, codec }),
        6 => (1..60_u8).prop_map(|max| Step::Drain { max }),
        6 => (1..60_u8).prop_map(|max| Step::Iterate { max }),
        1 => (partition.clone(), 0..30_u8).prop_map(|(partition, back)| Step::Seek { partition, back }),
        1 => (partition.clone(), 0..30_u8)
            .prop_map(|(partition, back)| Step::SeekWithinDrain { partition, back }),
        1 => partition.clone().prop_map(Step::Pause),
        1 => partition.clone().prop_map(Step::Resume),
        1 => partition.clone().prop_map(|without| Step::Reassign { without }),
        4 => (1..700_u16).prop_map(|ms| Step::Advance { ms }),
        1 => any::<bool>().prop_map(Step::Hold),
        1 => any::<bool>().prop_map(Step::HoldJobs),
        1 => Just(Step::Disconnect),
        1 => (partition, 1..3_i32).prop_map(|(partition, to)| Step::MoveLeader { partition, to }),
        1 => Just(Step::ForgetSessions),
    ]
}

struct Model {
    world: World,
    /// Next offset that must be returned.
    next: Vec<i64>,
    end: Vec<i64>,
    paused: Vec<bool>,
}

impl Model {
    /// Creates a world with this `max_partition_fetch_bytes`.
    fn new(partition_max: i32) -> Self {
        let mut broker = Broker::new(&[1, 2]);
        broker.create("t", PARTITIONS, 1);
        let config = ConsumerConfig {
            max_partition_fetch_bytes: partition_max,
            ..config()
        };
        let mut world = World::new(config, broker);
        world.assign_all(PARTITIONS);
        let all = |value| vec![value; PARTITIONS as usize];
        Self {
            world,
            next: all(0),
            end: all(0),
            paused: vec![false; PARTITIONS as usize],
        }
    }

    fn take(&mut self, step: &Step) {
        let world = &mut self.world;
        match *step {
            Step::Append {
                partition,
                count,
                codec,
            } => {
                let at = partition as usize;
                let base = self.end[at];
                self.end[at] += i64::from(count);
                let codec = Compression::ALL[usize::from(codec)];
                let epoch = world.broker.log("t", partition).leader_epoch;
                let mut batch = compressed(base, usize::from(count), 30, codec);
                thalweg_records::batch_header::set_base_offset_and_epoch(&mut batch, base, epoch);
                world.broker.append("t", partition, self.end[at], batch);
            }
            Step::Drain { max } => self.drain(usize::from(max)),
            Step::Iterate { max } => self.iterate(max),
            Step::Seek { partition, back } => {
                let at = partition as usize;
                self.next[at] = (self.next[at] - i64::from(back)).max(0);
                world
                    .consumer
                    .seek(&tp(partition), self.next[at], -1)
                    .expect("assigned");
            }
            Step::SeekWithinDrain { partition, back } => self.seek_within_drain(partition, back),
            Step::Pause(partition) => self.pause(partition, true),
            Step::Resume(partition) => self.pause(partition, false),
            Step::Reassign { without } => {
                let rest: Vec<_> = (0..PARTITIONS).filter(|p| *p != without).map(tp).collect();
                world.consumer.assign(&rest);
                let all: Vec<_> = (0..PARTITIONS).map(tp).collect();
                world.consumer.assign(&all);
                // It starts again, at the earliest offset.
                (self.next[without as usize], self.paused[without as usize]) = (0, false);
            }
            Step::Advance { ms } => world.advance(Duration::from_millis(u64::from(ms))),
            Step::Hold(hold) => {
                world.hold_responses = hold;
                if !hold {
                    world.deliver();
                }
            }
            Step::HoldJobs(hold) => world.hold_jobs = hold,
            Step::Disconnect => world.disconnect(),
            Step::MoveLeader { partition, to } => {
                let end = self.end[partition as usize];
                let log = world.broker.log("t", partition);
                log.epochs.push((log.leader_epoch, end));
                (log.leader, log.leader_epoch) = (to, log.leader_epoch + 1);
            }
            Step::ForgetSessions => world.broker.forget_sessions(),
        }
    }

    fn pause(&mut self, partition: i32, paused: bool) {
        self.paused[partition as usize] = paused;
        let list = [tp(partition)];
        let consumer = &self.world.consumer;
        let done = if paused {
            consumer.pause(&list)
        } else {
            consumer.resume(&list)
        };
        done.expect("assigned");
    }

    fn drain(&mut self, max: usize) {
        let got = self
            .world
            .drain(max)
            .expect("nothing here is an error for the application");
        assert!(got.records.len() <= max);
        self.expect(&got.records);
        for partition in 0..PARTITIONS {
            if let Ok(Some(position)) = self.world.consumer.partitions().position(&tp(partition))
                && got.records.iter().any(|r| r.partition == partition)
            {
                assert_eq!(position.offset, self.next[partition as usize], "they agree");
            }
        }
    }

    /// Seeks during a drain. The drain still returns records from the old position, and then the
    /// seek counts.
    fn seek_within_drain(&mut self, partition: i32, back: u8) {
        let at = partition as usize;
        let to = (self.next[at] - i64::from(back)).max(0);
        let mut sought = false;
        let seek = |consumer: &Consumer| {
            sought = true;
            consumer.seek(&tp(partition), to, -1).expect("assigned");
        };
        let got = self
            .world
            .drain_seeking(usize::MAX, partition, seek)
            .expect("nothing here is an error for the application");
        self.expect(&got.records);
        if sought {
            self.next[at] = to;
            assert_eq!(
                self.world.position(partition),
                to,
                "the seek is the last word"
            );
        }
    }

    /// Steps without reading a position in between, because that would settle the steps.
    fn iterate(&mut self, max: u8) {
        for _ in 0..max {
            let got = self.world.step().expect("nothing here is an error");
            assert!(got.records.len() <= 1);
            self.expect(&got.records);
        }
    }

    fn expect(&mut self, records: &[Taken]) {
        for record in records {
            let at = record.partition as usize;
            assert!(!self.paused[at], "a paused partition hands nothing out");
            assert_eq!(record.offset, self.next[at], "no gap, no double");
            let offset = record.offset.to_string();
            assert!(record.value.starts_with(offset.as_bytes()));
            self.next[at] += 1;
        }
    }

    /// Ends all faults: every record must arrive.
    fn finish(&mut self) {
        self.world.hold_responses = false;
        self.world.hold_jobs = false;
        self.world.deliver();
        for partition in 0..PARTITIONS {
            self.pause(partition, false);
        }
        for _ in 0..200 {
            self.world.advance(Duration::from_millis(700));
            self.drain(usize::MAX);
            if self.next == self.end {
                self.world.advance(Duration::from_secs(1));
                self.drain(usize::MAX);
                assert_eq!(
                    self.world.consumer.buffered_bytes().0,
                    0,
                    "all memory came back"
                );
                return;
            }
        }
        panic!("stuck: {:?} of {:?}", self.next, self.end);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn every_partition_is_read_without_gap_or_double(
        steps in prop::collection::vec(step(), 1..80),
        partition_max in prop_oneof![Just(1), 1..4_000_i32, Just(1 << 20)],
    ) {
        let mut model = Model::new(partition_max);
        for step in &steps {
            model.take(step);
        }
        model.finish();
    }
}
