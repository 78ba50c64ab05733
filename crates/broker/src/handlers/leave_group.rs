//! `LeaveGroup` // key 13
//!
//! The coordinator responds to it. A leaving member need not be kept alive until then.

use thalweg_protocol::messages::leave_group::{LeaveGroupRequest, LeaveGroupResponse};
use thalweg_protocol::{ErrorCode, Str};

use crate::groups::{CoordinatorRequest, Routed, route};
use crate::requests::context::Context;
use crate::requests::subject::Subject;

impl Subject for LeaveGroupRequest {}

impl CoordinatorRequest for LeaveGroupRequest {
    fn refusal(_: &[Str], code: ErrorCode) -> LeaveGroupResponse {
        LeaveGroupResponse {
            error_code: code.0,
            ..LeaveGroupResponse::default()
        }
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: LeaveGroupRequest,
) -> Routed<LeaveGroupRequest> {
    route(context, &request.group_id, None)
}
