//! Producer and consumer against the embedded broker, over real sockets and with the real threads.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use thalweg_broker::{BrokerConfig, EmbeddedBroker};
use thalweg_consumer::{
    BatchInfo, ConsumerConfig, Demand, Offer, OffsetReset, RecordSink, TopicPartition,
};
use thalweg_network::consumer::ConsumerClient;
use thalweg_network::producer::{MaxBlock, ProducerClient};
use thalweg_network::wait::block_until;
use thalweg_network::{ClientConfig, ClientError};
use thalweg_producer::{
    Accumulator, AppendRefusal, Appended, ProducerConfig, ProducerError, Record, TopicEntry,
};
use thalweg_protocol::Str;
use thalweg_records::{Compression, Headers, RecordRef};

use crate::support::blocking;

const PARTITIONS: i32 = 4;

fn within(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}

/// Brokers refuse timestamps far from their own clock.
fn now_ms() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .expect("later than 1970");
    since.as_millis() as i64
}

fn broker(nodes: i32) -> EmbeddedBroker {
    let config = BrokerConfig {
        nodes,
        ..BrokerConfig::default()
    };
    let broker = EmbeddedBroker::start(config).expect("free ports");
    broker
        .create_topic("t", PARTITIONS, -1, &BTreeMap::new())
        .expect("a new topic");
    broker
}

fn config(broker: &EmbeddedBroker) -> ClientConfig {
    ClientConfig::plaintext(&broker.bootstrap_servers()).expect("the broker's own addresses")
}

/// Waits for the topic's metadata.
fn topic(client: &ProducerClient, name: &str) -> Result<Arc<TopicEntry>, ClientError> {
    let max_block = MaxBlock::begin(Duration::from_secs(20));
    blocking(client.wait_for_partition(&Str::from(name), None, max_block))?;
    Ok(client.accumulator().topic(name))
}

fn append(accumulator: &Accumulator, topic: &Arc<TopicEntry>, value: &[u8]) -> Appended {
    let record = Record {
        partition: None,
        timestamp_ms: now_ms(),
        key: Some(value),
        value: Some(value),
        headers: Headers::NONE,
    };
    let mut wait = match accumulator.append(topic, &record, Instant::now) {
        Ok(appended) => return appended,
        Err(AppendRefusal::BufferExhausted(wait)) => wait,
        Err(refusal) => panic!("{refusal:?}"),
    };
    let reserved = block_until(Some(within(60)), &mut || false, |waker| {
        match wait.poll_reservation(waker) {
            Poll::Ready(reserved) => Some(reserved),
            Poll::Pending => None,
        }
    });
    let reservation = reserved
        .expect("memory comes back")
        .expect("the producer is open");
    accumulator
        .append_reserved(topic, &record, reservation, Instant::now)
        .expect("the memory is there")
}

/// How often each value was read.
#[derive(Default)]
struct Counts(BTreeMap<Vec<u8>, u32>);

impl RecordSink for Counts {
    fn begin_batch(&mut self, _: &BatchInfo<'_>) -> Offer {
        Offer::Taken
    }

    fn record(&mut self, record: &RecordRef<'_>) -> Offer {
        let value = record.value.expect("the test sends values");
        *self.0.entry(value.to_vec()).or_default() += 1;
        Offer::Taken
    }
}

/// Reads until `count` records have come.
fn read(broker: &EmbeddedBroker, count: usize) -> Counts {
    let settings = ConsumerConfig {
        auto_offset_reset: OffsetReset::Earliest,
        ..ConsumerConfig::default()
    };
    let client = ConsumerClient::start(&config(broker), settings).expect("a good config");
    let partitions: Vec<_> = (0..PARTITIONS)
        .map(|index| TopicPartition::new("t", index))
        .collect();
    client.consumer().assign(&partitions);
    let mut counts = Counts::default();
    let mut seen = 0;
    let deadline = within(60);
    while seen < count {
        let drained = block_until(Some(deadline), &mut || false, |waker| {
            client.consumer().register(waker);
            let drained = client
                .consumer()
                .drain(Demand::up_to(usize::MAX), &mut counts)
                .expect("good data");
            (drained.records > 0).then_some(drained.records)
        });
        seen += drained.expect("records within a minute");
    }
    blocking(client.view().close(Some(Duration::from_secs(60)))).expect("it closes");
    counts
}

