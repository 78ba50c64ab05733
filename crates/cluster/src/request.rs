//! Requests to send and responses received, as bytes with a label.

use std::time::Duration;

use bytes::Bytes;
use thalweg_protocol::{ApiKey, EncodeError, Message, Reader, Request, frame};

/// Kafka's node id. Bootstrap addresses have negative ids: -1, -2 and so on.
pub type NodeId = i32;

/// What a connection is for. A slow response on one connection does not delay the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Purpose {
    Produce,
    Fetch,
    Group,
    /// `JoinGroup` and `SyncGroup`, which wait at the coordinator for the other members.
    Rebalance,
    General,
}

/// Names one request of one [`Cluster`](crate::Cluster). Ids are never reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// A request's bytes after its header: `head`, then `segments` in order.
///
/// Produce passes the batches' own buffers as segments, so that no batch is copied into a request.
/// The network writes them vectored.
#[derive(Debug, Clone, Default)]
pub struct Body {
    pub head: Vec<u8>,
    pub segments: Vec<Bytes>,
}

impl Body {
    pub fn new(head: Vec<u8>) -> Self {
        Self {
            head,
            segments: Vec::new(),
        }
    }

    /// Encodes a typed message as one piece.
    pub fn encode<M: Message>(message: &M, version: i16) -> Result<Self, EncodeError> {
        let mut head = Vec::new();
        message.encode(&mut head, version)?;
        Ok(Self::new(head))
    }

    pub fn push(&mut self, segment: Bytes) {
        if !segment.is_empty() {
            self.segments.push(segment);
        }
    }

    /// Returns the bytes of all pieces together.
    pub fn len(&self) -> usize {
        self.head.len() + self.segments.iter().map(Bytes::len).sum::<usize>()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<Vec<u8>> for Body {
    fn from(head: Vec<u8>) -> Self {
        Self::new(head)
    }
}

/// A request that a role hands to [`Cluster::send`](crate::Cluster::send).
#[derive(Debug, Clone)]
pub struct Outgoing {
    pub api_key: ApiKey,
    pub version: i16,
    pub body: Body,
    /// From sending to the response. When it has passed, the connection is closed.
    pub timeout: Duration,
    /// False for Produce with acks=0, which is done when the socket has taken its last byte.
    pub expects_response: bool,
}

impl Outgoing {
    /// Makes a typed request in one piece that expects a response.
    pub fn new<R: Request>(
        request: &R,
        version: i16,
        timeout: Duration,
    ) -> Result<Self, EncodeError> {
        let body = Body::encode(request, version)?;
        Ok(Self {
            api_key: R::KEY,
            version,
            body,
            timeout,
            expects_response: true,
        })
    }
}

/// A complete request as the network writes it, including the length prefix.
#[derive(Debug, Clone)]
pub struct Frame {
    pub head: Bytes,
    pub segments: Vec<Bytes>,
    /// Set if the cluster wants an [`Event::Written`](crate::Event::Written) for it.
    pub notify: Option<RequestId>,
}

impl Frame {
    pub fn len(&self) -> usize {
        self.head.len() + self.segments.iter().map(Bytes::len).sum::<usize>()
    }

    pub fn is_empty(&self) -> bool {
        self.head.is_empty()
    }
}

/// A response without its header, for the sender of the request to decode.
#[derive(Debug)]
pub struct ResponseBody {
    pub node: NodeId,
    pub purpose: Purpose,
    pub api_key: ApiKey,
    pub version: i16,
    /// Empty for a request that expects no response.
    pub reader: Reader,
}

impl ResponseBody {
    /// Decodes the response to a request of type `R`.
    pub fn decode<R: Request>(mut self) -> Result<R::Response, thalweg_protocol::DecodeError> {
        debug_assert_eq!(R::KEY, self.api_key, "response of another API");
        R::Response::decode(&mut self.reader, self.version)
    }
}

/// Adds length and header to a body. It copies the head once, which is small or was built for this.
pub(crate) fn frame_request(
    outgoing: Outgoing,
    correlation_id: i32,
    client_id: Option<&str>,
    notify: Option<RequestId>,
) -> Frame {
    let Outgoing {
        api_key,
        version,
        body,
        ..
    } = outgoing;
    let mut head = Vec::with_capacity(64 + client_id.map_or(0, str::len) + body.head.len());
    head.extend_from_slice(&[0; 4]);
    frame::put_request_header(&mut head, api_key, version, correlation_id, client_id)
        .expect("the constructor drops a client id that is too long for a header");
    head.extend_from_slice(&body.head);
    let length = head.len() - 4 + body.segments.iter().map(Bytes::len).sum::<usize>();
    let prefix = i32::try_from(length).expect("roles keep requests below 2 GiB");
    head[..4].copy_from_slice(&prefix.to_be_bytes());
    Frame {
        head: Bytes::from(head),
        segments: body.segments,
        notify,
    }
}
