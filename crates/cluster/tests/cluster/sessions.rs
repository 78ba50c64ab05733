//! SASL sessions that end: when a connection authenticates again, and what happens meanwhile.

use std::time::Duration;

use thalweg_cluster::metrics::MetricGroup;
use thalweg_cluster::{ConnectionError, Event, Purpose, RequestError, SaslSession};
use thalweg_protocol::ErrorCode;

use crate::support::{Attempt, Bench, TIMEOUT, heartbeat};

const SECOND: Duration = Duration::from_secs(1);

fn authenticated(bench: &mut Bench, conn: thalweg_cluster::ConnectionId, lifetime_ms: i64) {
    let session = SaslSession {
        since: bench.now,
        lifetime_ms,
        can_be_renewed: true,
    };
    bench.event(Event::Authenticated { conn, session });
}

/// A connection whose session has just begun.
fn ready(bench: &mut Bench, purpose: Purpose, lifetime_ms: i64) -> Attempt {
    let attempt = bench.ready(1, purpose);
    authenticated(bench, attempt.conn, lifetime_ms);
    attempt
}

/// Wants the connection. Returns whether it takes a request now.
fn wants(bench: &mut Bench, purpose: Purpose) -> bool {
    let is_ready = bench.cluster.is_ready(1, purpose, bench.now);
    bench.turn();
    is_ready
}

/// Takes the attempt for Produce. After a loss, the metadata request opens connections, too.
fn attempt(bench: &mut Bench) -> Attempt {
    let is_meant = |attempt: &Attempt| attempt.purpose == Purpose::Produce;
    let found = bench.attempts.iter().position(is_meant);
    bench.attempts.remove(found.expect("it connects again"))
}

fn refused() -> ConnectionError {
    ConnectionError::Authentication {
        address: "n1:9092".to_owned(),
        code: Some(ErrorCode::SASL_AUTHENTICATION_FAILED),
        message: "the user is gone".to_owned(),
    }
}

fn metric(bench: &Bench, name: &str) -> f64 {
    let groups = bench.cluster.metrics().snapshot("producer", bench.now);
    let MetricGroup { values, .. } = &groups[0];
    let found = values.iter().find(|known| known.0 == name);
    found.expect("a metric of that name").1
}

fn assert_metric(bench: &Bench, name: &str, expected: f64) {
    let value = metric(bench, name);
    assert!((value - expected).abs() < 1e-6, "{name} is {value}");
}

#[test]
fn requests_in_flight_are_answered_before_the_connection_authenticates_again() {
    let mut bench = Bench::bootstrapped(1);
    let conn = ready(&mut bench, Purpose::Produce, 10_000).conn;
    bench.advance(8 * SECOND);
    assert!(
        wants(&mut bench, Purpose::Produce),
        "the session has time left"
    );
    let (_, first) = bench.send(1, Purpose::Produce, TIMEOUT);
    let (_, second) = bench.send(1, Purpose::Produce, TIMEOUT);
    bench.advance(2 * SECOND);
    assert!(
        !wants(&mut bench, Purpose::Produce),
        "the session has ended"
    );
    bench.respond_to_heartbeat(&first);
    assert!(!wants(&mut bench, Purpose::Produce));
    assert!(bench.reauthentications.is_empty(), "one is still in flight");
    bench.respond_to_heartbeat(&second);
    assert_eq!(bench.reauthentications, [conn]);

    assert!(!wants(&mut bench, Purpose::Produce));
    let (early, error) = {
        let outgoing = heartbeat(TIMEOUT);
        let id = bench.cluster.send(1, Purpose::Produce, outgoing, bench.now);
        bench.turn();
        bench
            .responses
            .pop()
            .map(|(of, result)| (of == id, result))
            .expect("it fails at once")
    };
    assert!(early && matches!(error, Err(RequestError::NotReady { node: 1 })));
    assert!(bench.writes.is_empty(), "nothing is written meanwhile");

    bench.advance(SECOND / 4);
    authenticated(&mut bench, conn, 10_000);
    assert!(
        wants(&mut bench, Purpose::Produce),
        "the same connection takes requests again"
    );
    assert_eq!((bench.reauthentications.len(), bench.closes.len()), (1, 0));
    assert_metric(&bench, "successful-reauthentication-total", 1.0);
    assert_metric(&bench, "reauthentication-latency-avg", 250.0);
    assert_metric(&bench, "reauthentication-latency-max", 250.0);
    assert_metric(&bench, "failed-reauthentication-total", 0.0);
}

