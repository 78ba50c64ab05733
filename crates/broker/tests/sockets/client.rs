//! A client of a broker: raw frames over a socket.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use bytes::Bytes;
use thalweg_broker::{BrokerConfig, EmbeddedBroker};
use thalweg_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use thalweg_protocol::messages::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use thalweg_protocol::{Message, Reader, Request, frame};
use thalweg_records::{BatchBuilder, Headers};

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn start(nodes: i32) -> EmbeddedBroker {
    let config = BrokerConfig {
        nodes,
        ..BrokerConfig::default()
    };
    EmbeddedBroker::start(config).unwrap()
}

pub(crate) fn topic(broker: &EmbeddedBroker, name: &str) {
    broker.create_topic(name, 1, 1, &BTreeMap::new()).unwrap();
}

pub(crate) struct Client(pub(crate) TcpStream);

impl Client {
    pub(crate) fn new(broker: &EmbeddedBroker, node: i32) -> Self {
        let port = broker.ports()[(node - 1) as usize];
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    pub(crate) fn send<R: Request>(&mut self, request: &R, version: i16, correlation_id: i32) {
        let frame = frame::encode_request(request, version, correlation_id, Some("test")).unwrap();
        self.0.write_all(&frame).unwrap();
    }

    pub(crate) fn read_frame(&mut self) -> std::io::Result<Bytes> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length)?;
        let mut frame = vec![0; i32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut frame)?;
        Ok(frame.into())
    }

    pub(crate) fn receive<R: Request>(&mut self, version: i16) -> (i32, R::Response) {
        let mut input = Reader::new(self.read_frame().unwrap());
        let id = frame::decode_response_header(&mut input, R::KEY, version).unwrap();
        (id, R::Response::decode(&mut input, version).unwrap())
    }

    pub(crate) fn ask<R: Request>(&mut self, request: &R, version: i16) -> R::Response {
        self.send(request, version, 1);
        self.receive::<R>(version).1
    }

    /// Whether the broker has closed the connection.
    pub(crate) fn is_closed(&mut self) -> bool {
        match self.0.read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

pub(crate) fn batch(value: &[u8]) -> Bytes {
    let mut builder = BatchBuilder::new(0);
    builder.append(1_000, None, Some(value), Headers::NONE);
    builder.finish().into()
}

pub(crate) fn produce(name: &str, acks: i16, value: &[u8]) -> ProduceRequest {
    ProduceRequest {
        transactional_id: None,
        acks,
        timeout_ms: 1000,
        topic_data: vec![TopicProduceData {
            name: name.into(),
            partition_data: vec![PartitionProduceData {
                index: 0,
                records: Some(batch(value)),
            }],
            ..TopicProduceData::default()
        }],
    }
}

pub(crate) fn fetch(name: &str, offset: i64, max_wait_ms: i32) -> FetchRequest {
    FetchRequest {
        max_wait_ms,
        min_bytes: 1,
        max_bytes: 100 << 20,
        topics: vec![FetchTopic {
            topic: name.into(),
            partitions: vec![FetchPartition {
                fetch_offset: offset,
                partition_max_bytes: 100 << 20,
                ..FetchPartition::default()
            }],
            ..FetchTopic::default()
        }],
        ..FetchRequest::default()
    }
}

pub(crate) fn end_offset(broker: &EmbeddedBroker, name: &str) -> i64 {
    let node = broker.leader(name, 0).unwrap();
    let response = Client::new(broker, node).ask(&fetch(name, 0, 0), 12);
    response.responses[0].partitions[0].high_watermark
}
