//! `FindCoordinator` // key 10
//!
//! The coordinator is the node that would lead the key's partition of `__consumer_offsets` (or
//! `__transaction_state`). Those topics themselves do not exist here.

use thalweg_protocol::messages::find_coordinator::{
    Coordinator, FindCoordinatorRequest, FindCoordinatorResponse,
};
use thalweg_protocol::{ErrorCode, Str};

use super::repeats;
use thalweg_security::acl::{Operation, ResourceType};

use crate::requests::context::Context;
use crate::requests::subject::Subject;
use crate::topology::coordinator::CoordinatorKind;

impl Subject for FindCoordinatorRequest {}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: FindCoordinatorRequest,
) -> FindCoordinatorResponse {
    if context.version >= 4 {
        let keys = repeats::distinct(request.coordinator_keys).into_iter();
        return FindCoordinatorResponse {
            coordinators: keys
                .map(|key| find(context, key, request.key_type))
                .collect(),
            ..FindCoordinatorResponse::default()
        };
    }
    let found = find(context, request.key, request.key_type);
    FindCoordinatorResponse {
        error_code: found.error_code,
        // Kafka's message when there is no error.
        error_message: match found.error_code {
            0 => Some("NONE".into()),
            _ => found.error_message,
        },
        node_id: found.node_id,
        host: found.host,
        port: found.port,
        ..FindCoordinatorResponse::default()
    }
}

fn find(context: &Context<'_>, key: Str, key_type: i8) -> Coordinator {
    let kind = match key_type {
        0 => Ok(CoordinatorKind::Group),
        1 => Ok(CoordinatorKind::Transaction),
        _ => Err(ErrorCode::INVALID_REQUEST),
    };
    let denied = |kind: &CoordinatorKind| {
        let (resource_type, code) = match kind {
            CoordinatorKind::Group => (ResourceType::Group, ErrorCode::GROUP_AUTHORIZATION_FAILED),
            CoordinatorKind::Transaction => (
                ResourceType::TransactionalId,
                ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            ),
        };
        (!context.allows(Operation::Describe, resource_type, &key)).then_some(code)
    };
    let refusal = context
        .refusal()
        .or_else(|| kind.as_ref().ok().and_then(denied));
    let node = match (refusal, kind) {
        (Some(code), _) | (None, Err(code)) => Err(code),
        (None, Ok(kind)) => context
            .core
            .coordinator(kind, &key)
            .ok_or(ErrorCode::COORDINATOR_NOT_AVAILABLE),
    };
    match node {
        Ok(node) => Coordinator {
            key,
            node_id: node.id,
            host: node.host.clone(),
            port: i32::from(node.port),
            ..Coordinator::default()
        },
        Err(code) => Coordinator {
            key,
            node_id: -1,
            port: -1,
            error_code: code.0,
            error_message: Some(Str::from_static(code.message())),
            ..Coordinator::default()
        },
    }
}
