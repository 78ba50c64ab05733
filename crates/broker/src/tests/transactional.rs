//! A transactional producer for tests, controlled request by request.

use thalweg_protocol::ErrorCode;
use thalweg_protocol::messages::add_offsets_to_txn::AddOffsetsToTxnRequest;
use thalweg_protocol::messages::add_partitions_to_txn::{
    AddPartitionsToTxnRequest, AddPartitionsToTxnTopic,
};
use thalweg_protocol::messages::describe_transactions::{
    DescribeTransactionsRequest, TransactionState,
};
use thalweg_protocol::messages::end_txn::EndTxnRequest;
use thalweg_protocol::messages::init_producer_id::InitProducerIdRequest;
use thalweg_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use thalweg_protocol::messages::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};

use super::*;
use crate::topology::coordinator::CoordinatorKind;

/// A transactional id, with its producer's id and epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Writer {
    pub(super) transactional_id: String,
    pub(super) id: i64,
    pub(super) epoch: i16,
}

/// Returns the node that coordinates a transactional id.
pub(super) fn coordinator(bench: &Bench, id: &str) -> i32 {
    let node = bench.core.coordinator(CoordinatorKind::Transaction, id);
    node.expect("a node lives").id
}

pub(super) fn init_request(id: &str, expected: Option<(i64, i16)>) -> InitProducerIdRequest {
    let (producer_id, producer_epoch) = expected.unwrap_or((-1, -1));
    InitProducerIdRequest {
        transactional_id: Some(id.into()),
        transaction_timeout_ms: 60_000,
        producer_id,
        producer_epoch,
    }
}

/// Sends `InitProducerId`. Returns the producer or the error.
pub(super) fn try_init(
    bench: &mut Bench,
    id: &str,
    expected: Option<(i64, i16)>,
) -> Result<Writer, ErrorCode> {
    let node = coordinator(bench, id);
    let response = bench.ask_node(node, &init_request(id, expected), 4);
    code(response.error_code)?;
    Ok(Writer {
        transactional_id: id.to_owned(),
        id: response.producer_id,
        epoch: response.producer_epoch,
    })
}

pub(super) fn init(bench: &mut Bench, id: &str) -> Writer {
    try_init(bench, id, None).unwrap()
}

pub(super) fn code(code: i16) -> Result<(), ErrorCode> {
    match code {
        0 => Ok(()),
        code => Err(ErrorCode(code)),
    }
}

impl Writer {
    pub(super) fn at(&self, epoch: i16) -> Self {
        Self {
            epoch,
            ..self.clone()
        }
    }

    /// Returns a batch of one record.
    pub(super) fn batch(&self, sequence: i32) -> Vec<u8> {
        let header = BatchHeader {
            producer_id: self.id,
            producer_epoch: self.epoch,
            base_sequence: sequence,
            ..BatchHeader::default()
        };
        let attributes = header.attributes.with_transactional(true);
        let header = BatchHeader {
            attributes,
            ..header
        };
        batch_of(header, &[NOW_MS])
    }

    pub(super) fn produce_request(&self, topic: &str, partition: i32, seq: i32) -> ProduceRequest {
        ProduceRequest {
            transactional_id: Some(self.transactional_id.as_str().into()),
            ..produce_request(topic, partition, self.batch(seq))
        }
    }

    /// Produces one record in this version.
    pub(super) fn produce_in(
        &self,
        bench: &mut Bench,
        version: i16,
        (topic, partition): (&str, i32),
        sequence: i32,
    ) -> Result<i64, ErrorCode> {
        let node = bench.leader(topic, partition);
        let request = self.produce_request(topic, partition, sequence);
        let mut response = bench.ask_node(node, &request, version);
        let partition = response.responses.remove(0).partition_responses.remove(0);
        code(partition.error_code)?;
        Ok(partition.base_offset)
    }

    /// Produces one record in a version with KIP-890.
    pub(super) fn produce(
        &self,
        bench: &mut Bench,
        topic: &str,
        sequence: i32,
    ) -> Result<i64, ErrorCode> {
        self.produce_in(bench, 12, (topic, 0), sequence)
    }

