//! `ListOffsets` // key 2

use std::collections::BTreeSet;

use thalweg_protocol::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopicResponse,
};
use thalweg_protocol::{ErrorCode, Str};

use super::repeats::SeenPartitions;
use crate::Core;
use crate::requests::context::Context;
use crate::requests::subject::Subject;
use crate::storage::timestamps::{self, Found, LookupError, Opener};
use crate::topology::partition::Partition;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
/// The same as the earliest, because all data is local.
const EARLIEST_LOCAL: i64 = -4;
/// There is no tiered storage, so these have no offset.
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// The limit on the bytes that the lookups of one request may decompress together.
const DECODED_BYTES_MAX: usize = 1 << 30;

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
    let mut lookups = Lookups {
        read_committed: request.isolation_level == 1,
        decoded_bytes_left: DECODED_BYTES_MAX,
    };
    let mut named = SeenPartitions::new();
    let mut repeated = BTreeSet::new();
    for topic in &request.topics {
        let place = named.topic(&topic.name);
        for wish in &topic.partitions {
            if !named.is_new(place, wish.partition_index) {
                repeated.insert((place, wish.partition_index));
            }
        }
    }
    // A partition that is named twice is refused once.
    let mut refused = BTreeSet::new();
    let topics = request.topics.iter().map(|topic| {
        let place = named.topic(&topic.name);
        let name = topic.name.as_str();
        let partitions = topic.partitions.iter().filter_map(|wish| {
            let key = (place, wish.partition_index);
            let found = match repeated.contains(&key) {
                false => lookups.find(context, name, wish),
                true if refused.insert(key) => Err(ErrorCode::INVALID_REQUEST),
                true => return None,
            };
            let (offset, timestamp, leader_epoch) = found.unwrap_or(NONE);
            Some(ListOffsetsPartitionResponse {
                partition_index: wish.partition_index,
                error_code: found.err().unwrap_or_default().0,
                timestamp,
                offset,
                leader_epoch: if context.version >= 4 {
                    leader_epoch
                } else {
                    -1
                },
            })
        });
        ListOffsetsTopicResponse {
            partitions: partitions.collect(),
            name: topic.name.clone(),
        }
    });
    ListOffsetsResponse {
        topics: topics.collect(),
        ..ListOffsetsResponse::default()
    }
}

/// The settings and the limit that all partitions of a request share.
struct Lookups {
    read_committed: bool,
    /// The limit that is left: a small batch may decompress to a lot, and each lookup by time
    /// decodes one.
    decoded_bytes_left: usize,
}

impl Lookups {
    /// Returns offset, timestamp and leader epoch.
    fn find(
        &mut self,
        context: &mut Context<'_>,
        topic: &str,
        wish: &ListOffsetsPartition,
    ) -> Result<(i64, i64, i32), ErrorCode> {
        if let Some(code) = context.refusal_for(topic) {
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
        let end = if self.read_committed {
            partition.last_stable_offset()
        } else {
            partition.high_watermark()
        };
        let log = &partition.log;
        let decompressor = &mut core.codecs.decompressor;
        let mut opener = Opener {
            decompressor,
            bytes_left: &mut self.decoded_bytes_left,
        };
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
            MAX_TIMESTAMP => timestamps::with_max_timestamp(log, &mut opener),
            timestamp if timestamp >= 0 => timestamps::first_since(log, timestamp, &mut opener),
            _ => return Err(ErrorCode::UNSUPPORTED_VERSION),
        };
        match found {
            Ok(found) => Ok(visible(found, end, partition)),
            // The client asks again for those that were too much for one request.
            Err(LookupError::BytesUsedUp) if context.version >= 5 => {
                Err(ErrorCode::OFFSET_NOT_AVAILABLE)
            }
            Err(LookupError::BytesUsedUp) => Err(ErrorCode::LEADER_NOT_AVAILABLE),
            // The batch was valid when it was appended, so the client is not at fault.
            Err(LookupError::Records) => Err(ErrorCode::UNKNOWN_SERVER_ERROR),
        }
    }
}

/// Returns the version that introduced a special timestamp.
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
