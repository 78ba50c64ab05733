//! Heartbeats and sessions: what Rust does by itself with the coordinator's published state.

use thalweg_protocol::ErrorCode;
use thalweg_protocol::messages::consumer_group_heartbeat::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
};
use thalweg_protocol::messages::heartbeat::HeartbeatRequest;
use thalweg_protocol::messages::join_group::JoinGroupResponse;
use thalweg_protocol::messages::sync_group::{SyncGroupRequest, SyncGroupResponse};

use super::grouped::*;
use super::*;
use crate::GroupEventKind;

fn pair(member: &str) -> (String, String) {
    ("g".to_owned(), member.to_owned())
}

#[test]
fn heartbeats_are_answered_as_kafka_does() {
    let mut bench = served();
    assert_eq!(bench.beat("m", 1), ErrorCode::UNKNOWN_MEMBER_ID);
    let mut group = classic("Stable", 3, &["m", "s"]);
    make_static(&mut group, "s", "instance");
    bench.publish(group.clone());
    assert_eq!(bench.beat("m", 3), ErrorCode::NONE);
    assert_eq!(bench.beat("m", 2), ErrorCode::ILLEGAL_GENERATION);
    assert_eq!(bench.beat("m", 4), ErrorCode::ILLEGAL_GENERATION);
    assert_eq!(bench.beat("stranger", 3), ErrorCode::UNKNOWN_MEMBER_ID);
    let mut beat_as = |member, instance| bench.beat_as(member, Some(instance), 3);
    assert_eq!(beat_as("s", "instance"), ErrorCode::NONE);
    assert_eq!(beat_as("m", "instance"), ErrorCode::FENCED_INSTANCE_ID);
    assert_eq!(beat_as("s", "other"), ErrorCode::UNKNOWN_MEMBER_ID);
    group.state = "PreparingRebalance".into();
    for member in group.members.values_mut() {
        member.heartbeat = ErrorCode::REBALANCE_IN_PROGRESS;
    }
    bench.publish(group.clone());
    assert_eq!(bench.beat("m", 3), ErrorCode::REBALANCE_IN_PROGRESS);
    assert_eq!(bench.beat("m", 2), ErrorCode::ILLEGAL_GENERATION);
    group.state = "Dead".into();
    bench.publish(group);
    assert_eq!(bench.beat("m", 3), ErrorCode::COORDINATOR_NOT_AVAILABLE);
    bench.core.forget_group("g");
    assert_eq!(bench.beat("m", 3), ErrorCode::UNKNOWN_MEMBER_ID);
    bench.publish(consumers("Stable", 3, &["m"]));
    assert_eq!(bench.beat("m", 3), ErrorCode::UNKNOWN_MEMBER_ID);
    assert!(bench.events().is_empty());
}