    pub(super) fn add_request(&self, topic: &str) -> AddPartitionsToTxnRequest {
        AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: self.transactional_id.as_str().into(),
            v3_and_below_producer_id: self.id,
            v3_and_below_producer_epoch: self.epoch,
            v3_and_below_topics: vec![AddPartitionsToTxnTopic {
                name: topic.into(),
                partitions: vec![0],
            }],
            ..AddPartitionsToTxnRequest::default()
        }
    }

    pub(super) fn add(&self, bench: &mut Bench, topic: &str) -> Result<(), ErrorCode> {
        let request = self.add_request(topic);
        let node = coordinator(bench, &self.transactional_id);
        let response = bench.ask_node(node, &request, 3);
        let topic = &response.results_by_topic_v3_and_below[0];
        code(topic.results_by_partition[0].partition_error_code)
    }

    /// Sends `EndTxn` in this version. Returns the producer of the next transaction.
    pub(super) fn end_in(
        &self,
        bench: &mut Bench,
        version: i16,
        committed: bool,
    ) -> Result<Self, ErrorCode> {
        let node = coordinator(bench, &self.transactional_id);
        let response = bench.ask_node(node, &self.end_request(committed), version);
        code(response.error_code)?;
        if version < 5 {
            return Ok(self.clone());
        }
        Ok(Self {
            id: response.producer_id,
            epoch: response.producer_epoch,
            ..self.clone()
        })
    }

    pub(super) fn end_request(&self, committed: bool) -> EndTxnRequest {
        EndTxnRequest {
            transactional_id: self.transactional_id.as_str().into(),
            producer_id: self.id,
            producer_epoch: self.epoch,
            committed,
        }
    }

    pub(super) fn commit(&self, bench: &mut Bench) -> Result<Self, ErrorCode> {
        self.end_in(bench, 5, true)
    }

    pub(super) fn abort(&self, bench: &mut Bench) -> Result<Self, ErrorCode> {
        self.end_in(bench, 5, false)
    }

    pub(super) fn add_offsets_request(&self, group: &str) -> AddOffsetsToTxnRequest {
        AddOffsetsToTxnRequest {
            transactional_id: self.transactional_id.as_str().into(),
            producer_id: self.id,
            producer_epoch: self.epoch,
            group_id: group.into(),
        }
    }

    pub(super) fn add_offsets(&self, bench: &mut Bench, group: &str) -> Result<(), ErrorCode> {
        let request = self.add_offsets_request(group);
        let node = coordinator(bench, &self.transactional_id);
        code(bench.ask_node(node, &request, 3).error_code)
    }

    pub(super) fn offset_request(
        &self,
        group: &str,
        topic: &str,
        offset: i64,
    ) -> TxnOffsetCommitRequest {
        TxnOffsetCommitRequest {
            transactional_id: self.transactional_id.as_str().into(),
            group_id: group.into(),
            producer_id: self.id,
            producer_epoch: self.epoch,
            topics: vec![TxnOffsetCommitRequestTopic {
                name: topic.into(),
                partitions: vec![TxnOffsetCommitRequestPartition {
                    committed_offset: offset,
                    ..TxnOffsetCommitRequestPartition::default()
                }],
            }],
            ..TxnOffsetCommitRequest::default()
        }
    }

    pub(super) fn commit_offset_in(
        &self,
        bench: &mut Bench,
        version: i16,
        (group, topic): (&str, &str),
        offset: i64,
    ) -> Result<(), ErrorCode> {
        let request = self.offset_request(group, topic, offset);
        let node = bench.core.coordinator(CoordinatorKind::Group, group);
        let node = node.unwrap().id;
        let response = bench.ask_node(node, &request, version);
        code(response.topics[0].partitions[0].error_code)
    }

    pub(super) fn describe(&self, bench: &mut Bench) -> TransactionState {
        describe(bench, &self.transactional_id)
    }
}

pub(super) fn describe(bench: &mut Bench, id: &str) -> TransactionState {
    let request = DescribeTransactionsRequest {
        transactional_ids: vec![id.into()],
    };
    let node = coordinator(bench, id);
    let mut response = bench.ask_node(node, &request, 0);
    response.transaction_states.remove(0)
}

/// Returns a group's committed offset of partition 0, or the error.
pub(super) fn committed_offset(
    bench: &mut Bench,
    group: &str,
    topic: &str,
    require_stable: bool,
) -> Result<i64, ErrorCode> {
    let request = OffsetFetchRequest {
        groups: vec![OffsetFetchRequestGroup {
            group_id: group.into(),
            topics: Some(vec![OffsetFetchRequestTopics {
                name: topic.into(),
                partition_indexes: vec![0],
                ..OffsetFetchRequestTopics::default()
            }]),
            ..OffsetFetchRequestGroup::default()
        }],
        require_stable,
        ..OffsetFetchRequest::default()
    };
    let node = bench.core.coordinator(CoordinatorKind::Group, group);
    let node = node.unwrap().id;
    let mut response = bench.ask_node(node, &request, 8);
    let partition = response
        .groups
        .remove(0)
        .topics
        .remove(0)
        .partitions
        .remove(0);
    code(partition.error_code)?;
    Ok(partition.committed_offset)
}

/// Fetches partition 0 of a topic with `read_committed`.
pub(super) fn fetch_committed(bench: &mut Bench, topic: &str, offset: i64) -> PartitionData {
    let node = bench.leader(topic, 0);
    let request = FetchRequest {
        isolation_level: 1,
        ..fetch_request(topic, &[(0, offset)])
    };
    let mut response = bench.ask_node(node, &request, 12);
    response.responses.remove(0).partitions.remove(0)
}

/// Returns producer ids and first offsets of the aborted transactions in a Fetch response.
pub(super) fn aborted(partition: &PartitionData) -> Vec<(i64, i64)> {
    let aborted = partition.aborted_transactions.iter().flatten();
    aborted
        .map(|transaction| (transaction.producer_id, transaction.first_offset))
        .collect()
}
