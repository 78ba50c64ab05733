//! Asks a broker many things and prints its answers, so that two brokers can be compared:
//! `diff <(answers kafka:9092) <(answers embedded:9092)`. One node, fresh, with the id 1.
//!
//! Ids and times are replaced by words; everything else is shown as it came.
#![allow(
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::too_many_lines
)]

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use thalweg_protocol::messages::{
    alter_configs, api_versions, create_partitions, create_topics, delete_groups, delete_records,
    delete_topics, describe_cluster, describe_configs, describe_groups, describe_producers,
    describe_topic_partitions, elect_leaders, fetch, find_coordinator, incremental_alter_configs,
    init_producer_id, list_config_resources, list_groups, list_offsets, metadata, offset_commit,
    offset_delete, offset_fetch, offset_for_leader_epoch, produce,
};
use thalweg_protocol::{Message, Reader, Request, Str, Uuid, frame};
use thalweg_records::{BatchBuilder, BatchHeader, Compression, Compressor, Headers};

struct Client {
    address: String,
    stream: TcpStream,
    correlation_id: i32,
    words: BTreeMap<String, String>,
}

impl Client {
    fn new(address: &str) -> Self {
        let stream = TcpStream::connect(address).expect("connects");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("is a timeout");
        let port = address.rsplit(':').next().unwrap_or_default().to_owned();
        let words = BTreeMap::from([(format!("port: {port}"), "port: PORT".to_owned())]);
        Self {
            address: address.to_owned(),
            stream,
            correlation_id: 0,
            words,
        }
    }

    fn send<R: Request>(&mut self, request: &R, version: i16) -> Option<Bytes> {
        self.correlation_id += 1;
        let frame =
            frame::encode_request(request, version, self.correlation_id, Some("answers")).ok()?;
        self.stream.write_all(&frame).ok()?;
        let mut length = [0; 4];
        if self.stream.read_exact(&mut length).is_err() {
            *self = Self {
                words: std::mem::take(&mut self.words),
                ..Self::new(&self.address)
            };
            return None;
        }
        let mut body = vec![0; i32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut body).ok()?;
        Some(body.into())
    }

    fn quietly<R: Request>(&mut self, request: &R, version: i16) -> Option<R::Response> {
        let mut reader = Reader::new(self.send(request, version)?);
        frame::decode_response_header(&mut reader, R::KEY, version).expect("has a header");
        Some(R::Response::decode(&mut reader, version).expect("is a response"))
    }

    /// Asks and prints.
    fn ask<R: Request>(&mut self, what: &str, request: &R, version: i16) -> Option<R::Response> {
        let response = self.quietly(request, version);
        match &response {
            Some(response) => self.show(&format!("{what} v{version}"), response),
            None => println!("{what} v{version}: closed\n"),
        }
        response
    }

    /// In every version that can carry the request.
    fn ask_all<R: Request>(&mut self, what: &str, request: &R) {
        for version in R::KEY.valid_versions().expect("is known") {
            if request.encode(&mut Vec::new(), version).is_ok() {
                self.ask(what, request, version);
            }
        }
    }

    fn show(&self, what: &str, value: &impl Debug) {
        let mut text = format!("{value:#?}");
        for (old, new) in &self.words {
            text = text.replace(old, new);
        }
        println!("{what}: {text}\n");
    }