#[test]
fn heartbeats_go_to_the_groups_coordinator_and_need_a_group() {
    let mut bench = served_by(2, &[]);
    let node = groups::coordinator(&mut bench, "g");
    let mut beat = |node, group: &str| {
        let request = HeartbeatRequest {
            group_id: group.into(),
            ..HeartbeatRequest::default()
        };
        ErrorCode(bench.ask_node(node, &request, 4).error_code)
    };
    assert_eq!(beat(3 - node, "g"), ErrorCode::NOT_COORDINATOR);
    assert_eq!(beat(node, "g"), ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(beat(node, ""), ErrorCode::INVALID_GROUP_ID);
}

#[test]
fn a_member_is_expired_when_its_session_is_over_and_not_before() {
    let mut bench = served();
    bench.publish(classic("Stable", 1, &["lively", "silent"]));
    bench.tick_after(ALMOST);
    assert!(bench.events().is_empty());
    assert_eq!(bench.beat("lively", 1), ErrorCode::NONE);
    let deadline = bench.core.next_deadline();
    assert_eq!(deadline, bench.now + MOMENT);
    bench.tick_after(MOMENT);
    let events = bench.events();
    assert_eq!(events.len(), 1);
    assert!((events[0].at_ms - 10_000.0).abs() < 1e-6, "{events:?}");
    assert!(matches!(&events[0].kind, GroupEventKind::Expired { member } if &**member == "silent"));
    // It is no longer a member, even before the coordinator has handled the event.
    assert_eq!(bench.beat("silent", 1), ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(bench.beat("lively", 1), ErrorCode::NONE);
    bench.tick_after(SESSION);
    assert_eq!(bench.expired(), [pair("lively")]);
}

#[test]
fn heartbeats_while_a_rebalance_is_prepared_keep_a_session_alive_others_do_not() {
    let mut bench = served();
    let mut group = classic("PreparingRebalance", 1, &["m", "old"]);
    for member in group.members.values_mut() {
        member.heartbeat = ErrorCode::REBALANCE_IN_PROGRESS;
    }
    bench.publish(group);
    bench.tick_after(SESSION / 2);
    bench.beat("m", 1);
    assert_eq!(bench.beat("old", 0), ErrorCode::ILLEGAL_GENERATION);
    bench.tick_after(SESSION / 2);
    assert_eq!(bench.expired(), [pair("old")]);
}

#[test]
fn a_deadline_that_comes_nearer_wakes_the_server() {
    let mut bench = served();
    let waker = Waker::from(Arc::clone(&bench.woken));
    bench.core.poll_deadline(&waker);
    bench.publish(classic("Stable", 1, &["m"]));
    assert!(bench.was_woken());
    assert_eq!(bench.core.poll_deadline(&waker), bench.now + SESSION);
}

#[test]
fn members_that_are_not_watched_are_not_expired() {
    let mut bench = served();
    let mut group = classic("PreparingRebalance", 1, &["m"]);
    group.members.get_mut("m").unwrap().is_watched = false;
    bench.publish(group.clone());
    bench.tick_after(SESSION * 5);
    assert!(bench.events().is_empty());
    // Its full session time starts when it is watched again.
    group.members.get_mut("m").unwrap().is_watched = true;
    bench.publish(group.clone());
    bench.tick_after(ALMOST);
    bench.publish(group);
    bench.tick_after(MOMENT);
    assert_eq!(bench.expired(), [pair("m")]);
}

#[test]
fn what_the_coordinator_says_of_before_the_expiry_does_not_revive_a_member() {
    let mut bench = served();
    bench.publish(classic("Stable", 1, &["m"]));
    let before_ms = bench.clock_ms();
    bench.tick_after(SESSION);
    let at_ms = bench.events()[0].at_ms;
    bench.publish_at("g", classic("Stable", 1, &["m", "new"]), before_ms);
    assert_eq!(bench.beat("m", 1), ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(bench.beat("new", 1), ErrorCode::NONE);
    // A view that was published after the expiry counts.
    bench.publish_at("g", classic("Stable", 1, &["m", "new"]), at_ms);
    assert_eq!(bench.beat("m", 1), ErrorCode::NONE);
}

#[test]
fn a_session_does_not_run_while_the_coordinator_takes_its_time() {
    let mut bench = served();
    bench.publish(classic("Stable", 1, &["m", "n"]));
    bench.pass(ALMOST);
    let mut first = wait(bench.handle(1, &join("m"), 9));
    let second = wait(bench.handle(1, &join("n"), 9));
    bench.tick_after(SESSION * 3);
    let requests = bench.events();
    assert_eq!(requests.len(), 2);
    let GroupEventKind::Request(request) = &requests[0].kind else {
        panic!("{requests:?}")
    };
    // The coordinator knows only of the arrival, and publishes that late.
    let group = classic("CompletingRebalance", 2, &["m", "n"]);
    bench.publish_at("g", group, requests[0].at_ms);
    let refused = bench
        .core
        .refuse_group_request(request.ticket, ErrorCode::NONE, bench.now);
    assert!(refused && bench.poll(&mut first).is_some());
    let (gone, now) = (second, bench.now);
    bench.core.forget_wait(&gone, now);
    bench.tick_after(ALMOST);
    assert!(bench.events().is_empty());
    bench.tick_after(MOMENT);
    assert_eq!(bench.expired(), [pair("m"), pair("n")]);
}

#[test]
fn a_request_that_its_member_has_repeated_holds_no_session() {
    let mut bench = served();
    bench.publish(classic("Stable", 1, &["m"]));
    // Kafka never responds to the older one of two JoinGroups.
    let older = wait(bench.handle(1, &join("m"), 9));
    bench.request();
    wait(bench.handle(1, &join("m"), 9));
    let newer = bench.request();
    bench.tick_after(SESSION * 3);
    assert!(bench.events().is_empty());
    assert!(bench.respond(&newer, &JoinGroupResponse::default()));
    bench.tick_after(ALMOST);
    assert!(bench.events().is_empty());
    let now = bench.now;
    bench.core.forget_wait(&older, now);
    bench.tick_after(MOMENT);
    assert_eq!(bench.expired(), [pair("m")]);
}

#[test]
fn sessions_begin_anew_when_the_coordinator_is_another_node() {
    let mut bench = served_by(2, &[]);
    let node = groups::coordinator(&mut bench, "g");
    bench.publish(classic("Stable", 1, &["m"]));
    bench.pass(ALMOST);
    bench
        .core
        .move_coordinator("g", 3 - node, bench.now)
        .unwrap();
    bench.tick_after(ALMOST);
    assert!(bench.events().is_empty());
    // Moving it to the same node again has no effect.
    bench
        .core
        .move_coordinator("g", 3 - node, bench.now)
        .unwrap();
    bench.tick_after(MOMENT);
    assert_eq!(bench.expired(), [pair("m")]);
}

#[test]
fn no_session_runs_while_no_node_lives() {
    let mut bench = served();
    bench.publish(classic("Stable", 1, &["m"]));
    bench.pass(SESSION / 2);
    bench.core.stop_node(1, bench.now).unwrap();
    bench.publish(classic("Stable", 1, &["m", "n"]));
    bench.tick_after(SESSION * 3);
    assert!(bench.events().is_empty());
    bench.core.start_node(1, bench.now).unwrap();
    bench.tick_after(ALMOST);
    assert!(bench.events().is_empty());
    bench.tick_after(MOMENT);
    assert_eq!(bench.expired(), [pair("m"), pair("n")]);
}

#[test]
fn refused_requests_keep_no_session_alive() {
    let mut bench = served();
    bench.publish(consumers("Stable", 3, &["m", "n", "o"]));
    let beat = ConsumerGroupHeartbeatResponse {
        error_code: ErrorCode::FENCED_MEMBER_EPOCH.0,
        ..ConsumerGroupHeartbeatResponse::default()
    };
    let joined = JoinGroupResponse {
        error_code: ErrorCode::INCONSISTENT_GROUP_PROTOCOL.0,
        ..JoinGroupResponse::default()
    };
    let synced = SyncGroupResponse {
        error_code: ErrorCode::ILLEGAL_GENERATION.0,
        ..SyncGroupResponse::default()
    };
    let sync = SyncGroupRequest {
        group_id: "g".into(),
        member_id: "o".into(),
        ..SyncGroupRequest::default()
    };
    bench.pass(SESSION / 2);
    wait(bench.handle(1, &consumer_beat("m", 1), 1));
    let request = bench.request();
    assert!(bench.respond(&request, &beat));
    wait(bench.handle(1, &join("n"), 9));
    let request = bench.request();
    assert!(bench.respond(&request, &joined));
    wait(bench.handle(1, &sync, 5));
    let request = bench.request();
    assert!(bench.respond(&request, &synced));
    bench.tick_after(SESSION / 2);
    assert_eq!(bench.expired(), [pair("m"), pair("n"), pair("o")]);
}

fn consumer_beat(member: &str, epoch: i32) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest {
        group_id: "g".into(),
        member_id: member.into(),
        member_epoch: epoch,
        rebalance_timeout_ms: -1,
        subscribed_topic_names: None,
        topic_partitions: None,
        ..ConsumerGroupHeartbeatRequest::default()
    }
}

#[test]
fn plain_heartbeats_of_the_consumer_protocol_are_answered_without_the_coordinator() {
    let mut bench = served_by(1, &[("group.consumer.heartbeat.interval.ms", "5678")]);
    let mut group = consumers("Stable", 5, &["m", "s"]);
    make_static(&mut group, "s", "instance");
    bench.publish(group);
    bench.pass(ALMOST);
    for version in 0..=1 {
        let response = bench.ask(&consumer_beat("m", 5), version);
        assert_eq!((response.error_code, response.member_epoch), (0, 5));
        assert_eq!(response.member_id.as_deref(), Some("m"));
        assert_eq!(response.heartbeat_interval_ms, 5678);
        assert_eq!(response.assignment, None);
    }
    let mut of_static = consumer_beat("s", 5);
    of_static.instance_id = Some("instance".into());
    assert_eq!(bench.ask(&of_static, 1).error_code, 0);
    assert!(bench.events().is_empty());
    bench.tick_after(ALMOST);
    assert!(bench.events().is_empty());
}

#[test]
fn heartbeats_that_say_something_or_come_from_the_past_go_to_the_coordinator() {
    let mut bench = served();
    let mut group = consumers("Reconciling", 5, &["m", "behind"]);
    group.members.get_mut("behind").unwrap().heartbeat = ErrorCode::REBALANCE_IN_PROGRESS;
    bench.publish(group);
    let plain = consumer_beat("m", 5);
    let changed = [
        consumer_beat("stranger", 5),
        consumer_beat("behind", 5),
        consumer_beat("m", 4),
        consumer_beat("m", 0),
        consumer_beat("m", -1),
        ConsumerGroupHeartbeatRequest {
            instance_id: Some("i".into()),
            ..plain.clone()
        },
        ConsumerGroupHeartbeatRequest {
            rack_id: Some("r".into()),
            ..plain.clone()
        },
        ConsumerGroupHeartbeatRequest {
            rebalance_timeout_ms: 5000,
            ..plain.clone()
        },
        ConsumerGroupHeartbeatRequest {
            subscribed_topic_names: Some(Vec::new()),
            ..plain.clone()
        },
        ConsumerGroupHeartbeatRequest {
            subscribed_topic_regex: Some("a".into()),
            ..plain.clone()
        },
        ConsumerGroupHeartbeatRequest {
            server_assignor: Some("range".into()),
            ..plain.clone()
        },
        ConsumerGroupHeartbeatRequest {
            topic_partitions: Some(Vec::new()),
            ..plain.clone()
        },
    ];
    for request in changed {
        wait(bench.handle(1, &request, 1));
        let handed = bench.request();
        let read = ConsumerGroupHeartbeatRequest::decode(&mut Reader::new(handed.body), 1).unwrap();
        assert_eq!(read, request);
    }
    bench.publish(classic("Stable", 5, &["m"]));
    wait(bench.handle(1, &plain, 1));
    bench.request();
}