fn produce_and_read(
    compression: Compression,
    records: usize,
    disturb: impl Fn(usize, &EmbeddedBroker),
) {
    let broker = broker(3);
    let settings = ProducerConfig {
        compression,
        batch_size: 4096,
        ..ProducerConfig::default()
    };
    let client = ProducerClient::start(&config(&broker), settings, None).expect("a good config");
    let topic = topic(&client, "t").expect("it exists");
    let mut appended = Vec::new();
    for number in 0..records {
        disturb(number, &broker);
        let value = format!("record number {number}, compressible, compressible");
        appended.push(append(client.accumulator(), &topic, value.as_bytes()));
    }
    blocking(client.flush(Some(Duration::from_secs(60)))).expect("all are acknowledged");
    for Appended { completion, index } in &appended {
        let outcome = completion.outcome(*index).expect("flush waits for all");
        assert!(outcome.expect("written").offset >= 0);
    }
    let close = client.view().close(Some(Duration::from_secs(60)));
    blocking(close).expect("nothing is left");
    let counts = read(&broker, records);
    assert_eq!(counts.0.len(), records, "each record once");
    assert!(counts.0.values().all(|&count| count == 1), "and none twice");
}

#[test]
fn what_is_produced_is_read_with_every_codec() {
    for compression in [
        Compression::None,
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ] {
        produce_and_read(compression, 5_000, |_, _| {});
    }
}

#[test]
fn nodes_that_stop_and_start_lose_and_double_nothing() {
    produce_and_read(Compression::Lz4, 30_000, |number, broker| {
        if number % 7_000 == 3_000 {
            let node = 1 + (number / 7_000) as i32 % 3;
            broker.stop_node(node).expect("it runs");
            thread::sleep(Duration::from_millis(30));
            broker.start_node(node).expect("it is stopped");
        }
    });
}

#[test]
fn many_threads_share_a_producer() {
    let broker = broker(1);
    let client =
        ProducerClient::start(&config(&broker), ProducerConfig::default(), None).expect("good");
    let topic = topic(&client, "t").expect("it exists");
    thread::scope(|scope| {
        for writer in 0..4 {
            let (accumulator, topic) = (client.accumulator(), &topic);
            scope.spawn(move || {
                for number in 0..2_000 {
                    append(accumulator, topic, format!("{writer}/{number}").as_bytes());
                }
            });
        }
    });
    blocking(client.flush(Some(Duration::from_secs(60)))).expect("all are acknowledged");
    assert_eq!(read(&broker, 8_000).0.len(), 8_000);
}

#[test]
fn closing_without_time_fails_what_is_left_and_says_so() {
    // If this machine pauses for seconds, close() reports that it continues in the background.
    let closes = (0..5).any(|_| closes_without_time());
    assert!(closes, "each close() took seconds");
}

/// Whether `close()` itself ends in time. The client ends in any case.
fn closes_without_time() -> bool {
    let broker = broker(1);
    let settings = ProducerConfig {
        linger: Duration::from_secs(600),
        ..ProducerConfig::default()
    };
    let client = ProducerClient::start(&config(&broker), settings, None).expect("a good config");
    let topic = topic(&client, "t").expect("it exists");
    broker.stop_node(1).expect("it runs");
    let Appended { completion, index } = append(client.accumulator(), &topic, b"never sent");
    let limit = within(30);
    let closed = blocking(client.view().close(Some(Duration::ZERO)));
    if let Err(error) = &closed {
        assert!(matches!(error, ClientError::TimedOut(_)), "{error}");
        while !completion.is_done() && Instant::now() < limit {
            thread::sleep(Duration::from_millis(1));
        }
    }
    assert!(Instant::now() < limit, "it closes all the same");
    let outcome = completion
        .outcome(index)
        .expect("told")
        .expect_err("not delivered");
    assert!(
        matches!(
            outcome,
            ProducerError::ClosedBeforeDelivery { records: 1, .. }
        ),
        "{outcome}"
    );
    let late = self::topic(&client, "u");
    assert_eq!(late.err(), Some(ClientError::Closed));
    closed.is_ok()
}
