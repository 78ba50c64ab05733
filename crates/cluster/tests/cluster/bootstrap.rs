//! The first metadata, causes of failure, and rebootstrap.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use thalweg_cluster::{ApiVersions, ClusterConfig, ConnectionError, Event, Purpose};
use thalweg_protocol::{ApiKey, ErrorCode};

use crate::support::{Bench, brokers, config};

const MINUTE: Duration = Duration::from_secs(60);

#[test]
fn connects_to_a_bootstrap_address_at_once_and_asks_for_the_brokers() {
    let mut bench = Bench::new(config("boot:9092"));
    let attempt = bench.accept_next();
    assert_eq!((attempt.node, attempt.to.as_str()), (-1, "boot:9092"));
    assert!(!bench.cluster.is_bootstrapped());
    let asked = bench.respond_with_metadata(&brokers(3, &[]));
    assert_eq!(asked.topics, Some(vec![]), "brokers only");
    assert!(bench.cluster.is_bootstrapped());
    let hosts: Vec<_> = bench
        .cluster
        .metadata()
        .nodes()
        .map(|n| n.host.to_string())
        .collect();
    assert_eq!(hosts, ["n1", "n2", "n3"]);
    assert_eq!(bench.cluster.metadata().controller, Some(1));
}

#[test]
fn tries_the_other_bootstrap_addresses_when_one_refuses() {
    let mut bench = Bench::new(config("a:1,b:2,c:3"));
    let mut tried = Vec::new();
    for _ in 0..3 {
        let attempt = bench.take_attempt();
        tried.push(attempt.to.clone());
        bench.refuse(&attempt);
    }
    tried.sort();
    assert_eq!(tried, ["a:1", "b:2", "c:3"]);
    assert!(bench.attempts.is_empty(), "all are in their backoff now");
    bench.advance_to_deadline(Duration::from_millis(60));
    assert_eq!(bench.attempts.len(), 1, "and one is tried again after it");
}

#[test]
fn clients_do_not_all_begin_with_the_same_address() {
    let first = |seed| {
        let settings = ClusterConfig {
            seed,
            ..config("a:1,b:2,c:3")
        };
        Bench::new(settings).take_attempt().to
    };
    let begun: BTreeSet<String> = (0..50).map(first).collect();
    assert_eq!(begun.len(), 3);
}

#[test]
fn an_address_that_is_silent_is_hedged_by_another() {
    let mut bench = Bench::new(config("a:1,b:2"));
    let silent = bench.take_attempt();
    bench.advance(Duration::from_millis(500));
    assert!(bench.attempts.is_empty(), "one attempt is enough at first");
    bench.advance_to_deadline(Duration::from_secs(1));
    let second = bench.accept_next();
    assert_ne!(silent.to, second.to);
    bench.respond_with_metadata(&brokers(1, &[]));
    assert!(bench.cluster.is_bootstrapped());
}

#[test]
fn tells_each_address_with_its_cause() {
    let mut bench = Bench::new(config("a:1,b:2"));
    let attempt = bench.take_attempt();
    bench.refuse(&attempt);
    let errors = bench.cluster.bootstrap_errors();
    let told: Vec<String> = errors
        .iter()
        .map(|(address, error)| match error {
            Some(error) => error.to_string(),
            None => format!("{address}: nothing yet"),
        })
        .collect();
    assert!(
        told.contains(&format!("{}: Connection refused", attempt.to)),
        "{told:?}"
    );
    assert_eq!(told.len(), 2);
}

#[test]
fn a_wrong_password_is_fatal_at_once_and_cured_by_a_success() {
    let mut bench = Bench::new(config("a:1"));
    let attempt = bench.take_attempt();
    let error = ConnectionError::Authentication {
        address: "a:1".to_owned(),
        code: Some(ErrorCode::SASL_AUTHENTICATION_FAILED),
        message: "Invalid username or password".to_owned(),
    };
    bench.event(Event::ConnectFailed {
        conn: attempt.conn,
        error: error.clone(),
    });
    assert_eq!(
        bench.cluster.fatal_error().map(|e| (**e).clone()),
        Some(error)
    );
    assert!(bench.cluster.shared_metadata().fatal_error().is_some());
    let start = bench.now;
    while bench.attempts.is_empty() {
        bench.advance_to_deadline(MINUTE);
    }
    let waited = bench.now - start;
    let max = bench.cluster.config().reconnect_backoff_max;
    assert!(
        waited >= max.mul_f64(0.79) && waited <= max,
        "the second password comes after {waited:?}, so that no directory locks the account"
    );
    bench.accept_next();
    bench.respond_with_metadata(&brokers(1, &[]));
    assert!(bench.cluster.fatal_error().is_none());
    assert!(bench.cluster.shared_metadata().fatal_error().is_none());
}

