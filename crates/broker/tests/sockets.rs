//! Tests the broker over real sockets, with raw frames.

#![allow(clippy::disallowed_methods)] // a client with sockets and a clock

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use socket2::{Domain, Socket, Type};
use thalweg_broker::{BrokerConfig, BrokerError, EmbeddedBroker};
use thalweg_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use thalweg_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use thalweg_protocol::messages::produce::{PartitionProduceData, ProduceRequest, TopicProduceData};
use thalweg_protocol::{ApiKey, ErrorCode, Message, Reader, Request, frame};
use thalweg_records::{BatchBuilder, Headers};

const PATIENCE: Duration = Duration::from_secs(10);

fn start(nodes: i32) -> EmbeddedBroker {
    let config = BrokerConfig {
        nodes,
        ..BrokerConfig::default()
    };
    EmbeddedBroker::start(config).unwrap()
}

fn topic(broker: &EmbeddedBroker, name: &str) {
    broker.create_topic(name, 1, 1, &BTreeMap::new()).unwrap();
}

struct Client(TcpStream);

impl Client {
    fn new(broker: &EmbeddedBroker, node: i32) -> Self {
        let port = broker.ports()[(node - 1) as usize];
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    fn send<R: Request>(&mut self, request: &R, version: i16, correlation_id: i32) {
        let frame = frame::encode_request(request, version, correlation_id, Some("test")).unwrap();
        self.0.write_all(&frame).unwrap();
    }

    fn read_frame(&mut self) -> std::io::Result<Bytes> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length)?;
        let mut frame = vec![0; i32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut frame)?;
        Ok(frame.into())
    }

    fn receive<R: Request>(&mut self, version: i16) -> (i32, R::Response) {
        let mut input = Reader::new(self.read_frame().unwrap());
        let id = frame::decode_response_header(&mut input, R::KEY, version).unwrap();
        (id, R::Response::decode(&mut input, version).unwrap())
    }

    fn ask<R: Request>(&mut self, request: &R, version: i16) -> R::Response {
        self.send(request, version, 1);
        self.receive::<R>(version).1
    }

    /// Whether the broker has closed the connection.
    fn is_closed(&mut self) -> bool {
        match self.0.read(&mut [0]) {
            Ok(count) => count == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        }
    }
}

fn batch(value: &[u8]) -> Bytes {
    let mut builder = BatchBuilder::new(0);
    builder.append(1_000, None, Some(value), Headers::NONE);
    builder.finish().into()
}

