//! Turns drained batches into a Produce request, and matches the response to the batches.
//!
//! The request shares the batches' own bytes. The batches of a request are kept in its order. A
//! response repeats that order, so matching it needs no search.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use thalweg_cluster::{Body, NodeId};
use thalweg_protocol::messages::produce::{PartitionProduceResponse, ProduceResponse};
use thalweg_protocol::produce::{PartitionBatches, ProduceBatches, TopicBatches};
use thalweg_protocol::{EncodeError, Str, Uuid};

use crate::batch::order::Order;
use crate::config::Acks;
use crate::partitioning::topic::TopicEntry;
use crate::sender::batch::ProducerBatch;

/// From this version on topics go by id.
pub(crate) const TOPIC_IDS_FROM: i16 = 13;

/// A batch that is about to be sent.
#[derive(Debug)]
pub(crate) struct DrainedBatch {
    pub(crate) index: usize,
    pub(crate) topic: Arc<TopicEntry>,
    pub(crate) topic_id: Uuid,
    pub(crate) partition: i32,
    pub(crate) batch: ProducerBatch,
}

/// One batch of a request in flight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InFlightBatch {
    pub(crate) index: usize,
    pub(crate) order: Order,
    /// Which attempt of the batch this is.
    pub(crate) attempt: u32,
    partition: i32,
}

#[derive(Debug)]
struct SentTopic {
    name: Str,
    id: Uuid,
    /// Sorted by partition.
    batches: Vec<InFlightBatch>,
}

/// A Produce request in flight.
#[derive(Debug)]
pub(crate) struct InFlightRequest {
    pub(crate) node: NodeId,
    pub(crate) sent_at: Instant,
    topics: Vec<SentTopic>,
}

/// Returns the version to use. A version with topic ids is used only if all ids are known. They are
/// not if a proxy limits Metadata to a version without ids.
pub(crate) fn usable_version(negotiated: i16, drained: &[DrainedBatch]) -> i16 {
    let lacks_id = drained.iter().any(|one| one.topic_id == Uuid::ZERO);
    if lacks_id {
        negotiated.min(TOPIC_IDS_FROM - 1)
    } else {
        negotiated
    }
}

/// Sorts by topic and then by partition.
pub(crate) fn sort(drained: &mut [DrainedBatch]) {
    drained.sort_by_key(|one| (one.topic.index(), one.partition));
}

/// Encodes the request. The batches must be sorted.
pub(crate) fn encode(
    drained: &mut [DrainedBatch],
    transactional_id: Option<Str>,
    acks: Acks,
    timeout_ms: i32,
    version: i16,
) -> Result<Body, EncodeError> {
    let topics = drained
        .chunk_by_mut(|a, b| a.topic.index() == b.topic.index())
        .map(|of_topic| TopicBatches {
            name: of_topic[0].topic.name().clone(),
            topic_id: of_topic[0].topic_id,
            partitions: of_topic.iter_mut().map(partition_batches).collect(),
        });
    let request = ProduceBatches {
        transactional_id,
        acks: acks.id(),
        timeout_ms,
        topics: topics.collect(),
    };
    let encoded = request.encode(version)?;
    Ok(Body {
        head: encoded.head,
        segments: encoded.segments,
    })
}

fn partition_batches(drained: &mut DrainedBatch) -> PartitionBatches {
    let batch = &mut drained.batch;
    let mut records: Vec<Bytes> = Vec::with_capacity(1 + batch.segments.len());
    records.push(batch.finish());
    records.extend_from_slice(&batch.segments);
    PartitionBatches {
        index: drained.partition,
        records,
    }
}

impl InFlightRequest {
    /// Creates the entry for a request. The batches must be sorted.
    pub(crate) fn new(node: NodeId, sent_at: Instant, drained: &[DrainedBatch]) -> Self {
        let topics = drained
            .chunk_by(|a, b| a.topic.index() == b.topic.index())
            .map(|of_topic| SentTopic {
                name: of_topic[0].topic.name().clone(),
                id: of_topic[0].topic_id,
                batches: of_topic
                    .iter()
                    .map(|one| InFlightBatch {
                        index: one.index,
                        order: one.batch.order,
                        attempt: one.batch.attempts + 1,
                        partition: one.partition,
                    })
                    .collect(),
            });
        Self {
            node,
            sent_at,
            topics: topics.collect(),
        }
    }

    pub(crate) fn batches(&self) -> impl Iterator<Item = InFlightBatch> {
        self.topics
            .iter()
            .flat_map(|topic| topic.batches.iter().copied())
    }

    /// Returns each batch with its part of the response, or `None` if the response lacks its
    /// partition. Partitions that were not in the request are ignored.
    pub(crate) fn matched<'a>(
        &self,
        response: &'a ProduceResponse,
    ) -> Vec<(InFlightBatch, Option<&'a PartitionProduceResponse>)> {
        let mut out = Vec::with_capacity(self.batches().count());
        for (at, topic) in self.topics.iter().enumerate() {
            let is_it = |found: &&thalweg_protocol::messages::produce::TopicProduceResponse| {
                if found.topic_id == Uuid::ZERO {
                    found.name == topic.name
                } else {
                    found.topic_id == topic.id
                }
            };
            let in_place = response.responses.get(at).filter(is_it);
            let found = in_place.or_else(|| response.responses.iter().find(is_it));
            for (at, &sent) in topic.batches.iter().enumerate() {
                let is_it = |p: &&PartitionProduceResponse| p.index == sent.partition;
                let told = found.map_or(&[][..], |found| &found.partition_responses);
                let in_place = told.get(at).filter(is_it);
                out.push((sent, in_place.or_else(|| told.iter().find(is_it))));
            }
        }
        out
    }
}
