//! What the scenarios do with clients: append with back-pressure, read everything.

use std::cell::Cell;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use thalweg_consumer::{BatchInfo, Offer, RecordSink, TopicPartition};
use thalweg_network::consumer::ConsumerClient;
use thalweg_network::producer::ProducerClient;
use thalweg_producer::{AppendRefusal, Appended, Record, TopicEntry};
use thalweg_records::{Headers, RecordRef};

use crate::history::{History, RecordId};
use crate::world::World;

pub(crate) const TOPIC: &str = "simulated";

/// Sending and reading takes at most this long (virtual).
pub(crate) const RUN_MAX: Duration = Duration::from_secs(3600);

/// A consumer that gets nothing for this long has got all: longer than it takes to give up a broker
/// that fell silent.
const IDLE: Duration = Duration::from_secs(300);

pub(crate) async fn known_topic(producer: &ProducerClient) -> Arc<TopicEntry> {
    loop {
        let topic = producer.accumulator().topic(TOPIC);
        if topic.partition_count() > 0 {
            return topic;
        }
        let metadata = producer.view().metadata();
        metadata.request_topic(TOPIC).expect("a good name");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Appends a record whose value is its number; waits for memory.
pub(crate) async fn append(
    world: &World,
    producer: &ProducerClient,
    topic: &Arc<TopicEntry>,
    (partition, number): RecordId,
) -> Option<Appended> {
    let value = number.to_be_bytes();
    let record = Record {
        partition: Some(partition),
        timestamp_ms: world.now_ms(),
        key: None,
        value: Some(&value),
        headers: Headers::NONE,
    };
    let accumulator = producer.accumulator();
    let mut refusal = match accumulator.append(topic, &record, World::now) {
        Ok(appended) => return Some(appended),
        Err(refusal) => refusal,
    };
    loop {
        let AppendRefusal::BufferExhausted(wait) = refusal else {
            return None;
        };
        let reservation = wait.await.ok()?;
        match accumulator.append_reserved(topic, &record, reservation, World::now) {
            Ok(appended) => return Some(appended),
            Err(again) => refusal = again,
        }
    }
}

/// Reads all partitions while they are written, and to their ends once all is sent.
pub(crate) async fn read_all(
    consumer: &ConsumerClient,
    partitions: i32,
    is_sent: &Cell<bool>,
) -> (History, Vec<String>) {
    let core = consumer.consumer();
    let partitions: Vec<TopicPartition> = (0..partitions)
        .map(|index| TopicPartition::new(TOPIC, index))
        .collect();
    core.assign(&partitions);
    let deadline = World::now() + RUN_MAX;
    let mut sink = Sink {
        reads: History::default(),
        partition: 0,
    };
    let mut errors = Vec::new();
    loop {
        let step = poll_fn(|cx| {
            core.register(cx.waker());
            match core.drain(usize::MAX, &mut sink) {
                Ok(drained) if drained.records == 0 => Poll::Pending,
                other => Poll::Ready(other.map(drop)),
            }
        });
        match tokio::time::timeout(IDLE, step).await {
            Ok(Err(error)) => errors.push(error.to_string()),
            // Nothing for long: at the end if the positions are where the logs end.
            Err(_) if is_sent.get() && at_the_end(consumer, &partitions) => break,
            Ok(Ok(())) | Err(_) => {}
        }
        if World::now() >= deadline {
            errors.push("the consumer did not reach the end".to_owned());
            break;
        }
    }
    (sink.reads, errors)
}

fn at_the_end(consumer: &ConsumerClient, partitions: &[TopicPartition]) -> bool {
    let subscription = consumer.consumer().subscription();
    let isolation = consumer.consumer().config().isolation_level;
    partitions
        .iter()
        .all(|partition| matches!(subscription.lag(partition, isolation), Ok(Some(0))))
}

struct Sink {
    reads: History,
    partition: i32,
}

impl RecordSink for Sink {
    fn begin_batch(&mut self, batch: &BatchInfo<'_>) -> Offer {
        self.partition = batch.partition.partition;
        Offer::Taken
    }

    fn record(&mut self, record: &RecordRef<'_>) -> Offer {
        let number = record
            .value
            .and_then(|value| value.try_into().ok())
            .map(u64::from_be_bytes);
        // A value that is no number is one that nobody sent.
        self.reads
            .read(self.partition, record.offset, number.unwrap_or(u64::MAX));
        Offer::Taken
    }
}