#[test]
fn missing_credentials_fail_calls_only_while_no_connection_works() {
    let without_credentials = |conn| Event::ConnectFailed {
        conn,
        error: ConnectionError::NoCredentials {
            address: "a:1".to_owned(),
            message: "the provider is down".to_owned(),
            error: None,
        },
    };
    let mut bench = Bench::new(config("a:1"));
    let attempt = bench.take_attempt();
    bench.event(without_credentials(attempt.conn));
    assert!(bench.cluster.fatal_error().is_some());
    assert!(bench.cluster.shared_metadata().fatal_error().is_some());
    bench.advance_to_deadline(Duration::from_millis(60));
    bench.accept_next();
    bench.respond_with_metadata(&brokers(2, &[]));
    assert!(bench.cluster.shared_metadata().fatal_error().is_none());

    assert!(!bench.cluster.is_ready(2, Purpose::General, bench.now));
    bench.turn();
    let attempt = bench.take_attempt();
    assert_eq!(attempt.node, 2);
    bench.event(without_credentials(attempt.conn));
    let error = bench.cluster.connection_error(2, Purpose::General);
    assert!(error.is_some(), "calls to this node fail");
    assert!(bench.cluster.fatal_error().is_none());
    assert!(bench.cluster.shared_metadata().fatal_error().is_none());
}

#[test]
fn a_broker_that_accepts_and_closes_is_backed_off_from() {
    let mut bench = Bench::new(config("a:1"));
    let mut waits = Vec::new();
    for _ in 0..6 {
        let attempt = bench.accept_next();
        let error = ConnectionError::ClosedByPeer;
        bench.event(Event::Disconnected {
            conn: attempt.conn,
            error,
        });
        let start = bench.now;
        while bench.attempts.is_empty() {
            bench.advance_to_deadline(MINUTE);
        }
        bench.writes.clear();
        waits.push(bench.now - start);
    }
    assert!(waits[5] > waits[1] * 3, "{waits:?}");
    let errors = bench.cluster.bootstrap_errors();
    assert!(
        errors[0].1.is_some(),
        "the cause is still known while it tries again"
    );
}

#[test]
fn the_bootstrap_connection_goes_on_as_the_node_it_leads_to() {
    let mut bench = Bench::new(config("n1:9092"));
    bench.accept_next();
    bench.respond_with_metadata(&brokers(2, &[]));
    assert!(
        bench.cluster.is_ready(1, Purpose::General, bench.now),
        "no second connection"
    );
    bench.collect();
    assert!(bench.attempts.is_empty());
}

/// Scenario 22 (KIP-899).
#[test]
fn goes_back_to_the_bootstrap_addresses_when_all_known_nodes_are_gone() {
    let mut bench = Bench::new(config("boot:9092"));
    let boot = bench.accept_next();
    bench.respond_with_metadata(&brokers(2, &[]));
    // The metadata is stale, and neither node can be reached.
    bench.advance(Duration::from_secs(1));
    bench.cluster.request_update();
    bench.turn();
    let mut tried = Vec::new();
    for _ in 0..2 {
        let attempt = bench.take_attempt();
        tried.push(attempt.node);
        bench.refuse(&attempt);
    }
    tried.sort_unstable();
    assert_eq!(tried, [1, 2]);
    // KIP-899: the connection to the bootstrap address still exists, so the request goes there.
    let asked = bench.take_write(thalweg_protocol::ApiKey::METADATA);
    assert_eq!(asked.conn, boot.conn);
    bench
        .respond::<thalweg_protocol::messages::metadata::MetadataRequest>(&asked, &brokers(3, &[]));
    assert_eq!(bench.cluster.metadata().nodes().len(), 3);
}

/// Scenario 22 (KIP-1102).
#[test]
fn starts_again_when_no_metadata_comes_for_the_trigger_time() {
    let mut bench = Bench::new(config("boot:9092"));
    bench.accept_next();
    bench.respond_with_metadata(&brokers(1, &[]));
    let group = bench.ready(1, Purpose::Group);
    bench.advance(Duration::from_secs(1));
    bench.cluster.request_update();
    bench.turn();
    // The node accepts the connection, but never responds to Metadata.
    let trigger = bench.cluster.config().metadata_recovery_rebootstrap_trigger;
    let start = bench.now;
    while !bench.closes.contains(&group.conn) {
        while let Some(attempt) = bench.attempts.pop() {
            assert_eq!(attempt.to, "n1:9092", "only the known node until then");
            bench.accept(&attempt);
        }
        bench.writes.clear();
        bench.advance_to_deadline(MINUTE);
    }
    let waited = bench.now - start;
    assert!(
        waited >= trigger && waited <= trigger + Duration::from_secs(1),
        "all connections are given up after {waited:?}"
    );
    while bench.attempts.is_empty() {
        bench.advance_to_deadline(MINUTE);
    }
    let attempt = bench.accept_next();
    assert_eq!((attempt.node, attempt.to.as_str()), (-1, "boot:9092"));
    bench.respond_with_metadata(&brokers(3, &[]));
    assert_eq!(bench.cluster.metadata().nodes().len(), 3);
}

