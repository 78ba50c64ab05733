//! `ListOffsets` // key 2

use thalweg_protocol::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopicResponse,
};
use thalweg_protocol::{ErrorCode, Str};

use crate::Core;
use crate::context::Context;
use crate::partition::Partition;
use crate::storage::timestamps::{self, Found};
use crate::subject::Subject;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
/// The same as the earliest, as nothing is kept elsewhere.
const EARLIEST_LOCAL: i64 = -4;
/// There is no tiered storage, so these have no offset.
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

const NONE: (i64, i64, i32) = (-1, -1, -1);

impl Subject for ListOffsetsRequest {
    fn topics(&self, _: &Core) -> Vec<Str> {
        self.topics.iter().map(|topic| topic.name.clone()).collect()
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    request: ListOffsetsRequest,
) -> ListOffsetsResponse {
    let read_committed = request.isolation_level == 1;
    let topics = request.topics.into_iter().map(|topic| {
        let count = |index| {
            topic
                .partitions
                .iter()
                .filter(|p| p.partition_index == index)
                .count()
        };
        // What comes twice is refused once.
        let mut wishes: Vec<&ListOffsetsPartition> = Vec::new();
        for wish in &topic.partitions {
            if wishes
                .iter()
                .all(|other| other.partition_index != wish.partition_index)
            {
                wishes.push(wish);
            }
        }
        let partitions = wishes.into_iter().map(|wish| {
            let found = match count(wish.partition_index) {
                1 => find(context, &topic.name, wish, read_committed),
                _ => Err(ErrorCode::INVALID_REQUEST),
            };
            let (offset, timestamp, leader_epoch) = found.unwrap_or(NONE);
            ListOffsetsPartitionResponse {
                partition_index: wish.partition_index,
                error_code: found.err().unwrap_or_default().0,
                timestamp,
                offset,
                leader_epoch: if context.version >= 4 {
                    leader_epoch
                } else {
                    -1
                },
            }
        });
        ListOffsetsTopicResponse {
            partitions: partitions.collect(),
            name: topic.name,
        }
    });
    ListOffsetsResponse {
        topics: topics.collect(),
        ..ListOffsetsResponse::default()
    }
}

/// Offset, timestamp and leader epoch.
fn find(
    context: &mut Context<'_>,
    topic: &str,
    wish: &ListOffsetsPartition,
    read_committed: bool,
) -> Result<(i64, i64, i32), ErrorCode> {
    if let Some(code) = context.injected_for(topic) {
        return Err(code);
    }
    if context.version < min_version(wish.timestamp) {
        return Err(ErrorCode::UNSUPPORTED_VERSION);
    }
    let core = &mut *context.core;
    let partition = core
        .topology
        .topic(topic)
        .and_then(|topic| topic.partition(wish.partition_index))
        .ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    partition.check_leader(context.node, wish.current_leader_epoch)?;
    let end = if read_committed {
        partition.last_stable_offset()
    } else {
        partition.high_watermark()
    };
    let log = &partition.log;
    let decompressor = &mut core.codecs.decompressor;
    let found = match wish.timestamp {
        LATEST => return Ok((end, -1, partition.leader_epoch)),
        EARLIEST | EARLIEST_LOCAL => {
            return Ok((
                log.start_offset(),
                -1,
                log.epochs.epoch_of(log.start_offset()),
            ));
        }
        LATEST_TIERED | EARLIEST_PENDING_UPLOAD => return Ok(NONE),
        MAX_TIMESTAMP => timestamps::with_max_timestamp(log, decompressor),
        timestamp if timestamp >= 0 => timestamps::first_since(log, timestamp, decompressor),
        _ => return Err(ErrorCode::UNSUPPORTED_VERSION),
    };
    match found {
        Ok(found) => Ok(visible(found, end, partition)),
        // Validated when it was appended, so this is not the client's fault.
        Err(_) => Err(ErrorCode::UNKNOWN_SERVER_ERROR),
    }
}

/// In which version a special timestamp came to be.
fn min_version(timestamp: i64) -> i16 {
    match timestamp {
        MAX_TIMESTAMP => 7,
        EARLIEST_LOCAL => 8,
        LATEST_TIERED => 9,
        EARLIEST_PENDING_UPLOAD => 11,
        _ => 1,
    }
}

fn visible(found: Option<Found>, end: i64, partition: &Partition) -> (i64, i64, i32) {
    match found.filter(|found| found.offset < end) {
        Some(found) => (
            found.offset,
            found.timestamp,
            partition.log.epochs.epoch_of(found.offset),
        ),
        None => NONE,
    }
}
