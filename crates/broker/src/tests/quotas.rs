//! Quotas in virtual time: who is throttled, for how long, and what the responses say.

use thalweg_protocol::messages::alter_client_quotas::{
    AlterClientQuotasRequest, EntityData, EntryData, OpData,
};
use thalweg_protocol::messages::create_topics::{CreatableTopic, CreateTopicsRequest};
use thalweg_protocol::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use thalweg_protocol::messages::metadata::MetadataRequest;

use super::*;

/// A client with a connection of its own.
struct Client {
    bench: Bench,
    connection: Connection,
}

impl Client {
    fn new() -> Self {
        let mut bench = Bench::new(1);
        bench.create("t", 1, &[]);
        let mut connection = bench.core.connect(1, "/127.0.0.1".to_owned());
        connection.identify("alice");
        Self { bench, connection }
    }

    fn set(&mut self, entity: &[(&str, Option<&str>)], key: &str, value: f64) -> ErrorCode {
        let part = |(kind, name): &(&str, Option<&str>)| EntityData {
            entity_type: (*kind).into(),
            entity_name: name.map(Into::into),
        };
        let op = OpData {
            key: key.into(),
            value,
            remove: false,
        };
        let entry = EntryData {
            entity: entity.iter().map(part).collect(),
            ops: vec![op],
        };
        let request = AlterClientQuotasRequest {
            entries: vec![entry],
            validate_only: false,
        };
        ErrorCode(self.bench.ask(&request, 1).entries[0].error_code)
    }

    fn send<R: Request>(&mut self, request: &R, version: i16) -> Outcome {
        let frame = frame::encode_request(request, version, 7, Some("app")).unwrap();
        let frame = Bytes::from(frame).slice(4..);
        self.bench.handle_on(&mut self.connection, frame)
    }

    fn ask<R: Request>(&mut self, request: &R, version: i16) -> R::Response {
        decode::<R>(self.send(request, version), version)
    }

    /// Returns for how long the connection is mute, in milliseconds.
    fn mute_ms(&mut self) -> u128 {
        let until = self.connection.take_mute().unwrap_or(self.bench.now);
        until.saturating_duration_since(self.bench.now).as_millis()
    }

    fn pass(&mut self, ms: u64) {
        self.bench.pass(Duration::from_millis(ms));
    }
}

#[test]
fn a_producer_that_exceeds_its_quota_is_answered_and_then_muted() {
    let mut client = Client::new();
    assert_eq!(
        client.set(&[("user", Some("alice"))], "producer_byte_rate", 10.0),
        ErrorCode::NONE
    );
    let request = produce_request("t", 0, batch(&[NOW_MS]));
    let size = frame::encode_request(&request, 12, 7, Some("app"))
        .unwrap()
        .len()
        - 4;
    let response = client.ask(&request, 12);
    // Ten seconds' worth of bytes are free. The rest is paid for at ten bytes a second.
    let expected = (size as u128 - 100) * 100;
    assert_eq!(response.throttle_time_ms as u128, expected);
    assert_eq!(response.responses[0].partition_responses[0].error_code, 0);
    assert_eq!(client.mute_ms(), expected);
    // Requests of other kinds are free, and so are other users.
    client.ask(&MetadataRequest::default(), 12);
    assert_eq!(client.mute_ms(), 0);
    client.connection.identify("bob");
    assert_eq!(client.ask(&request, 12).throttle_time_ms, 0);
    // Without a response, the connection is mute all the same.
    client.connection.identify("alice");
    let silent = thalweg_protocol::messages::produce::ProduceRequest { acks: 0, ..request };
    assert!(matches!(client.send(&silent, 12), Outcome::Nothing));
    assert!(client.mute_ms() > 0);
}

#[test]
fn a_fetch_beyond_the_quota_is_empty_and_the_next_one_has_the_records() {
    let mut client = Client::new();
    let records = batch(&[NOW_MS; 50]);
    let size = records.len() as f64;
    client.bench.produce("t", 0, records);
    let rate = (size / 5.0).floor();
    let set = client.set(&[("client-id", Some("app"))], "consumer_byte_rate", rate);
    assert_eq!(set, ErrorCode::NONE);
    let fetch = fetch_request("t", &[(0, 0)]);
    // One of them fits into the ten seconds of a burst, and a second one does not.
    let response = client.ask(&fetch, 12);
    assert_eq!(response.throttle_time_ms, 0);
    assert_eq!(response.responses.len(), 1);
    let response = client.ask(&fetch, 12);
    assert!(response.throttle_time_ms > 0);
    assert_eq!(response.responses.len(), 0);
    assert_eq!(client.mute_ms(), response.throttle_time_ms as u128);
    client.pass(response.throttle_time_ms as u64 + 11_000);
    assert_eq!(client.ask(&fetch, 12).responses.len(), 1);
}

