//! Connecting: purposes, addresses, backoff, setup timeouts, idle closing, moves.

use std::time::Duration;

use thalweg_cluster::{ConnectionError, Event, Purpose};

use crate::support::{Bench, TIMEOUT, brokers};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn each_purpose_has_one_connection() {
    let mut bench = Bench::bootstrapped(1);
    let produce = bench.ready(1, Purpose::Produce);
    let fetch = bench.ready(1, Purpose::Fetch);
    assert_ne!(produce.conn, fetch.conn);
    for _ in 0..10 {
        assert!(bench.cluster.is_ready(1, Purpose::Produce, bench.now));
    }
    bench.collect();
    assert!(bench.attempts.is_empty(), "never two alive at once");
}

#[test]
fn asking_while_it_connects_opens_no_second_one() {
    let mut bench = Bench::bootstrapped(1);
    for _ in 0..3 {
        assert!(!bench.cluster.is_ready(1, Purpose::Produce, bench.now));
        bench.turn();
    }
    assert_eq!(bench.attempts.len(), 1);
}

/// Scenario 23 (KIP-602).
#[test]
fn tries_all_addresses_of_a_host_before_backing_off() {
    let mut bench = Bench::bootstrapped(1);
    bench.cluster.is_ready(1, Purpose::Produce, bench.now);
    bench.collect();
    for expected in 0..3 {
        let attempt = bench.take_attempt();
        assert_eq!(
            attempt.address, expected,
            "KIP-602, without a pause between addresses"
        );
        bench.event(Event::Resolved {
            conn: attempt.conn,
            addresses: 3,
        });
        bench.refuse(&attempt);
    }
    assert!(bench.attempts.is_empty());
    assert!(!bench.cluster.is_ready(1, Purpose::Produce, bench.now));
    bench.advance_to_deadline(Duration::from_millis(60));
    assert_eq!(
        bench.take_attempt().address,
        0,
        "and resolves again after the backoff"
    );
}

#[test]
fn a_refused_certificate_is_not_tried_at_other_addresses() {
    let mut bench = Bench::bootstrapped(1);
    bench.cluster.is_ready(1, Purpose::Produce, bench.now);
    bench.collect();
    let attempt = bench.take_attempt();
    bench.event(Event::Resolved {
        conn: attempt.conn,
        addresses: 3,
    });
    let reason = "certificate not valid for name".to_owned();
    let error = ConnectionError::Tls {
        address: "n1:9092".to_owned(),
        reason,
        fatal: true,
    };
    bench.event(Event::ConnectFailed {
        conn: attempt.conn,
        error,
    });
    assert!(bench.attempts.is_empty());
    assert!(bench.cluster.fatal_error().is_some());
}

#[test]
fn backoff_grows_and_stays_below_its_limit() {
    let mut bench = Bench::bootstrapped(1);
    let mut waits = Vec::new();
    bench.cluster.is_ready(1, Purpose::Produce, bench.now);
    bench.collect();
    for _ in 0..10 {
        let attempt = bench.take_attempt();
        bench.refuse(&attempt);
        let start = bench.now;
        assert!(
            !bench.cluster.is_ready(1, Purpose::Produce, bench.now),
            "wanted again"
        );
        while bench
            .attempts
            .iter()
            .all(|attempt| attempt.purpose != Purpose::Produce)
        {
            bench.attempts.clear();
            bench.writes.clear();
            bench.advance_to_deadline(MINUTE);
        }
        bench
            .attempts
            .retain(|attempt| attempt.purpose == Purpose::Produce);
        waits.push((bench.now - start).as_millis());
    }
    assert!((40..=60).contains(&waits[0]), "{waits:?}");
    assert!(waits[4] > waits[0] * 8, "{waits:?}");
    assert!(waits.iter().all(|&wait| wait <= 1000), "{waits:?}");
}

#[test]
fn a_node_that_nobody_asks_for_is_not_reconnected() {
    let mut bench = Bench::bootstrapped(1);
    let produce = bench.ready(1, Purpose::Produce);
    bench.event(Event::Disconnected {
        conn: produce.conn,
        error: ConnectionError::ClosedByPeer,
    });
    for _ in 0..5 {
        bench.advance(Duration::from_secs(1));
    }
    assert!(
        bench
            .attempts
            .iter()
            .all(|attempt| attempt.purpose != Purpose::Produce)
    );
}

