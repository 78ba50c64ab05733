//! `EndTxn` // key 26
//!
//! From version 5 on each end increases the epoch: the response contains the producer id and epoch
//! of the next transaction, and a client that lost the response can ask again (KIP-890).

use thalweg_protocol::ErrorCode;
use thalweg_protocol::messages::end_txn::{EndTxnRequest, EndTxnResponse};

use crate::requests::context::Context;
use crate::requests::subject::Subject;
use crate::transactions::{Level, ProducerIdAndEpoch};

impl Subject for EndTxnRequest {}

pub(crate) fn handle(context: &mut Context<'_>, request: EndTxnRequest) -> EndTxnResponse {
    match end(context, &request) {
        Ok(next) => EndTxnResponse {
            producer_id: next.id,
            producer_epoch: next.epoch,
            ..EndTxnResponse::default()
        },
        Err(code) => EndTxnResponse {
            error_code: super::transactional_code(code, context.version, 2).0,
            ..EndTxnResponse::default()
        },
    }
}

fn end(
    context: &mut Context<'_>,
    request: &EndTxnRequest,
) -> Result<ProducerIdAndEpoch, ErrorCode> {
    let id = &request.transactional_id;
    context.check_transactional(id)?;
    let producer = ProducerIdAndEpoch {
        id: request.producer_id,
        epoch: request.producer_epoch,
    };
    let level = if context.version >= 5 {
        Level::BumpsEpoch
    } else {
        Level::KeepsEpoch
    };
    let now = context.time();
    context
        .core
        .end_transaction(id, producer, request.committed, level, now)
}
