//! Requests to the coordinator, and its responses.

use std::task::Poll;

use thalweg_protocol::messages::api_versions::ApiVersionsRequest;
use thalweg_protocol::messages::consumer_group_describe::{
    self, ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse,
};
use thalweg_protocol::messages::consumer_group_heartbeat::ConsumerGroupHeartbeatRequest;
use thalweg_protocol::messages::describe_groups::{
    self, DescribeGroupsRequest, DescribeGroupsResponse,
};
use thalweg_protocol::messages::heartbeat::HeartbeatRequest;
use thalweg_protocol::messages::join_group::{JoinGroupRequest, JoinGroupResponse};
use thalweg_protocol::messages::leave_group::LeaveGroupRequest;
use thalweg_protocol::messages::sync_group::SyncGroupRequest;
use thalweg_protocol::{ApiKey, ErrorCode, Str};

use super::grouped::*;
use super::*;
use crate::groups::GROUP_APIS;
use crate::{FaultAction, FaultMatch, GroupEventKind};

const OPERATIONS_OF_GROUP: i32 = 3400;

fn announced(bench: &mut Bench) -> Vec<i16> {
    let request = ApiVersionsRequest {
        client_software_name: "test".into(),
        client_software_version: "1".into(),
    };
    let response = bench.ask(&request, 4);
    response.api_keys.iter().map(|api| api.api_key).collect()
}

#[test]
fn without_a_coordinator_groups_are_not_served() {
    let mut bench = Bench::new(1);
    let known = announced(&mut bench);
    assert!(GROUP_APIS.iter().all(|api| !known.contains(&api.0)));
    assert!(matches!(bench.handle(1, &join(""), 9), Outcome::Close));
    bench.core.serve_groups();
    let known = announced(&mut bench);
    assert!(GROUP_APIS.iter().all(|api| known.contains(&api.0)));
    assert!(known.is_sorted());
    wait(bench.handle(1, &join(""), 9));
}

#[test]
fn a_request_reaches_the_coordinator_and_its_response_the_waiting_connection() {
    let mut bench = served();
    assert!(bench.events().is_empty());
    bench.pass(Duration::from_millis(1500));
    let mut waiting = wait(bench.handle(1, &join("m"), 7));
    assert!(bench.was_woken());
    assert!(bench.poll(&mut waiting).is_none());
    let event = bench.events().remove(0);
    assert!((event.at_ms - 1500.0).abs() < 1e-6);
    assert_eq!(&*event.group, "g");
    let GroupEventKind::Request(request) = event.kind else {
        panic!("no request")
    };
    assert_eq!(
        (request.key, request.version, request.node),
        (ApiKey::JOIN_GROUP, 7, 1)
    );
    assert_eq!(request.client_id.as_deref(), Some("test"));
    assert_eq!(request.client_host, "127.0.0.1");
    assert_eq!(request.draft, None);
    let read = JoinGroupRequest::decode(&mut Reader::new(request.body.clone()), 7).unwrap();
    assert_eq!(read, join("m"));
    let api = bench.core.group_request_api(request.ticket);
    assert_eq!(api, Some((ApiKey::JOIN_GROUP, 7)));
    let response = JoinGroupResponse {
        error_code: ErrorCode::MEMBER_ID_REQUIRED.0,
        member_id: "m-1".into(),
        ..JoinGroupResponse::default()
    };
    assert!(bench.respond(&request, &response));
    assert!(bench.was_woken());
    assert!(!bench.respond(&request, &response), "answered already");
    let outcome = bench.poll(&mut waiting).unwrap();
    assert_eq!(decode::<JoinGroupRequest>(outcome, 7), response);
    assert_eq!(bench.core.group_request_api(request.ticket), None);
}

#[test]
fn a_client_that_went_away_is_answered_by_nobody_but_was_heard() {
    let mut bench = served();
    let leave = LeaveGroupRequest {
        group_id: "g".into(),
        ..LeaveGroupRequest::default()
    };
    let gone = wait(bench.handle(1, &leave, 5));
    bench.core.forget_wait(&gone, bench.now);
    let request = bench.request();
    assert_eq!(request.key, ApiKey::LEAVE_GROUP);
    assert!(!bench.respond(&request, &JoinGroupResponse::default()));
}

