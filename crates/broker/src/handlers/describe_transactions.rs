//! `DescribeTransactions` // key 65

use std::collections::BTreeMap;

use thalweg_protocol::messages::describe_transactions::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, TopicData, TransactionState,
};
use thalweg_protocol::{ErrorCode, Str};

use super::repeats;
use crate::requests::context::Context;
use crate::requests::subject::Subject;
use crate::transactions::Transaction;

impl Subject for DescribeTransactionsRequest {}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: DescribeTransactionsRequest,
) -> DescribeTransactionsResponse {
    let ids = repeats::distinct(request.transactional_ids).into_iter();
    DescribeTransactionsResponse {
        transaction_states: ids.map(|id| describe(context, id)).collect(),
        ..DescribeTransactionsResponse::default()
    }
}

fn describe(context: &Context<'_>, id: Str) -> TransactionState {
    let found = context.check_transactional(&id).and_then(|()| {
        let transaction = context.core.transactions.get(&id);
        transaction.ok_or(ErrorCode::TRANSACTIONAL_ID_NOT_FOUND)
    });
    match found {
        Ok(transaction) => TransactionState {
            transactional_id: id,
            transaction_state: transaction.state.name().into(),
            transaction_timeout_ms: transaction.timeout_ms,
            transaction_start_time_ms: transaction.start_ms,
            producer_id: transaction.producer.id,
            producer_epoch: transaction.producer.epoch,
            topics: topics(context, transaction),
            ..TransactionState::default()
        },
        Err(code) => TransactionState {
            error_code: code.0,
            transactional_id: id,
            ..TransactionState::default()
        },
    }
}

fn topics(context: &Context<'_>, transaction: &Transaction) -> Vec<TopicData> {
    let mut topics: BTreeMap<&Str, Vec<i32>> = BTreeMap::new();
    let partitions = transaction.partitions.iter();
    let visible = partitions.filter(|(topic, _)| context.denied_topic(topic).is_none());
    for (topic, partition) in visible {
        topics.entry(topic).or_default().push(*partition);
    }
    let topics = topics.into_iter().map(|(topic, partitions)| TopicData {
        topic: topic.clone(),
        partitions,
    });
    topics.collect()
}