fn produce(name: &str, acks: i16, value: &[u8]) -> ProduceRequest {
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

fn fetch(name: &str, offset: i64, max_wait_ms: i32) -> FetchRequest {
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

fn end_offset(broker: &EmbeddedBroker, name: &str) -> i64 {
    let node = broker.leader(name, 0).unwrap();
    let answer = Client::new(broker, node).ask(&fetch(name, 0, 0), 12);
    answer.responses[0].partitions[0].high_watermark
}

#[test]
fn pipelined_requests_are_answered_in_order_though_one_waits() {
    let broker = start(1);
    topic(&broker, "t");
    let mut client = Client::new(&broker, 1);
    client.send(&MetadataRequest::default(), 12, 1);
    client.send(&fetch("t", 0, 300), 12, 2);
    client.send(&MetadataRequest::default(), 12, 3);
    client.send(&produce("t", 0, b"x"), 12, 4);
    client.send(&fetch("t", 0, 5000), 12, 5);
    assert_eq!(client.receive::<MetadataRequest>(12).0, 1);
    assert_eq!(client.receive::<FetchRequest>(12).0, 2);
    assert_eq!(client.receive::<MetadataRequest>(12).0, 3);
    let (id, answer) = client.receive::<FetchRequest>(12);
    assert_eq!(
        (id, answer.responses[0].partitions[0].high_watermark),
        (5, 1)
    );
}

#[test]
fn a_long_poll_is_woken_by_another_connections_record() {
    let broker = start(1);
    topic(&broker, "t");
    let mut reader = Client::new(&broker, 1);
    reader.send(&fetch("t", 0, 60_000), 12, 1);
    let mut writer = Client::new(&broker, 1);
    let started = Instant::now();
    assert_eq!(
        writer.ask(&produce("t", 1, b"x"), 12).responses[0].partition_responses[0].error_code,
        0
    );
    let (_, answer) = reader.receive::<FetchRequest>(12);
    assert!(
        !answer.responses[0].partitions[0]
            .records
            .clone()
            .unwrap()
            .is_empty()
    );
    assert!(started.elapsed() < PATIENCE);
}

#[test]
fn large_batches_come_back_byte_for_byte() {
    let broker = start(1);
    let configs = BTreeMap::from([("max.message.bytes".to_owned(), "50000000".to_owned())]);
    broker.create_topic("t", 1, 1, &configs).unwrap();
    let mut client = Client::new(&broker, 1);
    let sizes = [1, 1500, 2048, 4000, 16_384, 100_000, 1_000_000, 20_000_000];
    let values: Vec<Vec<u8>> = sizes
        .iter()
        .map(|size| (0..*size).map(|index| (index % 251) as u8).collect())
        .collect();
    for value in &values {
        let answer = client.ask(&produce("t", -1, value), 12);
        assert_eq!(answer.responses[0].partition_responses[0].error_code, 0);
    }
    let answer = client.ask(&fetch("t", 0, 0), 12);
    let records = answer.responses[0].partitions[0].records.clone().unwrap();
    let mut count = 0;
    for (value, raw) in values.iter().zip(thalweg_records::batches(records)) {
        let raw = raw.unwrap();
        raw.validate_crc().unwrap();
        assert_eq!(raw.section(), batch(value).slice(61..));
        count += 1;
    }
    assert_eq!(count, sizes.len());
}

#[test]
fn what_is_not_kafkas_protocol_is_cut_off_and_others_go_on() {
    let broker = start(1);
    let mut good = Client::new(&broker, 1);
    let length = 104_857_601_i32.to_be_bytes();
    let unknown_api = [&8_i32.to_be_bytes()[..], &[0, 99, 0, 0, 0, 0, 0, 1]].concat();
    let cases: [&[u8]; 5] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &length,
        &(-1_i32).to_be_bytes(),
        &unknown_api,
        &[0; 4],
    ];
    for bytes in cases {
        let mut client = Client::new(&broker, 1);
        client.0.write_all(bytes).unwrap();
        assert!(client.is_closed(), "{bytes:?}");
    }
    assert_eq!(good.ask(&MetadataRequest::default(), 12).brokers.len(), 1);
}

#[test]
fn frames_may_come_in_any_pieces() {
    let broker = start(1);
    topic(&broker, "t");
    let mut client = Client::new(&broker, 1);
    let frames: Vec<u8> = [b"a".to_vec(), vec![7; 5000], b"c".to_vec()]
        .iter()
        .flat_map(|value| frame::encode_request(&produce("t", 1, value), 12, 1, None).unwrap())
        .collect();
    for piece in frames.chunks(700) {
        client.0.write_all(piece).unwrap();
        thread::yield_now();
    }
    for offset in 0..3 {
        let (_, answer) = client.receive::<ProduceRequest>(12);
        assert_eq!(
            answer.responses[0].partition_responses[0].base_offset,
            offset
        );
    }
}

#[test]
fn a_stopped_node_is_gone_and_comes_back_at_its_port() {
    let broker = start(3);
    broker.create_topic("t", 3, 3, &BTreeMap::new()).unwrap();
    let old = broker.leader("t", 1).unwrap();
    let mut connected = Client::new(&broker, old);
    connected.ask(&MetadataRequest::default(), 12);
    broker.stop_node(old).unwrap();
    broker.stop_node(old).unwrap();
    assert!(connected.is_closed());
    let port = broker.ports()[(old - 1) as usize];
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    let new = broker.leader("t", 1).unwrap();
    assert_ne!(new, old);
    let answer = Client::new(&broker, new).ask(&MetadataRequest::default(), 12);
    assert_eq!(answer.brokers.len(), 2);
    assert_eq!(broker.live_nodes().len(), 2);
    broker.start_node(old).unwrap();
    broker.start_node(old).unwrap();
    let answer = Client::new(&broker, old).ask(&MetadataRequest::default(), 12);
    assert_eq!(answer.brokers.len(), 3);
    broker.move_leader("t", 1, old).unwrap();
    assert_eq!(broker.leader("t", 1).unwrap(), old);
    assert!(matches!(
        broker.stop_node(4),
        Err(BrokerError::NoSuchNode { node: 4, nodes: 3 })
    ));
}

#[test]
fn nobody_takes_the_port_of_a_stopped_node() {
    let broker = start(2);
    let port = broker.ports()[0];
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    // Nobody has connected yet, so it is not a closed connection that keeps the port.
    broker.stop_node(1).unwrap();
    let other = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let taken = other.bind(&address.into()).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AddrInUse);
    assert!(TcpStream::connect(address).is_err());
    for _ in 0..2 {
        broker.start_node(1).unwrap();
        Client::new(&broker, 1).ask(&MetadataRequest::default(), 12);
        broker.stop_node(1).unwrap();
    }
    broker.close();
    TcpListener::bind(("127.0.0.1", port)).unwrap();
}

