//! Requests in flight: order, limits, timeouts, correlation, throttling, versions.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use thalweg_cluster::{ApiVersions, Body, ConnectionError, Event, Outgoing, Purpose, RequestError};
use thalweg_protocol::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use thalweg_protocol::{ApiKey, frame};

use crate::support::{Bench, TIMEOUT, heartbeat};

#[test]
fn responses_come_back_to_who_asked() {
    let mut bench = Bench::bootstrapped(1);
    bench.ready(1, Purpose::Fetch);
    let (first, one) = bench.send(1, Purpose::Fetch, TIMEOUT);
    let (second, two) = bench.send(1, Purpose::Fetch, TIMEOUT);
    bench.respond_to_heartbeat(&one);
    bench.respond_to_heartbeat(&two);
    let ids: Vec<_> = bench.responses.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [first, second]);
    let (_, body) = bench.responses.remove(0);
    let body = body.expect("a response");
    assert_eq!(
        (body.node, body.api_key, body.version),
        (1, ApiKey::HEARTBEAT, 4)
    );
    assert_eq!(
        body.decode::<HeartbeatRequest>(),
        Ok(HeartbeatResponse::default())
    );
}

#[test]
fn a_frame_is_length_header_head_and_segments() {
    let mut bench = Bench::bootstrapped(1);
    bench.ready(1, Purpose::Produce);
    let mut body = Body::new(vec![1, 2, 3]);
    body.push(Bytes::from_static(b"batch"));
    body.push(Bytes::new());
    body.push(Bytes::from_static(b"tail"));
    assert_eq!(body.len(), 12);
    let outgoing = Outgoing {
        api_key: ApiKey::PRODUCE,
        version: 9,
        body,
        timeout: TIMEOUT,
        expects_response: true,
    };
    bench.cluster.send(1, Purpose::Produce, outgoing, bench.now);
    bench.collect();
    let written = bench.take_write(ApiKey::PRODUCE);
    assert_eq!(written.version, 9);
    assert!(written.bytes.ends_with(b"\x01\x02\x03batchtail"));
    assert!(
        written.bytes.windows(5).any(|window| window == b"bench"),
        "the client id is in it"
    );
}

#[test]
fn a_produce_connection_takes_only_so_many() {
    let mut bench = Bench::bootstrapped(1);
    bench.ready(1, Purpose::Produce);
    let mut first = None;
    for _ in 0..5 {
        assert!(bench.cluster.is_ready(1, Purpose::Produce, bench.now));
        let (_, written) = bench.send(1, Purpose::Produce, TIMEOUT);
        first.get_or_insert(written);
    }
    assert!(!bench.cluster.is_ready(1, Purpose::Produce, bench.now));
    bench.respond_to_heartbeat(&first.expect("five were sent"));
    assert!(bench.cluster.is_ready(1, Purpose::Produce, bench.now));
}

/// Scenario 11.
#[test]
fn a_request_that_is_too_late_ends_its_connection_and_all_on_it() {
    let mut bench = Bench::bootstrapped(1);
    let fetch = bench.ready(1, Purpose::Fetch);
    let other = bench.ready(1, Purpose::Group);
    let (late, _) = bench.send(1, Purpose::Fetch, Duration::from_secs(5));
    let (neighbour, _) = bench.send(1, Purpose::Fetch, TIMEOUT);
    bench.advance(Duration::from_millis(4999));
    assert!(bench.responses.is_empty());
    bench.advance(Duration::from_millis(1));
    assert!(bench.closes.contains(&fetch.conn));
    assert!(
        !bench.closes.contains(&other.conn),
        "other purposes continue"
    );
    let ids: Vec<_> = bench.responses.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [late, neighbour], "in the order of sending");
    for (_, result) in &bench.responses {
        let error = result.as_ref().expect_err("no response came");
        assert!(error.is_retriable() && error.possibly_written());
        assert!(error.to_string().contains("5000 ms"), "{error}");
    }
}

#[test]
fn the_deadline_of_a_request_is_a_deadline_of_the_cluster() {
    let mut bench = Bench::bootstrapped(1);
    bench.ready(1, Purpose::Fetch);
    bench.send(1, Purpose::Fetch, Duration::from_secs(5));
    let deadline = bench
        .cluster
        .next_deadline(bench.now)
        .expect("at least the request's");
    assert!(deadline <= bench.now + Duration::from_secs(5));
}

