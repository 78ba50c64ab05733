//! Finding coordinators, and forgetting them.

use std::sync::Arc;
use std::time::Duration;

use thalweg_cluster::{ApiVersions, ConnectionError, Coordinator, CoordinatorType, Event, Purpose};
use thalweg_protocol::messages::find_coordinator::{
    Coordinator as Found, FindCoordinatorRequest, FindCoordinatorResponse,
};
use thalweg_protocol::{ApiKey, ErrorCode, Str};

use crate::support::{Bench, Written, brokers};

const GROUP: CoordinatorType = CoordinatorType::Group;

fn ask(bench: &mut Bench) -> Written {
    assert_eq!(bench.cluster.coordinator(GROUP, "g"), Coordinator::Unknown);
    bench.turn();
    if bench.writes.is_empty() {
        bench.accept_next();
    }
    bench.take_write(ApiKey::FIND_COORDINATOR)
}

fn tell(bench: &mut Bench, asked: &Written, node: i32, error: ErrorCode) {
    let coordinator = Found {
        key: Str::from("g"),
        node_id: node,
        host: Str::from("n2"),
        port: 9092,
        error_code: error.0,
        ..Found::default()
    };
    let response = FindCoordinatorResponse {
        coordinators: vec![coordinator],
        ..Default::default()
    };
    bench.respond::<FindCoordinatorRequest>(asked, &response);
}

#[test]
fn is_asked_for_once_and_kept() {
    let mut bench = Bench::bootstrapped(2);
    let asked = ask(&mut bench);
    let request: FindCoordinatorRequest = asked.decode();
    assert_eq!(
        (request.key_type, request.coordinator_keys),
        (0, vec![Str::from("g")])
    );
    bench.cluster.coordinator(GROUP, "g");
    bench.turn();
    assert!(bench.writes.is_empty(), "one question at a time");
    tell(&mut bench, &asked, 2, ErrorCode::NONE);
    assert_eq!(bench.cluster.coordinator(GROUP, "g"), Coordinator::Known(2));
    bench.turn();
    assert!(bench.writes.is_empty());
}

#[test]
fn old_brokers_are_asked_by_the_old_form() {
    let mut bench = Bench::bootstrapped(1);
    bench.cluster.is_ready(1, Purpose::General, bench.now);
    bench.collect();
    let attempt = bench.take_attempt();
    let versions = ApiVersions::new([(ApiKey::METADATA, 0, 8), (ApiKey::FIND_COORDINATOR, 0, 2)]);
    bench.event(Event::Connected {
        conn: attempt.conn,
        api_versions: Arc::new(versions),
    });
    let asked = ask(&mut bench);
    let request: FindCoordinatorRequest = asked.decode();
    assert_eq!(&*request.key, "g");
    let response = FindCoordinatorResponse {
        node_id: 1,
        ..FindCoordinatorResponse::default()
    };
    bench.respond::<FindCoordinatorRequest>(&asked, &response);
    assert_eq!(bench.cluster.coordinator(GROUP, "g"), Coordinator::Known(1));
}

#[test]
fn one_that_is_not_available_yet_is_asked_for_again_with_backoff() {
    let mut bench = Bench::bootstrapped(2);
    let mut asked = ask(&mut bench);
    let mut waits = Vec::new();
    for _ in 0..4 {
        tell(&mut bench, &asked, -1, ErrorCode::COORDINATOR_NOT_AVAILABLE);
        assert!(bench.writes.is_empty());
        waits.push(bench.advance_to_deadline(Duration::from_secs(1)));
        asked = bench.take_write(ApiKey::FIND_COORDINATOR);
    }
    assert!(waits[3] > waits[0] * 4, "{waits:?}");
    tell(&mut bench, &asked, 1, ErrorCode::NONE);
    assert_eq!(bench.cluster.coordinator(GROUP, "g"), Coordinator::Known(1));
}

#[test]
fn a_refusal_is_final_until_it_is_forgotten() {
    let mut bench = Bench::bootstrapped(2);
    let asked = ask(&mut bench);
    tell(
        &mut bench,
        &asked,
        -1,
        ErrorCode::GROUP_AUTHORIZATION_FAILED,
    );
    let told = bench.cluster.coordinator(GROUP, "g");
    let refused = ErrorCode::GROUP_AUTHORIZATION_FAILED;
    assert!(matches!(told, Coordinator::Failed { error, .. } if error == refused));
    bench.advance(Duration::from_secs(5));
    assert!(
        bench
            .writes
            .iter()
            .all(|written| written.key != ApiKey::FIND_COORDINATOR)
    );
    bench.cluster.invalidate_coordinator(GROUP, "g", bench.now);
    assert_eq!(bench.cluster.coordinator(GROUP, "g"), Coordinator::Unknown);
}

