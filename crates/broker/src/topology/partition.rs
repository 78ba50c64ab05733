//! [`Partition`]: a log, its leader, and the requests that wait for it.

use bytes::Bytes;
use thalweg_protocol::ErrorCode;
use thalweg_records::BatchHeader;
use thalweg_records::control::{EndTransactionMarker, end_transaction_batch};

use crate::faults::mishaps::Refusals;
use crate::options::TopicOptions;
use crate::requests::waiters::Waiters;
use crate::storage::{Log, ProducerStates};

/// The leader of a partition without a live leader.
pub(crate) const NO_LEADER: i32 = -1;

#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) leader: i32,
    pub(crate) leader_epoch: i32,
    /// Only in metadata: every node of the process reads and writes the same log.
    pub(crate) replicas: Vec<i32>,
    pub(crate) log: Log,
    pub(crate) producers: ProducerStates,
    pub(crate) waiters: Waiters,
    pub(crate) refusals: Refusals,
}

impl Partition {
    pub(crate) fn new(replicas: Vec<i32>, leader: i32) -> Self {
        let mut log = Log::new();
        log.epochs.assign(0, 0);
        Self {
            leader,
            leader_epoch: 0,
            replicas,
            log,
            producers: ProducerStates::default(),
            waiters: Waiters::default(),
            refusals: Refusals::default(),
        }
    }

    /// Sets another leader with the next epoch. Waiting requests must look again.
    pub(crate) fn set_leader(&mut self, leader: i32) {
        self.leader = leader;
        self.leader_epoch += 1;
        self.log
            .epochs
            .assign(self.leader_epoch, self.log.end_offset());
        self.waiters.wake_all();
    }

    /// Returns the offset below which `read_uncommitted` sees all records. It is the log's end,
    /// because nothing is replicated.
    pub(crate) fn high_watermark(&self) -> i64 {
        self.log.end_offset()
    }

    /// Returns the offset below which no transaction is open.
    pub(crate) fn last_stable_offset(&self) -> i64 {
        match self.producers.first_open_offset() {
            // The first records of the transaction may have been deleted.
            Some(first) => first.max(self.log.start_offset()),
            None => self.high_watermark(),
        }
    }

    /// Writes the marker that ends a producer's transaction here, and wakes requests that wait for
    /// the last stable offset. Returns the marker's size in bytes.
    pub(crate) fn append_marker(
        &mut self,
        marker: &EndTransactionMarker,
        bumps_epoch: bool,
        options: &TopicOptions,
    ) -> Result<u64, ErrorCode> {
        self.producers.check_marker(marker, bumps_epoch)?;
        let batch = end_transaction_batch(marker, 0, self.leader_epoch);
        let header = BatchHeader::parse(&batch).expect("the batch was just created");
        let bytes = batch.len();
        let epoch = self.leader_epoch;
        let offset = self
            .log
            .append(&header, Bytes::from(batch), bytes, epoch, options);
        self.producers.marked(marker, offset);
        self.waiters.wake_all();
        Ok(bytes as u64)
    }

    /// Checks that `node` leads and that a client's `current_epoch` is current (-1: the client
    /// knows none).
    pub(crate) fn check_leader(&self, node: i32, current_epoch: i32) -> Result<(), ErrorCode> {
        if current_epoch >= 0 && current_epoch < self.leader_epoch {
            return Err(ErrorCode::FENCED_LEADER_EPOCH);
        }
        if current_epoch > self.leader_epoch {
            return Err(ErrorCode::UNKNOWN_LEADER_EPOCH);
        }
        if self.leader != node {
            return Err(ErrorCode::NOT_LEADER_OR_FOLLOWER);
        }
        Ok(())
    }
}
