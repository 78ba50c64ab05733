//! Writes the markers that end a transaction, in each partition where it was.

use thalweg_protocol::ErrorCode;
use thalweg_records::control::EndTransactionMarker;

use super::{Level, Now, OFFSETS_TOPIC, TopicPartition};
use crate::Core;
use crate::transactions::State;

/// The approximate size of a marker.
const MARKER_BYTES: usize = 78;

impl Core {
    /// Writes the markers of a prepared transaction. A deleted topic needs none, because its open
    /// transactions were deleted with it.
    pub(super) fn write_markers(&mut self, id: &str, now: Now) {
        let Some(transaction) = self.transactions.get(id) else {
            return;
        };
        let marker = EndTransactionMarker {
            commit: transaction.state == State::PrepareCommit,
            coordinator_epoch: transaction.coordinator_epoch,
            producer_id: transaction.producer.id,
            producer_epoch: transaction.producer.epoch,
            timestamp: now.ms,
        };
        let level = transaction.level;
        let partitions: Vec<TopicPartition> = transaction.partitions.iter().cloned().collect();
        for partition in &partitions {
            // A partition refuses it if another client (an administrator, say) has ended the
            // transaction there. Then nothing is open.
            let _ = self.write_marker(partition, &marker, level);
        }
    }

    /// Writes one marker. Any node can do it, because nodes share their logs.
    pub(crate) fn write_marker(
        &mut self,
        (topic, index): &TopicPartition,
        marker: &EndTransactionMarker,
        level: Level,
    ) -> Result<(), ErrorCode> {
        if topic.as_str() == OFFSETS_TOPIC {
            self.offsets
                .end_transaction(marker.producer_id, marker.commit, *index);
            return Ok(());
        }
        let has_room = self.has_room(MARKER_BYTES, marker.timestamp);
        let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
        let topic = self.topology.topic_mut(topic).ok_or(unknown)?;
        let partition = usize::try_from(*index)
            .ok()
            .and_then(|index| topic.partitions.get_mut(index))
            .ok_or(unknown)?;
        // Markers are written even when memory is full. Records are refused then, so the number of
        // transactions that need a marker is limited. A partition where the transaction wrote
        // nothing gets none.
        if !has_room && !partition.producers.is_in_transaction(marker.producer_id) {
            return Ok(());
        }
        let bumps_epoch = level == Level::BumpsEpoch;
        let bytes = partition.append_marker(marker, bumps_epoch, &topic.options)?;
        self.memory_bytes += bytes;
        Ok(())
    }
}
