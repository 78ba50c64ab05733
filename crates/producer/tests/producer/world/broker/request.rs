//! The requests of a producer, read from the memory that their frames share with it.

use bytes::Bytes;
use thalweg_cluster::{ConnectionId, Frame, NodeId};
use thalweg_protocol::messages::header::RequestHeader;
use thalweg_protocol::messages::produce::ProduceRequest;
use thalweg_protocol::{Message, Reader, frame};

use crate::world::broker::reaction::Reaction;

#[derive(Debug)]
pub(super) struct Held {
    pub(super) conn: ConnectionId,
    pub(super) node: NodeId,
    /// Not copied: the frame is read when its turn comes, to see what its memory contains then.
    pub(super) frame: Frame,
    /// What happens to it once the earlier requests are answered. `None`: `release` decides.
    pub(super) reaction: Option<Reaction>,
}

impl Held {
    pub(super) fn read(&self) -> Asked {
        let (header, mut reader) = open(&self.frame);
        Asked::new(self.conn, self.node, &header, &mut reader)
    }
}

#[derive(Debug)]
pub(super) struct Asked {
    pub(super) conn: ConnectionId,
    pub(super) node: NodeId,
    pub(super) version: i16,
    pub(super) correlation_id: i32,
    pub(super) request: ProduceRequest,
}

impl Asked {
    pub(super) fn new(
        conn: ConnectionId,
        node: NodeId,
        header: &RequestHeader,
        reader: &mut Reader,
    ) -> Self {
        let version = header.request_api_version;
        let request = ProduceRequest::decode(reader, version).expect("our own request");
        assert_eq!(reader.remaining(), 0);
        Self {
            conn,
            node,
            version,
            correlation_id: header.correlation_id,
            request,
        }
    }
}

/// Returns the bytes that a socket would send of a request at this moment.
pub(crate) fn copied(frame: &Frame) -> Vec<u8> {
    let mut bytes = frame.head.to_vec();
    for segment in &frame.segments {
        bytes.extend_from_slice(segment);
    }
    bytes
}

/// Returns a request's header, and a reader of its body.
pub(super) fn open(frame: &Frame) -> (RequestHeader, Reader) {
    let bytes = copied(frame);
    let length = i32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    assert_eq!(
        length as usize,
        bytes.len() - 4,
        "the length is that of the frame"
    );
    let mut reader = Reader::new(Bytes::from(bytes).slice(4..));
    let header = frame::decode_request_header(&mut reader).expect("our own header");
    (header, reader)
}
