//! A group member's heartbeats and the watch over its polls, in virtual time.

mod beating;
mod failures;
mod polls;
mod replacing;

use std::time::Duration;

use thalweg_cluster::CoordinatorType;
use thalweg_consumer::ConsumerConfig;
use thalweg_network::consumer::ConsumerClient;
use thalweg_network::{HeartbeatOutcome, HeartbeatPlan, NamedRequest, RequestTarget};
use thalweg_protocol::dynamic::{self, Value};
use thalweg_protocol::messages::find_coordinator::{Coordinator, FindCoordinatorResponse};
use thalweg_protocol::messages::heartbeat::HeartbeatResponse;
use thalweg_protocol::{ApiKey, ErrorCode, Reader, Str, frame};

use crate::broker::{Broker, Got, Reaction};

const INTERVAL: Duration = Duration::from_secs(3);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(300);
const CONSUMER_HEARTBEAT: ApiKey = ApiKey::CONSUMER_GROUP_HEARTBEAT;

fn group() -> RequestTarget {
    RequestTarget::Coordinator {
        kind: CoordinatorType::Group,
        key: Str::from("g"),
    }
}

fn named(api_key: ApiKey, fields: Vec<(&'static str, Value)>) -> NamedRequest {
    NamedRequest::new(api_key, vec![(i16::MIN, Value::Struct(fields))])
}

fn classic(generation: i32) -> NamedRequest {
    let fields = vec![
        ("GroupId", "g".into()),
        ("GenerationId", generation.into()),
        ("MemberId", "m".into()),
    ];
    named(ApiKey::HEARTBEAT, fields)
}

fn consumer(epoch: i32) -> NamedRequest {
    let fields = vec![
        ("GroupId", "g".into()),
        ("MemberId", "m".into()),
        ("MemberEpoch", epoch.into()),
    ];
    named(CONSUMER_HEARTBEAT, fields)
}

fn plan(request: NamedRequest) -> HeartbeatPlan {
    HeartbeatPlan {
        target: group(),
        request,
        interval: INTERVAL,
        response_timeout: None,
        leave: Some(named(ApiKey::LEAVE_GROUP, vec![("GroupId", "g".into())])),
        max_poll_interval: MAX_POLL_INTERVAL,
    }
}

fn refused(got: &Got, code: ErrorCode) -> Reaction {
    got.respond(&HeartbeatResponse {
        error_code: code.0,
        ..HeartbeatResponse::default()
    })
}

fn by_name(got: &Got, fields: Vec<(&'static str, Value)>) -> Reaction {
    let body = dynamic::encode_response_body(got.key, got.version, &Value::Struct(fields));
    let body = body.expect("the test's response is good");
    let head = frame::response_head(got.key, got.version, got.correlation_id, body.len());
    Reaction::Bytes([head.expect("a small response"), body].concat())
}

/// The coordinator of every group, as `FindCoordinator` names it.
fn coordinator(got: &Got, node_id: i32, host: &str) -> Reaction {
    got.respond(&FindCoordinatorResponse {
        coordinators: vec![Coordinator {
            key: Str::from("g"),
            node_id,
            host: Str::from(host),
            port: 9092,
            ..Coordinator::default()
        }],
        ..FindCoordinatorResponse::default()
    })
}

fn client(broker: &Broker) -> ConsumerClient {
    let config = ConsumerConfig {
        group_id: Some(Str::from("g")),
        ..ConsumerConfig::default()
    };
    ConsumerClient::start_here(broker.parts(&broker.config()), config)
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

fn outcomes(client: &ConsumerClient) -> Vec<HeartbeatOutcome> {
    let news = client.take_notable_heartbeats();
    news.into_iter().map(|it| it.outcome).collect()
}

fn codes(client: &ConsumerClient) -> Vec<Option<i64>> {
    let outcomes = outcomes(client);
    let code = |body: Value| body.get("ErrorCode").and_then(Value::as_int);
    outcomes
        .into_iter()
        .map(|it| it.ok().and_then(code))
        .collect()
}

fn epochs(broker: &Broker) -> Vec<i64> {
    let epoch = |got: &Got| {
        let mut reader = Reader::new(got.body.clone());
        let body = dynamic::decode_request_body(got.key, got.version, &mut reader);
        let body = body.expect("a readable heartbeat");
        body.get("MemberEpoch").and_then(Value::as_int)
    };
    let got = broker.got(CONSUMER_HEARTBEAT);
    got.iter().filter_map(epoch).collect()
}
