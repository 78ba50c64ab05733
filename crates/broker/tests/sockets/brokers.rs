//! Brokers that start, stop and close, their nodes and ports, and their topics.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};

use socket2::{Domain, Socket, Type};
use thalweg_broker::{BrokerConfig, BrokerError, EmbeddedBroker};
use thalweg_protocol::ErrorCode;
use thalweg_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic};

use crate::client::{Client, fetch, start, topic};

#[test]
fn a_stopped_node_is_gone_and_comes_back_at_its_port() {
    let broker = start(3);
    broker.create_topic("t", 3, 3, &BTreeMap::new()).unwrap();
    let old = broker.leader("t", 1).unwrap();
    let mut connected = Client::new(&broker, old);
    connected.ask(&MetadataRequest::default(), 12);
    broker.stop_node(old).unwrap();
    broker.stop_node(old).unwrap();
    assert!(connected.is_closed());
    let port = broker.ports()[(old - 1) as usize];
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    let new = broker.leader("t", 1).unwrap();
    assert_ne!(new, old);
    let response = Client::new(&broker, new).ask(&MetadataRequest::default(), 12);
    assert_eq!(response.brokers.len(), 2);
    assert_eq!(broker.live_nodes().len(), 2);
    broker.start_node(old).unwrap();
    broker.start_node(old).unwrap();
    let response = Client::new(&broker, old).ask(&MetadataRequest::default(), 12);
    assert_eq!(response.brokers.len(), 3);
    broker.move_leader("t", 1, old).unwrap();
    assert_eq!(broker.leader("t", 1).unwrap(), old);
    assert!(matches!(
        broker.stop_node(4),
        Err(BrokerError::NoSuchNode { node: 4, nodes: 3 })
    ));
}

#[test]
fn nobody_takes_the_port_of_a_stopped_node() {
    let broker = start(2);
    let port = broker.ports()[0];
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    // Nobody has connected yet, so it is not a closed connection that keeps the port.
    broker.stop_node(1).unwrap();
    let other = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    let taken = other.bind(&address.into()).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AddrInUse);
    assert!(TcpStream::connect(address).is_err());
    for _ in 0..2 {
        broker.start_node(1).unwrap();
        Client::new(&broker, 1).ask(&MetadataRequest::default(), 12);
        broker.stop_node(1).unwrap();
    }
    broker.close();
    TcpListener::bind(("127.0.0.1", port)).unwrap();
}

#[test]
fn clients_are_told_of_all_nodes_and_where_they_are() {
    let broker = start(3);
    let response = Client::new(&broker, 2).ask(&MetadataRequest::default(), 12);
    let told: Vec<String> = response
        .brokers
        .iter()
        .map(|node| format!("{}:{}", &*node.host, node.port))
        .collect();
    assert_eq!(told.join(","), broker.bootstrap_servers());
    assert_eq!(broker.node_ids(), [1, 2, 3]);
}

#[test]
fn a_taken_port_is_named() {
    let taken = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = taken.local_addr().unwrap().port();
    let config = BrokerConfig {
        port,
        ..BrokerConfig::default()
    };
    let error = EmbeddedBroker::start(config).err().unwrap();
    assert!(error.is_port_taken());
    assert_eq!(
        error.to_string(),
        format!(
            "node 1: port {port} of 127.0.0.1 is in use. Choose another port, or 0 for a free one"
        )
    );
}

#[test]
fn bad_configurations_are_refused_before_anything_listens() {
    let refused = |config| EmbeddedBroker::start(config).err().unwrap().to_string();
    let none = BrokerConfig {
        nodes: 0,
        ..BrokerConfig::default()
    };
    assert!(refused(none).contains("nodes must be at least 1"));
    let far = BrokerConfig {
        nodes: 3,
        port: 65_534,
        ..BrokerConfig::default()
    };
    assert!(refused(far).contains("65536"));
    let options = BTreeMap::from([("log.dirs".to_owned(), "x".to_owned())]);
    assert!(
        refused(BrokerConfig {
            options,
            ..BrokerConfig::default()
        })
        .contains("log.dirs")
    );
}

#[test]
fn a_closed_broker_is_closed_for_all_and_may_be_closed_again() {
    let broker = start(2);
    topic(&broker, "t");
    let mut waiting = Client::new(&broker, broker.leader("t", 0).unwrap());
    waiting.send(&fetch("t", 0, 60_000), 12, 1);
    let port = broker.ports()[0];
    broker.close();
    broker.close();
    assert!(waiting.is_closed());
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err());
    assert!(!broker.is_running());
    let refused = broker.create_topic("u", 1, 1, &BTreeMap::new());
    assert!(matches!(refused, Err(BrokerError::Closed)));
    assert!(matches!(broker.stop_node(1), Err(BrokerError::Closed)));
}

#[test]
fn two_brokers_live_side_by_side() {
    let (one, other) = (start(1), start(1));
    topic(&one, "t");
    assert_eq!(one.topics(), BTreeMap::from([("t".to_owned(), 1)]));
    assert!(other.topics().is_empty());
    drop(one);
    assert_eq!(
        Client::new(&other, 1)
            .ask(&MetadataRequest::default(), 12)
            .brokers
            .len(),
        1
    );
}

#[test]
fn topics_are_made_and_removed_from_the_program() {
    let broker = start(1);
    let bad = BTreeMap::from([("no.such".to_owned(), "1".to_owned())]);
    let code = |result: Result<(), BrokerError>| result.unwrap_err().code();
    assert_eq!(
        code(broker.create_topic("t", 1, 1, &bad)),
        Some(ErrorCode::INVALID_CONFIG)
    );
    topic(&broker, "t");
    let again = broker.create_topic("t", 1, 1, &BTreeMap::new());
    assert_eq!(code(again), Some(ErrorCode::TOPIC_ALREADY_EXISTS));
    broker.delete_topic("t").unwrap();
    assert_eq!(
        code(broker.delete_topic("t")),
        Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
    );
}

#[test]
fn a_topic_is_created_when_asked_for() {
    let broker = start(1);
    let wish = MetadataRequestTopic {
        name: Some("new".into()),
        ..Default::default()
    };
    let request = MetadataRequest {
        topics: Some(vec![wish]),
        ..MetadataRequest::default()
    };
    let response = Client::new(&broker, 1).ask(&request, 12);
    assert_eq!(response.topics[0].error_code, 0);
    assert_eq!(broker.topics(), BTreeMap::from([("new".to_owned(), 1)]));
}
