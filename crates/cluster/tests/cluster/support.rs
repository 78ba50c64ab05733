//! A test bench for a cluster: time is a number, and brokers do what the test says.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use thalweg_cluster::{
    Action, Address, ApiVersions, Body, Cluster, ClusterConfig, ConnectionError, ConnectionId,
    Event, NodeId, Notifier, Outgoing, Purpose, RequestError, RequestId, ResponseBody,
};
use thalweg_protocol::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use thalweg_protocol::messages::metadata::{
    MetadataRequest, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};
use thalweg_protocol::{ApiKey, Reader, Request, Str, Uuid, frame, versions};

pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// A connection attempt that the cluster asked for.
#[derive(Debug, Clone)]
pub(crate) struct Attempt {
    pub(crate) conn: ConnectionId,
    pub(crate) node: NodeId,
    pub(crate) purpose: Purpose,
    pub(crate) to: String,
    pub(crate) address: usize,
}

/// A request that the cluster wrote.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    pub(crate) conn: ConnectionId,
    pub(crate) key: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    pub(crate) body: Reader,
    pub(crate) bytes: Vec<u8>,
}

impl Written {
    pub(crate) fn decode<R: Request>(&self) -> R {
        assert_eq!(self.key, R::KEY);
        R::decode(&mut self.body.clone(), self.version).expect("our own request is readable")
    }
}

pub(crate) struct Bench {
    pub(crate) cluster: Cluster,
    pub(crate) now: Instant,
    pub(crate) attempts: Vec<Attempt>,
    pub(crate) writes: Vec<Written>,
    pub(crate) closes: Vec<ConnectionId>,
    pub(crate) reauthentications: Vec<ConnectionId>,
    pub(crate) responses: Vec<(RequestId, Result<ResponseBody, RequestError>)>,
}

pub(crate) fn config(bootstrap: &str) -> ClusterConfig {
    ClusterConfig {
        bootstrap_servers: Address::parse_list(bootstrap).expect("a good list"),
        client_id: Some("bench".to_owned()),
        seed: 42,
        ..ClusterConfig::default()
    }
}

impl Bench {
    #[expect(
        clippy::disallowed_methods,
        reason = "virtual time needs some instant to start from"
    )]
    pub(crate) fn new(config: ClusterConfig) -> Self {
        let mut bench = Self {
            cluster: Cluster::new(config, Arc::new(Notifier::new())),
            now: Instant::now(),
            attempts: Vec::new(),
            writes: Vec::new(),
            closes: Vec::new(),
            reauthentications: Vec::new(),
            responses: Vec::new(),
        };
        bench.turn();
        bench
    }

    /// A client that has its first metadata, which lists `nodes` nodes (ids from 1).
    pub(crate) fn bootstrapped(nodes: usize) -> Self {
        let mut bench = Self::new(config("boot:9092"));
        bench.accept_next();
        bench.respond_with_metadata(&brokers(nodes, &[]));
        bench
    }

    /// One turn of an actor, without its role.
    pub(crate) fn turn(&mut self) {
        self.cluster.poll(self.now);
        self.collect();
    }

    pub(crate) fn collect(&mut self) {
        while let Some(action) = self.cluster.poll_action() {
            match action {
                Action::Connect {
                    conn,
                    node,
                    purpose,
                    host,
                    port,
                    address,
                } => {
                    let to = format!("{host}:{port}");
                    self.attempts.push(Attempt {
                        conn,
                        node,
                        purpose,
                        to,
                        address,
                    });
                }
                Action::Close { conn } => self.closes.push(conn),
                Action::Reauthenticate { conn } => self.reauthentications.push(conn),
                Action::Write { conn, frame } => {
                    let mut bytes = frame.head.to_vec();
                    frame
                        .segments
                        .iter()
                        .for_each(|segment| bytes.extend_from_slice(segment));
                    self.writes.push(read_request(conn, &bytes));
                }
            }
        }
        while let Some(response) = self.cluster.poll_response() {
            self.responses.push(response);
        }
    }

    pub(crate) fn event(&mut self, event: Event) {
        self.cluster.handle(event, self.now);
        self.turn();
    }

    pub(crate) fn advance(&mut self, by: Duration) {
        self.now += by;
        self.turn();
    }

    /// Moves to the next deadline. Panics if there is none within `limit`.
    pub(crate) fn advance_to_deadline(&mut self, limit: Duration) -> Duration {
        let at = self.cluster.next_deadline(self.now).expect("a deadline");
        let wait = at.saturating_duration_since(self.now);
        assert!(wait <= limit, "the next deadline is only in {wait:?}");
        self.advance(wait);
        wait
    }

    pub(crate) fn take_attempt(&mut self) -> Attempt {
        assert!(!self.attempts.is_empty(), "no connection was asked for");
        self.attempts.remove(0)
    }

    pub(crate) fn accept(&mut self, attempt: &Attempt) {
        let api_versions = Arc::new(all_versions());
        self.event(Event::Connected {
            conn: attempt.conn,
            api_versions,
        });
    }

    /// Lets the oldest attempt succeed.
    pub(crate) fn accept_next(&mut self) -> Attempt {
        let attempt = self.take_attempt();
        self.accept(&attempt);
        attempt
    }

    pub(crate) fn refuse(&mut self, attempt: &Attempt) {
        let error = ConnectionError::Connect {
            address: attempt.to.clone(),
            reason: "Connection refused".to_owned(),
        };
        self.event(Event::ConnectFailed {
            conn: attempt.conn,
            error,
        });
    }

    /// Takes the oldest written request, which must be of this API.
    pub(crate) fn take_write(&mut self, key: ApiKey) -> Written {
        assert!(!self.writes.is_empty(), "no {key} was written");
        let written = self.writes.remove(0);
        assert_eq!(written.key, key);
        written
    }

    pub(crate) fn respond<R: Request>(&mut self, to: &Written, response: &R::Response) {
        let bytes = frame::encode_response(to.key, to.version, to.correlation_id, response)
            .expect("the test's response is good");
        self.event(Event::Frame {
            conn: to.conn,
            frame: Bytes::from(bytes).slice(4..),
        });
    }

    /// Responds to the oldest request, which must be Metadata, and returns it.
    pub(crate) fn respond_with_metadata(&mut self, response: &MetadataResponse) -> MetadataRequest {
        let written = self.take_write(ApiKey::METADATA);
        self.respond::<MetadataRequest>(&written, response);
        written.decode()
    }

    /// Makes a ready connection to a node.
    pub(crate) fn ready(&mut self, node: NodeId, purpose: Purpose) -> Attempt {
        assert!(
            !self.cluster.is_ready(node, purpose, self.now),
            "it was ready already"
        );
        self.collect();
        let attempt = self
            .attempts
            .pop()
            .expect("is_ready asks for the connection");
        assert_eq!((attempt.node, attempt.purpose), (node, purpose));
        self.accept(&attempt);
        assert!(self.cluster.is_ready(node, purpose, self.now));
        attempt
    }

    /// Sends a small request, a heartbeat.
    pub(crate) fn send(
        &mut self,
        node: NodeId,
        purpose: Purpose,
        timeout: Duration,
    ) -> (RequestId, Written) {
        let id = self
            .cluster
            .send(node, purpose, heartbeat(timeout), self.now);
        self.collect();
        (id, self.writes.pop().expect("it is written at once"))
    }

    pub(crate) fn respond_to_heartbeat(&mut self, to: &Written) {
        self.respond::<HeartbeatRequest>(to, &HeartbeatResponse::default());
    }
}

