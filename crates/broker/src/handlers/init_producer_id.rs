//! `InitProducerId` // key 22
//!
//! Gives ids to idempotent producers. Transactions are not offered yet: a transactional id is
//! refused.

use thalweg_protocol::ErrorCode;
use thalweg_protocol::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};

use crate::context::Context;
use crate::subject::Subject;

impl Subject for InitProducerIdRequest {}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse {
    let refused = context
        .injected()
        .or(match request.transactional_id.as_deref() {
            None => None,
            Some("") => Some(ErrorCode::INVALID_REQUEST),
            Some(_) => Some(ErrorCode::UNSUPPORTED_VERSION),
        });
    match refused {
        Some(code) => InitProducerIdResponse {
            error_code: code.0,
            producer_id: -1,
            producer_epoch: -1,
            ..InitProducerIdResponse::default()
        },
        // Without a transactional id nothing ties the id to the one before.
        None => InitProducerIdResponse {
            producer_id: context.core.new_producer_id(),
            producer_epoch: 0,
            ..InitProducerIdResponse::default()
        },
    }
}
