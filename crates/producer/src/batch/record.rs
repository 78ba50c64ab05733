//! A record from the application, as slices that are copied once, into the open batch.

use thalweg_protocol::planted::{Bug, is_planted};
use thalweg_records::{Headers, RecordFields, record};

/// The most bytes that a record needs besides its content: length, attributes, two deltas, the
/// lengths of key and value, the number of headers.
const OVERHEAD_MAX: usize = 5 + 1 + 10 + 5 + 5 + 5 + 5;
const HEADER_OVERHEAD_MAX: usize = 10;
/// Java's `MAX_RECORD_OVERHEAD` and batch overhead. Java uses them to check the size of records.
const RECORD_OVERHEAD: usize = 21;
const BATCH_OVERHEAD: usize = 61;

/// A record to append.
#[derive(Debug, Clone, Copy, Default)]
pub struct Record<'a> {
    /// `None` lets the partitioner choose.
    pub partition: Option<i32>,
    /// Milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    pub key: Option<&'a [u8]>,
    /// `None` for a tombstone.
    pub value: Option<&'a [u8]>,
    pub headers: Headers<'a>,
}

impl<'a> Record<'a> {
    /// Returns an upper bound of the encoded length. This takes only a few ns.
    #[inline]
    pub(crate) fn len_bound(&self) -> usize {
        let headers = match &self.headers {
            Headers::List([]) => 0,
            Headers::List(list) => list
                .iter()
                .map(|h| h.key.len() + h.value.map_or(0, <[u8]>::len) + HEADER_OVERHEAD_MAX)
                .sum(),
            Headers::Raw(raw) => raw.as_bytes().len(),
        };
        OVERHEAD_MAX + self.key.map_or(0, <[u8]>::len) + self.value.map_or(0, <[u8]>::len) + headers
    }

    /// Returns the size that limits are compared with, computed as in Java: a batch of only this
    /// record.
    pub fn size_in_batch(&self) -> usize {
        let total = record::encoded_len(&self.fields(0, 0));
        let attributes_and_deltas = 3;
        BATCH_OVERHEAD + RECORD_OVERHEAD + total - varint_len(total) - attributes_and_deltas
    }

    #[inline]
    pub(crate) fn fields(&self, offset_delta: i32, timestamp_delta: i64) -> RecordFields<'a> {
        RecordFields {
            offset_delta,
            timestamp_delta,
            key: self.key,
            value: self.value,
            headers: if is_planted(Bug::HeadersLost) && offset_delta > 0 {
                Headers::NONE
            } else {
                self.headers
            },
        }
    }
}

/// Returns the length of the length field in a record of `total` bytes.
fn varint_len(total: usize) -> usize {
    let length_of = |body: usize| thalweg_records::varint::varint_len(body as i32);
    (1..=5)
        .find(|&len| length_of(total.saturating_sub(len)) == len)
        .unwrap_or(5)
}

#[cfg(test)]
mod tests {
    use super::*;
    use thalweg_records::HeaderRef;

    #[test]
    fn the_bound_holds_for_any_deltas() {
        let header = [
            HeaderRef {
                key: b"trace",
                value: Some(&[0; 300]),
            },
            HeaderRef {
                key: b"",
                value: None,
            },
        ];
        for len in [0, 1, 63, 64, 200, 8191, 8192, 100_000] {
            let value = vec![7; len];
            let record = Record {
                key: Some(&value[..len / 2]),
                value: Some(&value),
                headers: Headers::List(&header),
                ..Record::default()
            };
            let longest = record.fields(i32::MAX, i64::MIN);
            assert!(record::encoded_len(&longest) <= record.len_bound());
        }
    }

    #[test]
    fn the_size_is_what_java_estimates() {
        // AbstractRecords.estimateSizeInBytesUpperBound: 61 + 21 + sizeOf(key, value, headers).
        let value = vec![7; 1000];
        let record = Record {
            value: Some(&value),
            ..Record::default()
        };
        assert_eq!(record.size_in_batch(), 61 + 21 + 1 + 2 + 1000 + 1);
        let record = Record {
            key: Some(b"k"),
            value: None,
            ..Record::default()
        };
        assert_eq!(record.size_in_batch(), 61 + 21 + 2 + 1 + 1);
        let value = vec![7; 100_000];
        let record = Record {
            value: Some(&value),
            ..Record::default()
        };
        assert_eq!(record.size_in_batch(), 61 + 21 + 1 + 3 + 100_000 + 1);
    }
}
