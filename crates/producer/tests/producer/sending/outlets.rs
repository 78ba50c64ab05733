//! A second connection to a broker that one does not keep busy.

use std::collections::BTreeMap;
use std::time::Duration;

use thalweg_cluster::Purpose;
use thalweg_producer::{Acks, Appended, ProducerConfig};

use crate::world::broker::Reaction;
use crate::world::{World, config, offset};

const PARTITIONS: i32 = 4;
const ANSWER_MS: u64 = 5;

/// A load that always has more to send than a slow broker has answered.
struct Load {
    world: World,
    sent: Vec<(i32, Appended)>,
    /// Number of partitions that it sends to.
    partitions: i32,
}

impl Load {
    fn new(config: ProducerConfig) -> Self {
        let mut world = World::ready(config, 1, PARTITIONS);
        for partition in 0..PARTITIONS {
            world.send_alone(partition, "first"); // so that the broker knows the producer
        }
        Self {
            world,
            sent: Vec::new(),
            partitions: PARTITIONS,
        }
    }

    fn send(&mut self) {
        let number = self.sent.len();
        let value = format!("{number:06}");
        let partition = number as i32 % self.partitions;
        let appended = self.world.send(partition, &value);
        self.sent.push((partition, appended));
    }

    /// Answers one request after the other. Returns the connections on which each partition was
    /// sent meanwhile.
    fn answer(&mut self, requests: usize) -> Vec<BTreeMap<i32, Purpose>> {
        let mut seen = Vec::new();
        for _ in 0..requests {
            for _ in 0..40 {
                self.send();
                self.world.script([Reaction::Hold]);
                self.world.run();
            }
            seen.push(self.in_flight());
            self.world.advance_ms(ANSWER_MS);
            self.world.brokers.release();
            self.world.run();
        }
        seen
    }

    fn in_flight(&self) -> BTreeMap<i32, Purpose> {
        let mut found = BTreeMap::new();
        for (partition, purpose) in self.world.brokers.held_partitions() {
            let before = found.insert(partition, purpose);
            assert!(
                before.is_none_or(|before| before == purpose),
                "partition {partition} is in flight on both"
            );
        }
        found
    }

    /// Checks that everything is written once, in order.
    fn finish(mut self) -> World {
        self.world.brokers.script.clear();
        while self.world.brokers.held() > 0 {
            self.world.brokers.release();
            self.world.run();
        }
        self.world.advance_ms(1_000);
        let mut next = [1; PARTITIONS as usize];
        for (partition, appended) in &self.sent {
            let next = &mut next[*partition as usize];
            assert_eq!(offset(appended), *next, "partition {partition}");
            *next += 1;
        }
        for partition in 0..PARTITIONS {
            let values = self.world.values(partition);
            assert!(values[1..].is_sorted(), "{partition}: {values:?}");
        }
        self.world
    }
}

fn small_batches(in_flight: usize) -> ProducerConfig {
    ProducerConfig {
        batch_size: 200,
        max_in_flight_requests_per_connection: in_flight,
        ..config()
    }
}

#[test]
fn a_broker_that_falls_behind_is_sent_every_other_partition_by_a_second_connection() {
    for in_flight in [1, 5] {
        let mut load = Load::new(small_batches(in_flight));
        let seen = load.answer(40);
        assert!(
            seen.iter()
                .take(3)
                .flat_map(BTreeMap::values)
                .all(|&purpose| purpose == Purpose::Produce),
            "not for a burst"
        );
        let last = seen.last().expect("requests were seen");
        let more: Vec<i32> = last
            .iter()
            .filter(|&(_, &purpose)| purpose == Purpose::SecondProduce)
            .map(|(&partition, _)| partition)
            .collect();
        assert_eq!(more, [1, 3], "{in_flight} in flight: {last:?}");
        let mut world = load.finish();
        // Nothing was left to send, so the next record uses the first connection again.
        world.script([Reaction::Hold]);
        world.send_alone(1, "x");
        assert_eq!(
            world.brokers.held_partitions(),
            [(1, Purpose::Produce)],
            "{in_flight} in flight"
        );
    }
}

#[test]
fn without_answers_there_is_no_order_between_two_connections_and_one_is_enough() {
    let config = ProducerConfig {
        acks: Acks::None,
        ..small_batches(1)
    };
    let mut world = World::ready(config, 1, PARTITIONS);
    for _ in 0..40 {
        // More than the one request of a turn can contain.
        for number in 0..200 {
            world.send(number % PARTITIONS, "000000");
        }
        world.turn();
        world.now += Duration::from_millis(ANSWER_MS);
    }
    assert!(!world.brokers.has_connection(Purpose::SecondProduce));
}

#[test]
fn a_load_of_one_partition_opens_nothing_as_it_has_one_order() {
    let mut load = Load::new(small_batches(5));
    load.partitions = 1;
    load.answer(40);
    assert!(!load.world.brokers.has_connection(Purpose::SecondProduce));
    load.finish();
}

#[test]
fn a_broker_that_keeps_up_has_one_connection() {
    let mut world = World::ready(config(), 1, PARTITIONS);
    for number in 0..1_000 {
        world.send_alone(number % PARTITIONS, "x");
        world.advance_ms(1);
    }
    assert!(!world.brokers.has_connection(Purpose::SecondProduce));
}

#[test]
fn a_broker_that_refuses_the_second_connection_is_sent_all_by_the_first() {
    let mut load = Load::new(small_batches(5));
    load.world.brokers.refuses_second = true;
    let seen = load.answer(60);
    let last = seen.last().expect("requests were seen");
    assert_eq!(last.len(), PARTITIONS as usize, "{last:?}");
    assert!(last.values().all(|&purpose| purpose == Purpose::Produce));
    load.finish();
}

#[test]
fn a_broker_that_breaks_connections_has_each_record_once_and_in_order() {
    for (at, both) in (0..12).flat_map(|at| [(at, true), (at, false)]) {
        let mut load = Load::new(small_batches(5));
        load.answer(20 + at);
        assert!(load.world.brokers.has_connection(Purpose::SecondProduce));
        if both {
            load.world.brokers.disconnect(1);
        } else {
            load.world.brokers.disconnect_second();
            load.world.run();
            let seen = load.answer(6);
            let last = seen.last().expect("requests were seen");
            assert!(last.values().all(|&purpose| purpose == Purpose::Produce));
        }
        load.world.advance_ms(2_000);
        load.answer(10);
        load.finish();
    }
}