#[test]
fn one_that_moved_is_looked_for_again_after_a_pause() {
    let mut bench = Bench::bootstrapped(2);
    let asked = ask(&mut bench);
    tell(&mut bench, &asked, 2, ErrorCode::NONE);
    bench.cluster.invalidate_coordinator(GROUP, "g", bench.now);
    assert_eq!(bench.cluster.coordinator(GROUP, "g"), Coordinator::Unknown);
    bench.turn();
    assert!(
        bench.writes.is_empty(),
        "bug 21: no busy loop around a dead coordinator"
    );
    bench.advance(Duration::from_millis(130));
    let asked = bench.take_write(ApiKey::FIND_COORDINATOR);
    tell(&mut bench, &asked, 1, ErrorCode::NONE);
    assert_eq!(bench.cluster.coordinator(GROUP, "g"), Coordinator::Known(1));
}

#[test]
fn a_lost_connection_to_it_makes_it_unknown() {
    let mut bench = Bench::bootstrapped(2);
    let asked = ask(&mut bench);
    tell(&mut bench, &asked, 2, ErrorCode::NONE);
    let group = bench.ready(2, Purpose::Group);
    bench.event(Event::Disconnected {
        conn: group.conn,
        error: ConnectionError::ClosedByPeer,
    });
    assert_eq!(bench.cluster.coordinator(GROUP, "g"), Coordinator::Unknown);
}

#[test]
fn one_that_the_metadata_does_not_know_yet_can_be_connected() {
    let mut bench = Bench::bootstrapped(1);
    let asked = ask(&mut bench);
    tell(&mut bench, &asked, 7, ErrorCode::NONE);
    assert_eq!(bench.cluster.coordinator(GROUP, "g"), Coordinator::Known(7));
    let attempt = bench.ready(7, Purpose::Group);
    assert_eq!(attempt.to, "n2:9092");
}

#[test]
fn one_that_the_metadata_does_not_list_is_looked_for_again() {
    let mut bench = Bench::bootstrapped(1);
    let asked = ask(&mut bench);
    tell(&mut bench, &asked, 7, ErrorCode::NONE);
    bench.cluster.request_update();
    bench.advance(Duration::from_secs(1));
    bench.respond_with_metadata(&brokers(1, &[]));
    assert_eq!(bench.cluster.coordinator(GROUP, "g"), Coordinator::Known(7));
    assert!(!bench.cluster.is_ready(7, Purpose::Group, bench.now));
    bench.turn();
    assert!(bench.attempts.is_empty());
    assert_eq!(
        bench.cluster.coordinator(GROUP, "g"),
        Coordinator::Unknown,
        "bug 21: stuck in a rolling update"
    );
    bench.advance(Duration::from_millis(130));
    bench.respond_with_metadata(&brokers(1, &[]));
    let asked = bench.take_write(ApiKey::FIND_COORDINATOR);
    tell(&mut bench, &asked, 1, ErrorCode::NONE);
    assert!(bench.ready(1, Purpose::Group).to.starts_with("n1"));
}

#[test]
fn is_asked_for_again_after_a_response_about_something_else() {
    let mut bench = Bench::bootstrapped(2);
    let asked = ask(&mut bench);
    let response = FindCoordinatorResponse {
        coordinators: vec![Found {
            key: Str::from("another"),
            node_id: 2,
            ..Found::default()
        }],
        ..Default::default()
    };
    bench.respond::<FindCoordinatorRequest>(&asked, &response);
    bench.advance(Duration::from_secs(1));
    bench.take_write(ApiKey::FIND_COORDINATOR);
}

/// Version 0 of `FindCoordinator` knows only groups. A broker announces it, or somebody in between.
#[test]
fn a_node_that_is_too_old_for_a_lookup_is_an_error_and_no_panic() {
    let mut bench = Bench::bootstrapped(1);
    bench.cluster.is_ready(1, Purpose::General, bench.now);
    bench.collect();
    let attempt = bench.take_attempt();
    let versions = ApiVersions::new([(ApiKey::METADATA, 0, 8), (ApiKey::FIND_COORDINATOR, 0, 0)]);
    bench.event(Event::Connected {
        conn: attempt.conn,
        api_versions: Arc::new(versions),
    });
    let kind = CoordinatorType::Transaction;
    assert_eq!(bench.cluster.coordinator(kind, "t"), Coordinator::Unknown);
    bench.turn();
    assert!(bench.writes.is_empty());
    let error = bench.cluster.fatal_error().expect("calls must fail");
    assert!(matches!(**error, ConnectionError::Unsupported { .. }));
    assert!(error.to_string().contains("FindCoordinator"), "{error}");
}

#[test]
fn a_key_that_no_request_can_contain_is_refused_without_a_request() {
    let mut bench = Bench::bootstrapped(2);
    let long = "g".repeat(40_000);
    for kind in [GROUP, CoordinatorType::Transaction] {
        let found = bench.cluster.coordinator(kind, &long);
        let Coordinator::Failed { message, .. } = found else {
            panic!("{found:?}");
        };
        assert!(message.expect("a text").contains("40000 bytes"));
    }
    bench.turn();
    assert!(bench.writes.is_empty());
    let asked = ask(&mut bench);
    tell(&mut bench, &asked, 2, ErrorCode::NONE);
    assert_eq!(bench.cluster.coordinator(GROUP, "g"), Coordinator::Known(2));
}