#[test]
fn a_request_without_a_response_is_written_before_the_connection_authenticates_again() {
    let mut bench = Bench::bootstrapped(1);
    let conn = ready(&mut bench, Purpose::Produce, 10_000).conn;
    let outgoing = thalweg_cluster::Outgoing {
        expects_response: false,
        ..heartbeat(TIMEOUT)
    };
    let request = bench.cluster.send(1, Purpose::Produce, outgoing, bench.now);
    bench.advance(10 * SECOND);
    assert!(!wants(&mut bench, Purpose::Produce));
    assert!(bench.reauthentications.is_empty());
    bench.event(Event::Written { conn, request });
    assert_eq!(bench.reauthentications, [conn]);
}

#[test]
fn an_idle_connection_waits_until_somebody_wants_it() {
    let mut bench = Bench::bootstrapped(1);
    let conn = ready(&mut bench, Purpose::Group, 10_000).conn;
    for _ in 0..60 {
        bench.advance(SECOND);
    }
    assert!(bench.reauthentications.is_empty());
    assert!(!wants(&mut bench, Purpose::Group));
    assert_eq!(bench.reauthentications, [conn]);
    authenticated(&mut bench, conn, 10_000);
    assert!(wants(&mut bench, Purpose::Group));
}

#[test]
fn the_connections_of_a_node_do_not_all_authenticate_at_once() {
    let mut bench = Bench::bootstrapped(1);
    let purposes = [
        Purpose::Produce,
        Purpose::Fetch,
        Purpose::Group,
        Purpose::Rebalance,
    ];
    for purpose in purposes {
        ready(&mut bench, purpose, 100_000);
    }
    bench.advance(84 * SECOND);
    let mut held = Vec::new();
    for _ in 0..120 {
        let count = purposes
            .iter()
            .filter(|&&each| !wants(&mut bench, each))
            .count();
        held.push(count);
        bench.advance(SECOND / 10);
    }
    assert_eq!(
        (held[0], held.last()),
        (0, Some(&4)),
        "from 85 to 95 percent of the lifetime"
    );
    held.dedup();
    assert!(held.len() > 3, "each has its own time: {held:?}");
}

#[test]
fn a_short_session_holds_requests_until_the_broker_accepts_another_one() {
    let mut bench = Bench::bootstrapped(1);
    let conn = ready(&mut bench, Purpose::Produce, 500).conn;
    let start = bench.now;
    bench.advance(SECOND / 2);
    assert!(!wants(&mut bench, Purpose::Produce), "never past the end");
    assert!(bench.reauthentications.is_empty(), "a second must pass");
    bench.advance_to_deadline(SECOND);
    assert_eq!(bench.reauthentications, [conn]);
    assert_eq!(bench.now - start, SECOND);
}

#[test]
fn without_an_end_nothing_is_renewed() {
    for lifetime_ms in [0, -1, i64::MIN, i64::MAX] {
        let mut bench = Bench::bootstrapped(1);
        ready(&mut bench, Purpose::Produce, lifetime_ms);
        bench.advance(SECOND * 8 * 60);
        assert!(wants(&mut bench, Purpose::Produce), "{lifetime_ms}");
    }
}