/// Scenario 42.
#[test]
fn a_wrong_correlation_id_closes_the_connection() {
    let mut bench = Bench::bootstrapped(1);
    let fetch = bench.ready(1, Purpose::Fetch);
    let (_, mut written) = bench.send(1, Purpose::Fetch, TIMEOUT);
    written.correlation_id += 7;
    bench.respond_to_heartbeat(&written);
    assert!(bench.closes.contains(&fetch.conn), "scenario 42");
    let error = bench.responses[0]
        .1
        .as_ref()
        .expect_err("its outcome is unknown");
    assert!(error.is_retriable() && error.possibly_written());
}

/// Scenario 42.
#[test]
fn an_unsolicited_response_closes_the_connection() {
    let mut bench = Bench::bootstrapped(1);
    let fetch = bench.ready(1, Purpose::Fetch);
    let bytes = frame::encode_response(ApiKey::HEARTBEAT, 4, 9, &HeartbeatResponse::default());
    let frame = Bytes::from(bytes.expect("a default message")).slice(4..);
    bench.event(Event::Frame {
        conn: fetch.conn,
        frame,
    });
    assert!(bench.closes.contains(&fetch.conn));
    let error = bench
        .cluster
        .connection_error(1, Purpose::Fetch)
        .expect("the cause");
    assert_eq!(*error, ConnectionError::Unsolicited(9));
}

#[test]
fn a_response_without_a_header_closes_the_connection() {
    let mut bench = Bench::bootstrapped(1);
    let fetch = bench.ready(1, Purpose::Fetch);
    bench.send(1, Purpose::Fetch, TIMEOUT);
    bench.event(Event::Frame {
        conn: fetch.conn,
        frame: Bytes::from_static(b"\0\0"),
    });
    assert!(bench.closes.contains(&fetch.conn));
}

#[test]
fn a_request_without_a_response_is_done_when_it_is_written() {
    let mut bench = Bench::bootstrapped(1);
    let produce = bench.ready(1, Purpose::Produce);
    let outgoing = Outgoing {
        expects_response: false,
        ..heartbeat(TIMEOUT)
    };
    let id = bench.cluster.send(1, Purpose::Produce, outgoing, bench.now);
    bench.collect();
    assert!(bench.responses.is_empty());
    bench.event(Event::Written {
        conn: produce.conn,
        request: id,
    });
    let (done, result) = bench.responses.remove(0);
    assert_eq!(done, id);
    assert_eq!(result.expect("done").reader.remaining(), 0);
    // Responses to later requests are not mistaken for a response to this one.
    let (second, written) = bench.send(1, Purpose::Produce, TIMEOUT);
    bench.respond_to_heartbeat(&written);
    assert_eq!(bench.responses.remove(0).0, second);
}

#[test]
fn a_request_without_a_response_fails_with_its_connection() {
    let mut bench = Bench::bootstrapped(1);
    let produce = bench.ready(1, Purpose::Produce);
    let outgoing = Outgoing {
        expects_response: false,
        ..heartbeat(TIMEOUT)
    };
    let id = bench.cluster.send(1, Purpose::Produce, outgoing, bench.now);
    bench.event(Event::Disconnected {
        conn: produce.conn,
        error: ConnectionError::ClosedByPeer,
    });
    assert!(matches!(&bench.responses[..], [(failed, Err(_))] if *failed == id));
}

#[test]
fn sending_without_a_connection_fails_as_never_written() {
    let mut bench = Bench::bootstrapped(1);
    let id = bench
        .cluster
        .send(1, Purpose::Produce, heartbeat(TIMEOUT), bench.now);
    bench.collect();
    let (failed, result) = bench.responses.remove(0);
    assert_eq!(failed, id);
    let error = result.expect_err("it has no connection");
    assert_eq!(error, RequestError::NotReady { node: 1 });
    assert!(error.is_retriable() && !error.possibly_written());
}

