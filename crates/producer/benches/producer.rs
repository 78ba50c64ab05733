//! Measures the producer's hot path on one core: memory, append, drain.
//!
//! Goals (100-byte records): acquire and release below 50 ns, append below 60 ns, drain 20 million
//! records a second.
#![allow(clippy::disallowed_methods, reason = "benchmarks measure time")]

use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use thalweg_cluster::{
    Action, Address, ApiVersions, Cluster, ClusterConfig, Event, Notifier, Role,
};
use thalweg_producer::{Accumulator, BufferPool, ProducerConfig, Record, Sender, TopicEntry};
use thalweg_protocol::messages::init_producer_id::InitProducerIdResponse;
use thalweg_protocol::messages::metadata::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use thalweg_protocol::messages::produce::{
    PartitionProduceResponse, ProduceResponse, TopicProduceResponse,
};
use thalweg_protocol::{ApiKey, Message, Reader, Str, Uuid, frame};

const PARTITIONS: i32 = 4;
/// Records between two drains, as with an I/O thread that keeps up. So memory is reused while it is
/// in the cache.
const ROUND: u64 = 5_000;
const ID: Uuid = Uuid([7; 16]);

/// A sender with a broker that acknowledges everything.
struct Rig {
    cluster: Cluster,
    sender: Sender,
    accumulator: Arc<Accumulator>,
    topic: Arc<TopicEntry>,
    now: Instant,
    bytes: usize,
}

impl Rig {
    fn new(config: ProducerConfig) -> Self {
        let notifier = Arc::new(Notifier::new());
        let cluster_config = ClusterConfig {
            bootstrap_servers: Address::parse_list("b:1").expect("an address"),
            max_in_flight_requests_per_connection: 5,
            ..ClusterConfig::default()
        };
        let cluster = Cluster::new(cluster_config, Arc::clone(&notifier));
        let metadata = Arc::clone(cluster.shared_metadata());
        let accumulator = Accumulator::new(&config, metadata, notifier, None);
        cluster
            .shared_metadata()
            .request_topic("t")
            .expect("a name");
        let mut rig = Self {
            cluster,
            sender: Sender::new(config, Arc::clone(&accumulator)),
            topic: accumulator.topic("t"),
            accumulator,
            now: Instant::now(),
            bytes: 0,
        };
        rig.run();
        rig.topic = rig.accumulator.topic("t");
        assert_eq!(rig.topic.partition_count(), PARTITIONS as u32);
        // The first batch of a partition is sent alone, so get past it.
        for partition in 0..PARTITIONS {
            rig.append(Some(partition), b"warm");
        }
        drop(rig.accumulator.flush());
        rig.settle();
        rig
    }

    fn append(&self, partition: Option<i32>, value: &[u8]) {
        let record = Record {
            partition,
            timestamp_ms: 1,
            value: Some(value),
            ..Record::default()
        };
        let appended = self.accumulator.append(&self.topic, &record, || self.now);
        black_box(appended.expect("there is room"));
    }

    /// Runs until everything that was appended is sent and acknowledged.
    fn settle(&mut self) {
        let ticket = self.accumulator.flush();
        while self.accumulator.incomplete_batches() > 0 {
            self.run();
        }
        drop(ticket);
    }

    fn run(&mut self) {
        loop {
            self.cluster.poll(self.now);
            while let Some((id, result)) = self.cluster.poll_response() {
                self.sender
                    .on_response(id, result, &mut self.cluster, self.now, 0);
            }
            self.sender.poll(&mut self.cluster, self.now, 0);
            let mut events = Vec::new();
            while let Some(action) = self.cluster.poll_action() {
                events.extend(self.respond(action));
            }
            if events.is_empty() {
                return;
            }
            for event in events {
                self.cluster.handle(event, self.now);
            }
        }
    }

    fn respond(&mut self, action: Action) -> Option<Event> {
        match action {
            Action::Connect { conn, .. } => {
                let ranges =
                    [ApiKey::PRODUCE, ApiKey::METADATA, ApiKey::INIT_PRODUCER_ID].map(|key| {
                        let valid = key.valid_versions().expect("known");
                        (key, *valid.start(), *valid.end())
                    });
                let api_versions = Arc::new(ApiVersions::new(ranges));
                Some(Event::Connected { conn, api_versions })
            }
            Action::Write { conn, frame } => {
                self.bytes += frame.len();
                let mut reader = Reader::new(frame.head.slice(4..));
                let header = frame::decode_request_header(&mut reader).expect("a header");
                let key = ApiKey(header.request_api_key);
                let (version, id) = (header.request_api_version, header.correlation_id);
                let bytes = match key {
                    ApiKey::METADATA => encoded(key, version, id, &metadata()),
                    ApiKey::PRODUCE => encoded(key, version, id, &produced()),
                    _ => encoded(key, version, id, &InitProducerIdResponse::default()),
                };
                Some(Event::Frame { conn, frame: bytes })
            }
            Action::Reauthenticate { .. } | Action::Close { .. } => None,
        }
    }
}