#[test]
fn what_waits_at_a_node_that_stops_is_dropped() {
    let mut bench = served();
    let _waiting = wait(bench.handle(1, &join("m"), 9));
    bench.core.stop_node(1, bench.now).unwrap();
    let request = bench.request();
    assert!(!bench.respond(&request, &JoinGroupResponse::default()));
}

#[test]
fn what_waits_at_a_node_that_coordinates_no_more_is_sent_elsewhere() {
    let mut bench = served_by(2, &[]);
    let node = groups::coordinator(&mut bench, "g");
    let mut waiting = wait(bench.handle(node, &join("m"), 9));
    let request = bench.request();
    bench
        .core
        .move_coordinator("g", 3 - node, bench.now)
        .unwrap();
    let outcome = bench.poll(&mut waiting).unwrap();
    let response = decode::<JoinGroupRequest>(outcome, 9);
    assert_eq!(ErrorCode(response.error_code), ErrorCode::NOT_COORDINATOR);
    assert!(!bench.respond(&request, &JoinGroupResponse::default()));
    let refused = bench.ask_node(node, &join("m"), 9);
    assert_eq!(ErrorCode(refused.error_code), ErrorCode::NOT_COORDINATOR);
    assert!(bench.events().is_empty());
    wait(bench.handle(3 - node, &join("m"), 9));
}

#[test]
fn a_group_without_a_name_is_refused_at_once() {
    let mut bench = served();
    let mut nameless = join("m");
    nameless.group_id = Str::default();
    let code = ErrorCode(bench.ask(&nameless, 9).error_code);
    assert_eq!(code, ErrorCode::INVALID_GROUP_ID);
    assert!(bench.events().is_empty());
}

