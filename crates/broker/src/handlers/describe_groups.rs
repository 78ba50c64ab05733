//! `DescribeGroups` // key 15

use thalweg_protocol::messages::describe_groups::{
    DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup,
};
use thalweg_protocol::{ErrorCode, Str};
use thalweg_security::acl::ResourceType;

use super::repeats::{self, GROUPS_PER_REQUEST_MAX};
use crate::groups::{Completion, CoordinatorRequest, HandOver, Rights, Routed, write};
use crate::requests::context::Context;
use crate::requests::operations;
use crate::requests::subject::Subject;

impl Subject for DescribeGroupsRequest {}

impl CoordinatorRequest for DescribeGroupsRequest {
    fn refusal(groups: &[Str], code: ErrorCode) -> DescribeGroupsResponse {
        response(groups.iter().map(|group| refused(group, code)).collect())
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: DescribeGroupsRequest,
) -> Routed<DescribeGroupsRequest> {
    let with_operations = request.include_authorized_operations;
    let (mut ours, mut drafted, mut others) = (Vec::new(), Vec::new(), Vec::new());
    let groups = repeats::distinct(request.groups);
    if groups.len() > GROUPS_PER_REQUEST_MAX {
        return Routed::Here(DescribeGroupsRequest::refusal(
            &groups,
            ErrorCode::INVALID_REQUEST,
        ));
    }
    for group in &groups {
        match context.check_coordinator(group) {
            Ok(()) => {
                ours.push(group.detached());
                drafted.push(describe(context, group, with_operations));
            }
            Err(code) => others.push(refused(&group.detached(), code)),
        }
    }
    if ours.is_empty() || !context.core.groups.is_served() {
        drafted.extend(others);
        return Routed::Here(response(drafted));
    }
    let asked = DescribeGroupsRequest {
        groups: ours.clone(),
        include_authorized_operations: with_operations,
    };
    let version = context.version;
    Routed::Coordinator(HandOver {
        groups: ours,
        member: None,
        body: write(&asked, version).ok(),
        draft: write(&response(drafted), version).ok(),
        completion: Completion::Describe {
            refused: others,
            rights: Rights {
                client: context.connection.reader(),
                are_asked: with_operations,
            },
        },
    })
}

fn response(groups: Vec<DescribedGroup>) -> DescribeGroupsResponse {
    DescribeGroupsResponse {
        groups,
        ..DescribeGroupsResponse::default()
    }
}

fn refused(group: &Str, code: ErrorCode) -> DescribedGroup {
    DescribedGroup {
        error_code: code.0,
        group_id: group.clone(),
        ..DescribedGroup::default()
    }
}

/// Describes a group without its coordinator: it has only offsets, or does not exist.
fn describe(context: &Context<'_>, group: &Str, with_operations: bool) -> DescribedGroup {
    let allowed = |are_asked| {
        let all = operations::of_group(are_asked);
        context.allowed_of(all, ResourceType::Group, group)
    };
    if context.core.offsets.has_group(group) {
        return DescribedGroup {
            group_id: group.detached(),
            group_state: "Empty".into(),
            authorized_operations: allowed(with_operations),
            ..DescribedGroup::default()
        };
    }
    // From version 6 on, an unknown group is an error (KIP-1043). Before that it is reported as
    // dead.
    let is_error = context.version >= 6;
    let message = format!("Group {} not found.", group.as_str());
    let code = if is_error {
        ErrorCode::GROUP_ID_NOT_FOUND
    } else {
        ErrorCode::NONE
    };
    DescribedGroup {
        error_code: code.0,
        error_message: is_error.then(|| message.into()),
        group_id: group.detached(),
        group_state: "Dead".into(),
        authorized_operations: allowed(with_operations && !is_error),
        ..DescribedGroup::default()
    }
}