/// Scenario 41 (KIP-219).
#[test]
fn a_throttled_connection_holds_back_until_the_time_is_over() {
    let mut bench = Bench::bootstrapped(1);
    bench.ready(1, Purpose::Group);
    let (_, written) = bench.send(1, Purpose::Group, TIMEOUT);
    let throttled = HeartbeatResponse {
        throttle_time_ms: 300,
        ..HeartbeatResponse::default()
    };
    bench.respond::<HeartbeatRequest>(&written, &throttled);
    assert_eq!(bench.responses.len(), 1, "the response itself is handed on");
    assert!(!bench.cluster.is_ready(1, Purpose::Group, bench.now));
    bench.advance(Duration::from_millis(299));
    assert!(!bench.cluster.is_ready(1, Purpose::Group, bench.now));
    let wait = bench.advance_to_deadline(Duration::from_millis(1));
    assert_eq!(
        wait,
        Duration::from_millis(1),
        "the end of it wakes who asked"
    );
    assert!(bench.cluster.is_ready(1, Purpose::Group, bench.now));
}

#[test]
fn a_damaged_throttle_time_silences_a_node_for_a_minute_at_most() {
    let mut bench = Bench::bootstrapped(1);
    bench.ready(1, Purpose::Produce);
    bench
        .cluster
        .throttle(1, Purpose::Produce, i32::MAX, bench.now);
    assert!(!bench.cluster.is_ready(1, Purpose::Produce, bench.now));
    bench.advance(Duration::from_secs(60));
    assert!(bench.cluster.is_ready(1, Purpose::Produce, bench.now));
}

#[test]
fn metadata_that_waits_for_a_throttled_node_is_asked_for_when_that_is_over() {
    let mut bench = Bench::bootstrapped(1);
    bench.ready(1, Purpose::General);
    bench.advance(Duration::from_secs(1));
    bench.cluster.throttle(1, Purpose::General, 700, bench.now);
    bench.cluster.request_update();
    bench.turn();
    assert!(bench.writes.is_empty());
    assert_eq!(
        bench.advance_to_deadline(Duration::from_secs(1)),
        Duration::from_millis(700)
    );
    bench.take_write(ApiKey::METADATA);
}

#[test]
fn a_role_may_report_a_throttle_time_itself() {
    let mut bench = Bench::bootstrapped(1);
    bench.ready(1, Purpose::Produce);
    bench.cluster.throttle(1, Purpose::Produce, -5, bench.now);
    bench.cluster.throttle(1, Purpose::Produce, 0, bench.now);
    assert!(bench.cluster.is_ready(1, Purpose::Produce, bench.now));
    bench.cluster.throttle(1, Purpose::Produce, 50, bench.now);
    assert!(!bench.cluster.is_ready(1, Purpose::Produce, bench.now));
    bench.advance(Duration::from_millis(50));
    assert!(bench.cluster.is_ready(1, Purpose::Produce, bench.now));
}

#[test]
fn the_version_is_the_newest_in_both_ranges() {
    let mut bench = Bench::bootstrapped(1);
    bench.cluster.is_ready(1, Purpose::Fetch, bench.now);
    bench.collect();
    let attempt = bench.take_attempt();
    let old = ApiVersions::new([(ApiKey::FETCH, 4, 11), (ApiKey::PRODUCE, 100, 120)]);
    bench.event(Event::Connected {
        conn: attempt.conn,
        api_versions: Arc::new(old),
    });
    assert_eq!(bench.cluster.api_version(1, ApiKey::FETCH), Some(11));
    assert_eq!(bench.cluster.api_version(1, ApiKey::PRODUCE), None);
    assert_eq!(
        bench.cluster.api_version(2, ApiKey::FETCH),
        None,
        "never connected"
    );
    let error = bench
        .cluster
        .require_version(1, ApiKey::PRODUCE)
        .expect_err("no overlap");
    let text = error.to_string();
    assert!(!error.is_retriable());
    for part in ["node 1", "Produce", "100 to 120"] {
        assert!(text.contains(part), "{text}");
    }
    let error = bench
        .cluster
        .require_version(1, ApiKey::METADATA)
        .expect_err("not offered");
    assert!(error.to_string().contains("supports none"), "{error}");
}

#[test]
fn the_least_loaded_node_has_the_fewest_requests_in_flight() {
    let mut bench = Bench::bootstrapped(3);
    for node in 1..=3 {
        bench.ready(node, Purpose::General);
    }
    for node in [1, 1, 2, 3, 3] {
        bench.send(node, Purpose::General, TIMEOUT);
    }
    assert_eq!(bench.cluster.least_loaded_node(bench.now), Some(2));
    bench.send(2, Purpose::General, TIMEOUT);
    bench.send(2, Purpose::General, TIMEOUT);
    assert_ne!(bench.cluster.least_loaded_node(bench.now), Some(2));
}
