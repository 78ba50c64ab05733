//! `AddPartitionsToTxn` // key 24
//!
//! Up to version 3, clients send it for one transaction. From version 4 on, brokers send it for
//! many, and can also only ask (KIP-890). Either all partitions of a transaction are added, or
//! none.

use thalweg_protocol::messages::add_partitions_to_txn::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult, AddPartitionsToTxnTopic, AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
};
use thalweg_protocol::{ErrorCode, Str};

use crate::Core;
use crate::requests::context::Context;
use crate::requests::subject::Subject;
use crate::topology::topic::is_internal;
use crate::transactions::{ProducerIdAndEpoch, TopicPartition};

impl Subject for AddPartitionsToTxnRequest {
    fn topics(&self, _: &Core) -> Vec<Str> {
        let batched = self.transactions.iter().flat_map(|each| &each.topics);
        self.v3_and_below_topics
            .iter()
            .chain(batched)
            .map(|topic| topic.name.clone())
            .collect()
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: AddPartitionsToTxnRequest,
) -> AddPartitionsToTxnResponse {
    if context.version >= 4 {
        let transactions = request.transactions.into_iter();
        return AddPartitionsToTxnResponse {
            results_by_transaction: transactions
                .map(|transaction| AddPartitionsToTxnResult {
                    topic_results: add(context, &transaction),
                    transactional_id: transaction.transactional_id,
                })
                .collect(),
            ..AddPartitionsToTxnResponse::default()
        };
    }
    let transaction = AddPartitionsToTxnTransaction {
        transactional_id: request.v3_and_below_transactional_id,
        producer_id: request.v3_and_below_producer_id,
        producer_epoch: request.v3_and_below_producer_epoch,
        verify_only: false,
        topics: request.v3_and_below_topics,
    };
    AddPartitionsToTxnResponse {
        results_by_topic_v3_and_below: add(context, &transaction),
        ..AddPartitionsToTxnResponse::default()
    }
}

fn add(
    context: &mut Context<'_>,
    transaction: &AddPartitionsToTxnTransaction,
) -> Vec<AddPartitionsToTxnTopicResult> {
    if let Err(code) = context.check_transactional(&transaction.transactional_id) {
        return results(context, transaction, |_| code);
    }
    let topics = transaction.topics.iter();
    let partitions: Vec<TopicPartition> = topics.flat_map(partitions_of).collect();
    let missing = |partition: &TopicPartition| missing(context, partition);
    if partitions
        .iter()
        .any(|partition| missing(partition).is_some())
    {
        return results(context, transaction, |partition| {
            missing(partition).unwrap_or(ErrorCode::OPERATION_NOT_ATTEMPTED)
        });
    }
    let producer = ProducerIdAndEpoch {
        id: transaction.producer_id,
        epoch: transaction.producer_epoch,
    };
    let id = &transaction.transactional_id;
    let now = context.time();
    if transaction.verify_only {
        let mut verify = |partition: &TopicPartition| {
            let outcome = context.core.ask_transaction(id, producer, partition);
            outcome.err().unwrap_or_default()
        };
        let codes: Vec<ErrorCode> = partitions.iter().map(&mut verify).collect();
        let mut codes = codes.into_iter();
        return results(context, transaction, |_| codes.next().unwrap_or_default());
    }
    let added = context
        .core
        .add_to_transaction(id, producer, &partitions, now);
    results(context, transaction, |_| added.err().unwrap_or_default())
}

fn partitions_of(topic: &AddPartitionsToTxnTopic) -> impl Iterator<Item = TopicPartition> {
    let name = topic.name.clone();
    topic
        .partitions
        .iter()
        .map(move |index| (name.clone(), *index))
}

/// Returns why a partition cannot be added.
fn missing(context: &Context<'_>, (topic, index): &TopicPartition) -> Option<ErrorCode> {
    if let Some(code) = context.refusal_for(topic) {
        return Some(code);
    }
    if is_internal(topic) {
        return Some(ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    }
    let found = context.core.topology.topic(topic);
    match found.and_then(|topic| topic.partition(*index)) {
        Some(_) => None,
        None => Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
    }
}

fn results(
    context: &Context<'_>,
    transaction: &AddPartitionsToTxnTransaction,
    mut code: impl FnMut(&TopicPartition) -> ErrorCode,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let topics = transaction.topics.iter();
    let result = |topic: &AddPartitionsToTxnTopic| {
        let partitions = partitions_of(topic).map(|partition| {
            let code = super::transactional_code(code(&partition), context.version, 2);
            AddPartitionsToTxnPartitionResult {
                partition_index: partition.1,
                partition_error_code: code.0,
            }
        });
        AddPartitionsToTxnTopicResult {
            results_by_partition: partitions.collect(),
            name: topic.name.clone(),
        }
    };
    topics.map(result).collect()
}
