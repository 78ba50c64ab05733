//! Single requests: targets, versions, deadlines, closing.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use thalweg_cluster::{AllowedHosts, CoordinatorType, Idle, RequestError};
use thalweg_network::{
    Client, ClientConfig, ClientError, Request, RequestTarget, Ticket, VersionChoice,
};
use thalweg_protocol::messages::describe_groups::{DescribeGroupsRequest, DescribeGroupsResponse};
use thalweg_protocol::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use thalweg_protocol::messages::metadata::{MetadataResponse, MetadataResponseBroker};
use thalweg_protocol::{ApiKey, ErrorCode, Str};
use tokio::time::Instant;

use crate::broker::{Broker, Reaction, metadata, ranges, usual};
use crate::support::finished;

pub(crate) fn heartbeat(target: RequestTarget) -> Request {
    Request::typed(target, HeartbeatRequest::default())
}

fn client(broker: &Broker) -> Client<Idle> {
    Client::start_here(broker.parts(&broker.config()), Idle)
}

async fn bootstrapped(client: &Client<Idle>) {
    let bootstrap = client.view().bootstrap(Duration::from_secs(60));
    finished(bootstrap).await.expect("the broker responds");
}

fn ask(client: &Client<Idle>, target: RequestTarget) -> Ticket<thalweg_network::Response> {
    client.view().request(heartbeat(target))
}

#[tokio::test(start_paused = true)]
async fn a_response_comes_back() {
    let broker = Broker::usual();
    let client = client(&broker);
    let response = ask(&client, RequestTarget::LeastLoaded)
        .await
        .expect("a response");
    assert_eq!((response.node, response.api_key), (1, ApiKey::HEARTBEAT));
    assert_eq!(
        response.decode::<HeartbeatRequest>(),
        Ok(HeartbeatResponse::default())
    );
    let got = broker.got(ApiKey::HEARTBEAT);
    assert_eq!(got[0].client_id.as_deref(), Some("tester"));
    assert_eq!(
        got[0].connection, 1,
        "the bootstrap connection serves as node 1's"
    );
}

#[tokio::test(start_paused = true)]
async fn every_target_finds_its_node() {
    let broker = Broker::usual();
    let client = client(&broker);
    let coordinator = RequestTarget::Coordinator {
        kind: CoordinatorType::Group,
        key: Str::from("g"),
    };
    let leader = RequestTarget::Leader {
        topic: Str::from("t"),
        partition: 1,
    };
    for target in [
        RequestTarget::Node(1),
        RequestTarget::Controller,
        coordinator,
        leader,
    ] {
        assert_eq!(ask(&client, target).await.expect("a response").node, 1);
    }
    let got = broker.got(ApiKey::HEARTBEAT);
    assert_ne!(
        got[2].connection, got[1].connection,
        "coordinators have their own connection"
    );
}

#[tokio::test(start_paused = true)]
async fn what_does_not_exist_is_said_at_once() {
    let broker = Broker::usual();
    let client = client(&broker);
    let start = Instant::now();
    let error = ask(&client, RequestTarget::Node(9))
        .await
        .expect_err("no such node");
    assert_eq!(error, ClientError::UnknownNode(9));
    assert_eq!(broker.got(ApiKey::METADATA).len(), 2, "asked once more");
    let target = RequestTarget::Leader {
        topic: Str::from("t"),
        partition: 5,
    };
    let error = ask(&client, target).await.expect_err("no such partition");
    let missing = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    assert!(
        matches!(error, ClientError::Broker { code, .. } if code == missing),
        "{error}"
    );
    let target = RequestTarget::Leader {
        topic: Str::from("a/b"),
        partition: 0,
    };
    let error = ask(&client, target).await.expect_err("no topic's name");
    assert!(matches!(error, ClientError::InvalidTopic(_)));
    assert!(start.elapsed() < Duration::from_secs(1));
}

/// A broker that serves node 2 as well. `change` changes each response about the metadata but the
/// first.
fn broker_of_two(change: fn(&mut MetadataResponse)) -> Broker {
    let responses = AtomicUsize::new(0);
    let broker = Broker::start(move |got| match got.key {
        ApiKey::METADATA => {
            let mut response = metadata(got, "broker", 9092);
            if responses.fetch_add(1, Ordering::Relaxed) > 0 {
                change(&mut response);
            }
            got.respond(&response)
        }
        _ => Reaction::Usual,
    });
    broker.serve(broker.network.listen("second", 9092));
    broker
}