#[test]
fn a_fetch_that_waits_is_throttled_when_it_is_answered() {
    let mut client = Client::new();
    client.set(&[("client-id", None)], "consumer_byte_rate", 10.0);
    let mut fetch = fetch_request("t", &[(0, 0)]);
    fetch.max_wait_ms = 1000;
    fetch.min_bytes = 1;
    let mut waiting = wait(client.send(&fetch, 12));
    client.bench.produce("t", 0, batch(&[NOW_MS; 100]));
    let Some(Outcome::Response(response)) = client.bench.poll(&mut waiting) else {
        panic!("no response");
    };
    assert!(
        response
            .mute_until
            .is_some_and(|until| until > client.bench.now)
    );
}

fn creation(name: &str, partitions: i32) -> CreateTopicsRequest {
    CreateTopicsRequest {
        topics: vec![CreatableTopic {
            name: name.into(),
            num_partitions: partitions,
            replication_factor: 1,
            ..CreatableTopic::default()
        }],
        timeout_ms: 1000,
        validate_only: false,
    }
}

#[test]
fn too_many_new_partitions_are_an_error_for_clients_that_know_it() {
    let exceeded = ErrorCode::THROTTLING_QUOTA_EXCEEDED;
    let mut client = Client::new();
    client.set(&[("user", Some("alice"))], "controller_mutation_rate", 1.0);
    let code = |client: &mut Client, name: &str, version| {
        let response = client.ask(&creation(name, 15), version);
        let code = ErrorCode(response.topics[0].error_code);
        (code, response.throttle_time_ms)
    };
    // A burst of 11 is free. What exceeds it makes the next request wait.
    assert_eq!(code(&mut client, "a", 6), (ErrorCode::NONE, 0));
    assert_eq!(code(&mut client, "b", 6), (exceeded, 4000));
    assert_eq!(client.mute_ms(), 4000);
    // Only checking costs nothing.
    let mut check = creation("b", 15);
    check.validate_only = true;
    assert_eq!(client.ask(&check, 6).topics[0].error_code, 0);
    // An old client waits instead.
    assert_eq!(code(&mut client, "b", 5), (ErrorCode::NONE, 19_000));
    client.pass(19_000);
    let deletion = DeleteTopicsRequest {
        topics: vec![DeleteTopicState {
            name: Some("a".into()),
            ..DeleteTopicState::default()
        }],
        ..DeleteTopicsRequest::default()
    };
    assert_eq!(client.ask(&deletion, 6).responses[0].error_code, 0);
    let response = client.ask(&deletion, 6);
    assert_eq!(
        ErrorCode(response.responses[0].error_code),
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
    );
    assert_eq!(code(&mut client, "c", 6), (exceeded, 15_000));
}

#[test]
fn the_time_of_the_thread_is_limited_by_at_most_a_second_a_request() {
    let mut client = Client::new();
    client.set(&[("user", None)], "request_percentage", 1.0);
    client.ask(&MetadataRequest::default(), 12);
    let Client { bench, connection } = &mut client;
    // 1 % of ten seconds.
    bench
        .core
        .spend_time(connection, Duration::from_millis(100), bench.now);
    assert!(connection.take_mute().is_none());
    bench
        .core
        .spend_time(connection, Duration::from_millis(5), bench.now);
    let until = connection.take_mute().unwrap();
    assert_eq!(until - bench.now, Duration::from_millis(500));
    bench
        .core
        .spend_time(connection, Duration::from_secs(9), bench.now);
    let until = connection.take_mute().unwrap();
    assert_eq!(until - bench.now, Duration::from_secs(1));
}

#[test]
fn an_address_has_a_rate_of_new_connections() {
    let mut client = Client::new();
    client.set(
        &[("ip", Some("127.0.0.1"))],
        "connection_creation_rate",
        2.0,
    );
    let Bench { core, now, .. } = &mut client.bench;
    for _ in 0..20 {
        assert_eq!(core.admit("127.0.0.1", *now), Ok(()));
    }
    for _ in 0..3 {
        // The refused ones do not count.
        assert_eq!(
            core.admit("127.0.0.1", *now),
            Err(Duration::from_millis(500))
        );
    }
    assert_eq!(core.admit("127.0.0.2", *now), Ok(()));
    assert_eq!(
        core.admit("127.0.0.1", *now + Duration::from_secs(11)),
        Ok(())
    );
}

#[test]
fn quotas_without_sense_are_refused() {
    let mut client = Client::new();
    let invalid = ErrorCode::INVALID_REQUEST;
    let user = [("user", Some("u"))];
    for value in [-1.0, 0.0, f64::NAN, f64::INFINITY, 1.5] {
        assert_eq!(
            client.set(&user, "producer_byte_rate", value),
            invalid,
            "{value}"
        );
    }
    for value in [-1.0, 0.0, f64::NAN] {
        assert_eq!(client.set(&user, "request_percentage", value), invalid);
    }
    assert_eq!(client.set(&[], "producer_byte_rate", 1.0), invalid);
    let long = "u".repeat(1001);
    assert_eq!(
        client.set(&[("user", Some(&long))], "producer_byte_rate", 1.0),
        invalid
    );
    assert_eq!(
        client.set(&[user[0], user[0]], "producer_byte_rate", 1.0),
        invalid
    );
}