#[test]
fn clients_are_told_of_all_nodes_and_where_they_are() {
    let broker = start(3);
    let answer = Client::new(&broker, 2).ask(&MetadataRequest::default(), 12);
    let told: Vec<String> = answer
        .brokers
        .iter()
        .map(|node| format!("{}:{}", &*node.host, node.port))
        .collect();
    assert_eq!(told.join(","), broker.bootstrap_servers());
    assert_eq!(broker.node_ids(), [1, 2, 3]);
}

#[test]
fn a_taken_port_is_named() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let config = BrokerConfig {
        port,
        ..BrokerConfig::default()
    };
    let error = EmbeddedBroker::start(config).err().unwrap();
    assert!(error.is_port_taken());
    assert_eq!(
        error.to_string(),
        format!(
            "node 1: port {port} of 127.0.0.1 is in use. Choose another port, or 0 for a free one"
        )
    );
}

#[test]
fn bad_configurations_are_refused_before_anything_listens() {
    let refused = |config| EmbeddedBroker::start(config).err().unwrap().to_string();
    let none = BrokerConfig {
        nodes: 0,
        ..BrokerConfig::default()
    };
    assert!(refused(none).contains("nodes must be at least 1"));
    let far = BrokerConfig {
        nodes: 3,
        port: 65_534,
        ..BrokerConfig::default()
    };
    assert!(refused(far).contains("65536"));
    let options = BTreeMap::from([("log.dirs".to_owned(), "x".to_owned())]);
    assert!(
        refused(BrokerConfig {
            options,
            ..BrokerConfig::default()
        })
        .contains("log.dirs")
    );
}

#[test]
fn a_closed_broker_is_closed_for_all_and_may_be_closed_again() {
    let broker = start(2);
    topic(&broker, "t");
    let mut waiting = Client::new(&broker, broker.leader("t", 0).unwrap());
    waiting.send(&fetch("t", 0, 60_000), 12, 1);
    let port = broker.ports()[0];
    broker.close();
    broker.close();
    assert!(waiting.is_closed());
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert!(!broker.is_running());
    let refused = broker.create_topic("u", 1, 1, &BTreeMap::new());
    assert!(matches!(refused, Err(BrokerError::Closed)));
    assert!(matches!(broker.stop_node(1), Err(BrokerError::Closed)));
}

#[test]
fn two_brokers_live_side_by_side() {
    let (one, other) = (start(1), start(1));
    topic(&one, "t");
    assert_eq!(one.topics(), BTreeMap::from([("t".to_owned(), 1)]));
    assert!(other.topics().is_empty());
    drop(one);
    assert_eq!(
        Client::new(&other, 1)
            .ask(&MetadataRequest::default(), 12)
            .brokers
            .len(),
        1
    );
}

#[test]
fn topics_are_made_and_removed_from_the_program() {
    let broker = start(1);
    let bad = BTreeMap::from([("no.such".to_owned(), "1".to_owned())]);
    let code = |result: Result<(), BrokerError>| result.unwrap_err().code();
    assert_eq!(
        code(broker.create_topic("t", 1, 1, &bad)),
        Some(ErrorCode::INVALID_CONFIG)
    );
    topic(&broker, "t");
    let again = broker.create_topic("t", 1, 1, &BTreeMap::new());
    assert_eq!(code(again), Some(ErrorCode::TOPIC_ALREADY_EXISTS));
    broker.delete_topic("t").unwrap();
    assert_eq!(
        code(broker.delete_topic("t")),
        Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
    );
}

