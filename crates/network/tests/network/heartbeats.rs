//! A group member's heartbeats and the watch over its polls, in virtual time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::time::Duration;

use thalweg_cluster::{CoordinatorType, RequestError};
use thalweg_consumer::ConsumerConfig;
use thalweg_network::consumer::ConsumerClient;
use thalweg_network::{
    ClientError, HeartbeatOutcome, HeartbeatPlan, NamedRequest, Request, RequestTarget,
};
use thalweg_protocol::dynamic::{self, Value};
use thalweg_protocol::messages::find_coordinator::{Coordinator, FindCoordinatorResponse};
use thalweg_protocol::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use thalweg_protocol::messages::join_group::JoinGroupResponse;
use thalweg_protocol::messages::leave_group::LeaveGroupRequest;
use thalweg_protocol::{ApiKey, ErrorCode, Reader, Str, frame};
use tokio::time::Instant;

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
        answer_within: None,
        leave: Some(named(ApiKey::LEAVE_GROUP, vec![("GroupId", "g".into())])),
        max_poll_interval: MAX_POLL_INTERVAL,
    }
}

fn refused(got: &Got, code: ErrorCode) -> Reaction {
    got.answer(&HeartbeatResponse {
        error_code: code.0,
        ..HeartbeatResponse::default()
    })
}

