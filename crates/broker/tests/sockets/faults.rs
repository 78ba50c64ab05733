//! Injected faults, as a client at a socket sees them.

use std::io::ErrorKind;
use std::time::{Duration, Instant};

use thalweg_protocol::messages::metadata::MetadataRequest;
use thalweg_protocol::messages::produce::ProduceRequest;
use thalweg_protocol::{ApiKey, ErrorCode};

use crate::client::{Client, end_offset, produce, start, topic};

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
    let response = client.ask(&produce("t", -1, b"x"), 12);
    let code = response.responses[0].partition_responses[0].error_code;
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
fn a_silent_connection_lives_and_never_responds_while_others_do() {
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
