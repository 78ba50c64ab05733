//! A single request of any API, as other threads make it.

use std::fmt;
use std::time::Duration;

use thalweg_cluster::{Body, CoordinatorType, NodeId, Purpose};
use thalweg_protocol::{ApiKey, EncodeError, Reader, Str};

/// The broker that a request is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestTarget {
    Node(NodeId),
    Controller,
    /// Any broker, preferably the one with the fewest requests in flight.
    LeastLoaded,
    Coordinator {
        kind: CoordinatorType,
        key: Str,
    },
    Leader {
        topic: Str,
        partition: i32,
    },
}

/// The version in which a request is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionChoice {
    /// The newest that both sides support.
    Newest,
    /// The newest that both sides support, up to this one.
    AtMost(i16),
    /// This version, if the broker supports it.
    Exactly(i16),
}

/// APIs that are sent again after a lost connection, because they change nothing.
const READS: [ApiKey; 26] = [
    ApiKey::API_VERSIONS,
    ApiKey::CONSUMER_GROUP_DESCRIBE,
    ApiKey::DESCRIBE_ACLS,
    ApiKey::DESCRIBE_CLIENT_QUOTAS,
    ApiKey::DESCRIBE_CLUSTER,
    ApiKey::DESCRIBE_CONFIGS,
    ApiKey::DESCRIBE_DELEGATION_TOKEN,
    ApiKey::DESCRIBE_GROUPS,
    ApiKey::DESCRIBE_LOG_DIRS,
    ApiKey::DESCRIBE_PRODUCERS,
    ApiKey::DESCRIBE_QUORUM,
    ApiKey::DESCRIBE_SHARE_GROUP_OFFSETS,
    ApiKey::DESCRIBE_TOPIC_PARTITIONS,
    ApiKey::DESCRIBE_TRANSACTIONS,
    ApiKey::DESCRIBE_USER_SCRAM_CREDENTIALS,
    ApiKey::FIND_COORDINATOR,
    ApiKey::LIST_CONFIG_RESOURCES,
    ApiKey::LIST_GROUPS,
    ApiKey::LIST_OFFSETS,
    ApiKey::LIST_PARTITION_REASSIGNMENTS,
    ApiKey::LIST_TRANSACTIONS,
    ApiKey::METADATA,
    ApiKey::OFFSET_FETCH,
    ApiKey::OFFSET_FOR_LEADER_EPOCH,
    ApiKey::SHARE_GROUP_DESCRIBE,
    ApiKey::STREAMS_GROUP_DESCRIBE,
];

/// APIs that a coordinator responds to only when the other members have arrived too. A broker reads
/// no further request of a connection before it has responded to the last, so heartbeats must not
/// queue behind these.
const WAITS: [ApiKey; 2] = [ApiKey::JOIN_GROUP, ApiKey::SYNC_GROUP];

/// Encodes the body in the agreed version. It may be called again after a lost connection.
pub type EncodeBody = Box<dyn Fn(i16) -> Result<Vec<u8>, EncodeError> + Send>;

/// Called with a response on the I/O thread, before the caller gets the response. It must not
/// block.
pub type OnResponse = Box<dyn FnOnce(&Response) + Send>;

/// One request.
pub struct Request {
    pub target: RequestTarget,
    pub api_key: ApiKey,
    pub version: VersionChoice,
    pub encode: EncodeBody,
    /// The limit for everything: finding the broker, connecting, the response. `None` means the
    /// client's `request_timeout`.
    pub timeout: Option<Duration>,
    /// `None` means `Group` for coordinators (`Rebalance` for APIs that wait there), otherwise
    /// `General`.
    pub purpose: Option<Purpose>,
    pub on_response: Option<OnResponse>,
}

impl Request {
    pub fn new(
        target: RequestTarget,
        api_key: ApiKey,
        encode: impl Fn(i16) -> Result<Vec<u8>, EncodeError> + Send + 'static,
    ) -> Self {
        Self {
            target,
            api_key,
            version: VersionChoice::Newest,
            encode: Box::new(encode),
            timeout: None,
            purpose: None,
            on_response: None,
        }
    }

    /// Makes a typed request.
    pub fn typed<R: thalweg_protocol::Request + Send + 'static>(
        target: RequestTarget,
        request: R,
    ) -> Self {
        Self::new(target, R::KEY, move |version| {
            Ok(Body::encode(&request, version)?.head)
        })
    }

    /// Whether the request changes nothing at the broker, so that it may be sent twice.
    pub(crate) fn is_read(&self) -> bool {
        READS.contains(&self.api_key)
    }

    pub(crate) fn purpose(&self) -> Purpose {
        self.purpose.unwrap_or(match self.target {
            RequestTarget::Coordinator { .. } if WAITS.contains(&self.api_key) => {
                Purpose::Rebalance
            }
            RequestTarget::Coordinator { .. } => Purpose::Group,
            _ => Purpose::General,
        })
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("target", &self.target)
            .field("api_key", &self.api_key)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

/// The response to a request, ready to be decoded.
#[derive(Debug, Clone)]
pub struct Response {
    pub node: NodeId,
    pub api_key: ApiKey,
    pub version: i16,
    pub reader: Reader,
}

impl Response {
    /// Decodes the response to a request of type `R`.
    pub fn decode<R: thalweg_protocol::Request>(
        mut self,
    ) -> Result<R::Response, thalweg_protocol::DecodeError> {
        debug_assert_eq!(R::KEY, self.api_key, "response of another API");
        <R::Response as thalweg_protocol::Message>::decode(&mut self.reader, self.version)
    }
}
