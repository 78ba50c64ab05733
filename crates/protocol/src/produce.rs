//! Encodes Produce requests without copying their record batches.
//!
//! ```text
//! typed:  ProduceRequest.encode -> one Vec, every batch copied into it
//! here:   head | batch chunk, batch chunk | piece | batch chunk | ... | piece
//!         ^ Vec  ^ the batch's own buffers  ^ slices of one small buffer
//! ```
//!
//! The bytes are the same as those of [`ProduceRequest`](crate::messages::produce::ProduceRequest),
//! which a test checks. This module does not look into a batch.

use bytes::Bytes;

use crate::messages::produce::ProduceRequest;
use crate::{EncodeError, Message, Str, Uuid, put};

/// A Produce request whose batches are given as chunks.
#[derive(Debug, Clone, Default)]
pub struct ProduceBatches {
    pub transactional_id: Option<Str>,
    pub acks: i16,
    pub timeout_ms: i32,
    pub topics: Vec<TopicBatches>,
}

#[derive(Debug, Clone, Default)]
pub struct TopicBatches {
    /// Sent up to version 12.
    pub name: Str,
    /// Sent from version 13 on.
    pub topic_id: Uuid,
    pub partitions: Vec<PartitionBatches>,
}

#[derive(Debug, Clone, Default)]
pub struct PartitionBatches {
    pub index: i32,
    /// The records field in order, in any number of chunks.
    pub records: Vec<Bytes>,
}

/// A body in pieces: `head`, then the segments in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Segments {
    pub head: Vec<u8>,
    pub segments: Vec<Bytes>,
}

impl Segments {
    /// Returns the number of bytes of all pieces.
    pub fn len(&self) -> usize {
        self.head.len() + self.segments.iter().map(Bytes::len).sum::<usize>()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies all pieces into one buffer.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.len());
        out.extend_from_slice(&self.head);
        self.segments
            .iter()
            .for_each(|segment| out.extend_from_slice(segment));
        out
    }
}

/// The bytes of a request while it is encoded.
struct Pieces {
    /// All bytes that are not records.
    written: Vec<u8>,
    /// The chunks of each batch, with the number of bytes written before them.
    batches: Vec<(usize, Vec<Bytes>)>,
}

impl ProduceBatches {
    /// Encodes the request's body, the bytes after the header. The chunks are moved, not copied.
    pub fn encode(self, version: i16) -> Result<Segments, EncodeError> {
        if !ProduceRequest::VERSIONS.contains(&version) {
            return Err(EncodeError::UnsupportedVersion {
                message: ProduceRequest::NAME,
                version,
            });
        }
        let compact = version >= 9;
        let mut pieces = Pieces {
            written: Vec::with_capacity(256),
            batches: Vec::new(),
        };
        put::nullable_str(&mut pieces.written, compact, self.transactional_id.as_ref())?;
        put::i16(&mut pieces.written, self.acks);
        put::i32(&mut pieces.written, self.timeout_ms);
        put::array_length(&mut pieces.written, compact, Some(self.topics.len()))?;
        for topic in self.topics {
            topic.write(version, compact, &mut pieces)?;
        }
        pieces.end_struct(compact);
        Ok(pieces.finish())
    }
}

impl TopicBatches {
    fn write(self, version: i16, compact: bool, pieces: &mut Pieces) -> Result<(), EncodeError> {
        if version <= 12 {
            put::str_(&mut pieces.written, compact, &self.name)?;
        } else {
            put::uuid(&mut pieces.written, self.topic_id);
        }
        put::array_length(&mut pieces.written, compact, Some(self.partitions.len()))?;
        for partition in self.partitions {
            let length = partition.records.iter().map(Bytes::len).sum();
            put::i32(&mut pieces.written, partition.index);
            put::array_length(&mut pieces.written, compact, Some(length))?;
            pieces
                .batches
                .push((pieces.written.len(), partition.records));
            pieces.end_struct(compact);
        }
        pieces.end_struct(compact);
        Ok(())
    }
}

impl Pieces {
    /// Ends a struct. Flexible structs end with their tagged fields, and there are none.
    fn end_struct(&mut self, compact: bool) {
        if compact {
            self.written.push(0);
        }
    }

    fn finish(self) -> Segments {
        let mut head = self.written;
        let Some(head_length) = self.batches.first().map(|(at, _)| *at) else {
            return Segments {
                head,
                segments: Vec::new(),
            };
        };
        let rest = Bytes::from(head.split_off(head_length));
        let mut segments = Vec::with_capacity(2 * self.batches.len());
        let mut done = 0;
        for (at, chunks) in self.batches {
            push(&mut segments, rest.slice(done..at - head_length));
            for chunk in chunks {
                push(&mut segments, chunk);
            }
            done = at - head_length;
        }
        push(&mut segments, rest.slice(done..));
        Segments { head, segments }
    }
}

fn push(segments: &mut Vec<Bytes>, segment: Bytes) {
    if !segment.is_empty() {
        segments.push(segment);
    }
}
