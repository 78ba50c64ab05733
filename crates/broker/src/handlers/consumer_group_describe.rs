//! `ConsumerGroupDescribe` // key 69
//!
//! The coordinator responds to it. A group that it does not know is not of this type.

use thalweg_protocol::messages::consumer_group_describe::{
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse, DescribedGroup,
};
use thalweg_protocol::{ErrorCode, Str};

use super::repeats::{self, GROUPS_PER_REQUEST_MAX};
use crate::groups::{Completion, CoordinatorRequest, HandOver, Rights, Routed, write};
use crate::requests::context::Context;
use crate::requests::subject::Subject;

impl Subject for ConsumerGroupDescribeRequest {}

impl CoordinatorRequest for ConsumerGroupDescribeRequest {
    fn refusal(groups: &[Str], code: ErrorCode) -> ConsumerGroupDescribeResponse {
        let refused = groups.iter().map(|group| refused(group, code, None));
        response(refused.collect())
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: ConsumerGroupDescribeRequest,
) -> Routed<ConsumerGroupDescribeRequest> {
    let (mut ours, mut others) = (Vec::new(), Vec::new());
    let groups = repeats::distinct(request.group_ids);
    if groups.len() > GROUPS_PER_REQUEST_MAX {
        return Routed::Here(ConsumerGroupDescribeRequest::refusal(
            &groups,
            ErrorCode::INVALID_REQUEST,
        ));
    }
    for group in &groups {
        match context.check_coordinator(group) {
            Ok(()) => ours.push(group.detached()),
            Err(code) => others.push(refused(&group.detached(), code, None)),
        }
    }
    if ours.is_empty() {
        return Routed::Here(response(others));
    }
    let asked = ConsumerGroupDescribeRequest {
        group_ids: ours.clone(),
        include_authorized_operations: request.include_authorized_operations,
    };
    let draft = response(ours.iter().map(unknown).collect());
    let version = context.version;
    Routed::Coordinator(HandOver {
        groups: ours,
        member: None,
        body: write(&asked, version).ok(),
        draft: write(&draft, version).ok(),
        completion: Completion::ConsumerDescribe {
            refused: others,
            rights: Rights {
                client: context.connection.reader(),
                are_asked: request.include_authorized_operations,
            },
        },
    })
}

fn unknown(group: &Str) -> DescribedGroup {
    let message = format!("Group {} is not a consumer group.", group.as_str());
    refused(group, ErrorCode::GROUP_ID_NOT_FOUND, Some(message.into()))
}

fn refused(group: &Str, code: ErrorCode, error_message: Option<Str>) -> DescribedGroup {
    DescribedGroup {
        error_code: code.0,
        error_message,
        group_id: group.clone(),
        ..DescribedGroup::default()
    }
}

fn response(groups: Vec<DescribedGroup>) -> ConsumerGroupDescribeResponse {
    ConsumerGroupDescribeResponse {
        groups,
        ..ConsumerGroupDescribeResponse::default()
    }
}
