//! `ConsumerGroupHeartbeat` // key 68
//!
//! The coordinator responds to it, except for the heartbeats that come every few seconds, in which
//! a member reports nothing new and needs no new information.

use thalweg_protocol::messages::consumer_group_heartbeat::{
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
};
use thalweg_protocol::{ErrorCode, Str};

use crate::groups::{CoordinatorRequest, GroupKind, HandOver, Routed};
use crate::requests::context::Context;
use crate::requests::subject::Subject;

impl Subject for ConsumerGroupHeartbeatRequest {}

impl CoordinatorRequest for ConsumerGroupHeartbeatRequest {
    fn refusal(_: &[Str], code: ErrorCode) -> ConsumerGroupHeartbeatResponse {
        ConsumerGroupHeartbeatResponse {
            error_code: code.0,
            ..ConsumerGroupHeartbeatResponse::default()
        }
    }

    fn error(response: &ConsumerGroupHeartbeatResponse) -> ErrorCode {
        ErrorCode(response.error_code)
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: ConsumerGroupHeartbeatRequest,
) -> Routed<ConsumerGroupHeartbeatRequest> {
    if let Err(code) = context.check_coordinator(&request.group_id) {
        return Routed::Here(ConsumerGroupHeartbeatRequest::refusal(&[], code));
    }
    let mut subscribed = request.subscribed_topic_names.iter().flatten();
    if let Some(code) = subscribed.find_map(|name| context.denied_topic(name)) {
        return Routed::Here(ConsumerGroupHeartbeatRequest::refusal(&[], code));
    }
    if !is_plain(context, &request) {
        return Routed::Coordinator(HandOver::of_member(
            &request.group_id,
            Some(&request.member_id),
        ));
    }
    let core = &mut *context.core;
    let interval_ms = core.options.consumer_heartbeat_interval_ms;
    let who = (request.group_id, request.member_id);
    core.groups.table.sessions.touch(&who, context.now);
    Routed::Here(ConsumerGroupHeartbeatResponse {
        member_id: Some(who.1),
        member_epoch: request.member_epoch,
        heartbeat_interval_ms: interval_ms,
        ..ConsumerGroupHeartbeatResponse::default()
    })
}

/// Whether the request is from a member that the coordinator knows, and reports nothing new.
fn is_plain(context: &Context<'_>, request: &ConsumerGroupHeartbeatRequest) -> bool {
    let view = context.core.groups.table.get(&request.group_id);
    let Some(view) = view.filter(|view| view.kind == GroupKind::Consumer) else {
        return false;
    };
    let Some(member) = view.members.get(&request.member_id) else {
        return false;
    };
    let is_same = request.instance_id.is_none() || request.instance_id == member.instance_id;
    let is_settled = member.heartbeat == ErrorCode::NONE && member.epoch == request.member_epoch;
    is_same && is_settled && !says_something(request)
}

fn says_something(request: &ConsumerGroupHeartbeatRequest) -> bool {
    request.member_epoch <= 0
        || request.rebalance_timeout_ms != -1
        || request.rack_id.is_some()
        || request.subscribed_topic_names.is_some()
        || request.subscribed_topic_regex.is_some()
        || request.server_assignor.is_some()
        || request.topic_partitions.is_some()
}