#[test]
fn a_refusal_closes_and_the_next_attempt_decides() {
    let mut bench = Bench::bootstrapped(1);
    let conn = ready(&mut bench, Purpose::Produce, 10_000).conn;
    bench.advance(10 * SECOND);
    wants(&mut bench, Purpose::Produce);
    let error = ConnectionError::Reauthentication(Box::new(refused()));
    bench.event(Event::Disconnected { conn, error });
    assert_metric(&bench, "failed-reauthentication-total", 1.0);
    assert!(bench.cluster.fatal_error().is_none(), "not yet");
    let cause = bench.cluster.connection_error(1, Purpose::Produce);
    assert!(cause.is_some_and(|cause| !cause.fails_calls()));

    assert!(!wants(&mut bench, Purpose::Produce));
    bench.advance_to_deadline(SECOND / 10);
    let again = attempt(&mut bench);
    let (conn, error) = (again.conn, refused());
    bench.event(Event::ConnectFailed { conn, error });
    assert!(bench.cluster.fatal_error().is_some(), "now calls fail");
    assert!(!wants(&mut bench, Purpose::Produce));
    bench
        .attempts
        .retain(|attempt| attempt.purpose == Purpose::Produce);
    let max = bench.cluster.config().reconnect_backoff_max;
    bench.advance(max * 7 / 10);
    let tries = |bench: &Bench| {
        let of = bench.attempts.iter().map(|attempt| attempt.purpose);
        of.filter(|&purpose| purpose == Purpose::Produce).count()
    };
    assert_eq!(tries(&bench), 0, "directories lock accounts");
    bench.advance(max * 3 / 10);
    let again = attempt(&mut bench);
    authenticated(&mut bench, again.conn, 10_000);
    bench.accept(&again);
    assert!(
        bench.cluster.fatal_error().is_none(),
        "one success cures it"
    );
    assert!(wants(&mut bench, Purpose::Produce));
    bench.advance(10 * SECOND);
    assert!(
        !wants(&mut bench, Purpose::Produce),
        "the new connection has a session of its own"
    );
}

#[test]
fn a_broker_that_does_not_respond_is_left() {
    let mut bench = Bench::bootstrapped(1);
    let conn = ready(&mut bench, Purpose::Produce, 10_000).conn;
    bench.advance(10 * SECOND);
    wants(&mut bench, Purpose::Produce);
    let waited = bench.advance_to_deadline(TIMEOUT);
    assert_eq!(waited, TIMEOUT);
    assert_eq!(bench.closes, [conn]);
    let cause = bench.cluster.connection_error(1, Purpose::Produce);
    let text = cause.expect("it was lost").to_string();
    assert!(
        text.contains("re-authentication failed: n1:9092: accepted"),
        "{text}"
    );
    assert_metric(&bench, "failed-reauthentication-total", 1.0);
    wants(&mut bench, Purpose::Produce);
    bench.advance_to_deadline(SECOND / 10);
    attempt(&mut bench);
}

#[test]
fn a_throttled_connection_authenticates_after_the_pause() {
    let mut bench = Bench::bootstrapped(1);
    let conn = ready(&mut bench, Purpose::Produce, 10_000).conn;
    bench.advance(9 * SECOND);
    bench
        .cluster
        .throttle(1, Purpose::Produce, 5_000, bench.now);
    bench.advance(SECOND);
    assert!(!wants(&mut bench, Purpose::Produce));
    assert!(bench.reauthentications.is_empty());
    bench.advance_to_deadline(4 * SECOND);
    assert_eq!(bench.reauthentications, [conn]);
}

#[test]
fn a_general_request_waits_for_the_session_and_takes_another_node_after_a_second() {
    let mut bench = Bench::bootstrapped(2);
    ready(&mut bench, Purpose::General, 10_000);
    let node = bench
        .cluster
        .least_loaded_node(bench.now)
        .expect("one is connected");
    bench.advance(10 * SECOND);
    assert_eq!(bench.cluster.least_loaded_node(bench.now), None);
    bench.turn();
    assert_eq!(bench.reauthentications.len(), 1);
    assert!(
        bench.attempts.is_empty(),
        "a renewal takes less time than a connection"
    );
    bench.advance_to_deadline(SECOND);
    assert_eq!(bench.cluster.least_loaded_node(bench.now), None);
    bench.turn();
    assert_ne!(bench.take_attempt().node, node, "the broker is slow");
    let conn = bench.reauthentications[0];
    authenticated(&mut bench, conn, 10_000);
    assert_eq!(bench.cluster.least_loaded_node(bench.now), Some(node));
}

#[test]
fn authentications_without_sessions_are_counted() {
    let mut bench = Bench::bootstrapped(1);
    let first = bench.ready(1, Purpose::Produce);
    assert_metric(&bench, "successful-authentication-no-reauth-total", 0.0);
    let session = SaslSession {
        since: bench.now,
        lifetime_ms: 0,
        can_be_renewed: false,
    };
    let conn = first.conn;
    bench.event(Event::Authenticated { conn, session });
    assert_metric(&bench, "successful-authentication-no-reauth-total", 1.0);
    assert_metric(&bench, "successful-reauthentication-total", 0.0);
}
