//! A closed batch until its outcome is known: Kafka's `ProducerBatch`.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use thalweg_cluster::NodeId;
use thalweg_protocol::Uuid;
use thalweg_records::{Attributes, BATCH_HEADER_LEN, BatchHeader, Compression};

use crate::batch::chunk::Chunk;
use crate::batch::completion::BatchCompletion;
use crate::batch::open_batch::OpenBatch;
use crate::batch::order::Order;
use crate::idempotence::Sequence;

#[derive(Debug)]
pub(crate) struct ProducerBatch {
    pub(crate) order: Order,
    pub(crate) completion: Arc<BatchCompletion>,
    pub(crate) records: u32,
    pub(crate) base_timestamp: i64,
    pub(crate) max_timestamp: i64,
    pub(crate) created: Instant,
    /// The records section. Requests share these bytes, so no chunk returns while one is being
    /// written.
    pub(crate) segments: Vec<Bytes>,
    /// Bytes of the records section before compression, and of its longest record.
    pub(crate) raw_bytes: usize,
    pub(crate) record_bytes_max: usize,
    pub(crate) codec: Compression,
    pub(crate) sequence: Option<Sequence>,
    /// Set if the batch is part of a transaction.
    pub(crate) transactional: bool,
    /// Number of attempts so far.
    pub(crate) attempts: u32,
    pub(crate) retry_at: Option<Instant>,
    /// Set if an attempt ended without proof that the batch is not in the log.
    pub(crate) maybe_written: bool,
    /// The topic's ID during an attempt with an unknown result. Set if the topic has had another ID
    /// since then. The log of the other topic does not have the batch. But if this ID comes back,
    /// the other ID came from a broker with old metadata, and the log may have the batch. After
    /// several attempts it stays set even if the broker refused the last one.
    pub(crate) in_doubt_under: Option<Uuid>,
    /// Set while a codec thread splits the batch, which was too large for the broker.
    pub(crate) is_being_split: bool,
    /// Set for a piece of a batch that was possibly written whole. A broker that has the whole
    /// batch would not recognize the piece as a duplicate.
    pub(crate) split_in_doubt: bool,
    /// Set if the leader refused this batch during the search for what it has.
    pub(crate) ruled_out: bool,
    /// Set if the outcome was already reported. Only the order of the partition still needs the
    /// batch.
    pub(crate) abandoned: bool,
    /// Node, leader epoch and topic id of the last try. No id if any try named the topic: such a
    /// request may reach a topic that was created again.
    pub(crate) sent_to: Option<NodeId>,
    pub(crate) sent_epoch: i32,
    pub(crate) sent_topic_id: Uuid,
    /// Why the last attempt failed.
    pub(crate) last_error: Option<Arc<str>>,
    header: Option<(Option<Sequence>, Bytes)>,
}

impl ProducerBatch {
    /// Closes an open batch. Returns it without its bytes, and the chunks that hold them.
    pub(crate) fn close(open: OpenBatch) -> (Self, Vec<Chunk>) {
        open.completion.seal(open.records);
        let batch = Self {
            order: Order {
                batch: open.completion.id,
                first_index: 0,
            },
            completion: open.completion,
            records: open.records,
            base_timestamp: open.base_timestamp,
            max_timestamp: open.max_timestamp,
            created: open.created,
            segments: Vec::new(),
            raw_bytes: open.rope.len(),
            record_bytes_max: open.record_bytes_max,
            codec: Compression::None,
            sequence: None,
            transactional: false,
            attempts: 0,
            retry_at: None,
            maybe_written: false,
            in_doubt_under: None,
            is_being_split: false,
            split_in_doubt: false,
            ruled_out: false,
            abandoned: false,
            sent_to: None,
            sent_epoch: -1,
            sent_topic_id: Uuid::ZERO,
            last_error: None,
            header: None,
        };
        (batch, open.rope.into_chunks())
    }

    pub(crate) fn close_uncompressed(open: OpenBatch) -> Self {
        let (mut batch, chunks) = Self::close(open);
        batch.segments = chunks.into_iter().map(Chunk::freeze).collect();
        batch
    }

    /// Returns a part of this batch, starting at the record `first` (counted within this batch).
    pub(crate) fn piece(&self, first: u32, records: u32) -> Self {
        let sequence = self.sequence.map(|sequence| Sequence {
            base: crate::idempotence::increment(sequence.base, first),
            ..sequence
        });
        Self {
            order: Order {
                first_index: self.order.first_index + first,
                ..self.order
            },
            completion: Arc::clone(&self.completion),
            records,
            segments: Vec::new(),
            codec: Compression::None,
            sequence,
            is_being_split: false,
            retry_at: None,
            last_error: None,
            header: None,
            ..*self
        }
    }

    /// Returns whether an attempt may have written the batch, including to a topic that was deleted
    /// since then.
    pub(crate) fn possibly_written(&self) -> bool {
        self.maybe_written || self.in_doubt_under.is_some()
    }

    /// Returns the size on the wire, including the header.
    pub(crate) fn wire_len(&self) -> usize {
        BATCH_HEADER_LEN + self.section_len()
    }

    pub(crate) fn section_len(&self) -> usize {
        self.segments.iter().map(Bytes::len).sum()
    }

    pub(crate) fn batch_header(&self) -> BatchHeader {
        let mut header = BatchHeader {
            attributes: Attributes::default()
                .with_compression(self.codec)
                .with_transactional(self.transactional),
            last_offset_delta: self.records as i32 - 1,
            base_timestamp: self.base_timestamp,
            max_timestamp: self.max_timestamp,
            records_count: self.records as i32,
            ..BatchHeader::default()
        };
        if let Some(sequence) = self.sequence {
            header.producer_id = sequence.producer.id;
            header.producer_epoch = sequence.producer.epoch;
            header.base_sequence = sequence.base;
        }
        header
    }

    /// Returns the complete header with its checksum. It is computed again only if the sequence
    /// changed.
    pub(crate) fn finish(&mut self) -> Bytes {
        if let Some((sequence, header)) = &self.header
            && *sequence == self.sequence
        {
            return header.clone();
        }
        let bytes = self
            .batch_header()
            .finish(self.segments.iter().map(|segment| &segment[..]));
        let header = Bytes::copy_from_slice(&bytes);
        self.header = Some((self.sequence, header.clone()));
        header
    }
}
