//! `Heartbeat` // key 12
//!
//! Responds from the coordinator's published state, without asking the coordinator.

use thalweg_protocol::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};

use crate::groups::Committer;
use crate::requests::context::Context;
use crate::requests::subject::Subject;

impl Subject for HeartbeatRequest {}

pub(crate) fn handle(context: &mut Context<'_>, request: HeartbeatRequest) -> HeartbeatResponse {
    let who = Committer {
        member_id: &request.member_id,
        instance_id: request.group_instance_id.as_deref(),
        epoch: request.generation_id,
    };
    let group = &request.group_id;
    let now = context.now;
    let checked = context
        .check_group(group)
        .and_then(|()| context.core.groups.heartbeat(group, &who, now));
    HeartbeatResponse {
        error_code: checked.err().unwrap_or_default().0,
        ..HeartbeatResponse::default()
    }
}