#[test]
fn starts_again_when_the_nodes_swallow_all_packets() {
    let mut bench = Bench::new(config("boot:9092"));
    let boot = bench.accept_next();
    bench.respond_with_metadata(&brokers(3, &[]));
    bench.event(Event::Disconnected {
        conn: boot.conn,
        error: ConnectionError::ClosedByPeer,
    });
    let trigger = bench.cluster.config().metadata_recovery_rebootstrap_trigger;
    let start = bench.now;
    while bench.now - start < trigger + Duration::from_secs(1) {
        bench.advance_to_deadline(MINUTE);
        if bench.now - start < trigger {
            bench.attempts.clear();
        }
    }
    assert!(
        bench
            .attempts
            .iter()
            .any(|attempt| attempt.to == "boot:9092"),
        "{:?}",
        bench.attempts
    );
}

#[test]
fn an_address_that_refuses_is_tried_again_while_another_is_silent() {
    let mut bench = Bench::new(config("a:1,b:2"));
    bench.take_attempt();
    bench.turn();
    bench.advance_to_deadline(Duration::from_secs(1));
    let refusing = bench.take_attempt();
    bench.refuse(&refusing);
    bench.advance_to_deadline(Duration::from_millis(100));
    assert_eq!(bench.take_attempt().to, refusing.to);
}

#[test]
fn times_that_are_too_short_to_connect_in_are_longer() {
    let settings = thalweg_cluster::ClusterConfig {
        connections_max_idle: Duration::ZERO,
        metadata_recovery_rebootstrap_trigger: Duration::ZERO,
        ..config("boot:9092")
    };
    let mut bench = Bench::new(settings);
    bench.accept_next();
    bench.respond_with_metadata(&brokers(1, &[]));
    assert!(bench.cluster.is_bootstrapped() && bench.closes.is_empty());
}

#[test]
fn starts_again_when_a_broker_says_so() {
    let mut bench = Bench::bootstrapped(1);
    bench.cluster.is_ready(1, Purpose::General, bench.now);
    bench.collect();
    bench.accept_next();
    bench.advance(Duration::from_secs(1));
    bench.cluster.request_update();
    bench.turn();
    let mut response = brokers(1, &[]);
    response.error_code = ErrorCode::REBOOTSTRAP_REQUIRED.0;
    bench.respond_with_metadata(&response);
    assert!(bench.closes.len() >= 2, "both connections are given up");
    bench.advance(Duration::from_secs(1));
    assert!(bench.attempts.iter().any(|attempt| attempt.node == -1));
}

#[test]
fn rebootstrap_can_be_switched_off() {
    let mut settings = config("boot:9092");
    settings.rebootstrap = false;
    let mut bench = Bench::new(settings);
    let boot = bench.accept_next();
    bench.respond_with_metadata(&brokers(1, &[]));
    bench.event(Event::Disconnected {
        conn: boot.conn,
        error: ConnectionError::ClosedByPeer,
    });
    for _ in 0..20 {
        while let Some(attempt) = bench.attempts.pop() {
            assert_eq!(attempt.node, 1, "only the known node is tried");
            bench.refuse(&attempt);
        }
        bench.advance_to_deadline(MINUTE);
    }
}

#[test]
fn metadata_without_brokers_is_a_failed_update() {
    let mut bench = Bench::new(config("boot:9092"));
    bench.accept_next();
    bench.respond_with_metadata(&brokers(0, &[]));
    assert!(!bench.cluster.is_bootstrapped());
    assert!(bench.writes.is_empty(), "not asked again at once");
    bench.advance_to_deadline(Duration::from_millis(130));
    bench.respond_with_metadata(&brokers(1, &[]));
    assert!(bench.cluster.is_bootstrapped());
}

/// Before version 4, `Metadata` cannot forbid that the request creates topics.
#[test]
fn a_node_that_is_too_old_for_the_options_is_an_error_and_no_panic() {
    let mut bench = Bench::new(ClusterConfig {
        allow_auto_create_topics: false,
        ..config("boot:9092")
    });
    for _ in 0..3 {
        let attempt = bench.take_attempt();
        let versions = ApiVersions::new([(ApiKey::METADATA, 0, 3)]);
        bench.event(Event::Connected {
            conn: attempt.conn,
            api_versions: Arc::new(versions),
        });
        assert!(bench.writes.is_empty());
        let error = bench.cluster.fatal_error().expect("calls must fail");
        assert!(matches!(**error, ConnectionError::Unsupported { .. }));
        assert!(error.to_string().contains("Metadata"), "{error}");
        // An upgrade of the broker breaks the connection.
        let error = ConnectionError::ClosedByPeer;
        bench.event(Event::Disconnected {
            conn: attempt.conn,
            error,
        });
        while bench.attempts.is_empty() {
            bench.advance_to_deadline(Duration::from_secs(60));
        }
    }
    bench.accept_next();
    bench.respond_with_metadata(&brokers(1, &[]));
    assert!(bench.cluster.fatal_error().is_none());
}
