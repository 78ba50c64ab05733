//! What the scenarios do with clients: append with back-pressure, and read everything.

use std::cell::Cell;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use thalweg_consumer::{BatchInfo, ConsumerError, Demand, Offer, RecordSink, TopicPartition};
use thalweg_network::consumer::ConsumerClient;
use thalweg_network::producer::ProducerClient;
use thalweg_network::{ClientError, ClientView, Operation};
use thalweg_producer::{AppendRefusal, Appended, TopicEntry};
use thalweg_records::RecordRef;

use crate::history::content::{Content, number_in};
use crate::history::{History, RecordId};
use crate::world::World;
use crate::world::lanes::{Lanes, topic_name};

/// Limit of the virtual time for sending and reading.
pub(crate) const RUN_MAX: Duration = Duration::from_secs(3600);

/// A consumer that receives nothing for this long has received everything. A client gives up a
/// silent broker sooner.
const IDLE: Duration = Duration::from_secs(300);

/// Waits until an operation is over. No timer ends it at its deadline.
pub(crate) async fn done<O: Operation>(mut operation: O) -> Result<O::Output, ClientError> {
    poll_fn(|cx| {
        operation
            .poll(cx.waker())
            .map_or(Poll::Pending, Poll::Ready)
    })
    .await
}

/// Closes a client, which may have failed.
pub(crate) async fn close(view: &ClientView) {
    drop(done(view.close(Some(Duration::from_secs(60)))).await);
}

/// The topics of a world, as a producer knows them.
#[derive(Clone)]
pub(crate) struct Topics {
    lanes: Lanes,
    entries: Vec<Arc<TopicEntry>>,
}

impl Topics {
    /// Waits until the cluster has reported the number of partitions of each topic.
    pub(crate) async fn known(producer: &ProducerClient, lanes: Lanes) -> Self {
        let mut entries = Vec::new();
        for topic in 0..lanes.topics {
            let name = topic_name(topic);
            entries.push(known_topic(producer, &name).await);
        }
        Self { lanes, entries }
    }
}

async fn known_topic(producer: &ProducerClient, name: &str) -> Arc<TopicEntry> {
    loop {
        let topic = producer.accumulator().topic(name);
        if topic.partition_count() > 0 {
            return topic;
        }
        let metadata = producer.view().metadata();
        metadata.request_topic(name).expect("a good name");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Appends a record whose content follows from its id. Waits for memory.
pub(crate) async fn append(
    world: &World,
    producer: &ProducerClient,
    topics: &Topics,
    id: RecordId,
) -> Option<Appended> {
    let content = Content::of(id);
    let (topic, partition) = topics.lanes.place(id.0);
    let topic = &topics.entries[topic as usize];
    let (at, now_ms) = (Some(partition), world.now_ms());
    let accumulator = producer.accumulator();
    let first = content.with_record(at, now_ms, |record| {
        accumulator.append(topic, record, World::now)
    });
    let mut refusal = match first {
        Ok(appended) => return Some(appended),
        Err(refusal) => refusal,
    };
    loop {
        let AppendRefusal::BufferExhausted(wait) = refusal else {
            return None;
        };
        let reservation = wait.await.ok()?;
        let appended = content.with_record(at, now_ms, |record| {
            accumulator.append_reserved(topic, record, reservation, World::now)
        });
        match appended {
            Ok(appended) => return Some(appended),
            Err(again) => refusal = again,
        }
    }
}

/// Reads all partitions while they are written, and to their ends once everything is sent.
pub(crate) async fn read_all(
    consumer: &ConsumerClient,
    world: &World,
    lanes: Lanes,
    is_sent: &Cell<bool>,
) -> Reads {
    let core = consumer.consumer();
    let partitions = lanes.all();
    core.assign(&partitions);
    let deadline = World::now() + RUN_MAX;
    let mut sink = Sink {
        lanes,
        history: History::default(),
        lane: 0,
    };
    let (mut errors, mut refusals) = (Vec::new(), 0);
    loop {
        let step = poll_fn(|cx| {
            core.register(cx.waker());
            match core.drain(Demand::up_to(usize::MAX), &mut sink) {
                Ok(drained) if drained.records == 0 => Poll::Pending,
                other => Poll::Ready(other.map(drop)),
            }
        });
        match tokio::time::timeout(IDLE, step).await {
            // An administrator may grant the right later, so the application continues.
            Ok(Err(ConsumerError::TopicAuthorizationFailed { .. })) => refusals += 1,
            Ok(Err(error)) => errors.push(error.to_string()),
            // Nothing arrived for long. It is done if all positions are at the ends of the logs.
            Err(_) if is_sent.get() && at_the_end(consumer, world, &partitions) => break,
            Ok(Ok(())) | Err(_) => {}
        }
        if World::now() >= deadline {
            errors.push("the consumer did not reach the end".to_owned());
            break;
        }
    }
    Reads {
        history: sink.history,
        errors,
        refusals,
    }
}

/// What a reader received.
pub(crate) struct Reads {
    pub(crate) history: History,
    /// Errors that it raised and should not have, as text.
    pub(crate) errors: Vec<String>,
    /// How often it reported that a topic may not be read.
    pub(crate) refusals: u64,
}

/// Asks the broker for the ends. The consumer may know old ones, because responses get lost.
fn at_the_end(consumer: &ConsumerClient, world: &World, partitions: &[TopicPartition]) -> bool {
    let known = consumer.consumer().partitions();
    partitions.iter().all(|partition| {
        let position = known.position(partition).ok().flatten();
        position.is_some_and(|position| position.offset == world.end_offset(partition))
    })
}

struct Sink {
    lanes: Lanes,
    history: History,
    lane: i32,
}

impl RecordSink for Sink {
    fn begin_batch(&mut self, batch: &BatchInfo<'_>) -> Offer {
        self.lane = self.lanes.of(batch.partition);
        Offer::Taken
    }

    fn record(&mut self, record: &RecordRef<'_>) -> Offer {
        // A record that no client sent has no number.
        let number = number_in(self.lane, record).unwrap_or(u64::MAX);
        self.history.read(self.lane, record.offset, number);
        Offer::Taken
    }
}