fn encoded<M: Message>(key: ApiKey, version: i16, id: i32, response: &M) -> Bytes {
    let bytes = frame::encode_response(key, version, id, response).expect("a valid response");
    Bytes::from(bytes).slice(4..)
}

fn metadata() -> MetadataResponse {
    let partition = |index| MetadataResponsePartition {
        partition_index: index,
        leader_id: 1,
        ..Default::default()
    };
    MetadataResponse {
        brokers: vec![MetadataResponseBroker {
            node_id: 1,
            host: Str::from("b"),
            port: 1,
            ..Default::default()
        }],
        topics: vec![MetadataResponseTopic {
            name: Some(Str::from("t")),
            topic_id: ID,
            partitions: (0..PARTITIONS).map(partition).collect(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// Acknowledges all partitions, whether they are in the request or not.
fn produced() -> ProduceResponse {
    let partition = |index| PartitionProduceResponse {
        index,
        base_offset: 5,
        ..Default::default()
    };
    ProduceResponse {
        responses: vec![TopicProduceResponse {
            topic_id: ID,
            partition_responses: (0..PARTITIONS).map(partition).collect(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn config() -> ProducerConfig {
    ProducerConfig {
        batch_size: 128 * 1024,
        buffer_memory: 256 * 1024 * 1024,
        linger: Duration::from_secs(3600),
        ..ProducerConfig::default()
    }
}

/// Measures what an append does that opens a batch: it takes memory for the record if there is room
/// for a whole batch.
fn buffer_pool(c: &mut Criterion) {
    let mut group = c.benchmark_group("buffer pool");
    let whole = config().batch_size;
    let pool = BufferPool::new(32 << 20, whole, 0);
    for (name, len) in [("small", 100), ("large", 16 * 1024)] {
        drop(pool.try_acquire_of(len, whole));
        group.bench_function(format!("acquire and release, {name} chunk"), |b| {
            b.iter(|| {
                let taken = pool.try_acquire_of(black_box(len), black_box(whole));
                drop(black_box(taken));
            });
        });
    }
    group.finish();
}

fn append(c: &mut Criterion) {
    let mut group = c.benchmark_group("append");
    let value = [b'x'; 100];
    for (name, partition) in [("sticky", None), ("to a given partition", Some(0))] {
        group.throughput(Throughput::Elements(1));
        group.bench_function(format!("100 bytes, {name}"), |b| {
            let mut rig = Rig::new(config());
            b.iter_custom(|iterations| {
                let mut spent = Duration::ZERO;
                let mut left = iterations;
                while left > 0 {
                    let now = left.min(ROUND);
                    let start = Instant::now();
                    for _ in 0..now {
                        rig.append(partition, black_box(&value));
                    }
                    spent += start.elapsed();
                    left -= now;
                    rig.settle();
                }
                spent
            });
        });
    }
    let key = [b'k'; 16];
    group.bench_function("100 bytes, keyed", |b| {
        let mut rig = Rig::new(config());
        b.iter_custom(|iterations| {
            let mut spent = Duration::ZERO;
            let mut left = iterations;
            while left > 0 {
                let now = left.min(ROUND);
                let start = Instant::now();
                for n in 0..now {
                    let mut key = key;
                    key[3] = n as u8;
                    let record = Record {
                        key: Some(&key),
                        value: Some(&value),
                        timestamp_ms: 1,
                        ..Record::default()
                    };
                    let appended = rig.accumulator.append(&rig.topic, &record, || rig.now);
                    black_box(appended.expect("there is room"));
                }
                spent += start.elapsed();
                left -= now;
                rig.settle();
            }
            spent
        });
    });
    group.finish();
}

/// Measures closing, checksum, request and outcome of full batches.
fn drain(c: &mut Criterion) {
    let mut group = c.benchmark_group("drain");
    let records = ROUND;
    let value = [b'x'; 100];
    group.throughput(Throughput::Elements(records));
    group.sample_size(20);
    group.bench_function("drain, close, send and complete, 100 bytes", |b| {
        let mut rig = Rig::new(config());
        b.iter_custom(|iterations| {
            let mut spent = Duration::ZERO;
            for _ in 0..iterations {
                for _ in 0..records {
                    rig.append(None, &value);
                }
                let start = Instant::now();
                rig.settle();
                spent += start.elapsed();
            }
            spent
        });
    });
    group.finish();
}

fn wait_queue(c: &mut Criterion) {
    c.bench_function("buffer pool/exhausted: wait, be fed, give back", |b| {
        let whole = 16 * 1024;
        let pool = BufferPool::new(whole, whole, 0);
        b.iter(|| {
            let held = pool.try_acquire_of(whole, whole).expect("room");
            let wait = pool.wait(whole);
            drop(held);
            drop(wait);
        });
    });
}

criterion_group!(benches, buffer_pool, wait_queue, append, drain);
criterion_main!(benches);