fn by_name(got: &Got, fields: Vec<(&'static str, Value)>) -> Reaction {
    let body = dynamic::encode_response_body(got.key, got.version, &Value::Struct(fields));
    let body = body.expect("the test's answer is good");
    let head = frame::response_head(got.key, got.version, got.correlation_id, body.len());
    Reaction::Bytes([head.expect("a small answer"), body].concat())
}

/// The coordinator of every group, as `FindCoordinator` names it.
fn coordinator(got: &Got, node_id: i32, host: &str) -> Reaction {
    got.answer(&FindCoordinatorResponse {
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

#[tokio::test(start_paused = true)]
async fn one_goes_out_every_interval_and_plain_answers_are_swallowed() {
    let broker = Broker::usual();
    let client = client(&broker);
    client.view().wait_ready().await;
    client.start_heartbeats(plan(classic(5)));
    let before = client.reentries();
    pass(31).await;
    let got = broker.got(ApiKey::HEARTBEAT);
    assert_eq!(got.len(), 10);
    assert_eq!(got[0].decode::<HeartbeatRequest>().generation_id, 5);
    assert_eq!(client.reentries(), before);
    assert!(client.take_notable_heartbeats().is_empty());
    assert_eq!(broker.got(ApiKey::FIND_COORDINATOR).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn they_do_not_wait_behind_a_join_nor_behind_fetches() {
    let broker = Broker::usual(); // never answers a JoinGroup
    let client = client(&broker);
    let _joining = client.view().request(join());
    client.start_heartbeats(plan(classic(5)));
    pass(10).await;
    let joined = broker.got(ApiKey::JOIN_GROUP)[0].connection;
    let beats = broker.got(ApiKey::HEARTBEAT);
    assert_eq!(beats.len(), 3);
    assert!(beats.iter().all(|beat| beat.connection != joined));
}

fn join() -> Request {
    let fields = vec![("GroupId", "g".into()), ("ProtocolType", "consumer".into())];
    named(ApiKey::JOIN_GROUP, fields).into_request(group())
}

/// Answers a `JoinGroup` with this code, after this time.
fn admits(got: &Got, code: ErrorCode, after: Duration) -> Reaction {
    let answer = got.answer(&JoinGroupResponse {
        error_code: code.0,
        generation_id: 8,
        member_id: Str::from("m8"),
        ..JoinGroupResponse::default()
    });
    Reaction::Later(after, Box::new(answer))
}

#[tokio::test(start_paused = true)]
async fn they_begin_with_the_answer_to_a_join_though_nobody_has_read_it() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::JOIN_GROUP => admits(got, ErrorCode::NONE, Duration::from_secs(20)),
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    client.start_heartbeats(plan(classic(5)));
    pass(4).await;
    assert_eq!(broker.got(ApiKey::HEARTBEAT).len(), 1);
    let row = vec![("MemberId", "".into()), ("Reason", "no poll".into())];
    let members = Value::Array(vec![Value::Struct(row)]);
    let fields = vec![("GroupId", "g".into()), ("Members", members)];
    let leave = Some(named(ApiKey::LEAVE_GROUP, fields));
    let new = plan(classic(-1));
    let joining = client.join(join(), HeartbeatPlan { leave, ..new });
    pass(19).await;
    assert_eq!(broker.got(ApiKey::HEARTBEAT).len(), 1, "the join is enough");
    pass(11).await;
    let beats = broker.got(ApiKey::HEARTBEAT);
    assert_eq!(beats.len(), 4, "at 27, 30, 33");
    let last = beats[3].decode::<HeartbeatRequest>();
    assert_eq!((last.generation_id, &*last.member_id), (8, "m8"));
    assert!(joining.is_done());
    // A member whose application does not poll leaves, as any member does.
    pass(300).await;
    let left = broker.got(ApiKey::LEAVE_GROUP);
    assert_eq!(left.len(), 1);
    let leave = left[0].decode::<LeaveGroupRequest>();
    assert_eq!(leave.members[0].member_id, "m8");
    assert!(client.take_poll_expired());
}

#[tokio::test(start_paused = true)]
async fn none_begin_after_a_join_that_was_refused() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::JOIN_GROUP => admits(got, ErrorCode::MEMBER_ID_REQUIRED, Duration::ZERO),
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    let joining = client.join(join(), plan(classic(-1)));
    pass(30).await;
    assert!(joining.is_done());
    assert!(broker.got(ApiKey::HEARTBEAT).is_empty());
}

#[tokio::test(start_paused = true)]
async fn none_begin_after_a_join_that_was_given_up() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::JOIN_GROUP => admits(got, ErrorCode::NONE, Duration::from_secs(2)),
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    let joining = client.join(join(), plan(classic(-1)));
    pass(1).await;
    client.stop_heartbeats();
    pass(30).await;
    assert!(joining.is_done());
    assert!(broker.got(ApiKey::HEARTBEAT).is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_next_one_waits_for_the_answer_of_the_last() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::HEARTBEAT => {
            let answer = got.answer(&HeartbeatResponse::default());
            Reaction::Later(Duration::from_secs(10), Box::new(answer))
        }
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    client.start_heartbeats(plan(classic(5)));
    pass(34).await;
    assert_eq!(broker.got(ApiKey::HEARTBEAT).len(), 4, "at 3, 13, 23, 33");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_no_more_falls_silent_until_it_starts_anew() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::HEARTBEAT => match got.decode::<HeartbeatRequest>().generation_id {
            5 => refused(got, ErrorCode::ILLEGAL_GENERATION),
            _ => Reaction::Usual,
        },
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    client.start_heartbeats(plan(classic(5)));
    let before = client.reentries();
    pass(60).await;
    assert_eq!(broker.got(ApiKey::HEARTBEAT).len(), 1);
    assert_eq!(client.reentries(), before + 1);
    assert_eq!(codes(&client), [Some(22)]);
    client.start_heartbeats(plan(classic(6)));
    pass(10).await;
    assert!(broker.got(ApiKey::HEARTBEAT).len() >= 4);
    assert!(codes(&client).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_rebalance_is_told_and_does_not_end_heartbeats() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::HEARTBEAT => refused(got, ErrorCode::REBALANCE_IN_PROGRESS),
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    client.start_heartbeats(plan(classic(5)));
    pass(10).await;
    assert_eq!(broker.got(ApiKey::HEARTBEAT).len(), 3);
    assert_eq!(codes(&client), [Some(27); 3]);
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_that_moved_is_looked_up_again_and_found() {
    let moved = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&moved);
    let broker = Broker::start(move |got| match got.key {
        ApiKey::HEARTBEAT if !seen.load(Ordering::SeqCst) => {
            refused(got, ErrorCode::NOT_COORDINATOR)
        }
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    client.start_heartbeats(plan(classic(5)));
    pass(33).await;
    let tries = broker.got(ApiKey::HEARTBEAT).len();
    // Backoffs of 0.1, 0.2, 0.4, 0.8 and then 1 s, each up to 20% shorter or longer.
    assert!((25..=45).contains(&tries), "{tries}");
    let lookups = broker.got(ApiKey::FIND_COORDINATOR).len();
    assert!((tries - 1..=tries + 1).contains(&lookups), "{lookups}");
    moved.store(true, Ordering::SeqCst);
    pass(2).await;
    client.take_notable_heartbeats();
    pass(30).await;
    let after = broker.got(ApiKey::HEARTBEAT).len() - tries;
    assert!((10..=14).contains(&after), "at the interval again: {after}");
    assert!(codes(&client).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_dead_coordinator_makes_no_busy_loop() {
    let dead = Arc::new(AtomicBool::new(true));
    let is_dead = Arc::clone(&dead);
    let broker = Broker::start(move |got| match got.key {
        ApiKey::FIND_COORDINATOR if is_dead.load(Ordering::SeqCst) => {
            coordinator(got, 2, "nowhere")
        }
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    client.start_heartbeats(plan(classic(5)));
    pass(120).await;
    assert!(broker.got(ApiKey::HEARTBEAT).is_empty());
    let all = broker.got.lock().expect("never poisoned").len();
    assert!(all < 600, "{all} requests in two minutes");
    let told = outcomes(&client);
    let timed_out = |it: &Result<_, _>| matches!(it, Err(ClientError::TimedOut(_)));
    assert!(!told.is_empty() && told.iter().all(timed_out), "{told:?}");
    dead.store(false, Ordering::SeqCst);
    pass(10).await;
    assert!(broker.got(ApiKey::HEARTBEAT).len() >= 2);
}

#[tokio::test(start_paused = true)]
async fn lost_connections_are_told_and_heartbeats_go_on() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::HEARTBEAT => Reaction::BytesThenClose(Vec::new()),
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    client.start_heartbeats(plan(classic(5)));
    pass(63).await;
    let tries = broker.got(ApiKey::HEARTBEAT).len();
    assert!((20..=90).contains(&tries), "{tries}");
    let lost = |it: &Result<_, _>| {
        matches!(
            it,
            Err(ClientError::Request(RequestError::Disconnected { .. }))
        )
    };
    let told = outcomes(&client);
    assert!(told.len() == 16 && told.iter().all(lost), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn silence_is_a_timeout_and_heartbeats_go_on_by_a_new_connection() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::HEARTBEAT if got.connection == 2 => Reaction::Silence,
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    client.start_heartbeats(plan(classic(5)));
    pass(32).await;
    assert_eq!(broker.got(ApiKey::HEARTBEAT).len(), 1);
    pass(5).await;
    let told = outcomes(&client);
    assert!(
        matches!(&told[..], [Err(ClientError::Request(error))] if error.is_timeout()),
        "{told:?}"
    );
    assert!(broker.got(ApiKey::HEARTBEAT).len() >= 2);
}

/// As in Java, the limit is the session timeout, which mostly comes before the request timeout.
#[tokio::test(start_paused = true)]
async fn a_coordinator_that_hangs_is_given_up_while_the_session_lasts() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::HEARTBEAT if got.connection == 2 => Reaction::Silence,
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    let within = HeartbeatPlan {
        answer_within: Some(Duration::from_secs(10)),
        ..plan(classic(5))
    };
    client.start_heartbeats(within);
    pass(12).await;
    assert_eq!(broker.got(ApiKey::HEARTBEAT).len(), 1);
    pass(3).await;
    assert!(broker.got(ApiKey::HEARTBEAT).len() >= 2);
}

#[tokio::test(start_paused = true)]
async fn an_assignment_is_told_and_its_epoch_goes_into_what_follows() {
    let beats = Arc::new(AtomicI32::new(0));
    let broker = Broker::start(move |got| match got.key {
        CONSUMER_HEARTBEAT => {
            let assignment = match beats.fetch_add(1, Ordering::SeqCst) {
                1 => Value::Struct(vec![("TopicPartitions", Value::Array(Vec::new()))]),
                _ => Value::Null,
            };
            let epoch = beats.load(Ordering::SeqCst).min(2);
            by_name(
                got,
                vec![
                    ("MemberId", "m".into()),
                    ("MemberEpoch", epoch.into()),
                    ("HeartbeatIntervalMs", 1_000_i32.into()),
                    ("Assignment", assignment),
                ],
            )
        }
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    client.start_heartbeats(plan(consumer(1)));
    tokio::time::sleep(Duration::from_millis(10_500)).await;
    assert_eq!(epochs(&broker), [1, 1, 2, 2, 2, 2, 2, 2], "at 3, 4, ... 10");
    let told = outcomes(&client);
    assert_eq!(told.len(), 1, "{told:?}");
    let epoch = told[0].as_ref().map(|body| body.get("MemberEpoch"));
    assert_eq!(epoch, Ok(Some(&Value::Int(2))));
}

#[tokio::test(start_paused = true)]
async fn an_answer_to_what_was_replaced_is_told_only_if_it_is_good_news() {
    for (code, told) in [(0_i16, 1), (110, 0)] {
        let broker = Broker::start(move |got| match got.key {
            CONSUMER_HEARTBEAT => {
                let fields = vec![
                    ("ErrorCode", code.into()),
                    ("MemberEpoch", 2_i32.into()),
                    ("HeartbeatIntervalMs", 3_000_i32.into()),
                ];
                Reaction::Later(Duration::from_secs(1), Box::new(by_name(got, fields)))
            }
            _ => Reaction::Usual,
        });
        let client = client(&broker);
        client.start_heartbeats(plan(consumer(1)));
        tokio::time::sleep(Duration::from_millis(3_500)).await;
        assert_eq!(epochs(&broker), [1]);
        client.start_heartbeats(plan(consumer(7)));
        pass(2).await;
        assert_eq!(client.take_notable_heartbeats().len(), told, "code {code}");
        pass(1).await;
        assert_eq!(epochs(&broker), [1, 7], "an interval after the last");
    }
}

#[tokio::test(start_paused = true)]
async fn who_does_not_poll_leaves_once_and_falls_silent() {
    let broker = Broker::usual();
    let client = client(&broker);
    client.start_heartbeats(plan(classic(5)));
    pass(200).await;
    drop(client.poll_watch().enter());
    pass(299).await;
    assert!(!client.take_poll_expired());
    let before = client.reentries();
    pass(2).await;
    assert!(client.take_poll_expired());
    assert!(!client.take_poll_expired());
    assert_eq!(
        client.reentries(),
        before + 1,
        "a waiting poll would hear of it"
    );
    let beats = broker.got(ApiKey::HEARTBEAT).len();
    assert!((160..=167).contains(&beats), "{beats}");
    pass(1_000).await;
    assert_eq!(broker.got(ApiKey::LEAVE_GROUP).len(), 1);
    assert_eq!(broker.got(ApiKey::HEARTBEAT).len(), beats);
    assert!(!client.take_poll_expired());
}

#[tokio::test(start_paused = true)]
async fn who_has_nothing_to_leave_by_only_falls_silent() {
    let broker = Broker::usual();
    let client = client(&broker);
    let silent = HeartbeatPlan {
        leave: None,
        ..plan(classic(5))
    };
    client.start_heartbeats(silent);
    pass(400).await;
    assert!(client.take_poll_expired());
    assert!(broker.got(ApiKey::LEAVE_GROUP).is_empty());
    assert_eq!(broker.got(ApiKey::HEARTBEAT).len(), 99);
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_counts_as_polling_as_long_as_it_lasts() {
    let broker = Broker::usual();
    let client = client(&broker);
    client.start_heartbeats(plan(classic(5)));
    let polling = client.poll_watch().enter();
    pass(1_000).await;
    drop(polling);
    pass(299).await;
    assert!(!client.take_poll_expired());
    pass(2).await;
    assert!(client.take_poll_expired());
}

#[tokio::test(start_paused = true)]
async fn who_rejoined_is_not_made_to_leave_by_what_could_not_be_sent_before() {
    let found = Arc::new(AtomicBool::new(false));
    let is_found = Arc::clone(&found);
    let broker = Broker::start(move |got| match got.key {
        ApiKey::FIND_COORDINATOR if !is_found.load(Ordering::SeqCst) => {
            coordinator(got, 2, "nowhere")
        }
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    client.start_heartbeats(plan(classic(5)));
    pass(301).await;
    assert!(client.take_poll_expired());
    client.start_heartbeats(plan(classic(6)));
    found.store(true, Ordering::SeqCst);
    pass(20).await;
    assert!(!broker.got(ApiKey::HEARTBEAT).is_empty());
    assert!(broker.got(ApiKey::LEAVE_GROUP).is_empty());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_once_stopped_or_closed() {
    let broker = Broker::usual();
    for closes in [false, true] {
        let client = client(&broker);
        client.start_heartbeats(plan(classic(5)));
        pass(10).await;
        let beats = broker.got(ApiKey::HEARTBEAT).len();
        assert!(beats >= 3);
        if closes {
            let deadline = Instant::now().into_std() + Duration::from_secs(5);
            client.view().close_async(deadline).await;
        } else {
            client.stop_heartbeats();
        }
        pass(1_000).await;
        assert_eq!(broker.got(ApiKey::HEARTBEAT).len(), beats);
        assert!(broker.got(ApiKey::LEAVE_GROUP).is_empty());
        assert!(!client.take_poll_expired());
    }
}

#[tokio::test(start_paused = true)]
async fn who_replaces_heartbeats_learns_when_the_last_of_them_is_answered() {
    let broker = Broker::start(|got| match got.key {
        CONSUMER_HEARTBEAT => {
            let answer = by_name(
                got,
                vec![("ErrorCode", 0.into()), ("MemberEpoch", 1.into())],
            );
            Reaction::Later(Duration::from_secs(2), Box::new(answer))
        }
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    client.start_heartbeats(plan(consumer(1)));
    pass(4).await; // the first was sent at 3
    assert!(!client.old_heartbeat_is_under_way());
    client.start_heartbeats(plan(consumer(1)));
    assert!(client.old_heartbeat_is_under_way());
    let before = client.reentries();
    pass(2).await;
    assert!(!client.old_heartbeat_is_under_way());
    assert!(client.reentries() > before, "a poll that waits looks again");
    pass(10).await;
    assert!(!client.old_heartbeat_is_under_way(), "these are in force");
    assert!(client.take_notable_heartbeats().is_empty());
}

#[tokio::test(start_paused = true)]
async fn heartbeats_are_counted() {
    let broker = Broker::usual();
    let client = client(&broker);
    client.start_heartbeats(plan(classic(5)));
    pass(10).await;
    let groups = client.metrics(Instant::now().into_std());
    let name = "consumer-coordinator-metrics";
    let group = groups.iter().find(|group| group.name == name);
    let values = &group.expect("a consumer of a group has them").values;
    let value = |name| {
        values
            .iter()
            .find(|(known, _)| *known == name)
            .map(|it| it.1)
    };
    assert_eq!(value("heartbeat-total"), Some(3.0));
    let ago = value("last-heartbeat-seconds-ago").expect("one was sent");
    assert!((0.9..1.1).contains(&ago), "{ago}");
}