#[test]
fn too_many_requests_are_refused_not_kept() {
    let mut bench = served();
    for _ in 0..10_000 {
        wait(bench.handle(1, &join("m"), 9));
    }
    let code = ErrorCode(bench.ask(&join("m"), 9).error_code);
    assert_eq!(code, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    let mut seen = 0;
    loop {
        let events = bench.events();
        if events.is_empty() {
            break;
        }
        assert!(events.len() <= 500);
        seen += events.len();
    }
    assert_eq!(seen, 10_000);
}

#[test]
fn requests_of_clients_that_went_away_count_as_queued() {
    let mut bench = served();
    let mut large = join("m");
    large.protocols = vec![
        thalweg_protocol::messages::join_group::JoinGroupRequestProtocol {
            name: "range".into(),
            metadata: vec![0; 15 << 20].into(),
        },
    ];
    let frame = frame::encode_request(&large, 9, 7, None).unwrap();
    let frame = Bytes::from(frame).slice(4..);
    for _ in 0..17 {
        let gone = wait(bench.handle_frame(1, frame.clone()));
        bench.core.forget_wait(&gone, bench.now);
    }
    let refused = decode::<JoinGroupRequest>(bench.handle_frame(1, frame.clone()), 9);
    let code = ErrorCode(refused.error_code);
    assert_eq!(code, ErrorCode::COORDINATOR_NOT_AVAILABLE);
    assert_eq!(bench.events().len(), 17);
    wait(bench.handle_frame(1, frame));
}

#[test]
fn the_coordinator_hears_of_other_topics_once() {
    let mut bench = served();
    bench.create("t", 1, &[]);
    announced(&mut bench);
    bench.create("u", 1, &[]);
    announced(&mut bench);
    let events = bench.all_events();
    assert_eq!(events.len(), 1, "{events:?}");
    assert!(matches!(events[0].kind, GroupEventKind::Topics));
    announced(&mut bench);
    assert!(bench.all_events().is_empty(), "nothing has changed");
    assert!(
        bench
            .core
            .delete_topic(bench.core.topology.topic("t").unwrap().id)
    );
    announced(&mut bench);
    assert_eq!(bench.all_events().len(), 1);
}

#[test]
fn a_closed_broker_ends_the_wait_for_events() {
    let mut bench = served();
    assert!(bench.events().is_empty());
    bench.core.close_groups();
    assert!(bench.was_woken());
    let waker = Waker::from(Arc::clone(&bench.woken));
    assert!(matches!(
        bench.core.poll_group_events(&waker),
        Poll::Ready(None)
    ));
}

#[test]
fn faults_apply_to_what_is_handed_over() {
    let mut bench = served();
    let add = |bench: &mut Bench, action| {
        let matches = FaultMatch {
            api: Some(ApiKey::JOIN_GROUP),
            ..FaultMatch::default()
        };
        bench.core.faults.add(matches, action, Some(1));
    };
    let code = ErrorCode::COORDINATOR_LOAD_IN_PROGRESS;
    add(&mut bench, FaultAction::Fail(code));
    assert_eq!(bench.ask(&join("m"), 9).error_code, code.0);
    add(&mut bench, FaultAction::Disconnect);
    assert!(matches!(bench.handle(1, &join("m"), 9), Outcome::Close));
    add(&mut bench, FaultAction::Silence);
    assert!(matches!(bench.handle(1, &join("m"), 9), Outcome::Mute));
    assert!(bench.events().is_empty());
    add(&mut bench, FaultAction::ApplyThenDisconnect);
    let mut waiting = wait(bench.handle(1, &join("m"), 9));
    let request = bench.request();
    bench.respond(&request, &JoinGroupResponse::default());
    assert!(matches!(bench.poll(&mut waiting), Some(Outcome::Close)));
    let delay = Duration::from_secs(1);
    add(&mut bench, FaultAction::Delay(delay));
    let mut waiting = wait(bench.handle(1, &join("m"), 9));
    let request = bench.request();
    bench.respond(&request, &JoinGroupResponse::default());
    let Some(Outcome::Response(response)) = bench.poll(&mut waiting) else {
        panic!("no response")
    };
    assert_eq!(response.not_before, Some(bench.now + delay));
}

/// Checks in every version a fault's error, and an error of the coordinator.
fn walk<R: Request>(request: &R, bench: &mut Bench) {
    for version in R::KEY.valid_versions().unwrap() {
        if request.encode(&mut Vec::new(), version).is_err() {
            continue;
        }
        let fail = FaultAction::Fail(ErrorCode::KAFKA_STORAGE_ERROR);
        bench.core.faults.add(FaultMatch::default(), fail, Some(1));
        decode::<R>(bench.handle(1, request, version), version);
        if R::KEY == ApiKey::HEARTBEAT {
            decode::<R>(bench.handle(1, request, version), version);
            continue;
        }
        let mut waiting = wait(bench.handle(1, request, version));
        let ticket = bench.request().ticket;
        let code = ErrorCode::UNKNOWN_SERVER_ERROR;
        assert!(bench.core.refuse_group_request(ticket, code, bench.now));
        decode::<R>(bench.poll(&mut waiting).unwrap(), version);
    }
}

#[test]
fn every_group_api_responds_in_every_version() {
    let bench = &mut served();
    let heartbeat = HeartbeatRequest {
        group_id: "g".into(),
        ..HeartbeatRequest::default()
    };
    walk(&heartbeat, bench);
    walk(&join("m"), bench);
    let group_id = Str::from("g");
    walk(
        &SyncGroupRequest {
            group_id: group_id.clone(),
            ..SyncGroupRequest::default()
        },
        bench,
    );
    let leave = LeaveGroupRequest {
        group_id: group_id.clone(),
        ..LeaveGroupRequest::default()
    };
    walk(&leave, bench);
    walk(
        &ConsumerGroupHeartbeatRequest {
            group_id: group_id.clone(),
            ..ConsumerGroupHeartbeatRequest::default()
        },
        bench,
    );
    walk(
        &DescribeGroupsRequest {
            groups: vec![group_id.clone()],
            ..DescribeGroupsRequest::default()
        },
        bench,
    );
    walk(
        &ConsumerGroupDescribeRequest {
            group_ids: vec![group_id],
            ..ConsumerGroupDescribeRequest::default()
        },
        bench,
    );
}

/// Returns two group names, one coordinated by each of two nodes.
fn one_of_each(bench: &mut Bench) -> [Str; 2] {
    let mut of = |node| {
        let mut names = (0..100).map(|index| format!("group-{index}"));
        let found = names.find(|name| groups::coordinator(bench, name) == node);
        Str::from(found.unwrap())
    };
    [of(1), of(2)]
}

#[test]
fn descriptions_are_drafted_and_nodes_and_rights_are_added() {
    let mut bench = served_by(2, &[]);
    bench.create("t", 1, &[]);
    let [ours, other] = one_of_each(&mut bench);
    bench.ask_node(1, &groups::commit(&ours, "t", 0, 1), 8);
    let request = DescribeGroupsRequest {
        groups: vec![other.clone(), ours.clone()],
        include_authorized_operations: true,
    };
    let mut waiting = wait(bench.handle(1, &request, 6));
    let handed = bench.request();
    let read = DescribeGroupsRequest::decode(&mut Reader::new(handed.body.clone()), 6).unwrap();
    assert_eq!(read.groups, std::slice::from_ref(&ours));
    let mut draft = Reader::new(handed.draft.clone().unwrap());
    let mut draft = DescribeGroupsResponse::decode(&mut draft, 6).unwrap();
    assert_eq!(draft.groups.len(), 1);
    assert_eq!(&*draft.groups[0].group_state, "Empty");
    draft.groups[0] = describe_groups::DescribedGroup {
        group_id: ours.clone(),
        group_state: "Stable".into(),
        ..describe_groups::DescribedGroup::default()
    };
    bench.respond(&handed, &draft);
    let response = decode::<DescribeGroupsRequest>(bench.poll(&mut waiting).unwrap(), 6);
    let row = |group: &Str| response.groups.iter().find(|row| row.group_id == *group);
    assert_eq!(&*row(&ours).unwrap().group_state, "Stable");
    assert_eq!(
        row(&ours).unwrap().authorized_operations,
        OPERATIONS_OF_GROUP
    );
    let refused = ErrorCode(row(&other).unwrap().error_code);
    assert_eq!(refused, ErrorCode::NOT_COORDINATOR);
    // If the node coordinates none of the groups, the coordinator is not asked.
    let elsewhere = bench.ask_node(
        2,
        &DescribeGroupsRequest {
            groups: vec![ours],
            ..request
        },
        6,
    );
    assert_eq!(elsewhere.groups[0].error_code, ErrorCode::NOT_COORDINATOR.0);
}

#[test]
fn descriptions_of_consumer_groups_are_too() {
    let mut bench = served_by(2, &[]);
    let [ours, other] = one_of_each(&mut bench);
    let request = ConsumerGroupDescribeRequest {
        group_ids: vec![ours.clone(), other.clone()],
        include_authorized_operations: true,
    };
    let mut waiting = wait(bench.handle(1, &request, 1));
    let handed = bench.request();
    let mut draft = Reader::new(handed.draft.clone().unwrap());
    let mut draft = ConsumerGroupDescribeResponse::decode(&mut draft, 1).unwrap();
    let unknown = ErrorCode(draft.groups[0].error_code);
    assert_eq!(unknown, ErrorCode::GROUP_ID_NOT_FOUND);
    draft.groups[0] = consumer_group_describe::DescribedGroup {
        group_id: ours.clone(),
        group_epoch: 3,
        ..consumer_group_describe::DescribedGroup::default()
    };
    bench.respond(&handed, &draft);
    let response = decode::<ConsumerGroupDescribeRequest>(bench.poll(&mut waiting).unwrap(), 1);
    let rows: Vec<_> = response
        .groups
        .iter()
        .map(|row| (&row.group_id, row.error_code, row.authorized_operations))
        .collect();
    let refused = ErrorCode::NOT_COORDINATOR.0;
    assert_eq!(
        rows,
        [(&ours, 0, OPERATIONS_OF_GROUP), (&other, refused, i32::MIN)]
    );
}

#[test]
fn an_undecodable_response_becomes_an_error() {
    let mut bench = served();
    let request = DescribeGroupsRequest {
        groups: vec!["g".into()],
        ..DescribeGroupsRequest::default()
    };
    let mut waiting = wait(bench.handle(1, &request, 6));
    let ticket = bench.request().ticket;
    let body = Bytes::from_static(b"no response at all");
    bench.core.respond_to_group_request(ticket, body, bench.now);
    let response = decode::<DescribeGroupsRequest>(bench.poll(&mut waiting).unwrap(), 6);
    let code = ErrorCode(response.groups[0].error_code);
    assert_eq!(code, ErrorCode::UNKNOWN_SERVER_ERROR);
}
