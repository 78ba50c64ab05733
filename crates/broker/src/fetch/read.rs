//! Reads what a Fetch asks for, within its limits.

use thalweg_protocol::ErrorCode;

use super::target::{Target, TargetKey};
use thalweg_security::acl::{Acls, Operation, ResourceType, Who};

use crate::requests::context::Injected;
use crate::storage::{Aborted, LogSlice, ReadLimit, epochs};
use crate::topology::Topology;
use crate::topology::partition::Partition;

/// The size of an aborted transaction in a response. Each partition has its own list, which counts
/// towards the response's bytes.
const ABORTED_BYTES: usize = 16;

/// The response for one partition.
#[derive(Debug)]
pub(crate) struct PartitionRead<'a> {
    pub(crate) key: TargetKey,
    pub(crate) code: ErrorCode,
    pub(crate) high_watermark: i64,
    pub(crate) last_stable_offset: i64,
    pub(crate) log_start_offset: i64,
    /// Where the client's log diverges from ours (KIP-595): the epoch here and its end offset.
    pub(crate) diverging: Option<(i32, i64)>,
    /// Leader and epoch, if the client asked the wrong node or with an old epoch (KIP-951).
    pub(crate) leader: Option<(i32, i32)>,
    pub(crate) records: Option<LogSlice<'a>>,
    /// The aborted transactions among those records, only for `read_committed`.
    pub(crate) aborted: Vec<Aborted>,
}

impl PartitionRead<'_> {
    fn error(key: TargetKey, code: ErrorCode) -> Self {
        Self {
            key,
            code,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            diverging: None,
            leader: None,
            records: None,
            aborted: Vec::new(),
        }
    }

    pub(crate) fn records_bytes(&self) -> usize {
        self.records.map_or(0, |records| records.bytes)
    }

    /// Whether the response must not wait any longer, because there is more to report than records.
    pub(crate) fn is_urgent(&self) -> bool {
        self.code != ErrorCode::NONE || self.diverging.is_some()
    }
}

/// Reads one target after the other, until the bytes are used up.
pub(crate) struct ReadPass<'a> {
    pub(crate) topology: &'a Topology,
    pub(crate) node: i32,
    pub(crate) read_committed: bool,
    pub(crate) bytes_left: usize,
    /// The first batch of the complete response may exceed every limit (KIP-74).
    pub(crate) is_first: bool,
    pub(crate) injected: Option<&'a Injected>,
    pub(crate) acls: Option<&'a Acls>,
    pub(crate) who: Who<'a>,
}

impl<'a> ReadPass<'a> {
    pub(crate) fn read(&mut self, key: TargetKey, target: &Target) -> PartitionRead<'a> {
        // A client that may not read does not learn whether the name exists.
        if let super::TopicKey::Name(name) = &key.0
            && !self.may_read(name)
        {
            return PartitionRead::error(key, ErrorCode::TOPIC_AUTHORIZATION_FAILED);
        }
        let Some(topic) = key.0.find(self.topology) else {
            let code = match key.0 {
                super::TopicKey::Id(_) => ErrorCode::UNKNOWN_TOPIC_ID,
                super::TopicKey::Name(_) => ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
            };
            return PartitionRead::error(key, code);
        };
        if !self.may_read(&topic.name) {
            return PartitionRead::error(key, ErrorCode::TOPIC_AUTHORIZATION_FAILED);
        }
        let injected = self
            .injected
            .and_then(|injected| injected.for_topic(&topic.name));
        let Some(partition) = topic.partition(key.1) else {
            return PartitionRead::error(key, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
        };
        let leading = partition.check_leader(self.node, target.current_leader_epoch);
        match injected.or(partition.refusals.fetch).map_or(leading, Err) {
            Ok(()) => self.read_led(key, target, partition),
            Err(code) => PartitionRead {
                leader: gives_hint(code).then_some((partition.leader, partition.leader_epoch)),
                ..PartitionRead::error(key, code)
            },
        }
    }

    fn may_read(&self, topic: &str) -> bool {
        let acls = self.acls;
        acls.is_none_or(|acls| acls.allows(self.who, Operation::Read, ResourceType::Topic, topic))
    }

    fn read_led(
        &mut self,
        key: TargetKey,
        target: &Target,
        partition: &'a Partition,
    ) -> PartitionRead<'a> {
        let log = &partition.log;
        let read = PartitionRead {
            high_watermark: partition.high_watermark(),
            last_stable_offset: partition.last_stable_offset(),
            log_start_offset: log.start_offset(),
            ..PartitionRead::error(key, ErrorCode::NONE)
        };
        match diverging(target, partition) {
            Parting::Nowhere => {}
            Parting::At(epoch, end) => {
                return PartitionRead {
                    diverging: Some((epoch, end)),
                    ..read
                };
            }
            Parting::Unknown => {
                return PartitionRead::error(read.key, ErrorCode::OFFSET_OUT_OF_RANGE);
            }
        }
        if !(log.start_offset()..=read.high_watermark).contains(&target.fetch_offset) {
            return PartitionRead::error(read.key, ErrorCode::OFFSET_OUT_OF_RANGE);
        }
        let end_offset = if self.read_committed {
            read.last_stable_offset
        } else {
            read.high_watermark
        };
        let limit = ReadLimit {
            bytes_max: self.bytes_left.min(target.bytes_max.max(0) as usize),
            at_least_one: self.is_first,
            end_offset,
        };
        let records = log.read(target.fetch_offset, limit);
        let aborted: Vec<Aborted> = match records.iter().last() {
            Some(last) if self.read_committed => partition
                .producers
                .aborted_between(target.fetch_offset, last.last_offset() + 1)
                .copied()
                .collect(),
            _ => Vec::new(),
        };
        let bytes = records.bytes + aborted.len() * ABORTED_BYTES;
        if bytes > self.bytes_left && !self.is_first {
            // They come first in the next Fetch.
            return PartitionRead {
                records: Some(log.read(target.fetch_offset, ReadLimit::NOTHING)),
                ..read
            };
        }
        self.bytes_left = self.bytes_left.saturating_sub(bytes);
        self.is_first &= records.count == 0;
        PartitionRead {
            records: Some(records),
            aborted,
            ..read
        }
    }
}

fn gives_hint(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::NOT_LEADER_OR_FOLLOWER | ErrorCode::FENCED_LEADER_EPOCH
    )
}

/// Where the client's log and ours diverge.
enum Parting {
    Nowhere,
    At(i32, i64),
    /// The client's epoch is above all epochs that are known here.
    Unknown,
}

fn diverging(target: &Target, partition: &Partition) -> Parting {
    let fetched = target.last_fetched_epoch;
    if fetched < 0 {
        return Parting::Nowhere;
    }
    let log = &partition.log;
    match log.epochs.end_offset_for(fetched, log.end_offset()) {
        epochs::UNDEFINED => Parting::Unknown,
        (epoch, end) if epoch < fetched || end < target.fetch_offset => Parting::At(epoch, end),
        _ => Parting::Nowhere,
    }
}
