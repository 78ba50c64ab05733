//! Damaged bytes, and frames that are valid but many or large.

use std::time::Duration;

use thalweg_cluster::Idle;
use thalweg_network::{Client, ClientError, Request, RequestTarget};
use thalweg_protocol::messages::heartbeat::HeartbeatResponse;
use thalweg_protocol::messages::list_groups::{ListGroupsRequest, ListGroupsResponse, ListedGroup};
use thalweg_protocol::{ApiKey, Str, frame};

use crate::broker::{Broker, Got, Reaction, usual};
use crate::requests::heartbeat;

/// Returns the error of a heartbeat to which the broker has this reaction.
async fn error_of(reaction: impl Fn(&Got) -> Reaction + Send + Sync + 'static) -> String {
    let broker = Broker::start(move |got| match got.key {
        ApiKey::HEARTBEAT => reaction(got),
        _ => Reaction::Usual,
    });
    let mut config = broker.config();
    config.receive_message_max_bytes = 1_000_000;
    let client = Client::start_here(broker.parts(&config), Idle);
    let error = client
        .view()
        .request(heartbeat(RequestTarget::LeastLoaded))
        .await;
    let ClientError::Request(error) = error.expect_err("a bad response") else {
        panic!("a request's error")
    };
    assert!(error.is_retriable() && error.possibly_written());
    error.to_string()
}

/// Scenario 9.
#[tokio::test(start_paused = true)]
async fn an_oversized_frame_is_refused_by_its_length() {
    let error = error_of(|_| Reaction::Bytes(2_000_000_i32.to_be_bytes().to_vec())).await;
    assert!(
        error.contains("2000000") && error.contains("receive_message_max_bytes"),
        "{error}"
    );
}

/// Scenario 9.
#[tokio::test(start_paused = true)]
async fn a_negative_length_is_refused() {
    let error = error_of(|_| Reaction::Bytes(vec![0xff, 0xff, 0xff, 0xfe])).await;
    assert!(error.contains("negative"), "{error}");
}

/// Scenario 9.
#[tokio::test(start_paused = true)]
async fn an_http_response_is_named() {
    let error = error_of(|_| Reaction::Bytes(b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec())).await;
    assert!(error.contains("HTTP"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_frame_cut_short_is_no_response() {
    let error = error_of(|got| {
        let Reaction::Bytes(mut bytes) = usual(got) else {
            panic!("a heartbeat has a response")
        };
        bytes.pop();
        Reaction::BytesThenClose(bytes)
    })
    .await;
    assert!(error.contains("before the end of a response"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_correlation_id_ends_the_connection() {
    let error = error_of(|got| {
        let wrong = Got {
            correlation_id: got.correlation_id + 1,
            ..got.clone()
        };
        wrong.respond(&HeartbeatResponse::default())
    })
    .await;
    assert!(error.contains("was expected"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_frame_that_comes_byte_by_byte_is_read() {
    let broker = Broker::new(|_| Reaction::Usual);
    let mut listener = broker.network.listen("broker", 9092);
    let serving = broker.clone();
    tokio::spawn(async move {
        while let Some(stream) = listener.accept().await {
            // A pipe of one byte splits every read and write into single bytes.
            let (mut near, far) = tokio::io::duplex(1);
            tokio::spawn(serving.clone().connection(far));
            tokio::spawn(async move {
                let mut stream = stream;
                let _ = tokio::io::copy_bidirectional(&mut stream, &mut near).await;
            });
        }
    });
    let client = Client::start_here(broker.parts(&broker.config()), Idle);
    for _ in 0..3 {
        let request = heartbeat(RequestTarget::LeastLoaded);
        assert!(client.view().request(request).await.is_ok());
    }
}

fn groups(count: usize) -> ListGroupsResponse {
    let group = |index: usize| ListedGroup {
        group_id: Str::from(format!("group-{index:0100}").as_str()),
        ..ListedGroup::default()
    };
    ListGroupsResponse {
        groups: (0..count).map(group).collect(),
        ..Default::default()
    }
}

#[tokio::test(start_paused = true)]
async fn frames_of_every_size_arrive_whole() {
    // Sizes around the read-ahead of 16 KiB, and far above it.
    let broker = Broker::start(|got| match got.key {
        ApiKey::LIST_GROUPS => {
            let request: ListGroupsRequest = got.decode();
            let count: usize = request.states_filter[0]
                .parse()
                .expect("the test sends a number");
            got.respond(&groups(count))
        }
        _ => Reaction::Usual,
    });
    let client = Client::start_here(broker.parts(&broker.config()), Idle);
    for count in [0, 1, 130, 145, 146, 147, 148, 149, 150, 300, 50_000] {
        let request = ListGroupsRequest {
            states_filter: vec![Str::from(count.to_string().as_str())],
            ..ListGroupsRequest::default()
        };
        let request = Request::typed(RequestTarget::LeastLoaded, request);
        let response = client.view().request(request).await.expect("a response");
        assert_eq!(
            response.decode::<ListGroupsRequest>(),
            Ok(groups(count)),
            "{count} groups"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn many_responses_in_one_write_go_to_their_requests() {
    // The broker holds responses back and writes them all at once.
    let broker = Broker::new(|_| Reaction::Usual);
    let mut listener = broker.network.listen("broker", 9092);
    let serving = broker.clone();
    tokio::spawn(async move {
        while let Some(stream) = listener.accept().await {
            let (mut near, far) = tokio::io::duplex(1 << 20);
            tokio::spawn(serving.clone().connection(far));
            tokio::spawn(async move {
                let (mut from_client, mut to_client) = tokio::io::split(stream);
                let (mut from_broker, mut to_broker) = tokio::io::split(&mut near);
                let up = tokio::io::copy(&mut from_client, &mut to_broker);
                let down = async {
                    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
                    let mut held = vec![0; 1 << 20];
                    loop {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        match from_broker.read(&mut held).await {
                            Ok(count) if count > 0 => {
                                if to_client.write_all(&held[..count]).await.is_err() {
                                    return;
                                }
                            }
                            _ => return,
                        }
                    }
                };
                tokio::select! { _ = up => {}, () = down => {} }
            });
        }
    });
    let client = Client::start_here(broker.parts(&broker.config()), Idle);
    let ask = || client.view().request(heartbeat(RequestTarget::LeastLoaded));
    assert!(ask().await.is_ok());
    let tickets: Vec<_> = (0..50).map(|_| ask()).collect();
    for ticket in tickets {
        assert!(ticket.await.is_ok());
    }
}

#[test]
fn the_tests_own_frames_carry_their_length() {
    let bytes = frame::encode_response(ApiKey::HEARTBEAT, 4, 3, &HeartbeatResponse::default());
    let bytes = bytes.expect("a default message");
    assert_eq!(bytes[..4], u32::to_be_bytes(bytes.len() as u32 - 4));
}