/// Scenario 12 (KIP-601).
#[test]
fn setup_takes_no_longer_than_its_timeout_and_goes_on_with_the_next_address() {
    let mut bench = Bench::bootstrapped(1);
    bench.cluster.is_ready(1, Purpose::Produce, bench.now);
    bench.collect();
    let silent = bench.take_attempt();
    bench.event(Event::Resolved {
        conn: silent.conn,
        addresses: 2,
    });
    bench.advance(Duration::from_secs(7));
    assert!(!bench.closes.contains(&silent.conn));
    bench.advance(Duration::from_secs(5));
    assert!(
        bench.closes.contains(&silent.conn),
        "KIP-601: 10 s and jitter"
    );
    let next = bench
        .attempts
        .iter()
        .find(|attempt| attempt.purpose == Purpose::Produce);
    assert_eq!(next.map(|attempt| attempt.address), Some(1));
    let error = bench
        .cluster
        .connection_error(1, Purpose::Produce)
        .expect("the cause is kept");
    assert!(error.to_string().contains("n1:9092"), "{error}");
}

/// Scenario 11.
#[test]
fn late_news_of_an_old_connection_is_ignored() {
    let mut bench = Bench::bootstrapped(1);
    let old = bench.ready(1, Purpose::Fetch);
    let (id, written) = bench.send(1, Purpose::Fetch, TIMEOUT);
    bench.event(Event::Disconnected {
        conn: old.conn,
        error: ConnectionError::ClosedByPeer,
    });
    assert_eq!(bench.responses.len(), 1);
    assert!(matches!(&bench.responses[0], (failed, Err(_)) if *failed == id));
    bench.respond_to_heartbeat(&written);
    let error = ConnectionError::ClosedByPeer;
    bench.event(Event::Disconnected {
        conn: old.conn,
        error,
    });
    assert_eq!(
        bench.responses.len(),
        1,
        "scenario 11: the late response is ignored"
    );
}

#[test]
fn an_idle_connection_is_closed_and_a_busy_one_is_not() {
    let mut bench = Bench::bootstrapped(1);
    let idle = bench.ready(1, Purpose::Fetch);
    let busy = bench.ready(1, Purpose::Produce);
    let max = bench.cluster.config().connections_max_idle;
    bench.send(1, Purpose::Produce, max * 2);
    bench.advance(max);
    assert!(bench.closes.contains(&idle.conn));
    assert!(!bench.closes.contains(&busy.conn));
    assert_eq!(bench.responses.len(), 0);
    assert!(!bench.cluster.is_ready(1, Purpose::Fetch, bench.now));
    bench.collect();
    assert!(
        bench
            .attempts
            .iter()
            .any(|attempt| attempt.purpose == Purpose::Fetch),
        "a caller that needs it again does not wait"
    );
}

#[test]
fn a_node_that_moved_is_connected_at_its_new_address_at_once() {
    let mut bench = Bench::bootstrapped(1);
    bench.cluster.is_ready(1, Purpose::Produce, bench.now);
    bench.collect();
    let old = bench.take_attempt();
    assert_eq!(old.to, "n1:9092");
    bench.advance(Duration::from_secs(1));
    bench.cluster.request_update();
    bench.turn();
    while bench.writes.is_empty() {
        bench.accept_next();
    }
    let mut moved = brokers(1, &[]);
    moved.brokers[0].port = 9999;
    bench.respond_with_metadata(&moved);
    assert!(bench.closes.contains(&old.conn));
    let new = bench
        .attempts
        .iter()
        .find(|attempt| attempt.purpose == Purpose::Produce);
    assert_eq!(new.map(|attempt| attempt.to.as_str()), Some("n1:9999"));
}

#[test]
fn closing_the_client_closes_everything_and_fails_what_is_in_flight() {
    let mut bench = Bench::bootstrapped(1);
    let produce = bench.ready(1, Purpose::Produce);
    let (id, _) = bench.send(1, Purpose::Produce, TIMEOUT);
    bench.cluster.close(bench.now);
    bench.collect();
    assert!(bench.closes.contains(&produce.conn));
    assert!(matches!(&bench.responses[..], [(failed, Err(_))] if *failed == id));
    assert!(!bench.cluster.is_ready(1, Purpose::Produce, bench.now));
    bench.advance(MINUTE);
    assert!(bench.attempts.is_empty());
}
