//! Which partition a record goes to.

use std::collections::BTreeMap;
use std::time::Duration;

use thalweg_producer::{
    AppendRefusal, Partitioner, ProducerConfig, Record, murmur2, partition_for_key, to_positive,
};

use crate::world::broker::Reaction;
use crate::world::{TOPIC, World, config, outcome};

/// Written by Java's `org.apache.kafka.common.utils.Utils.murmur2` of kafka-clients 4.3.0: the key
/// in hex, and the hash.
const JAVA_VECTORS: &str = include_str!("data/murmur2.txt");

fn vectors() -> impl Iterator<Item = (Vec<u8>, i32)> {
    JAVA_VECTORS.lines().map(|line| {
        let (hex, hash) = line.split_once(' ').expect("two columns");
        let byte = |at| u8::from_str_radix(&hex[at..at + 2], 16).expect("hex");
        (
            (0..hex.len()).step_by(2).map(byte).collect(),
            hash.parse().expect("an i32"),
        )
    })
}

#[test]
fn murmur2_is_javas() {
    let mut count = 0;
    let mut negative = 0;
    for (key, hash) in vectors() {
        assert_eq!(murmur2(&key), hash, "{key:?}");
        count += 1;
        negative += usize::from(hash < 0);
    }
    assert!(count > 250 && negative > 50);
}

#[test]
fn negative_hashes_are_masked_not_negated() {
    assert_eq!(to_positive(-1), i32::MAX);
    assert_eq!(to_positive(i32::MIN), 0);
    let (key, hash) = vectors()
        .find(|(_, hash)| *hash < 0)
        .expect("half of them are");
    let expected = (i64::from(hash) & 0x7fff_ffff) % 7;
    assert_eq!(i64::from(partition_for_key(&key, 7)), expected);
}

fn keyed(key: &str) -> Record<'_> {
    Record {
        key: Some(key.as_bytes()),
        value: Some(b"v"),
        ..Record::default()
    }
}

fn keyless() -> Record<'static> {
    Record {
        value: Some(&[7; 100]),
        ..Record::default()
    }
}

#[test]
fn a_key_always_goes_to_javas_partition() {
    let world = World::ready(config(), 3, 6);
    for n in 0..200 {
        let key = format!("key-{n}");
        let sent = world.append(&keyed(&key));
        let expected = to_positive(murmur2(key.as_bytes())) % 6;
        assert_eq!(sent.completion.partition(), expected);
    }
}

#[test]
fn the_given_partition_wins_over_the_key() {
    let world = World::ready(config(), 1, 6);
    let sent = world.append(&Record {
        partition: Some(5),
        ..keyed("k")
    });
    assert_eq!(sent.completion.partition(), 5);
}

#[test]
fn a_partition_that_the_topic_lacks_is_refused_until_the_metadata_has_it() {
    let mut world = World::ready(config(), 1, 2);
    for partition in [2, -1, i32::MAX] {
        let refused = world.try_send(partition, "a");
        assert!(
            matches!(
                refused,
                Err(AppendRefusal::UnknownPartition { partitions: 2 })
            ),
            "{refused:?}"
        );
    }
    world
        .brokers
        .topics
        .get_mut(TOPIC)
        .expect("it exists")
        .leaders
        .push((1, 0));
    world.cluster.request_update();
    world.advance_ms(500);
    let sent = world.send(2, "a");
    world.run();
    assert!(sent.completion.is_done());
}

#[test]
fn a_topic_that_is_not_known_yet_is_refused_until_it_is() {
    let mut world = World::new(config(), 1, 2);
    let refused = world.try_append(&keyless());
    assert!(matches!(
        refused,
        Err(AppendRefusal::UnknownPartition { partitions: 0 })
    ));
    world.know(TOPIC);
    assert!(world.try_append(&keyless()).is_ok());
}

#[test]
fn keys_can_be_ignored() {
    let config = ProducerConfig {
        partitioner_ignore_keys: true,
        ..config()
    };
    let world = World::ready(config, 1, 50);
    let first = world.append(&keyed("a")).completion.partition();
    assert!(
        ["b", "c", "d", "e"]
            .iter()
            .all(|key| world.append(&keyed(key)).completion.partition() == first)
    );
}

#[test]
fn librdkafkas_partitioner_takes_an_empty_key_for_none() {
    let config = ProducerConfig {
        partitioner: Partitioner::ConsistentRandom,
        ..config()
    };
    let world = World::ready(config, 1, 50);
    let expected = (thalweg_producer::crc32(b"123456789") % 50) as i32;
    assert_eq!(expected, (0xcbf4_3926_u32 % 50) as i32);
    assert_eq!(
        world.append(&keyed("123456789")).completion.partition(),
        expected
    );
    let sticky = world.append(&keyed("")).completion.partition();
    assert_eq!(world.append(&keyless()).completion.partition(), sticky);
}

#[test]
fn round_robin_takes_one_after_the_other() {
    let config = ProducerConfig {
        partitioner: Partitioner::RoundRobin,
        ..config()
    };
    let world = World::ready(config, 1, 3);
    let got: Vec<_> = (0..7)
        .map(|_| world.append(&keyed("k")).completion.partition())
        .collect();
    assert_eq!(got, [0, 1, 2, 0, 1, 2, 0]);
}

/// Appends this many keyless records. Returns the runs: each partition in turn, with its number of
/// records.
fn sticky_runs(world: &mut World, records: usize) -> Vec<(i32, usize)> {
    let mut runs: Vec<(i32, usize)> = Vec::new();
    for n in 0..records {
        let partition = world.append(&keyless()).completion.partition();
        match runs.last_mut() {
            Some(run) if run.0 == partition => run.1 += 1,
            _ => runs.push((partition, 1)),
        }
        if n % 64 == 0 {
            world.run();
        }
    }
    runs
}

