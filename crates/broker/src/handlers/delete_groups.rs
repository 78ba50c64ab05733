//! `DeleteGroups` // key 42

use thalweg_protocol::messages::delete_groups::{
    DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse,
};

use crate::requests::context::Context;
use crate::requests::subject::Subject;

impl Subject for DeleteGroupsRequest {}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: DeleteGroupsRequest,
) -> DeleteGroupsResponse {
    let joined = context.core.joined_groups();
    let results = request.groups_names.into_iter().map(|group| {
        let now = context.now;
        let deleted = context
            .check_coordinator(&group)
            .and_then(|()| context.core.delete_group(&group, &joined, now));
        DeletableGroupResult {
            group_id: group,
            error_code: deleted.err().unwrap_or_default().0,
        }
    });
    DeleteGroupsResponse {
        results: results.collect(),
        ..DeleteGroupsResponse::default()
    }
}