fn add_node_2(response: &mut MetadataResponse) {
    response.brokers.push(MetadataResponseBroker {
        node_id: 2,
        host: Str::from("second"),
        port: 9092,
        ..MetadataResponseBroker::default()
    });
}

#[tokio::test(start_paused = true)]
async fn a_node_that_joined_after_the_last_response_is_found() {
    let broker = broker_of_two(add_node_2);
    let client = client(&broker);
    bootstrapped(&client).await;
    let target = RequestTarget::Node(2);
    let negotiation =
        client
            .view()
            .negotiate(target.clone(), ApiKey::HEARTBEAT, VersionChoice::Newest);
    finished(negotiation).await.expect("it has joined");
    assert_eq!(ask(&client, target).await.expect("a response").node, 2);
    assert_eq!(broker.got(ApiKey::METADATA).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn nothing_waits_for_a_refresh_whose_responses_the_client_refuses() {
    for target in [RequestTarget::Node(2), RequestTarget::Controller] {
        let broker = broker_of_two(add_node_2);
        let config = ClientConfig {
            advertised_hosts_allowed: Some(AllowedHosts::new(["broker"])),
            ..broker.config()
        };
        let client = Client::start_here(broker.parts(&config), Idle);
        bootstrapped(&client).await;
        client.view().forget_controller();
        let start = Instant::now();
        let error = ask(&client, target).await.expect_err("a host to avoid");
        assert!(error.to_string().contains("node 2"), "{error}");
        assert!(start.elapsed() < Duration::from_secs(1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_is_forgotten_is_asked_for_before_the_next_request() {
    let broker = broker_of_two(|response| {
        add_node_2(response);
        response.controller_id = 2;
    });
    let client = client(&broker);
    let response = ask(&client, RequestTarget::Controller).await;
    assert_eq!(response.expect("a response").node, 1);
    client.view().forget_controller();
    let response = ask(&client, RequestTarget::Controller).await;
    assert_eq!(response.expect("a response").node, 2);
    assert_eq!(broker.got(ApiKey::METADATA).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_version_is_chosen_between_both_sides() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::API_VERSIONS => got.respond(&ranges(&[
            (ApiKey::METADATA, 0, 12),
            (ApiKey::HEARTBEAT, 1, 3),
            (ApiKey::SYNC_GROUP, 50, 60),
        ])),
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    for (choice, expected) in [
        (VersionChoice::Newest, 3),
        (VersionChoice::AtMost(2), 2),
        (VersionChoice::Exactly(1), 1),
    ] {
        let request = Request {
            version: choice,
            ..heartbeat(RequestTarget::LeastLoaded)
        };
        let response = client.view().request(request).await.expect("a response");
        assert_eq!(response.version, expected);
    }
    let request = Request {
        version: VersionChoice::Exactly(4),
        ..heartbeat(RequestTarget::LeastLoaded)
    };
    let error = client
        .view()
        .request(request)
        .await
        .expect_err("the broker is older");
    for part in ["node 1", "Heartbeat", "1 to 3", "4 to 4"] {
        assert!(error.to_string().contains(part), "{error}");
    }
    let request = Request::new(RequestTarget::LeastLoaded, ApiKey::SYNC_GROUP, |_| {
        Ok(Vec::new())
    });
    let error = client
        .view()
        .request(request)
        .await
        .expect_err("no version in common");
    assert!(matches!(
        error,
        ClientError::Request(RequestError::UnsupportedVersion(_))
    ));
}

#[tokio::test(start_paused = true)]
async fn silence_ends_with_the_request_timeout_and_closes_the_connection() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::HEARTBEAT if got.connection == 1 => Reaction::Silence,
        _ => Reaction::Usual,
    });
    let mut config = broker.config();
    config.request_timeout = Duration::from_secs(7);
    let client = Client::start_here(broker.parts(&config), Idle);
    bootstrapped(&client).await;
    let start = Instant::now();
    let error = ask(&client, RequestTarget::LeastLoaded)
        .await
        .expect_err("silence");
    let waited = start.elapsed();
    assert!((7.0..7.1).contains(&waited.as_secs_f64()), "{waited:?}");
    assert!(error.to_string().contains("Heartbeat"), "{error}");
    let response = ask(&client, RequestTarget::LeastLoaded).await;
    assert!(response.is_ok(), "it continues on a new connection");
    assert_eq!(broker.got(ApiKey::HEARTBEAT)[1].connection, 2);
}

#[tokio::test(start_paused = true)]
async fn a_caller_in_a_hurry_does_not_end_the_connection() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::HEARTBEAT => Reaction::Later(Duration::from_secs(3), Box::new(usual(got))),
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    let hurried = Request {
        timeout: Some(Duration::from_secs(1)),
        ..heartbeat(RequestTarget::LeastLoaded)
    };
    let error = client
        .view()
        .request(hurried)
        .await
        .expect_err("too slow for it");
    assert!(matches!(error, ClientError::TimedOut(_)), "{error}");
    let response = ask(&client, RequestTarget::LeastLoaded)
        .await
        .expect("slow is not dead");
    assert_eq!(response.node, 1);
    assert_eq!(broker.got(ApiKey::HEARTBEAT)[1].connection, 1);
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_fails_what_was_in_flight_and_is_made_again() {
    static FIRST: AtomicUsize = AtomicUsize::new(0);
    let broker = Broker::start(|got| match got.key {
        ApiKey::HEARTBEAT if FIRST.fetch_add(1, Ordering::Relaxed) == 0 => {
            Reaction::BytesThenClose(Vec::new())
        }
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    let error = ask(&client, RequestTarget::LeastLoaded)
        .await
        .expect_err("it was cut off");
    let ClientError::Request(error) = error else {
        panic!("{error}")
    };
    assert!(error.is_retriable() && error.possibly_written());
    assert!(ask(&client, RequestTarget::LeastLoaded).await.is_ok());
}

/// A read changes nothing, so the caller need not know that its connection broke.
#[tokio::test(start_paused = true)]
async fn a_read_is_sent_again_after_a_lost_connection() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let broker = Broker::start(|got| match got.key {
        ApiKey::DESCRIBE_GROUPS if ASKED.fetch_add(1, Ordering::Relaxed) < 3 => {
            Reaction::BytesThenClose(Vec::new())
        }
        ApiKey::DESCRIBE_GROUPS => got.respond(&DescribeGroupsResponse::default()),
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    let read = Request::typed(RequestTarget::LeastLoaded, DescribeGroupsRequest::default());
    let response = client.view().request(read).await.expect("a response");
    assert_eq!(response.api_key, ApiKey::DESCRIBE_GROUPS);
    assert_eq!(broker.got(ApiKey::DESCRIBE_GROUPS).len(), 4);
}

/// The request's own deadline still ends it.
#[tokio::test(start_paused = true)]
async fn a_read_is_not_sent_again_for_ever() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::DESCRIBE_GROUPS => Reaction::BytesThenClose(Vec::new()),
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    bootstrapped(&client).await;
    let start = Instant::now();
    let read = Request {
        timeout: Some(Duration::from_secs(5)),
        ..Request::typed(RequestTarget::LeastLoaded, DescribeGroupsRequest::default())
    };
    let error = client.view().request(read).await.expect_err("cut off");
    assert!(start.elapsed() < Duration::from_secs(6), "{error}");
    assert!(broker.got(ApiKey::DESCRIBE_GROUPS).len() > 1);
}

#[tokio::test(start_paused = true)]
async fn closing_completes_all_that_is_pending() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::HEARTBEAT => Reaction::Silence,
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    bootstrapped(&client).await;
    let sent = ask(&client, RequestTarget::LeastLoaded);
    let unsent = ask(
        &client,
        RequestTarget::Coordinator {
            kind: CoordinatorType::Group,
            key: "x".into(),
        },
    );
    let view = client.view().clone();
    drop(client);
    assert!(sent.await.is_err());
    assert_eq!(unsent.await.err(), Some(ClientError::Closed));
    assert_eq!(view.check(), Err(ClientError::Closed));
    let late = view.request(heartbeat(RequestTarget::LeastLoaded));
    assert_eq!(late.await.err(), Some(ClientError::Closed));
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_that_is_refused_is_told_with_the_brokers_words() {
    use thalweg_protocol::messages::find_coordinator::{Coordinator, FindCoordinatorResponse};
    let broker = Broker::start(|got| match got.key {
        ApiKey::FIND_COORDINATOR => got.respond(&FindCoordinatorResponse {
            coordinators: vec![Coordinator {
                key: Str::from("g"),
                error_code: ErrorCode::GROUP_AUTHORIZATION_FAILED.0,
                error_message: Some(Str::from("not yours")),
                ..Coordinator::default()
            }],
            ..FindCoordinatorResponse::default()
        }),
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    let target = RequestTarget::Coordinator {
        kind: CoordinatorType::Group,
        key: "g".into(),
    };
    let error = ask(&client, target).await.expect_err("refused");
    assert!(error.to_string().contains("not yours"), "{error}");
}