#[test]
fn the_sticky_partition_moves_on_with_each_full_batch() {
    // KIP-794: each partition gets a batch's worth of records, and all batches except the last are
    // full.
    let config = ProducerConfig {
        batch_size: 4096,
        linger: Duration::from_secs(10),
        seed: 5,
        ..config()
    };
    let mut world = World::ready(config, 1, 8);
    let runs = sticky_runs(&mut world, 20_000);
    let per_batch = (4096 - 61) / 107;
    for (_, run) in &runs[..runs.len() - 1] {
        assert_eq!(run % per_batch, 0, "{runs:?}");
    }
    let mut records = BTreeMap::new();
    for (partition, run) in runs {
        *records.entry(partition).or_insert(0) += run;
    }
    assert_eq!(records.len(), 8);
    let fair = 20_000 / 8;
    assert!(
        records
            .values()
            .all(|&n| n > fair * 7 / 10 && n < fair * 13 / 10),
        "{records:?}"
    );
    world.advance_ms(20_000);
    let mut batches = 0;
    for partition in 0..8 {
        let headers = &world.brokers.log(TOPIC, partition).headers;
        batches += headers.len();
    }
    assert!(batches <= 20_000 / per_batch + 9, "{batches} batches");
}

#[test]
fn small_batches_do_not_move_the_sticky_partition_before_its_share() {
    // With linger 0 and a fast broker each record is a batch. The switch counts bytes, not batches.
    let config = ProducerConfig {
        batch_size: 4096,
        ..config()
    };
    let mut world = World::ready(config, 1, 8);
    let mut partitions = Vec::new();
    for _ in 0..200 {
        partitions.push(world.append(&keyless()).completion.partition());
        world.run();
    }
    let switches = partitions
        .windows(2)
        .filter(|pair| pair[0] != pair[1])
        .count();
    assert!((3..=8).contains(&switches), "{switches}");
}

#[test]
fn keyless_records_choose_among_partitions_with_a_leader() {
    let mut world = World::new(
        ProducerConfig {
            batch_size: 512,
            ..config()
        },
        2,
        4,
    );
    for partition in [0, 2, 3] {
        world.brokers.move_leader(TOPIC, partition, -1);
    }
    world.know(TOPIC);
    for (partition, _) in sticky_runs(&mut world, 100) {
        assert_eq!(partition, 1);
    }
    // If no partition has a leader, all are candidates: their records wait for a leader.
    let mut world = World::new(
        ProducerConfig {
            batch_size: 512,
            ..config()
        },
        2,
        4,
    );
    (0..4).for_each(|partition| world.brokers.move_leader(TOPIC, partition, -1));
    world.know(TOPIC);
    let runs = sticky_runs(&mut world, 100);
    assert!(runs.iter().any(|run| run.0 != runs[0].0));
}

#[test]
fn a_partition_with_a_long_queue_gets_less() {
    // One of two brokers accepts nothing: its partition's queue grows, and records avoid it.
    let run = |adaptive| {
        let config = ProducerConfig {
            batch_size: 1024,
            partitioner_adaptive_partitioning: adaptive,
            ..config()
        };
        let mut world = World::ready(config, 2, 2);
        world.brokers.unreachable.insert(2);
        let mut slow = 0;
        for _ in 0..200 {
            for _ in 0..20 {
                let partition = world.append(&keyless()).completion.partition();
                slow += usize::from(partition == 1);
            }
            world.advance_ms(30);
        }
        slow
    };
    let (adaptive, uniform) = (run(true), run(false));
    assert!(
        adaptive * 3 < uniform,
        "{adaptive} against {uniform} of 4000"
    );
}

#[test]
fn a_partition_whose_queue_was_given_up_counts_as_empty() {
    // The first choice of many producers. Five batches of partition 0 have failed after a gap, and
    // five batches of partition 1 wait for their broker.
    let chooses_the_empty_one = |seed: &u64| {
        let config = ProducerConfig {
            seed: *seed,
            ..config()
        };
        let mut world = World::ready(config, 2, 2);
        world.send_alone(0, "0");
        world.script(
            vec![Reaction::Silence; 4]
                .into_iter()
                .chain([Reaction::LoseResponse]),
        );
        let lost = [1, 2, 3, 4, 5].map(|_| {
            let sent = world.send(0, "lost");
            world.turn();
            sent
        });
        world.brokers.wants_known_producers = true;
        world.brokers.log(TOPIC, 0).forget_producers();
        world.advance_ms(5_000);
        assert!(
            lost.iter()
                .all(|lost| matches!(outcome(lost), Some(Err(_))))
        );
        world.brokers.unreachable.insert(2);
        for _ in 0..5 {
            world.send(1, &"x".repeat(16_000));
        }
        world.advance_ms(30);
        world.append(&keyless()).completion.partition() == 0
    };
    let chosen = (0..100).filter(chooses_the_empty_one).count();
    assert!(chosen > 70, "{chosen} of 100");
}

#[test]
fn brokers_that_take_nothing_for_too_long_get_no_keyless_records() {
    let config = ProducerConfig {
        batch_size: 1024,
        partitioner_availability_timeout: Duration::from_millis(500),
        partitioner_adaptive_partitioning: false,
        ..config()
    };
    let mut world = World::ready(config, 2, 4);
    world.brokers.unreachable.insert(2);
    for _ in 0..40 {
        world.append(&keyless());
        world.advance_ms(50);
    }
    let runs = sticky_runs(&mut world, 1_000);
    // The node that is down leads partitions 1 and 3.
    let avoided = runs.iter().skip(1).all(|run| run.0 % 2 == 0);
    assert!(avoided, "{runs:?}");
}
