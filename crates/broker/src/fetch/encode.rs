//! Encodes the body of a Fetch response, versions 4 to 18. It is written by hand, because it refers
//! to the records and does not copy them. A test compares it with the generated message.

use thalweg_protocol::ErrorCode;

use super::read::PartitionRead;
use super::target::TopicKey;
use crate::requests::response::Pieces;
use crate::storage::Aborted;
use crate::topology::Topology;

/// The fields before the partitions.
pub(crate) struct Head {
    pub(crate) version: i16,
    pub(crate) code: ErrorCode,
    pub(crate) session_id: i32,
    pub(crate) throttle_ms: i32,
    pub(crate) read_committed: bool,
}

pub(crate) fn encode(head: &Head, reads: &[PartitionRead<'_>], topology: &Topology) -> Pieces {
    let mut out = Writer {
        pieces: Pieces::default(),
        is_flexible: head.version >= 12,
    };
    out.i32(head.throttle_ms);
    if head.version >= 7 {
        out.i16(head.code.0);
        out.i32(head.session_id);
    }
    let topics: Vec<&[PartitionRead<'_>]> = reads
        .chunk_by(|one, next| one.key.0 == next.key.0)
        .collect();
    out.length(topics.len());
    for partitions in topics {
        match &partitions[0].key.0 {
            TopicKey::Name(name) => out.string(name),
            TopicKey::Id(id) => out.pieces.put_slice(&id.0),
        }
        out.length(partitions.len());
        for read in partitions {
            out.partition(head, read);
        }
        out.no_tags();
    }
    out.node_endpoints(head, reads, topology);
    out.pieces
}

struct Writer {
    pieces: Pieces,
    is_flexible: bool,
}

impl Writer {
    fn partition(&mut self, head: &Head, read: &PartitionRead<'_>) {
        self.i32(read.key.1);
        self.i16(read.code.0);
        self.i64(read.high_watermark);
        self.i64(read.last_stable_offset);
        if head.version >= 5 {
            self.i64(read.log_start_offset);
        }
        // For a missing partition, Kafka always reports an empty list, even without
        // `read_committed`.
        let is_missing = matches!(
            read.code,
            ErrorCode::UNKNOWN_TOPIC_ID | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        );
        if head.read_committed || is_missing {
            self.aborted(&read.aborted);
        } else {
            self.null_length();
        }
        if head.version >= 11 {
            self.i32(-1); // no replica is preferred
        }
        self.records(read);
        if self.is_flexible {
            self.partition_tags(head, read);
        }
    }

    fn aborted(&mut self, transactions: &[Aborted]) {
        self.length(transactions.len());
        for aborted in transactions {
            self.i64(aborted.producer_id);
            self.i64(aborted.first_offset);
            self.no_tags();
        }
    }

    fn records(&mut self, read: &PartitionRead<'_>) {
        self.length(read.records_bytes());
        let Some(records) = read.records else { return };
        for batch in records.iter() {
            self.pieces.put_slice(&batch.prefix());
            self.pieces.put_rest_of(batch);
        }
    }

    fn partition_tags(&mut self, head: &Head, read: &PartitionRead<'_>) {
        let leader = read.leader.filter(|_| head.version >= 16);
        self.uvarint(u32::from(read.diverging.is_some()) + u32::from(leader.is_some()));
        if let Some((epoch, end_offset)) = read.diverging {
            self.pieces.put_slice(&[0, 13]);
            self.i32(epoch);
            self.i64(end_offset);
            self.no_tags();
        }
        if let Some((leader, epoch)) = leader {
            self.pieces.put_slice(&[1, 9]);
            self.i32(leader);
            self.i32(epoch);
            self.no_tags();
        }
    }

    /// Adds the addresses of the leaders that are hinted at.
    fn node_endpoints(&mut self, head: &Head, reads: &[PartitionRead<'_>], topology: &Topology) {
        let mut leaders: Vec<i32> = reads
            .iter()
            .filter_map(|read| read.leader)
            .map(|leader| leader.0)
            .collect();
        leaders.sort_unstable();
        leaders.dedup();
        let nodes: Vec<_> = leaders
            .into_iter()
            .filter_map(|id| topology.node(id))
            .collect();
        if head.version < 16 || nodes.is_empty() {
            return self.no_tags();
        }
        let mut field = Self {
            pieces: Pieces::default(),
            is_flexible: true,
        };
        field.length(nodes.len());
        for node in nodes {
            field.i32(node.id);
            field.string(&node.host);
            field.i32(i32::from(node.port));
            field.null_length(); // no rack
            field.no_tags();
        }
        self.pieces.put_slice(&[1, 0]);
        self.uvarint(field.pieces.len() as u32);
        self.pieces.append(field.pieces);
    }

    fn i16(&mut self, value: i16) {
        self.pieces.put_slice(&value.to_be_bytes());
    }

    fn i32(&mut self, value: i32) {
        self.pieces.put_slice(&value.to_be_bytes());
    }

    fn i64(&mut self, value: i64) {
        self.pieces.put_slice(&value.to_be_bytes());
    }

    fn uvarint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.pieces.put_slice(&[value as u8 | 0x80]);
            value >>= 7;
        }
        self.pieces.put_slice(&[value as u8]);
    }

    /// Writes the length of an array or of bytes.
    fn length(&mut self, length: usize) {
        if self.is_flexible {
            self.uvarint(length as u32 + 1);
        } else {
            self.i32(length as i32);
        }
    }

    fn null_length(&mut self) {
        if self.is_flexible {
            self.uvarint(0);
        } else {
            self.i32(-1);
        }
    }

    fn string(&mut self, text: &str) {
        if self.is_flexible {
            self.uvarint(text.len() as u32 + 1);
        } else {
            self.i16(text.len() as i16);
        }
        self.pieces.put_slice(text.as_bytes());
    }

    fn no_tags(&mut self) {
        if self.is_flexible {
            self.uvarint(0);
        }
    }
}
