//! `WriteTxnMarkers` // key 27
//!
//! The coordinator is in the same process and does not need this request. Administrators use it to
//! end a hanging transaction on a partition (KIP-664).

use thalweg_protocol::messages::write_txn_markers::{
    WritableTxnMarker, WritableTxnMarkerPartitionResult, WritableTxnMarkerResult,
    WritableTxnMarkerTopic, WritableTxnMarkerTopicResult, WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
};
use thalweg_protocol::{ErrorCode, Str};
use thalweg_records::control::EndTransactionMarker;

use super::repeats::SeenPartitions;
use crate::Core;
use crate::requests::context::Context;
use crate::requests::subject::Subject;
use crate::transactions::{Level, OFFSETS_TOPIC, TopicPartition};

impl Subject for WriteTxnMarkersRequest {
    fn topics(&self, _: &Core) -> Vec<Str> {
        let topics = self.markers.iter().flat_map(|marker| &marker.topics);
        topics.map(|topic| topic.name.clone()).collect()
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: WriteTxnMarkersRequest,
) -> WriteTxnMarkersResponse {
    let markers = request.markers.into_iter().map(|wish| {
        let marker = EndTransactionMarker {
            commit: wish.transaction_result,
            coordinator_epoch: wish.coordinator_epoch,
            producer_id: wish.producer_id,
            producer_epoch: wish.producer_epoch,
            timestamp: context.now_ms,
        };
        let level = level(&wish);
        let mut seen = SeenPartitions::new();
        let topics = wish.topics.iter();
        WritableTxnMarkerResult {
            producer_id: wish.producer_id,
            topics: topics
                .map(|topic| write_topic(context, topic, &mut seen, (&marker, level)))
                .collect(),
        }
    });
    WriteTxnMarkersResponse {
        markers: markers.collect(),
    }
}

fn level(wish: &WritableTxnMarker) -> Level {
    if wish.transaction_version >= 2 {
        Level::BumpsEpoch
    } else {
        Level::KeepsEpoch
    }
}

fn write_topic<'a>(
    context: &mut Context<'_>,
    topic: &'a WritableTxnMarkerTopic,
    seen: &mut SeenPartitions<&'a Str>,
    (marker, level): (&EndTransactionMarker, Level),
) -> WritableTxnMarkerTopicResult {
    let place = seen.topic(&topic.name);
    let indexes = topic.partition_indexes.iter();
    // A partition that is named twice gets one marker, as in Kafka's map.
    let indexes = indexes.filter(|index| seen.is_new(place, **index));
    let partitions = indexes.map(|index| {
        let partition = (topic.name.clone(), *index);
        let written = write(context, &partition, marker, level);
        WritableTxnMarkerPartitionResult {
            partition_index: *index,
            error_code: written.err().unwrap_or_default().0,
        }
    });
    WritableTxnMarkerTopicResult {
        partitions: partitions.collect(),
        name: topic.name.clone(),
    }
}

fn write(
    context: &mut Context<'_>,
    partition: &TopicPartition,
    marker: &EndTransactionMarker,
    level: Level,
) -> Result<(), ErrorCode> {
    let (topic, index) = partition;
    if let Some(code) = context.refusal_for(topic) {
        return Err(code);
    }
    if marker.producer_id < 0 || marker.producer_epoch < 0 {
        return Err(ErrorCode::INVALID_REQUEST);
    }
    if topic.as_str() != OFFSETS_TOPIC {
        let found = context.core.topology.topic(topic);
        let led = found.and_then(|topic| topic.partition(*index));
        led.ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?
            .check_leader(context.node, -1)?;
    }
    context.core.write_marker(partition, marker, level)
}
