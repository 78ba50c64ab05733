//! The broker without sockets, in virtual time: frames in, frames out.

mod admin;
mod faults;
mod fetch;
mod groups;
mod hostile;
mod metadata;
mod offsets;
mod produce;
mod quotas;
mod security;
mod sessions;
mod topology;
mod transactional;
mod transactions;
mod transactions_time;
mod versions;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;
use thalweg_protocol::messages::fetch::{
    FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData,
};
use thalweg_protocol::messages::produce::{
    PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData,
};
use thalweg_protocol::{ErrorCode, Message, Reader, Request, Uuid, frame};
use thalweg_records::{BatchBuilder, BatchHeader, Headers};

use crate::options::BrokerOptions;
use crate::topology::NewTopic;
use crate::topology::assignment::NewReplicas;
use crate::{Connection, Core, NodeAddress, Outcome, Response, Wait};

/// The time at which the tests take place.
pub(super) const NOW_MS: i64 = 1_750_000_000_000;

/// A broker, and a clock that stands still until it is moved.
pub(super) struct Bench {
    pub(super) core: Core,
    pub(super) now: Instant,
    pub(super) now_ms: i64,
    woken: Arc<Woken>,
}

#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

impl Bench {
    pub(super) fn new(nodes: u16) -> Self {
        Self::with_options(nodes, &[])
    }

    pub(super) fn with_options(nodes: u16, options: &[(&str, &str)]) -> Self {
        Self::seeded(42, nodes, options)
    }

    pub(super) fn seeded(seed: u64, nodes: u16, options: &[(&str, &str)]) -> Self {
        let address = |node| NodeAddress {
            host: "broker".to_owned(),
            port: 9092 + node,
        };
        let addresses: Vec<NodeAddress> = (0..nodes).map(address).collect();
        let now = Instant::now();
        let options = BrokerOptions::parse(&texts(options)).unwrap();
        Self {
            core: Core::new(&addresses, options, seed, now),
            now,
            now_ms: NOW_MS,
            woken: Arc::default(),
        }
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.now += time;
        self.now_ms += time.as_millis() as i64;
    }

    pub(super) fn create(&mut self, name: &str, partitions: i32, options: &[(&str, &str)]) -> Uuid {
        let wish = NewTopic {
            name: name.to_owned(),
            replicas: NewReplicas::Counts {
                partitions,
                replication_factor: 1,
            },
            options: texts(options),
        };
        let Core {
            topology,
            options,
            random,
            ..
        } = &mut self.core;
        topology.create_topic(wish, false, options, random).unwrap()
    }

    pub(super) fn leader(&self, topic: &str, partition: i32) -> i32 {
        let topic = self.core.topology.topic(topic).unwrap();
        topic.partition(partition).unwrap().leader
    }

    pub(super) fn handle<R: Request>(&mut self, node: i32, request: &R, version: i16) -> Outcome {
        let frame = frame::encode_request(request, version, 7, Some("test")).unwrap();
        self.handle_frame(node, Bytes::from(frame).slice(4..))
    }

    pub(super) fn handle_frame(&mut self, node: i32, frame: Bytes) -> Outcome {
        let mut connection = self.core.connect(node, "127.0.0.1".to_owned());
        self.handle_on(&mut connection, frame)
    }

    /// Handles a frame of a client that may have logged in.
    pub(super) fn handle_on(&mut self, connection: &mut Connection, frame: Bytes) -> Outcome {
        self.core.handle(connection, frame, self.now, self.now_ms)
    }

    /// Returns the response of a node, which must come at once.
    pub(super) fn ask_node<R: Request>(
        &mut self,
        node: i32,
        request: &R,
        version: i16,
    ) -> R::Response {
        decode::<R>(self.handle(node, request, version), version)
    }

    /// Returns the response of node 1.
    pub(super) fn ask<R: Request>(&mut self, request: &R, version: i16) -> R::Response {
        self.ask_node(1, request, version)
    }

    /// Polls a waiting request.
    pub(super) fn poll(&mut self, wait: &mut Wait) -> Option<Outcome> {
        let waker = Waker::from(Arc::clone(&self.woken));
        self.core.poll_wait(wait, &waker, self.now)
    }

    /// Whether a waker was woken since the last call.
    pub(super) fn was_woken(&self) -> bool {
        self.woken.0.swap(0, Ordering::Relaxed) > 0
    }

