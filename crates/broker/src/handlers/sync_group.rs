//! `SyncGroup` // key 14
//!
//! The coordinator responds to it when the leader has sent the assignment.

use thalweg_protocol::messages::sync_group::{SyncGroupRequest, SyncGroupResponse};
use thalweg_protocol::{ErrorCode, Str};

use crate::groups::{CoordinatorRequest, Routed, route};
use crate::requests::context::Context;
use crate::requests::subject::Subject;

impl Subject for SyncGroupRequest {}

impl CoordinatorRequest for SyncGroupRequest {
    fn refusal(_: &[Str], code: ErrorCode) -> SyncGroupResponse {
        SyncGroupResponse {
            error_code: code.0,
            ..SyncGroupResponse::default()
        }
    }

    fn error(response: &SyncGroupResponse) -> ErrorCode {
        ErrorCode(response.error_code)
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: SyncGroupRequest,
) -> Routed<SyncGroupRequest> {
    route(context, &request.group_id, Some(&request.member_id))
}
