//! `DeleteGroups` // key 42

use thalweg_protocol::ErrorCode;
use thalweg_protocol::messages::delete_groups::{
    DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse,
};

use crate::context::Context;
use crate::subject::Subject;

impl Subject for DeleteGroupsRequest {}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: DeleteGroupsRequest,
) -> DeleteGroupsResponse {
    let results = request.groups_names.into_iter().map(|group| {
        let code = match context.check_coordinator(&group) {
            Err(code) => code,
            Ok(()) if context.core.offsets.delete_group(&group) => ErrorCode::NONE,
            Ok(()) => ErrorCode::GROUP_ID_NOT_FOUND,
        };
        DeletableGroupResult {
            group_id: group,
            error_code: code.0,
        }
    });
    DeleteGroupsResponse {
        results: results.collect(),
        ..DeleteGroupsResponse::default()
    }
}
