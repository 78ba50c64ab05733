//! What brokers advertise: hosts that the options do not allow, and too many nodes.

use std::sync::Arc;
use std::time::Duration;

use thalweg_cluster::metadata::LeaderHint;
use thalweg_cluster::{
    AllowedHosts, ClusterConfig, ConnectionError, Coordinator, CoordinatorType, Node, Purpose,
};
use thalweg_protocol::messages::find_coordinator::{
    Coordinator as Found, FindCoordinatorRequest, FindCoordinatorResponse,
};
use thalweg_protocol::messages::metadata::{MetadataResponse, MetadataResponseBroker};
use thalweg_protocol::{ApiKey, Str};

use crate::support::{Bench, brokers, config, topic};

const GROUP: CoordinatorType = CoordinatorType::Group;

fn bench(allowed: &[&str], hosts: &[&str]) -> Bench {
    let settings = ClusterConfig {
        advertised_hosts_allowed: Some(AllowedHosts::new(allowed)),
        ..config("boot:9092")
    };
    let mut bench = Bench::new(settings);
    bench.accept_next();
    bench.respond_with_metadata(&advertising(hosts));
    bench
}

fn advertising(hosts: &[&str]) -> MetadataResponse {
    let mut response = brokers(hosts.len(), &[]);
    for (broker, host) in response.brokers.iter_mut().zip(hosts) {
        broker.host = Str::from(*host);
    }
    response
}

/// Returns where the client connects to if somebody asks for the node.
fn connects_to(bench: &mut Bench, node: i32) -> Option<String> {
    bench.cluster.is_ready(node, Purpose::Fetch, bench.now);
    bench.turn();
    let to = bench.attempts.iter().find(|attempt| attempt.node == node);
    to.map(|attempt| attempt.to.clone())
}

#[test]
fn scenario_108_metadata_with_a_host_that_is_not_allowed_is_refused() {
    let mut bench = bench(&["*.example.com"], &["b1.example.com", "169.254.169.254"]);
    assert!(!bench.cluster.is_bootstrapped());
    let error = bench.cluster.fatal_error().expect("calls must fail");
    assert!(error.is_fatal());
    assert_eq!(
        error.to_string(),
        "node 2 advertises 169.254.169.254:9092, and advertised_hosts_allowed (*.example.com) does \
         not allow this host. Add it only if it is one of your brokers"
    );
    // It asks again after a backoff.
    bench.advance_to_deadline(Duration::from_secs(2));
    bench.respond_with_metadata(&advertising(&["b1.example.com", "b2.example.com"]));
    assert!(bench.cluster.is_bootstrapped());
    assert!(bench.cluster.shared_metadata().fatal_error().is_none());
    let to = connects_to(&mut bench, 1);
    assert_eq!(to.as_deref(), Some("b1.example.com:9092"));
}

#[test]
fn scenario_108_a_client_that_knows_its_brokers_keeps_them() {
    let mut bench = bench(&["b*"], &["b1", "b2"]);
    bench.cluster.request_update();
    bench.advance_to_deadline(Duration::from_secs(2));
    bench.accept_next();
    bench.respond_with_metadata(&advertising(&["b1", "127.0.0.1"]));
    assert!(bench.cluster.shared_metadata().fatal_error().is_some());
    bench.advance_to_deadline(Duration::from_secs(2));
    bench.respond_with_metadata(&advertising(&["b1", "b2"]));
    assert!(bench.cluster.fatal_error().is_none());
    assert_eq!(connects_to(&mut bench, 2).as_deref(), Some("b2:9092"));
}

#[test]
fn the_hosts_of_bootstrap_servers_are_allowed() {
    let mut bench = bench(&[], &["boot"]);
    assert_eq!(connects_to(&mut bench, 1).as_deref(), Some("boot:9092"));
}

#[test]
fn scenario_108_a_coordinator_on_such_a_host_gets_no_connection() {
    let mut bench = bench(&["b1"], &["b1"]);
    assert_eq!(bench.cluster.coordinator(GROUP, "g"), Coordinator::Unknown);
    bench.turn();
    bench.accept_next();
    let asked = bench.take_write(ApiKey::FIND_COORDINATOR);
    let found = Found {
        key: Str::from("g"),
        node_id: 7,
        host: Str::from("127.0.0.1"),
        port: 22,
        ..Found::default()
    };
    let response = FindCoordinatorResponse {
        coordinators: vec![found],
        ..Default::default()
    };
    bench.respond::<FindCoordinatorRequest>(&asked, &response);
    assert_eq!(bench.cluster.coordinator(GROUP, "g"), Coordinator::Known(7));
    assert_eq!(connects_to(&mut bench, 7), None);
    let Some(ConnectionError::HostNotAllowed { node, address, .. }) =
        bench.cluster.fatal_error().map(Arc::as_ref)
    else {
        panic!("expected the address that is not allowed");
    };
    assert_eq!((*node, address.as_str()), (7, "127.0.0.1:22"));
}

#[test]
fn without_the_option_any_host_is_allowed() {
    let mut bench = Bench::new(config("boot:9092"));
    bench.accept_next();
    bench.respond_with_metadata(&brokers(1, &[]));
    assert_eq!(connects_to(&mut bench, 1).as_deref(), Some("n1:9092"));
}

#[test]
fn scenario_108_a_hundred_thousand_nodes_are_cut_to_ten_thousand() {
    let mut bench = Bench::new(config("boot:9092"));
    bench.accept_next();
    let mut response = brokers(1, &[topic("t", 1, &[(0, 1)])]);
    response.brokers = (1..=100_000)
        .map(|id| MetadataResponseBroker {
            node_id: id,
            host: Str::from("h"),
            port: 9092,
            ..Default::default()
        })
        .collect();
    bench
        .cluster
        .add_topic("t", bench.now)
        .expect("a good name");
    bench.respond_with_metadata(&response);
    assert_eq!(bench.cluster.metadata().nodes().len(), 10_000);
    // A new leader cannot add another one.
    let hint = LeaderHint {
        topic: Str::from("t"),
        partition: 0,
        leader: 200_000,
        leader_epoch: 99,
    };
    let node = Node {
        id: 200_000,
        host: Str::from("h"),
        port: 1,
        rack: None,
    };
    assert_eq!(bench.cluster.update_leaders(&[hint], &[node]), 1);
    assert_eq!(bench.cluster.metadata().nodes().len(), 10_000);
}
