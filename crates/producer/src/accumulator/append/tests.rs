//! What other threads may do between the choice of the sticky partition and taking its lock
//! (KIP-794): these tests run the other threads' appends between the two steps of one append.

use thalweg_cluster::{Notifier, SharedMetadata};

use super::*;
use crate::config::ProducerConfig;

const PARTITIONS: u32 = 4;
const RECORD: Record<'static> = Record {
    partition: None,
    timestamp_ms: 0,
    key: None,
    value: Some(&[7; 100]),
    headers: thalweg_records::Headers::NONE,
};

/// The instant at which the tests' virtual time starts.
#[expect(clippy::disallowed_methods, reason = "see above")]
fn start() -> Instant {
    Instant::now()
}

fn accumulator() -> Arc<Accumulator> {
    let config = ProducerConfig {
        batch_size: 1_024,
        ..ProducerConfig::default()
    };
    let notifier = Arc::new(Notifier::new());
    let metadata = Arc::new(SharedMetadata::new(Arc::clone(&notifier)));
    Accumulator::new(&config, metadata, notifier, None)
}

/// Appends as other threads would, until another partition is sticky. Returns the first record
/// there.
fn move_on(
    accumulator: &Accumulator,
    topic: &Arc<TopicEntry>,
    from: i32,
    now: Instant,
) -> Appended {
    for _ in 0..1_000 {
        let appended = accumulator.append(topic, &RECORD, || now).expect("room");
        if appended.completion.partition() != from {
            return appended;
        }
    }
    panic!("partition {from} stays the sticky one");
}

fn records(topic: &TopicEntry, partition: i32) -> u64 {
    lock(&topic.partition(partition).queue).records()
}

#[test]
fn an_append_follows_the_sticky_partition_that_moved_on_before_it_got_the_lock() {
    let (accumulator, now) = (accumulator(), start());
    let topic = Arc::new(TopicEntry::with_partitions(PARTITIONS));
    let place = accumulator
        .choose_place(&topic, &RECORD)
        .expect("partitions");
    let old = place.partition;
    let other = move_on(&accumulator, &topic, old, now);
    let left_behind = records(&topic, old);
    let appended = accumulator
        .append_at(place, &RECORD, || now, None, Mode::default())
        .expect("room");
    assert!(
        Arc::ptr_eq(&appended.completion, &other.completion),
        "into the batch that is open where the others are now"
    );
    assert_eq!(appended.index, other.index + 1);
    assert_eq!(records(&topic, old), left_behind);
    let sticky = topic.sticky().expect("there were keyless records");
    assert_eq!(sticky.partition(), appended.completion.partition());
    let mut queue = lock(&topic.partition(sticky.partition()).queue);
    assert_eq!(
        queue.count_sticky(sticky.generation(), 0),
        2 * RECORD.len_bound(),
        "its bytes count where it went"
    );
}

#[test]
fn memory_that_was_waited_for_goes_back_if_the_new_sticky_partition_has_an_open_batch() {
    let (accumulator, now) = (accumulator(), start());
    let topic = Arc::new(TopicEntry::with_partitions(PARTITIONS));
    let place = accumulator
        .choose_place(&topic, &RECORD)
        .expect("partitions");
    let old = place.partition;
    let memory = accumulator.pool.try_acquire_of(100, 0).expect("room");
    let other = move_on(&accumulator, &topic, old, now);
    let (available, reserved) = (accumulator.pool.available_bytes(), memory.len());
    let appended = accumulator
        .append_at(place, &RECORD, || now, Some(memory), Mode::default())
        .expect("room");
    assert!(Arc::ptr_eq(&appended.completion, &other.completion));
    assert_eq!(accumulator.pool.available_bytes(), available + reserved);
}

#[test]
fn a_given_partition_is_not_left_whatever_is_sticky() {
    let (accumulator, now) = (accumulator(), start());
    let topic = Arc::new(TopicEntry::with_partitions(PARTITIONS));
    let sticky = accumulator
        .choose_place(&topic, &RECORD)
        .expect("partitions");
    let given = Record {
        partition: Some(sticky.partition),
        ..RECORD
    };
    let place = accumulator
        .choose_place(&topic, &given)
        .expect("partitions");
    move_on(&accumulator, &topic, sticky.partition, now);
    let appended = accumulator
        .append_at(place, &given, || now, None, Mode::default())
        .expect("room");
    assert_eq!(appended.completion.partition(), sticky.partition);
}

/// The batch is opened after the sender emptied the queue. Only this arrival makes it look again.
#[test]
fn a_batch_that_is_opened_once_the_queue_was_emptied_is_news() {
    let (accumulator, now) = (accumulator(), start());
    let topic = Arc::new(TopicEntry::with_partitions(PARTITIONS));
    let record = Record {
        partition: Some(1),
        ..RECORD
    };
    let mut arrivals = Vec::new();
    for _ in 0..2 {
        accumulator.append(&topic, &record, || now).expect("room");
        accumulator.ready.take(&mut arrivals);
        assert_eq!(arrivals.len(), 1);
        arrivals.clear();
        drop(lock(&topic.partition(1).queue).pop());
    }
}
