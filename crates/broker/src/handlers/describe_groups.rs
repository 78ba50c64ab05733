//! `DescribeGroups` // key 15

use thalweg_protocol::messages::describe_groups::{
    DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup,
};
use thalweg_protocol::{ErrorCode, Str};

use super::operations;
use crate::context::Context;
use crate::subject::Subject;

impl Subject for DescribeGroupsRequest {}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: DescribeGroupsRequest,
) -> DescribeGroupsResponse {
    let with_operations = request.include_authorized_operations;
    let groups = request.groups.into_iter().map(|group| {
        let group = describe(context, group);
        let is_good = group.error_code == 0;
        DescribedGroup {
            authorized_operations: if with_operations && is_good {
                operations::GROUP
            } else {
                operations::NOT_ASKED
            },
            ..group
        }
    });
    DescribeGroupsResponse {
        groups: groups.collect(),
        ..DescribeGroupsResponse::default()
    }
}

fn describe(context: &Context<'_>, group: Str) -> DescribedGroup {
    if let Err(code) = context.check_coordinator(&group) {
        return DescribedGroup {
            error_code: code.0,
            group_id: group,
            ..DescribedGroup::default()
        };
    }
    if context.core.offsets.has_group(&group) {
        return DescribedGroup {
            group_id: group,
            group_state: "Empty".into(),
            ..DescribedGroup::default()
        };
    }
    // Since version 6 an unknown group is an error (KIP-1043), before that it is dead.
    let is_error = context.version >= 6;
    let message = format!("Group {} not found.", group.as_str());
    DescribedGroup {
        error_code: if is_error {
            ErrorCode::GROUP_ID_NOT_FOUND.0
        } else {
            0
        },
        error_message: is_error.then(|| message.into()),
        group_id: group,
        group_state: "Dead".into(),
        ..DescribedGroup::default()
    }
}
