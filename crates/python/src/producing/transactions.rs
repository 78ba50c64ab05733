//! Converts the arguments and results of a producer's calls on transactions.

use thalweg_producer::{GroupMetadata, GroupOffsets, OffsetToCommit, ProducerIdAndEpoch};
use thalweg_protocol::Str;

/// Topic, partition, offset, metadata, leader epoch.
pub(crate) type Offset = (String, i32, i64, String, i32);
/// Group ID, generation, member ID, instance ID.
pub(crate) type Group = (String, i32, String, Option<String>);

pub(crate) fn group_of((group_id, generation_id, member_id, instance_id): Group) -> GroupMetadata {
    GroupMetadata {
        group_id: Str::from(group_id),
        generation_id,
        member_id: Str::from(member_id),
        group_instance_id: instance_id.map(Str::from),
    }
}

pub(crate) fn offsets_of(offsets: Vec<Offset>) -> GroupOffsets {
    let offset = |(topic, partition, offset, metadata, leader_epoch): Offset| {
        let at = OffsetToCommit {
            offset,
            leader_epoch,
            metadata: Str::from(metadata),
        };
        ((Str::from(topic), partition), at)
    };
    offsets.into_iter().map(offset).collect()
}

/// Converts the identity of a prepared transaction's producer.
pub(crate) fn id_and_epoch(producer: ProducerIdAndEpoch) -> (i64, i16) {
    (producer.id, producer.epoch)
}
