//! Measures how fast a broker appends and returns records: `load HOST:PORT [MiB] [batch bytes]`.
//!
//! It uses plain sockets and batches that are encoded once, so it measures the broker without a
//! client.
#![allow(clippy::disallowed_methods, clippy::print_stdout)]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Instant;

use bytes::Bytes;
use thalweg_protocol::messages::fetch::{FetchPartition, FetchRequest, FetchTopic};
use thalweg_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use thalweg_protocol::messages::produce::{
    PartitionProduceData, ProduceRequest, ProduceResponse, TopicProduceData,
};
use thalweg_protocol::{Message, Reader, Request, frame};
use thalweg_records::{BatchBuilder, Headers};

const IN_FLIGHT: usize = 5;
const VALUE_BYTES: usize = 100;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, default: usize| {
        words
            .get(at)
            .map_or(default, |word| word.parse().expect("is a number"))
    };
    let total = number(1, 1024) << 20;
    let batch_bytes = number(2, 950_000);
    let mut stream = TcpStream::connect(&words[0]).expect("connects");
    stream.set_nodelay(true).expect("is a socket");
    let topic = format!("load-{}", std::process::id());
    create(&mut stream, &topic);
    let (records, batch) = batch(batch_bytes);
    let count = total / batch.len();
    produce(&mut stream, &topic, &batch, count, records);
    fetch(&mut stream, &topic, (count * records) as i64);
}

fn batch(bytes: usize) -> (usize, Bytes) {
    let mut builder = BatchBuilder::new(0);
    let records = (bytes / (VALUE_BYTES + 8)).max(1);
    for _ in 0..records {
        builder.append(
            1_000_000_000_000,
            None,
            Some(&[b'x'; VALUE_BYTES]),
            Headers::NONE,
        );
    }
    (records, builder.finish().into())
}

fn create(stream: &mut TcpStream, topic: &str) {
    let wish = MetadataRequestTopic {
        name: Some(topic.into()),
        ..Default::default()
    };
    let request = MetadataRequest {
        topics: Some(vec![wish]),
        ..Default::default()
    };
    for _ in 0..100 {
        stream
            .write_all(&frame::encode_request(&request, 12, 0, None).expect("fits"))
            .expect("sent");
        let mut input = Reader::new(read_frame(stream, &mut Vec::new()));
        frame::decode_response_header(&mut input, MetadataRequest::KEY, 12).expect("has one");
        let response =
            <MetadataRequest as Request>::Response::decode(&mut input, 12).expect("good");
        if response.topics[0].error_code == 0 && !response.topics[0].partitions.is_empty() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}

fn produce(stream: &mut TcpStream, topic: &str, batch: &Bytes, count: usize, records: usize) {
    let request = ProduceRequest {
        transactional_id: None,
        acks: -1,
        timeout_ms: 30_000,
        topic_data: vec![TopicProduceData {
            name: topic.into(),
            partition_data: vec![PartitionProduceData {
                index: 0,
                records: Some(batch.clone()),
            }],
            ..Default::default()
        }],
    };
    let frame = frame::encode_request(&request, 11, 1, None).expect("fits");
    let mut buffer = Vec::new();
    let mut receive = |stream: &mut TcpStream| {
        let mut input = Reader::new(read_frame(stream, &mut buffer));
        frame::decode_response_header(&mut input, ProduceRequest::KEY, 11).expect("has one");
        let response = ProduceResponse::decode(&mut input, 11).expect("good");
        assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
    };
    let started = Instant::now();
    for index in 0..count {
        if index >= IN_FLIGHT {
            receive(stream);
        }
        stream.write_all(&frame).expect("sent");
    }
    for _ in 0..count.min(IN_FLIGHT) {
        receive(stream);
    }
    report(
        "produce",
        started,
        count * batch.len(),
        count * records,
        count,
    );
}

fn fetch(stream: &mut TcpStream, topic: &str, end: i64) {
    let (mut offset, mut bytes, mut rounds) = (0, 0, 0);
    let mut buffer = Vec::new();
    let started = Instant::now();
    while offset < end {
        let request = FetchRequest {
            max_wait_ms: 500,
            min_bytes: 1,
            max_bytes: 50 << 20,
            topics: vec![FetchTopic {
                topic: topic.into(),
                partitions: vec![FetchPartition {
                    fetch_offset: offset,
                    partition_max_bytes: 4 << 20,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        stream
            .write_all(&frame::encode_request(&request, 11, 2, None).expect("fits"))
            .expect("sent");
        // Throttle, error, session, one topic, its name, one partition and its numbers.
        let frame = read_frame(stream, &mut buffer);
        let head = 4 + 4 + 2 + 4 + 4 + 2 + topic.len() + 4 + 4 + 2 + 8 + 8 + 8 + 4 + 4 + 4;
        let data = frame.slice(head..);
        bytes += data.len();
        rounds += 1;
        for raw in thalweg_records::batches(data) {
            offset = raw.expect("good").next_offset();
        }
    }
    report("fetch", started, bytes, end as usize, rounds);
}

fn read_frame(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> Bytes {
    let mut length = [0; 4];
    stream.read_exact(&mut length).expect("responds");
    buffer.resize(i32::from_be_bytes(length) as usize, 0);
    stream.read_exact(buffer).expect("responds");
    Bytes::from(std::mem::take(buffer))
}

fn report(what: &str, started: Instant, bytes: usize, records: usize, requests: usize) {
    let seconds = started.elapsed().as_secs_f64();
    println!(
        "{what}: {:.2} GB/s, {:.1} million records/s, {:.0} requests/s",
        bytes as f64 / seconds / 1e9,
        records as f64 / seconds / 1e6,
        requests as f64 / seconds,
    );
}