    pub(super) fn produce(
        &mut self,
        topic: &str,
        partition: i32,
        records: Vec<u8>,
    ) -> PartitionProduceResponse {
        let node = self.leader(topic, partition);
        let request = produce_request(topic, partition, records);
        let mut response = self.ask_node(node, &request, 12);
        response.responses.remove(0).partition_responses.remove(0)
    }

    /// Fetches one partition without waiting.
    pub(super) fn fetch(&mut self, topic: &str, partition: i32, offset: i64) -> PartitionData {
        let node = self.leader(topic, partition);
        let mut response = self.ask_node(node, &fetch_request(topic, &[(partition, offset)]), 12);
        response.responses.remove(0).partitions.remove(0)
    }
}

pub(super) fn texts(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

pub(super) fn decode<R: Request>(outcome: Outcome, version: i16) -> R::Response {
    let Outcome::Response(Response { pieces, .. }) = outcome else {
        panic!("no response: {outcome:?}");
    };
    let whole = Bytes::from(pieces.concat());
    let mut input = Reader::new(whole.slice(4..));
    let length = i32::from_be_bytes(*whole.first_chunk().unwrap());
    assert_eq!(length as usize, whole.len() - 4);
    let correlation_id = frame::decode_response_header(&mut input, R::KEY, version).unwrap();
    assert_eq!(correlation_id, 7);
    let response = R::Response::decode(&mut input, version).unwrap();
    assert_eq!(input.remaining(), 0);
    response
}

pub(super) fn wait(outcome: Outcome) -> Wait {
    match outcome {
        Outcome::Wait(wait) => wait,
        other => panic!("does not wait: {other:?}"),
    }
}

/// A batch of records with these timestamps.
pub(super) fn batch(timestamps: &[i64]) -> Vec<u8> {
    batch_of(BatchHeader::default(), timestamps)
}

/// A batch of an idempotent producer.
pub(super) fn sequenced(producer_id: i64, sequence: i32, count: usize) -> Vec<u8> {
    let header = BatchHeader {
        producer_id,
        producer_epoch: 0,
        base_sequence: sequence,
        ..BatchHeader::default()
    };
    batch_of(header, &vec![NOW_MS; count])
}

pub(super) fn batch_of(header: BatchHeader, timestamps: &[i64]) -> Vec<u8> {
    let mut builder = BatchBuilder::with_header(header);
    for timestamp in timestamps {
        builder.append(*timestamp, None, Some(b"value"), Headers::NONE);
    }
    builder.finish()
}

pub(super) fn produce_request(topic: &str, index: i32, records: Vec<u8>) -> ProduceRequest {
    let partition = PartitionProduceData {
        index,
        records: Some(records.into()),
    };
    ProduceRequest {
        transactional_id: None,
        acks: -1,
        timeout_ms: 1000,
        topic_data: vec![TopicProduceData {
            name: topic.into(),
            partition_data: vec![partition],
            ..TopicProduceData::default()
        }],
    }
}

/// Fetches these partitions of a topic, given by name, from these offsets, without waiting.
pub(super) fn fetch_request(topic: &str, partitions: &[(i32, i64)]) -> FetchRequest {
    let partition = |(partition, fetch_offset): &(i32, i64)| FetchPartition {
        partition: *partition,
        fetch_offset: *fetch_offset,
        partition_max_bytes: 1 << 20,
        ..FetchPartition::default()
    };
    FetchRequest {
        max_wait_ms: 0,
        min_bytes: 1,
        max_bytes: 1 << 20,
        topics: vec![FetchTopic {
            topic: topic.into(),
            partitions: partitions.iter().map(partition).collect(),
            ..FetchTopic::default()
        }],
        ..FetchRequest::default()
    }
}

/// Returns the base offsets of the batches in a response, and checks their checksums.
pub(super) fn base_offsets(partition: &PartitionData) -> Vec<i64> {
    let records = partition.records.clone().unwrap_or_default();
    thalweg_records::batches(records)
        .map(|batch| {
            let batch = batch.unwrap();
            batch.validate_crc().unwrap();
            batch.base_offset()
        })
        .collect()
}

pub(super) fn codes(response: &FetchResponse) -> Vec<ErrorCode> {
    let partitions = response
        .responses
        .iter()
        .flat_map(|topic| &topic.partitions);
    partitions
        .map(|partition| ErrorCode(partition.error_code))
        .collect()
}