pub(crate) fn heartbeat(timeout: Duration) -> Outgoing {
    let version = 4;
    let body = Body::encode(&HeartbeatRequest::default(), version).expect("a default message");
    Outgoing {
        api_key: ApiKey::HEARTBEAT,
        version,
        body,
        timeout,
        expects_response: true,
    }
}

/// A broker that supports every version that we support.
pub(crate) fn all_versions() -> ApiVersions {
    ApiVersions::new((0..100).map(ApiKey).filter_map(|key| {
        let range = versions::client_versions(key)?;
        Some((key, *range.start(), *range.end()))
    }))
}

fn read_request(conn: ConnectionId, bytes: &[u8]) -> Written {
    let length = i32::from_be_bytes(bytes[..4].try_into().expect("four bytes"));
    assert_eq!(
        length as usize,
        bytes.len() - 4,
        "the length prefix tells the rest"
    );
    let mut body = Reader::new(Bytes::copy_from_slice(&bytes[4..]));
    let header = frame::decode_request_header(&mut body).expect("our own header is readable");
    Written {
        conn,
        key: ApiKey(header.request_api_key),
        version: header.request_api_version,
        correlation_id: header.correlation_id,
        body,
        bytes: bytes.to_vec(),
    }
}

/// A Metadata response: nodes 1 to `nodes` (host "n1" and so on), and these topics.
pub(crate) fn brokers(nodes: usize, topics: &[MetadataResponseTopic]) -> MetadataResponse {
    let broker = |id: usize| MetadataResponseBroker {
        node_id: id as i32,
        host: Str::from(format!("n{id}").as_str()),
        port: 9092,
        ..MetadataResponseBroker::default()
    };
    MetadataResponse {
        brokers: (1..=nodes).map(broker).collect(),
        cluster_id: Some(Str::from("bench-cluster")),
        controller_id: 1,
        topics: topics.to_vec(),
        ..MetadataResponse::default()
    }
}

/// A topic whose partitions have these (leader, leader epoch) pairs.
pub(crate) fn topic(name: &str, id: u8, partitions: &[(i32, i32)]) -> MetadataResponseTopic {
    let part =
        |(index, &(leader_id, leader_epoch)): (usize, &(i32, i32))| MetadataResponsePartition {
            partition_index: index as i32,
            leader_id,
            leader_epoch,
            replica_nodes: vec![leader_id],
            isr_nodes: vec![leader_id],
            ..MetadataResponsePartition::default()
        };
    MetadataResponseTopic {
        name: Some(Str::from(name)),
        topic_id: Uuid([id; 16]),
        partitions: partitions.iter().enumerate().map(part).collect(),
        ..MetadataResponseTopic::default()
    }
}

pub(crate) fn failed_topic(name: &str, code: thalweg_protocol::ErrorCode) -> MetadataResponseTopic {
    MetadataResponseTopic {
        name: Some(Str::from(name)),
        error_code: code.0,
        ..MetadataResponseTopic::default()
    }
}
