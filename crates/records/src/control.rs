//! Control records: what a coordinator or the broker writes between the data records.
//!
//! ```text
//! key    version i16 | type i16 (0 abort, 1 commit, 2 leader change, ...)
//! value  of abort and commit: version i16 | coordinator epoch i32
//! ```

use crate::attributes::Attributes;
use crate::batch_header::BatchHeader;
use crate::build::BatchBuilder;
use crate::record::RecordFields;

const ABORT: i16 = 0;
const COMMIT: i16 = 1;
const KEY_LEN: usize = 4;
const MARKER_LEN: usize = 6;

/// The content of a control batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ControlRecord {
    /// The producer's open transaction is aborted.
    Abort { coordinator_epoch: i32 },
    /// The producer's open transaction is committed.
    Commit { coordinator_epoch: i32 },
    /// Raft's own records (leader change, snapshot header and footer, voters). Clients ignore them.
    Other { type_id: i16 },
}

impl ControlRecord {
    /// Parses a control record. A marker with a missing or short value is still that marker, with
    /// epoch -1: a client needs only the type, and must never miss one.
    pub fn parse(key: &[u8], value: Option<&[u8]>) -> Option<Self> {
        let key = key.first_chunk::<KEY_LEN>()?;
        let version = i16::from_be_bytes([key[0], key[1]]);
        if version < 0 {
            return None;
        }
        let type_id = i16::from_be_bytes([key[2], key[3]]);
        let coordinator_epoch = value
            .and_then(<[u8]>::first_chunk::<MARKER_LEN>)
            .map_or(-1, |value| {
                i32::from_be_bytes([value[2], value[3], value[4], value[5]])
            });
        Some(match type_id {
            ABORT => Self::Abort { coordinator_epoch },
            COMMIT => Self::Commit { coordinator_epoch },
            type_id => Self::Other { type_id },
        })
    }

    /// Returns Kafka's id of the type.
    pub fn type_id(&self) -> i16 {
        match self {
            Self::Abort { .. } => ABORT,
            Self::Commit { .. } => COMMIT,
            Self::Other { type_id } => *type_id,
        }
    }
}

/// The marker at the end of a transaction in the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndTransactionMarker {
    pub commit: bool,
    pub coordinator_epoch: i32,
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub timestamp: i64,
}

/// Returns the whole batch of a marker at `base_offset`.
pub fn end_transaction_batch(
    marker: &EndTransactionMarker,
    base_offset: i64,
    partition_leader_epoch: i32,
) -> Vec<u8> {
    let header = BatchHeader {
        base_offset,
        partition_leader_epoch,
        attributes: Attributes::default()
            .with_transactional(true)
            .with_control(true),
        base_timestamp: marker.timestamp,
        max_timestamp: marker.timestamp,
        producer_id: marker.producer_id,
        producer_epoch: marker.producer_epoch,
        ..BatchHeader::default()
    };
    let type_id = if marker.commit { COMMIT } else { ABORT };
    let mut key = [0; KEY_LEN];
    key[2..].copy_from_slice(&type_id.to_be_bytes());
    let mut value = [0; MARKER_LEN];
    value[2..].copy_from_slice(&marker.coordinator_epoch.to_be_bytes());
    let mut builder = BatchBuilder::with_header(header);
    builder.append_fields(&RecordFields {
        key: Some(&key),
        value: Some(&value),
        ..RecordFields::default()
    });
    builder.finish()
}

#[cfg(test)]
mod tests {
    use super::ControlRecord;

    #[test]
    fn markers_are_told_by_their_key_alone() {
        let commit = [0, 0, 0, 1];
        let epoch = |value| match ControlRecord::parse(&commit, value) {
            Some(ControlRecord::Commit { coordinator_epoch }) => coordinator_epoch,
            other => panic!("{other:?} is not a commit"),
        };
        assert_eq!(epoch(Some(&[0, 0, 0, 0, 1, 2])), 258);
        assert_eq!(
            epoch(Some(&[0, 1, 0, 0, 1, 2, 9])),
            258,
            "a later version has more fields"
        );
        assert_eq!(epoch(Some(&[0, 0])), -1);
        assert_eq!(epoch(None), -1);
        let abort = ControlRecord::Abort {
            coordinator_epoch: -1,
        };
        assert_eq!(ControlRecord::parse(&[0, 3, 0, 0, 7], None), Some(abort));
    }

    #[test]
    fn other_types_are_kept_apart_and_malformed_keys_are_none() {
        for type_id in [2, 3, 4, 5, 6, 77, -1] {
            let [high, low] = i16::to_be_bytes(type_id);
            let parsed = ControlRecord::parse(&[0, 0, high, low], None).expect("a key");
            assert_eq!(parsed, ControlRecord::Other { type_id });
            assert_eq!(parsed.type_id(), type_id);
        }
        assert_eq!(ControlRecord::parse(&[0, 0, 0], None), None);
        assert_eq!(
            ControlRecord::parse(&[0xff, 0xff, 0, 0], None),
            None,
            "a negative version"
        );
    }
}