    fn create(&mut self, name: &str, partitions: i32, configs: &[(&str, &str)]) -> Uuid {
        let request = create_topics::CreateTopicsRequest {
            topics: vec![topic(name, partitions, 1, configs)],
            timeout_ms: 10_000,
            validate_only: false,
        };
        let answer = self.quietly(&request, 7).expect("answers");
        let id = answer.topics[0].topic_id;
        self.words.insert(id.to_string(), format!("ID-{name}"));
        // A real broker may need a moment until it serves the topic.
        for _ in 0..100 {
            let found = self.quietly(&metadata_of(&[name]), 12).expect("answers");
            if found.topics[0].error_code == 0 {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        std::thread::sleep(Duration::from_millis(150));
        id
    }
}

fn topic(
    name: &str,
    num_partitions: i32,
    replication_factor: i16,
    configs: &[(&str, &str)],
) -> create_topics::CreatableTopic {
    let config = |(name, value): &(&str, &str)| create_topics::CreatableTopicConfig {
        name: (*name).into(),
        value: Some((*value).into()),
    };
    create_topics::CreatableTopic {
        name: name.into(),
        num_partitions,
        replication_factor,
        configs: configs.iter().map(config).collect(),
        ..Default::default()
    }
}

fn metadata_of(names: &[&str]) -> metadata::MetadataRequest {
    let topic = |name: &&str| metadata::MetadataRequestTopic {
        name: Some((*name).into()),
        ..Default::default()
    };
    metadata::MetadataRequest {
        topics: Some(names.iter().map(topic).collect()),
        allow_auto_topic_creation: false,
        ..Default::default()
    }
}

fn produce_to(name: &str, id: Uuid, index: i32, records: &[u8]) -> produce::ProduceRequest {
    produce::ProduceRequest {
        acks: -1,
        timeout_ms: 5000,
        topic_data: vec![produce::TopicProduceData {
            name: name.into(),
            topic_id: id,
            partition_data: vec![produce::PartitionProduceData {
                index,
                records: Some(records.to_vec().into()),
            }],
        }],
        ..Default::default()
    }
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |time| time.as_millis() as i64)
}

fn batch(header: BatchHeader, timestamps: &[i64], key: Option<&[u8]>) -> Vec<u8> {
    let mut builder = BatchBuilder::with_header(header);
    for timestamp in timestamps {
        builder.append(*timestamp, key, Some(b"value"), Headers::NONE);
    }
    builder.finish()
}

fn plain(timestamps: &[i64]) -> Vec<u8> {
    batch(BatchHeader::default(), timestamps, None)
}

fn sequenced(producer_id: i64, epoch: i16, sequence: i32, count: usize) -> Vec<u8> {
    let header = BatchHeader {
        producer_id,
        producer_epoch: epoch,
        base_sequence: sequence,
        ..BatchHeader::default()
    };
    batch(header, &vec![1_700_000_000_000; count], None)
}

fn main() {
    let address = std::env::args().nth(1).expect("usage: answers HOST:PORT");
    let mut client = Client::new(&address);
    let describe = describe_cluster::DescribeClusterRequest::default();
    if let Some(cluster) = client.quietly(&describe, 0) {
        client
            .words
            .insert(cluster.cluster_id.to_string(), "CLUSTER".to_owned());
    }
    versions(&mut client);
    topics(&mut client);
    producing(&mut client);
    sequences(&mut client);
    offsets(&mut client);
    fetching(&mut client);
    groups(&mut client);
    admin(&mut client);
}

fn versions(client: &mut Client) {
    let request = api_versions::ApiVersionsRequest {
        client_software_name: "answers".into(),
        client_software_version: "1".into(),
    };
    client.ask("api versions", &request, 0);
    client.ask("api versions", &request, 3);
    client.ask("api versions", &request, 4);
    let nameless = api_versions::ApiVersionsRequest::default();
    client.ask("api versions, nameless", &nameless, 3);
    let odd = api_versions::ApiVersionsRequest {
        client_software_name: "-answers-".into(),
        ..request
    };
    client.ask("api versions, odd name", &odd, 3);
    client.ask_all(
        "describe cluster",
        &describe_cluster::DescribeClusterRequest::default(),
    );
    let controllers = describe_cluster::DescribeClusterRequest {
        endpoint_type: 2,
        ..Default::default()
    };
    client.ask("describe cluster, controllers", &controllers, 1);
    let operations = describe_cluster::DescribeClusterRequest {
        include_cluster_authorized_operations: true,
        ..Default::default()
    };
    client.ask("describe cluster, operations", &operations, 1);
}

fn topics(client: &mut Client) {
    let create = |topics: Vec<create_topics::CreatableTopic>, validate_only| {
        create_topics::CreateTopicsRequest {
            topics,
            timeout_ms: 10_000,
            validate_only,
        }
    };
    client.create("plain", 3, &[]);
    let assigned = |lists: &[(i32, &[i32])]| create_topics::CreatableTopic {
        assignments: lists
            .iter()
            .map(|(index, ids)| create_topics::CreatableReplicaAssignment {
                partition_index: *index,
                broker_ids: ids.to_vec(),
            })
            .collect(),
        ..topic("assigned", -1, -1, &[])
    };
    let cases = [
        ("exists", vec![topic("plain", 1, 1, &[])]),
        (
            "doubled",
            vec![topic("twice", 1, 1, &[]), topic("twice", 1, 1, &[])],
        ),
        (
            "bad name",
            vec![
                topic("a b", 1, 1, &[]),
                topic("", 1, 1, &[]),
                topic("..", 1, 1, &[]),
            ],
        ),
        ("long name", vec![topic(&"x".repeat(250), 1, 1, &[])]),
        (
            "no partitions",
            vec![topic("none", 0, 1, &[]), topic("minus", -2, 1, &[])],
        ),
        (
            "replication",
            vec![topic("r3", 1, 3, &[]), topic("r0", 1, 0, &[])],
        ),
        ("too many", vec![topic("many", 20_000, 1, &[])]),
        (
            "unknown config",
            vec![topic("c", 1, 1, &[("no.such", "1")])],
        ),
        (
            "bad config",
            vec![topic("c", 1, 1, &[("retention.ms", "x")])],
        ),
        (
            "bad config range",
            vec![topic("c", 1, 1, &[("retention.ms", "-2")])],
        ),
        (
            "bad config word",
            vec![topic("c", 1, 1, &[("cleanup.policy", "x")])],
        ),
        ("assigned gap", vec![assigned(&[(1, &[1])])]),
        ("assigned unknown", vec![assigned(&[(0, &[9])])]),
        ("assigned twice", vec![assigned(&[(0, &[1, 1])])]),
        ("assigned empty", vec![assigned(&[(0, &[])])]),
    ];
    for (what, topics) in cases {
        client.ask(&format!("create {what}"), &create(topics, false), 7);
    }
    client.ask(
        "create, validate",
        &create(vec![topic("v", 2, 1, &[])], true),
        7,
    );
    client.ask(
        "create, validate",
        &create(vec![topic("v", 2, 1, &[])], true),
        4,
    );
    client.create("dot.ted", 1, &[]);
    client.ask(
        "create, colliding",
        &create(vec![topic("dot_ted", 1, 1, &[])], false),
        7,
    );
    client.ask_all("metadata", &metadata_of(&["plain"]));
    client.ask_all("metadata, unknown", &metadata_of(&["nope", "a b"]));
    let by_id = |topic_id| metadata::MetadataRequest {
        topics: Some(vec![metadata::MetadataRequestTopic {
            topic_id,
            name: None,
        }]),
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    client.ask(
        "metadata, unknown id",
        &by_id(Uuid::from_u64_pair(1, 2)),
        12,
    );
    client.ask(
        "metadata, unknown id",
        &by_id(Uuid::from_u64_pair(1, 2)),
        10,
    );
    client.ask("metadata, zero id", &by_id(Uuid::ZERO), 12);
    let none = metadata::MetadataRequest {
        topics: Some(vec![]),
        ..Default::default()
    };
    client.ask("metadata, none", &none, 12);
    client.ask("metadata, none", &none, 1);
    let operations = metadata::MetadataRequest {
        include_topic_authorized_operations: true,
        include_cluster_authorized_operations: true,
        ..metadata_of(&["plain"])
    };
    client.ask("metadata, operations", &operations, 8);
}

fn producing(client: &mut Client) {
    let id = client.create("produce", 1, &[]);
    let mut corrupt = plain(&[5]);
    *corrupt.last_mut().expect("is not empty") ^= 1;
    let mut old = plain(&[5]);
    old[16] = 1;
    let mut odd = plain(&[5]);
    odd[16] = 9;
    let mut short = plain(&[5]);
    short.truncate(70);
    let mut offset = plain(&[5]);
    offset[7] = 3;
    let mut control = BatchHeader::default();
    control.attributes = control.attributes.with_control(true);
    let mut transactional = BatchHeader {
        producer_id: 5,
        producer_epoch: 0,
        base_sequence: 0,
        ..BatchHeader::default()
    };
    transactional.attributes = transactional.attributes.with_transactional(true);
    let mut counts = BatchBuilder::new(0);
    counts.append_fields(&thalweg_records::RecordFields {
        offset_delta: 3,
        timestamp_delta: 0,
        key: None,
        value: None,
        headers: Headers::NONE,
    });
    let large = {
        let mut builder = BatchBuilder::new(0);
        builder.append(5, None, Some(&vec![1; 1_100_000]), Headers::NONE);
        builder.finish()
    };
    let no_sequence = BatchHeader {
        producer_id: 5,
        producer_epoch: 0,
        ..BatchHeader::default()
    };
    let unknown_codec = {
        let mut header = BatchHeader::default();
        header.attributes.0 |= 6;
        let section = plain(&[5])[61..].to_vec();
        header.records_count = 1;
        [header.finish([&section[..]]).to_vec(), section].concat()
    };
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("good", plain(&[5, 6])),
        ("two batches", [plain(&[5]), plain(&[5])].concat()),
        ("trailing bytes", [plain(&[5]), vec![0; 20]].concat()),
        ("nothing", vec![]),
        ("corrupt", corrupt),
        ("old magic", old),
        ("odd magic", odd),
        ("short", short),
        ("base offset", offset),
        ("control", batch(control, &[5], None)),
        ("transactional", batch(transactional, &[5], None)),
        ("counts", counts.finish()),
        ("large", large),
        (
            "future",
            plain(&[now_ms() + 3_000_000, now_ms() + 4_000_000]),
        ),
        ("minus one", plain(&[-1])),
        ("no sequence", batch(no_sequence, &[5], None)),
        ("unknown codec", unknown_codec),
    ];
    for (what, records) in cases {
        let what = format!("produce {what}");
        if let Some(mut answer) = client.quietly(&produce_to("produce", id, 0, &records), 12) {
            // Kafka's messages name the log; ours do not.
            for partition in answer
                .responses
                .iter_mut()
                .flat_map(|t| &mut t.partition_responses)
            {
                partition.error_message = partition.error_message.take().map(|_| "SOME".into());
                for error in &mut partition.record_errors {
                    error.batch_index_error_message = Some("SOME".into());
                }
            }
            client.show(&what, &answer);
        } else {
            println!("{what}: closed\n");
        }
    }
    for version in [3, 5, 8, 9, 10, 11, 12, 13] {
        client.ask(
            "produce",
            &produce_to("produce", id, 0, &plain(&[7])),
            version,
        );
    }
    client.ask(
        "produce, partition",
        &produce_to("produce", id, 9, &plain(&[7])),
        12,
    );
    client.ask(
        "produce, partition",
        &produce_to("produce", id, -1, &plain(&[7])),
        12,
    );
    client.ask(
        "produce, topic",
        &produce_to("nope", id, 0, &plain(&[7])),
        12,
    );
    let unknown = Uuid::from_u64_pair(1, 2);
    client.ask(
        "produce, topic id",
        &produce_to("nope", unknown, 0, &plain(&[7])),
        13,
    );
    let mut acks = produce_to("produce", id, 0, &plain(&[7]));
    acks.acks = 2;
    client.ask("produce, acks 2", &acks, 12);
    let id = client.create("compacted", 1, &[("cleanup.policy", "compact")]);
    client.ask(
        "produce, keyless",
        &produce_to("compacted", id, 0, &plain(&[7, 8])),
        12,
    );
    let keyed = batch(BatchHeader::default(), &[7], Some(b"k"));
    client.ask(
        "produce, keyed",
        &produce_to("compacted", id, 0, &keyed),
        12,
    );
    let id = client.create("in-sync", 1, &[("min.insync.replicas", "2")]);
    client.ask(
        "produce, in sync",
        &produce_to("in-sync", id, 0, &plain(&[7])),
        12,
    );
    let id = client.create(
        "append-time",
        1,
        &[("message.timestamp.type", "LogAppendTime")],
    );
    let before = now_ms();
    if let Some(answer) = client.quietly(&produce_to("append-time", id, 0, &plain(&[7])), 12) {
        let at = answer.responses[0].partition_responses[0].log_append_time_ms;
        println!("append time: {}\n", (before..=now_ms()).contains(&at));
    }
    let id = client.create("recompress", 1, &[("compression.type", "gzip")]);
    client.ask(
        "produce, recompress",
        &produce_to("recompress", id, 0, &plain(&[7])),
        12,
    );
    let ask = fetch_of("recompress", id, 0, 0);
    if let Some(answer) = client.quietly(&ask, 12) {
        let records = answer.responses[0].partitions[0]
            .records
            .clone()
            .expect("has records");
        let codec = thalweg_records::batches(records)
            .next()
            .expect("one")
            .expect("good");
        println!("recompressed: {:?}\n", codec.compression());
    }
}

fn sequences(client: &mut Client) {
    let id = client.create("sequences", 1, &[]);
    let init = init_producer_id::InitProducerIdRequest {
        transactional_id: None,
        ..Default::default()
    };
    client.ask(
        "init, empty id",
        &init_producer_id::InitProducerIdRequest::default(),
        4,
    );
    let mut answer = client.quietly(&init, 4).expect("answers");
    // A real broker's first block of ids takes a moment.
    for _ in 0..100 {
        if answer.error_code == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
        answer = client.quietly(&init, 4).expect("answers");
    }
    println!(
        "init: {} epoch {}\n",
        answer.error_code, answer.producer_epoch
    );
    let pid = answer.producer_id;
    let cases = [
        ("first", pid, 0, 0, 2),
        ("second", pid, 0, 2, 3),
        ("second again", pid, 0, 2, 3),
        ("first again", pid, 0, 0, 2),
        ("gap", pid, 0, 9, 1),
        ("overlap", pid, 0, 3, 2),
        ("third", pid, 0, 5, 1),
        ("4", pid, 0, 6, 1),
        ("5", pid, 0, 7, 1),
        ("6", pid, 0, 8, 1),
        ("7", pid, 0, 9, 1),
        ("forgotten twin", pid, 0, 0, 2),
        ("new epoch, not 0", pid, 2, 4, 1),
        ("new epoch", pid, 2, 0, 1),
        ("old epoch", pid, 0, 10, 1),
        ("old epoch's twin", pid, 0, 9, 1),
        ("new epoch again", pid, 2, 0, 1),
        ("unknown producer", pid + 5000, 0, 7, 1),
        ("wrap 1", pid + 5001, 0, i32::MAX - 1, 2),
        ("wrap 2", pid + 5001, 0, 0, 2),
        ("wrap inside", pid + 5002, 0, i32::MAX, 2),
        ("after wrap", pid + 5002, 0, 1, 2),
        ("after wrap again", pid + 5002, 0, 1, 2),
    ];
    for (what, pid, epoch, first, count) in cases {
        let records = sequenced(pid, epoch, first, count);
        let answer = client.quietly(&produce_to("sequences", id, 0, &records), 12);
        let Some(answer) = answer else {
            println!("sequence {what}: closed\n");
            continue;
        };
        let partition = &answer.responses[0].partition_responses[0];
        println!(
            "sequence {what}: error {} offset {} time {} start {}\n",
            partition.error_code,
            partition.base_offset,
            partition.log_append_time_ms,
            partition.log_start_offset
        );
    }
    let request = describe_producers::DescribeProducersRequest {
        topics: vec![describe_producers::TopicRequest {
            name: "sequences".into(),
            partition_indexes: vec![0, 4],
        }],
    };
    if let Some(mut answer) = client.quietly(&request, 0) {
        for partition in answer
            .topics
            .iter_mut()
            .flat_map(|topic| &mut topic.partitions)
        {
            partition.error_message = None;
            partition
                .active_producers
                .sort_by_key(|producer| producer.producer_id);
            partition
                .active_producers
                .iter_mut()
                .for_each(|p| p.producer_id -= pid);
        }
        client.show("describe producers", &answer);
    }
    let transactional = init_producer_id::InitProducerIdRequest {
        transactional_id: None,
        producer_id: pid,
        producer_epoch: 3,
        ..Default::default()
    };
    let answer = client.quietly(&transactional, 4).expect("answers");
    println!(
        "init again: {} new id {}\n",
        answer.error_code,
        answer.producer_id != pid
    );
}

fn offsets(client: &mut Client) {
    let id = client.create("offsets", 1, &[]);
    let mut compressor = Compressor::default();
    for (index, timestamps) in [[100, 300], [200, 400], [400, 250], [50, 60]]
        .iter()
        .enumerate()
    {
        let mut builder = BatchBuilder::new(0);
        for timestamp in timestamps {
            builder.append(*timestamp, None, Some(b"value"), Headers::NONE);
        }
        let codec = if index % 2 == 0 {
            Compression::None
        } else {
            Compression::Lz4
        };
        let records = builder
            .finish_compressed(&mut compressor, codec, None)
            .expect("compresses");
        client.quietly(&produce_to("offsets", id, 0, &records), 12);
    }
    let list = |name: &str, partition_index, timestamp, current_leader_epoch| {
        list_offsets::ListOffsetsRequest {
            replica_id: -1,
            topics: vec![list_offsets::ListOffsetsTopic {
                name: name.into(),
                partitions: vec![list_offsets::ListOffsetsPartition {
                    partition_index,
                    timestamp,
                    current_leader_epoch,
                }],
            }],
            ..Default::default()
        }
    };
    for timestamp in [
        -1, -2, -3, -4, -5, -6, -7, 0, 100, 101, 250, 300, 301, 400, 401,
    ] {
        let what = format!("list offsets {timestamp}");
        client.ask(&what, &list("offsets", 0, timestamp, -1), 11);
    }
    for timestamp in [-3, -4, -5, -6] {
        client.ask(
            &format!("list offsets {timestamp}"),
            &list("offsets", 0, timestamp, -1),
            5,
        );
    }
    client.ask_all("list offsets", &list("offsets", 0, -1, -1));
    client.ask("list offsets, epoch 5", &list("offsets", 0, -1, 5), 11);
    client.ask("list offsets, partition", &list("offsets", 7, -1, -1), 11);
    client.ask("list offsets, topic", &list("nope", 0, -1, -1), 11);
    let committed = list_offsets::ListOffsetsRequest {
        isolation_level: 1,
        ..list("offsets", 0, -1, -1)
    };
    client.ask("list offsets, committed", &committed, 11);
    let mut doubled = list("offsets", 0, -1, -1);
    let again = doubled.topics[0].partitions[0].clone();
    doubled.topics[0].partitions.push(again);
    client.ask("list offsets, doubled", &doubled, 11);
    client.create("empty", 1, &[]);
    for timestamp in [-1, -2, -3, 0] {
        client.ask(
            &format!("list offsets, empty {timestamp}"),
            &list("empty", 0, timestamp, -1),
            9,
        );
    }
    let epoch = |name: &str, leader_epoch, current_leader_epoch| {
        offset_for_leader_epoch::OffsetForLeaderEpochRequest {
            replica_id: -1,
            topics: vec![offset_for_leader_epoch::OffsetForLeaderTopic {
                topic: name.into(),
                partitions: vec![offset_for_leader_epoch::OffsetForLeaderPartition {
                    partition: 0,
                    current_leader_epoch,
                    leader_epoch,
                }],
            }],
        }
    };
    for (leader_epoch, current) in [(0, -1), (0, 0), (1, -1), (-1, -1), (0, 1)] {
        let what = format!("epoch {leader_epoch}, current {current}");
        client.ask(&what, &epoch("offsets", leader_epoch, current), 4);
    }
    client.ask("epoch, topic", &epoch("nope", 0, -1), 4);
    client.ask("epoch, empty", &epoch("empty", 0, -1), 4);
    client.ask_all("epoch", &epoch("offsets", 0, -1));
}

fn fetch_of(name: &str, id: Uuid, partition: i32, fetch_offset: i64) -> fetch::FetchRequest {
    fetch::FetchRequest {
        max_wait_ms: 300,
        min_bytes: 1,
        max_bytes: 1 << 20,
        topics: vec![fetch::FetchTopic {
            topic: name.into(),
            topic_id: id,
            partitions: vec![fetch::FetchPartition {
                partition,
                fetch_offset,
                partition_max_bytes: 1 << 20,
                ..Default::default()
            }],
        }],
        ..Default::default()
    }
}

fn fetching(client: &mut Client) {
    let id = client.create("fetch", 2, &[]);
    for _ in 0..3 {
        client.quietly(&produce_to("fetch", id, 0, &plain(&[5, 6, 7])), 12);
    }
    let mut ask = |what: &str, request: &fetch::FetchRequest, version| {
        show_fetch(client, what, request, version)
    };
    for version in 4..=18 {
        ask("fetch", &fetch_of("fetch", id, 0, 4), version);
    }
    ask("fetch, end", &fetch_of("fetch", id, 0, 9), 17);
    ask("fetch, beyond", &fetch_of("fetch", id, 0, 10), 17);
    ask("fetch, negative", &fetch_of("fetch", id, 0, -1), 17);
    ask("fetch, partition", &fetch_of("fetch", id, 9, 0), 17);
    ask("fetch, topic", &fetch_of("nope", id, 0, 0), 12);
    ask(
        "fetch, topic id",
        &fetch_of("", Uuid::from_u64_pair(1, 2), 0, 0),
        17,
    );
    ask("fetch, zero id", &fetch_of("", Uuid::ZERO, 0, 0), 17);
    let with = |change: &dyn Fn(&mut fetch::FetchRequest)| {
        let mut request = fetch_of("fetch", id, 0, 0);
        change(&mut request);
        request
    };
    let set = |change: &dyn Fn(&mut fetch::FetchPartition)| {
        with(&|request| change(&mut request.topics[0].partitions[0]))
    };
    ask(
        "fetch, committed",
        &with(&|request| request.isolation_level = 1),
        17,
    );
    ask(
        "fetch, one byte",
        &with(&|request| request.max_bytes = 1),
        17,
    );
    ask(
        "fetch, partition byte",
        &set(&|partition| partition.partition_max_bytes = 1),
        17,
    );
    ask(
        "fetch, two",
        &set(&|partition| partition.partition_max_bytes = 200),
        17,
    );
    ask(
        "fetch, epoch 0",
        &set(&|partition| partition.current_leader_epoch = 0),
        17,
    );
    ask(
        "fetch, epoch 7",
        &set(&|partition| partition.current_leader_epoch = 7),
        17,
    );
    ask(
        "fetch, fetched 0",
        &set(&|partition| partition.last_fetched_epoch = 0),
        17,
    );
    ask(
        "fetch, fetched 3",
        &set(&|partition| partition.last_fetched_epoch = 3),
        17,
    );
    let diverged = |partition: &mut fetch::FetchPartition| {
        partition.last_fetched_epoch = 0;
        partition.fetch_offset = 12;
    };
    ask("fetch, diverged", &set(&diverged), 17);
    // Sessions.
    let session = |session_id, session_epoch, change: &dyn Fn(&mut fetch::FetchRequest)| {
        let mut request = fetch_of("fetch", id, 0, 9);
        let mut other = request.topics[0].partitions[0].clone();
        other.partition = 1;
        other.fetch_offset = 0;
        request.topics[0].partitions.push(other);
        request.session_id = session_id;
        request.session_epoch = session_epoch;
        change(&mut request);
        request
    };
    let Some(opened) = ask("session, open", &session(0, 0, &|_| {}), 17) else {
        return;
    };
    let empty = |request: &mut fetch::FetchRequest| request.topics.clear();
    ask(
        "session, no news",
        &session(opened.session_id, 1, &empty),
        17,
    );
    client.quietly(&produce_to("fetch", id, 1, &plain(&[5])), 12);
    let mut ask = |what: &str, request: &fetch::FetchRequest, version| {
        show_fetch(client, what, request, version)
    };
    ask("session, news", &session(opened.session_id, 2, &empty), 17);
    ask(
        "session, same news",
        &session(opened.session_id, 3, &empty),
        17,
    );
    ask(
        "session, moved on",
        &session(opened.session_id, 4, &|request| {
            request.topics[0].partitions.remove(0);
            request.topics[0].partitions[0].fetch_offset = 1;
        }),
        17,
    );
    ask(
        "session, old epoch",
        &session(opened.session_id, 4, &empty),
        17,
    );
    ask(
        "session, unknown",
        &session(opened.session_id ^ 1, 1, &empty),
        17,
    );
    ask(
        "session, by name",
        &session(opened.session_id, 5, &empty),
        12,
    );
    ask(
        "session, out of range",
        &session(opened.session_id, 5, &|request| {
            request.topics[0].partitions.remove(0);
            request.topics[0].partitions[0].fetch_offset = 70;
        }),
        17,
    );
    ask(
        "session, still out of range",
        &session(opened.session_id, 6, &empty),
        17,
    );
    let forget = |partitions: &[i32]| {
        let partitions = partitions.to_vec();
        move |request: &mut fetch::FetchRequest| {
            request.topics.clear();
            request.forgotten_topics_data = vec![fetch::ForgottenTopic {
                topic: "fetch".into(),
                topic_id: id,
                partitions: partitions.clone(),
            }];
        }
    };
    ask(
        "session, forgotten",
        &session(opened.session_id, 7, &forget(&[1])),
        17,
    );
    ask(
        "session, empty",
        &session(opened.session_id, 8, &forget(&[0])),
        17,
    );
    ask("session, gone", &session(opened.session_id, 9, &empty), 17);
    ask("session, final", &session(0, -1, &|_| {}), 17);
}

fn show_fetch(
    client: &mut Client,
    what: &str,
    request: &fetch::FetchRequest,
    version: i16,
) -> Option<fetch::FetchResponse> {
    let started = std::time::Instant::now();
    let mut answer = client.quietly(request, version)?;
    let waited = started.elapsed() > Duration::from_millis(250);
    let original = answer.clone();
    answer.session_id = i32::from(answer.session_id != 0);
    for partition in answer
        .responses
        .iter_mut()
        .flat_map(|topic| &mut topic.partitions)
    {
        // Kafka cuts the last batch where the limit is, we before it.
        let batches = partition.records.take().map(|records| {
            let offsets: Vec<i64> = thalweg_records::batches(records)
                .map(|batch| batch.expect("is good").base_offset())
                .collect();
            format!("{offsets:?}")
        });
        partition.records = batches.map(Bytes::from);
    }
    client.show(&format!("{what} v{version}, waited {waited}"), &answer);
    Some(original)
}

fn groups(client: &mut Client) {
    let id = client.create("grouped", 2, &[]);
    let find = |keys: &[&str], key_type| find_coordinator::FindCoordinatorRequest {
        key_type,
        coordinator_keys: keys.iter().map(|key| Str::from(*key)).collect(),
        ..Default::default()
    };
    // The first question makes a real broker create __consumer_offsets.
    for _ in 0..200 {
        let found = client.quietly(&find(&["g"], 0), 4).expect("answers");
        if found.coordinators[0].error_code == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    client.ask("find coordinator", &find(&["g", "h"], 0), 6);
    client.ask("find coordinator, type 9", &find(&["g"], 9), 6);
    client.ask("find coordinator, empty", &find(&[""], 0), 6);
    let old = find_coordinator::FindCoordinatorRequest {
        key: "g".into(),
        ..Default::default()
    };
    client.ask("find coordinator", &old, 3);
    client.ask("find coordinator", &old, 0);
    let commit = |group: &str, generation, member: &str, name: &str, topic_id, partition_index| {
        offset_commit::OffsetCommitRequest {
            group_id: group.into(),
            generation_id_or_member_epoch: generation,
            member_id: member.into(),
            topics: vec![offset_commit::OffsetCommitRequestTopic {
                name: name.into(),
                topic_id,
                partitions: vec![offset_commit::OffsetCommitRequestPartition {
                    partition_index,
                    committed_offset: 5,
                    committed_leader_epoch: 0,
                    committed_metadata: Some("m".into()),
                }],
            }],
            ..Default::default()
        }
    };
    let fetch_old = |group: &str, name: &str| offset_fetch::OffsetFetchRequest {
        group_id: group.into(),
        topics: Some(vec![offset_fetch::OffsetFetchRequestTopic {
            name: name.into(),
            partition_indexes: vec![0, 1],
        }]),
        ..Default::default()
    };
    // Loading may go on for a moment.
    for _ in 0..200 {
        let found = client
            .quietly(&fetch_old("g", "grouped"), 5)
            .expect("answers");
        if found.error_code == 0 {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    for version in 2..=10 {
        client.ask("commit", &commit("g", -1, "", "grouped", id, 0), version);
    }
    client.ask(
        "commit, generation",
        &commit("g", 3, "m", "grouped", id, 0),
        9,
    );
    client.ask(
        "commit, generation",
        &commit("new", 3, "m", "grouped", id, 0),
        9,
    );
    client.ask(
        "commit, generation",
        &commit("new", 3, "m", "grouped", id, 0),
        8,
    );
    client.ask(
        "commit, generation",
        &commit("g", 3, "m", "grouped", id, 0),
        8,
    );
    client.ask("commit, member", &commit("g", -1, "m", "grouped", id, 0), 9);
    client.ask(
        "commit, partition",
        &commit("g", -1, "", "grouped", id, 7),
        9,
    );
    client.ask("commit, topic", &commit("g", -1, "", "nope", id, 0), 9);
    client.ask(
        "commit, id",
        &commit("g", -1, "", "", Uuid::from_u64_pair(1, 2), 0),
        10,
    );
    client.ask("commit, no group", &commit("", -1, "", "grouped", id, 0), 9);
    let mut long = commit("g", -1, "", "grouped", id, 0);
    long.topics[0].partitions[0].committed_metadata = Some("x".repeat(5000).into());
    client.ask("commit, long", &long, 9);
    for version in 1..=7 {
        client.ask("offsets", &fetch_old("g", "grouped"), version);
    }
    client.ask("offsets, other group", &fetch_old("other", "grouped"), 7);
    client.ask("offsets, other topic", &fetch_old("g", "nope"), 7);
    let all = offset_fetch::OffsetFetchRequest {
        topics: None,
        ..fetch_old("g", "x")
    };
    client.ask("offsets, all", &all, 7);
    let group = |name: &str, topic_id| offset_fetch::OffsetFetchRequest {
        groups: vec![offset_fetch::OffsetFetchRequestGroup {
            group_id: "g".into(),
            member_epoch: -1,
            topics: Some(vec![offset_fetch::OffsetFetchRequestTopics {
                name: name.into(),
                topic_id,
                partition_indexes: vec![0, 1],
            }]),
            ..Default::default()
        }],
        ..Default::default()
    };
    for version in 8..=10 {
        client.ask("offsets", &group("grouped", id), version);
    }
    client.ask("offsets, id", &group("", Uuid::from_u64_pair(1, 2)), 10);
    let mut all = group("", Uuid::ZERO);
    all.groups[0].topics = None;
    client.ask("offsets, all", &all, 9);
    client.ask("offsets, all", &all, 10);
    let list = list_groups::ListGroupsRequest::default();
    client.ask_all("list groups", &list);
    let states = |state: &str| list_groups::ListGroupsRequest {
        states_filter: vec![state.into()],
        ..Default::default()
    };
    client.ask("list groups", &states("Stable"), 5);
    client.ask("list groups", &states("empty"), 5);
    let types = |name: &str| list_groups::ListGroupsRequest {
        types_filter: vec![name.into()],
        ..Default::default()
    };
    client.ask("list groups", &types("consumer"), 5);
    client.ask("list groups", &types("classic"), 5);
    let describe = describe_groups::DescribeGroupsRequest {
        groups: vec!["g".into(), "nope".into()],
        include_authorized_operations: true,
    };
    client.ask("describe groups", &describe, 5);
    client.ask("describe groups", &describe, 6);
    let delete = |group: &str, name: &str, partition_index| offset_delete::OffsetDeleteRequest {
        group_id: group.into(),
        topics: vec![offset_delete::OffsetDeleteRequestTopic {
            name: name.into(),
            partitions: vec![offset_delete::OffsetDeleteRequestPartition { partition_index }],
        }],
    };
    client.ask("offset delete", &delete("g", "grouped", 9), 0);
    client.ask("offset delete", &delete("nope", "grouped", 0), 0);
    client.ask("offset delete", &delete("g", "grouped", 0), 0);
    client.quietly(&commit("g2", -1, "", "grouped", id, 1), 9);
    let delete = delete_groups::DeleteGroupsRequest {
        groups_names: vec!["g2".into(), "nope".into()],
    };
    client.ask("delete groups", &delete, 2);
}

fn admin(client: &mut Client) {
    let id = client.create("admin", 2, &[("retention.bytes", "12345")]);
    client.quietly(&produce_to("admin", id, 0, &plain(&[5, 6, 7])), 12);
    let delete = |name: &str, partition_index, offset| delete_records::DeleteRecordsRequest {
        topics: vec![delete_records::DeleteRecordsTopic {
            name: name.into(),
            partitions: vec![delete_records::DeleteRecordsPartition {
                partition_index,
                offset,
            }],
        }],
        timeout_ms: 5000,
    };
    client.ask("delete records", &delete("admin", 0, 1), 2);
    client.ask("delete records, less", &delete("admin", 0, 0), 2);
    client.ask("delete records, beyond", &delete("admin", 0, 9), 2);
    client.ask("delete records, all", &delete("admin", 0, -1), 2);
    client.ask("delete records, negative", &delete("admin", 0, -2), 2);
    client.ask("delete records, partition", &delete("admin", 7, 0), 2);
    client.ask("delete records, topic", &delete("nope", 0, 0), 2);
    client.ask("delete records, compacted", &delete("compacted", 0, 0), 2);
    let mut gone = fetch_of("admin", id, 0, 1);
    gone.max_wait_ms = 10;
    show_fetch(client, "fetch, deleted", &gone, 17);

    let describe = |resource_type, name: &str, keys: Option<&[&str]>| {
        describe_configs::DescribeConfigsRequest {
            resources: vec![describe_configs::DescribeConfigsResource {
                resource_type,
                resource_name: name.into(),
                configuration_keys: keys.map(|keys| keys.iter().map(|k| Str::from(*k)).collect()),
            }],
            include_synonyms: true,
            ..Default::default()
        }
    };
    let sorted = |client: &mut Client, what: &str, request, version| {
        if let Some(mut answer) =
            client.quietly::<describe_configs::DescribeConfigsRequest>(&request, version)
        {
            for result in &mut answer.results {
                result
                    .configs
                    .sort_by(|one, other| one.name.cmp(&other.name));
            }
            client.show(&format!("{what} v{version}"), &answer);
        }
    };
    sorted(client, "configs", describe(2, "admin", None), 4);
    sorted(
        client,
        "configs",
        describe(2, "admin", Some(&["retention.ms", "no.such"])),
        1,
    );
    sorted(client, "configs, topic", describe(2, "nope", None), 4);
    sorted(
        client,
        "configs, broker",
        describe(4, "1", Some(&["num.partitions"])),
        4,
    );
    sorted(client, "configs, broker", describe(4, "7", None), 4);
    sorted(client, "configs, type", describe(77, "1", None), 4);
    let alter = |resource_type, resource: &str, changes: &[(&str, i8, Option<&str>)]| {
        incremental_alter_configs::IncrementalAlterConfigsRequest {
            resources: vec![incremental_alter_configs::AlterConfigsResource {
                resource_type,
                resource_name: resource.into(),
                configs: changes
                    .iter()
                    .map(|(name, config_operation, value)| {
                        incremental_alter_configs::AlterableConfig {
                            name: (*name).into(),
                            config_operation: *config_operation,
                            value: value.map(Str::from),
                        }
                    })
                    .collect(),
            }],
            validate_only: false,
        }
    };
    let cases = [
        (
            "set",
            alter(2, "admin", &[("retention.ms", 0, Some("777"))]),
        ),
        (
            "append",
            alter(2, "admin", &[("cleanup.policy", 2, Some("compact"))]),
        ),
        (
            "subtract",
            alter(2, "admin", &[("cleanup.policy", 3, Some("delete"))]),
        ),
        (
            "no list",
            alter(2, "admin", &[("retention.ms", 2, Some("1"))]),
        ),
        ("null", alter(2, "admin", &[("retention.ms", 0, None)])),
        ("unknown", alter(2, "admin", &[("no.such", 0, Some("1"))])),
        ("bad", alter(2, "admin", &[("retention.ms", 0, Some("x"))])),
        (
            "operation",
            alter(2, "admin", &[("retention.ms", 9, Some("1"))]),
        ),
        ("topic", alter(2, "nope", &[("retention.ms", 0, Some("1"))])),
        ("delete", alter(2, "admin", &[("retention.ms", 1, None)])),
    ];
    let keys: &[&str] = &["retention.ms", "cleanup.policy"];
    for (what, request) in cases {
        client.ask(&format!("alter {what}"), &request, 1);
        std::thread::sleep(Duration::from_millis(100));
        sorted(client, "configs", describe(2, "admin", Some(keys)), 4);
    }
    let replace = alter_configs::AlterConfigsRequest {
        resources: vec![alter_configs::AlterConfigsResource {
            resource_type: 2,
            resource_name: "admin".into(),
            configs: vec![alter_configs::AlterableConfig {
                name: "retention.ms".into(),
                value: Some("5".into()),
            }],
        }],
        validate_only: false,
    };
    client.ask("alter, old", &replace, 2);
    std::thread::sleep(Duration::from_millis(100));
    let keys: &[&str] = &["retention.ms", "retention.bytes", "cleanup.policy"];
    sorted(client, "configs", describe(2, "admin", Some(keys)), 4);

    let more = |name: &str, count, lists: Option<Vec<Vec<i32>>>| {
        create_partitions::CreatePartitionsRequest {
            topics: vec![create_partitions::CreatePartitionsTopic {
                name: name.into(),
                count,
                assignments: lists.map(|lists| {
                    lists
                        .into_iter()
                        .map(|broker_ids| create_partitions::CreatePartitionsAssignment {
                            broker_ids,
                        })
                        .collect()
                }),
            }],
            timeout_ms: 5000,
            validate_only: false,
        }
    };
    client.ask("partitions", &more("admin", 3, None), 3);
    std::thread::sleep(Duration::from_millis(200));
    client.ask("partitions, same", &more("admin", 3, None), 3);
    client.ask("partitions, fewer", &more("admin", 1, None), 3);
    client.ask("partitions, zero", &more("admin", 0, None), 3);
    client.ask("partitions, topic", &more("nope", 3, None), 3);
    client.ask(
        "partitions, lists",
        &more("admin", 5, Some(vec![vec![1]])),
        3,
    );
    client.ask(
        "partitions, unknown",
        &more("admin", 4, Some(vec![vec![8]])),
        3,
    );
    let page = |limit, cursor: Option<(&str, i32)>, names: &[&str]| {
        describe_topic_partitions::DescribeTopicPartitionsRequest {
            topics: names
                .iter()
                .map(|name| describe_topic_partitions::TopicRequest {
                    name: (*name).into(),
                })
                .collect(),
            response_partition_limit: limit,
            cursor: cursor.map(
                |(name, partition_index)| describe_topic_partitions::Cursor {
                    topic_name: name.into(),
                    partition_index,
                },
            ),
        }
    };
    let names: &[&str] = &["plain", "admin", "nope"];
    client.ask("describe partitions", &page(2000, None, names), 0);
    client.ask("describe partitions, 2", &page(2, None, names), 0);
    client.ask("describe partitions, 3", &page(3, None, names), 0);
    client.ask(
        "describe partitions, cursor",
        &page(2, Some(("admin", 2)), names),
        0,
    );
    client.ask(
        "describe partitions, last",
        &page(2, Some(("plain", 2)), names),
        0,
    );
    let elect = |name: &str, election_type| elect_leaders::ElectLeadersRequest {
        election_type,
        topic_partitions: Some(vec![elect_leaders::TopicPartitions {
            topic: name.into(),
            partitions: vec![0],
        }]),
        timeout_ms: 5000,
    };
    client.ask("elect", &elect("admin", 0), 2);
    client.ask("elect, unclean", &elect("admin", 1), 2);
    client.ask("elect, topic", &elect("nope", 0), 2);
    client.ask(
        "config resources",
        &list_config_resources::ListConfigResourcesRequest::default(),
        0,
    );

    let drop = |names: &[&str]| delete_topics::DeleteTopicsRequest {
        topic_names: names.iter().map(|name| Str::from(*name)).collect(),
        timeout_ms: 5000,
        ..Default::default()
    };
    client.ask("delete", &drop(&["admin", "nope"]), 5);
    let drop = |states: Vec<(Option<&str>, Uuid)>| delete_topics::DeleteTopicsRequest {
        topics: states
            .into_iter()
            .map(|(name, topic_id)| delete_topics::DeleteTopicState {
                name: name.map(Str::from),
                topic_id,
            })
            .collect(),
        timeout_ms: 5000,
        ..Default::default()
    };
    client.ask(
        "delete again",
        &drop(vec![(Some("admin"), Uuid::ZERO), (None, id)]),
        6,
    );
    client.ask("delete both", &drop(vec![(Some("plain"), id)]), 6);
    client.ask("delete neither", &drop(vec![(None, Uuid::ZERO)]), 6);
    let new = client.create("admin", 1, &[]);
    println!("another id: {}\n", new != id);
    let mut gone = fetch_of("admin", id, 0, 0);
    gone.max_wait_ms = 10;
    show_fetch(client, "fetch, old id", &gone, 17);
}
