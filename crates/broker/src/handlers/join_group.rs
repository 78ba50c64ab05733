//! `JoinGroup` // key 11
//!
//! The coordinator responds to it when all members have joined.

use thalweg_protocol::messages::join_group::{JoinGroupRequest, JoinGroupResponse};
use thalweg_protocol::{ErrorCode, Str};

use crate::groups::{CoordinatorRequest, Routed, route};
use crate::requests::context::Context;
use crate::requests::subject::Subject;

impl Subject for JoinGroupRequest {}

impl CoordinatorRequest for JoinGroupRequest {
    fn refusal(_: &[Str], code: ErrorCode) -> JoinGroupResponse {
        JoinGroupResponse {
            error_code: code.0,
            ..JoinGroupResponse::default()
        }
    }

    fn error(response: &JoinGroupResponse) -> ErrorCode {
        ErrorCode(response.error_code)
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: JoinGroupRequest,
) -> Routed<JoinGroupRequest> {
    route(context, &request.group_id, Some(&request.member_id))
}
