//! Requests, frames and long polls, and clients that go away or never read.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::thread;
use std::time::{Duration, Instant};

use thalweg_broker::{BrokerConfig, EmbeddedBroker};
use thalweg_protocol::messages::fetch::FetchRequest;
use thalweg_protocol::messages::metadata::MetadataRequest;
use thalweg_protocol::messages::produce::ProduceRequest;
use thalweg_protocol::{ApiKey, Request, frame};

use crate::client::{Client, PATIENCE, batch, end_offset, fetch, produce, start, topic};

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
    let (id, response) = client.receive::<FetchRequest>(12);
    assert_eq!(
        (id, response.responses[0].partitions[0].high_watermark),
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
    let (_, response) = reader.receive::<FetchRequest>(12);
    assert!(
        !response.responses[0].partitions[0]
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
        let response = client.ask(&produce("t", -1, value), 12);
        assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
    }
    let response = client.ask(&fetch("t", 0, 0), 12);
    let records = response.responses[0].partitions[0].records.clone().unwrap();
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
        let (_, response) = client.receive::<ProduceRequest>(12);
        assert_eq!(
            response.responses[0].partition_responses[0].base_offset,
            offset
        );
    }
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

/// Asks on new connections until the broker responds. If this machine pauses, a connection may be
/// idle for too long before the request.
fn ask_until_answered<R: Request>(broker: &EmbeddedBroker, request: &R) {
    let frame = frame::encode_request(request, 12, 1, None).unwrap();
    let is_answered = || {
        let mut client = Client::new(broker, 1);
        client.0.write_all(&frame).is_ok() && client.read_frame().is_ok()
    };
    let start = Instant::now();
    while !is_answered() {
        assert!(start.elapsed() < PATIENCE);
    }
}

#[test]
fn a_client_that_never_reads_its_responses_is_cut_off_and_frees_them() {
    let options = [("connections.max.idle.ms", "300")];
    let options = options.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let config = BrokerConfig {
        options: options.into(),
        ..BrokerConfig::default()
    };
    let broker = EmbeddedBroker::start(config).unwrap();
    topic(&broker, "t");
    topic(&broker, "empty");
    let record = vec![7; 1_000_000];
    ask_until_answered(&broker, &produce("t", -1, &record));
    assert!(broker.memory_bytes() >= record.len() as u64);
    // Much more than the sockets' buffers take. The broker waits until the client reads, or counts
    // as idle.
    let asked = 50;
    let frame = frame::encode_request(&fetch("t", 0, 0), 12, 1, None).unwrap();
    let frames = frame.repeat(asked);
    let start = Instant::now();
    let mut read = Vec::new();
    while read.is_empty() {
        assert!(start.elapsed() < PATIENCE);
        let mut client = Client::new(&broker, 1);
        let _ = client.0.write_all(&frames);
        // Unlike a sleep, this ends later if the machine pauses the broker.
        ask_until_answered(&broker, &fetch("empty", 0, 1500));
        let _ = client.0.read_to_end(&mut read);
    }
    assert!(read.len() < asked * record.len(), "{}", read.len());
}