#[test]
fn faults_reach_the_socket() {
    let broker = start(1);
    topic(&broker, "t");
    let faults = broker.faults();
    let mut client = Client::new(&broker, 1);

    let fail = faults
        .on(ApiKey::PRODUCE)
        .topic("t")
        .then_fail(ErrorCode::NOT_ENOUGH_REPLICAS);
    let answer = client.ask(&produce("t", -1, b"x"), 12);
    let code = answer.responses[0].partition_responses[0].error_code;
    assert_eq!(ErrorCode(code), ErrorCode::NOT_ENOUGH_REPLICAS);
    assert_eq!(faults.hits(fail), Some(1));

    faults.on(ApiKey::PRODUCE).then_disconnect();
    client.send(&produce("t", -1, b"x"), 12, 1);
    assert!(client.is_closed());
    assert_eq!(end_offset(&broker, "t"), 0);

    let mut client = Client::new(&broker, 1);
    faults.on(ApiKey::PRODUCE).node(1).apply_then_disconnect();
    client.send(&produce("t", -1, b"x"), 12, 1);
    assert!(client.is_closed());
    assert_eq!(end_offset(&broker, "t"), 1);

    let mut client = Client::new(&broker, 1);
    let delay = Duration::from_millis(200);
    faults.on(ApiKey::PRODUCE).then_delay(delay);
    let started = Instant::now();
    client.send(&produce("t", -1, b"x"), 12, 1);
    assert_eq!(end_offset(&broker, "t"), 2);
    client.receive::<ProduceRequest>(12);
    assert!(started.elapsed() >= delay);
    assert_eq!(broker.requests(Some(ApiKey::PRODUCE))[&ApiKey::PRODUCE], 4);
}

#[test]
fn a_silent_connection_lives_and_never_answers_while_others_do() {
    let broker = start(1);
    topic(&broker, "t");
    let fault = broker
        .faults()
        .on(ApiKey::METADATA)
        .forever()
        .then_silence();
    let mut silent = Client::new(&broker, 1);
    silent.send(&MetadataRequest::default(), 12, 1);
    silent.send(&produce("t", -1, b"x"), 12, 2);
    silent
        .0
        .set_read_timeout(Some(Duration::from_millis(200)))
        .unwrap();
    let error = silent.read_frame().unwrap_err();
    assert!(matches!(
        error.kind(),
        ErrorKind::WouldBlock | ErrorKind::TimedOut
    ));
    assert_eq!(end_offset(&broker, "t"), 0);
    assert!(broker.faults().remove(fault));
    assert_eq!(
        Client::new(&broker, 1)
            .ask(&MetadataRequest::default(), 12)
            .brokers
            .len(),
        1
    );
}

#[test]
fn a_client_that_goes_away_during_a_long_poll_is_let_go() {
    let broker = start(1);
    topic(&broker, "t");
    for _ in 0..50 {
        let mut client = Client::new(&broker, 1);
        client.send(&fetch("t", 0, i32::MAX), 12, 1);
        client.send(&MetadataRequest::default(), 12, 2);
    }
    // A request that still waited would be woken and answered now. That must not disturb the
    // broker.
    let mut client = Client::new(&broker, 1);
    client.ask(&produce("t", -1, b"x"), 12);
    assert_eq!(end_offset(&broker, "t"), 1);
}

#[test]
fn what_a_client_sent_before_it_went_away_is_served_though_its_long_poll_waits() {
    let broker = start(1);
    topic(&broker, "t");
    let mut client = Client::new(&broker, 1);
    client.send(&fetch("t", 0, i32::MAX), 12, 1);
    client.send(&MetadataRequest::default(), 12, 2);
    client.send(&produce("t", 0, b"x"), 12, 3);
    drop(client);
    let start = Instant::now();
    while broker.requests(Some(ApiKey::METADATA)).is_empty() {
        assert!(start.elapsed() < PATIENCE, "the long poll holds it");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_topic_is_created_when_asked_for() {
    let broker = start(1);
    let wish = MetadataRequestTopic {
        name: Some("new".into()),
        ..Default::default()
    };
    let request = MetadataRequest {
        topics: Some(vec![wish]),
        ..MetadataRequest::default()
    };
    let answer = Client::new(&broker, 1).ask(&request, 12);
    assert_eq!(answer.topics[0].error_code, 0);
    assert_eq!(broker.topics(), BTreeMap::from([("new".to_owned(), 1)]));
}

#[test]
fn a_client_that_never_reads_its_answers_is_cut_off_and_frees_them() {
    let options = [("connections.max.idle.ms", "300")];
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let config = BrokerConfig {
        options: options.into(),
        ..BrokerConfig::default()
    };
    let broker = EmbeddedBroker::start(config).unwrap();
    topic(&broker, "t");
    let record = vec![7; 1_000_000];
    Client::new(&broker, 1).ask(&produce("t", -1, &record), 12);
    let mut client = Client::new(&broker, 1);
    let asked = 50;
    for correlation_id in 0..asked {
        client.send(&fetch("t", 0, 0), 12, correlation_id);
    }
    // Much more than the sockets' buffers take. The broker waits until the client reads, or counts
    // as idle.
    thread::sleep(Duration::from_millis(1500));
    let mut answered = 0;
    while client.read_frame().is_ok() {
        answered += 1;
    }
    assert!(answered < asked, "{answered}");
}
