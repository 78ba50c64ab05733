//! `InitProducerId` // key 22
//!
//! An idempotent producer gets a new id. A transactional one gets the id of its transactional id
//! with the next epoch, which fences the previous producer.

use thalweg_protocol::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use thalweg_protocol::{ErrorCode, Str};
use thalweg_security::acl::{Operation, ResourceType};

use crate::requests::context::Context;
use crate::requests::subject::Subject;
use crate::transactions::ProducerIdAndEpoch;

impl Subject for InitProducerIdRequest {}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse {
    let given = match &request.transactional_id {
        None => idempotent(context),
        Some(id) => transactional(context, id, &request),
    };
    match given {
        Ok(producer) => InitProducerIdResponse {
            producer_id: producer.id,
            producer_epoch: producer.epoch,
            ..InitProducerIdResponse::default()
        },
        Err(code) => InitProducerIdResponse {
            error_code: super::transactional_code(code, context.version, 4).0,
            producer_id: -1,
            producer_epoch: -1,
            ..InitProducerIdResponse::default()
        },
    }
}

/// Without a transactional id, each request gets a new id.
fn idempotent(context: &mut Context<'_>) -> Result<ProducerIdAndEpoch, ErrorCode> {
    let may_write = context.allows_on_cluster(Operation::IdempotentWrite)
        || context.allows_any(Operation::Write, ResourceType::Topic);
    match context.refusal() {
        Some(code) => Err(code),
        None if !may_write => Err(ErrorCode::CLUSTER_AUTHORIZATION_FAILED),
        None => Ok(ProducerIdAndEpoch {
            id: context.core.new_producer_id(),
            epoch: 0,
        }),
    }
}

fn transactional(
    context: &mut Context<'_>,
    id: &Str,
    request: &InitProducerIdRequest,
) -> Result<ProducerIdAndEpoch, ErrorCode> {
    context.check_transactional(id)?;
    let expected = match (request.producer_id, request.producer_epoch) {
        (-1, -1) => None,
        // One without the other has no meaning.
        (-1, _) | (_, -1) => return Err(ErrorCode::INVALID_REQUEST),
        (id, epoch) => Some(ProducerIdAndEpoch { id, epoch }),
    };
    let now = context.time();
    context
        .core
        .init_transactional(id, expected, request.transaction_timeout_ms, now)
}
