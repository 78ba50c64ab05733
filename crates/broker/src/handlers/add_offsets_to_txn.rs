//! `AddOffsetsToTxn` // key 25
//!
//! Adds a group to a transaction, as the partition of `__consumer_offsets` that it belongs to.

use thalweg_protocol::ErrorCode;
use thalweg_protocol::messages::add_offsets_to_txn::{
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse,
};

use crate::requests::context::Context;
use crate::requests::subject::Subject;
use crate::transactions::ProducerIdAndEpoch;

impl Subject for AddOffsetsToTxnRequest {}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: AddOffsetsToTxnRequest,
) -> AddOffsetsToTxnResponse {
    let code = add(context, &request).err().unwrap_or_default();
    AddOffsetsToTxnResponse {
        error_code: super::transactional_code(code, context.version, 2).0,
        ..AddOffsetsToTxnResponse::default()
    }
}

fn add(context: &mut Context<'_>, request: &AddOffsetsToTxnRequest) -> Result<(), ErrorCode> {
    context.check_transactional(&request.transactional_id)?;
    if request.group_id.is_empty() {
        return Err(ErrorCode::INVALID_GROUP_ID);
    }
    if let Some(code) = context.denied_group(&request.group_id) {
        return Err(code);
    }
    let producer = ProducerIdAndEpoch {
        id: request.producer_id,
        epoch: request.producer_epoch,
    };
    let offsets = context.core.offsets_partition(&request.group_id);
    let now = context.time();
    context
        .core
        .add_to_transaction(&request.transactional_id, producer, &[offsets], now)
}
