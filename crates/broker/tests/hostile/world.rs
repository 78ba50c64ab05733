//! The broker that is attacked. It contains some of everything, so that a frame can request much.

use std::time::Instant;

use bytes::Bytes;
use thalweg_broker::options::BrokerOptions;
use thalweg_broker::{Core, NodeAddress, Outcome};
use thalweg_protocol::dynamic::{self, Value};
use thalweg_protocol::{ApiKey, Reader, frame};
use thalweg_records::{BatchBuilder, BatchHeader, Headers};

pub(crate) const NOW_MS: i64 = 1_750_000_000_000;
/// The number of partitions of the topic `big`.
pub(crate) const PARTITIONS: usize = 1000;
/// The number of topics `t0`, ..., groups `g0`, ... and transactional ids `x0`, ...
pub(crate) const NAMES: usize = 200;

/// The producer of `x0`, as the seed gives it.
pub(crate) const PRODUCER_ID: usize = 32_545_672_000;

/// With an authorizer, whose user may do everything.
fn options() -> BrokerOptions {
    let authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    let given = [
        ("authorizer.class.name", authorizer),
        ("super.users", "User:ANONYMOUS"),
    ];
    let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
    BrokerOptions::parse(&given.into()).expect("known options")
}

pub(crate) struct World {
    core: Core,
    now: Instant,
}

pub(crate) fn fields<const N: usize>(fields: [(&'static str, Value); N]) -> Value {
    Value::Struct(fields.into())
}

pub(crate) fn list(count: usize, each: impl Fn(usize) -> Value) -> Value {
    Value::Array((0..count).map(each).collect())
}

pub(crate) fn text(text: &str) -> Value {
    Value::from(text)
}

pub(crate) fn int(value: usize) -> Value {
    Value::Int(value as i64)
}

pub(crate) fn request(key: ApiKey, version: i16, body: &Value) -> Bytes {
    let mut out = Vec::new();
    frame::put_request_header(&mut out, key, version, 7, Some("hostile")).unwrap();
    let body = dynamic::encode_request_body(key, version, body);
    out.extend(body.unwrap_or_else(|error| panic!("{key} v{version}: {error}")));
    out.into()
}

/// A request for all partitions of `big`.
fn of_big(partition: impl Fn(usize) -> Value) -> Value {
    list(1, |_| {
        fields([
            ("Name", text("big")),
            ("Partitions", list(PARTITIONS, &partition)),
        ])
    })
}

pub(crate) fn producer_batch(producer_id: i64) -> Bytes {
    let mut builder = BatchBuilder::with_header(BatchHeader {
        producer_id,
        producer_epoch: 0,
        base_sequence: 0,
        ..BatchHeader::default()
    });
    builder.append(NOW_MS, None, Some(b"value"), Headers::NONE);
    builder.finish().into()
}

impl World {
    pub(crate) fn new() -> Self {
        let address = NodeAddress {
            host: "localhost".to_owned(),
            port: 9092,
        };
        let now = Instant::now();
        let mut core = Core::new(&[address], options(), 42, now);
        core.serve_groups();
        let mut world = Self { core, now };
        world.fill_topics();
        world.fill_groups();
        world.fill_transactions();
        world
    }

    pub(crate) fn handle(&mut self, frame: Bytes) -> Outcome {
        let mut connection = self.core.connect(1, "/127.0.0.1".to_owned());
        self.core.handle(&mut connection, frame, self.now, NOW_MS)
    }

    pub(crate) fn ask(&mut self, key: ApiKey, version: i16, body: &Value) -> Value {
        let outcome = self.handle(request(key, version, body));
        let Outcome::Response(response) = outcome else {
            panic!("{key}: {outcome:?}");
        };
        let mut input = Reader::new(Bytes::from(response.pieces.concat()).slice(4..));
        frame::decode_response_header(&mut input, key, version).unwrap();
        dynamic::decode_response_body(key, version, &mut input).unwrap()
    }

    fn fill_topics(&mut self) {
        let big = fields([
            ("Name", text("big")),
            ("NumPartitions", int(PARTITIONS)),
            ("ReplicationFactor", int(1)),
        ]);
        let mut topics = vec![big];
        topics.extend((0..NAMES).map(|index| {
            fields([
                ("Name", text(&format!("t{index}"))),
                ("NumPartitions", int(1)),
                ("ReplicationFactor", int(1)),
            ])
        }));
        let body = fields([("Topics", Value::Array(topics))]);
        self.ask(ApiKey::CREATE_TOPICS, 7, &body);
        for producer_id in 0..NAMES {
            let records = producer_batch(1_000_000 + producer_id as i64);
            let body = produce(list(1, |_| {
                fields([("Index", int(0)), ("Records", records.clone().into())])
            }));
            self.ask(ApiKey::PRODUCE, 9, &body);
        }
    }

    fn fill_groups(&mut self) {
        let commit = |group: String, topics: Value| {
            fields([
                ("GroupId", text(&group)),
                ("GenerationIdOrMemberEpoch", Value::Int(-1)),
                ("Topics", topics),
            ])
        };
        let partition = |index| {
            fields([
                ("PartitionIndex", int(index)),
                ("CommittedOffset", int(1)),
                ("CommittedMetadata", text(&"m".repeat(100))),
            ])
        };
        let body = commit("g".to_owned(), of_big(partition));
        self.ask(ApiKey::OFFSET_COMMIT, 9, &body);
        for index in 0..NAMES {
            let topics = list(1, |_| {
                fields([("Name", text("t0")), ("Partitions", list(1, partition))])
            });
            let body = commit(format!("g{index}"), topics);
            self.ask(ApiKey::OFFSET_COMMIT, 9, &body);
        }
    }

    /// The transaction of `x0` has many partitions and offsets.
    fn fill_transactions(&mut self) {
        for index in 0..NAMES {
            let body = fields([
                ("TransactionalId", text(&format!("x{index}"))),
                ("TransactionTimeoutMs", int(60_000)),
                ("ProducerId", Value::Int(-1)),
                ("ProducerEpoch", Value::Int(-1)),
            ]);
            let response = self.ask(ApiKey::INIT_PRODUCER_ID, 4, &body);
            let producer_id = response.get("ProducerId").and_then(Value::as_int);
            assert_eq!(producer_id, Some((PRODUCER_ID + index) as i64));
        }
        let topics = list(1, |_| {
            fields([("Name", text("big")), ("Partitions", list(PARTITIONS, int))])
        });
        let body = fields([
            ("V3AndBelowTransactionalId", text("x0")),
            ("V3AndBelowProducerId", int(PRODUCER_ID)),
            ("V3AndBelowProducerEpoch", int(0)),
            ("V3AndBelowTopics", topics),
        ]);
        self.ask(ApiKey::ADD_PARTITIONS_TO_TXN, 3, &body);
        let body = fields([
            ("TransactionalId", text("x0")),
            ("ProducerId", int(PRODUCER_ID)),
            ("ProducerEpoch", int(0)),
            ("GroupId", text("g")),
        ]);
        self.ask(ApiKey::ADD_OFFSETS_TO_TXN, 3, &body);
    }
}

/// A Produce request for partitions of `big`.
pub(crate) fn produce(partitions: Value) -> Value {
    let topic = |partitions: Value| fields([("Name", text("big")), ("PartitionData", partitions)]);
    fields([
        ("TransactionalId", Value::Null),
        ("Acks", Value::Int(-1)),
        ("TimeoutMs", int(1000)),
        ("TopicData", Value::Array(vec![topic(partitions)])),
    ])
}
