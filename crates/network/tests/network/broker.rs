//! A broker that reacts to each request as the test says.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use thalweg_cluster::{Address, ApiVersions};
use thalweg_network::transport::{MemoryListener, MemoryNetwork};
use thalweg_network::{ClientConfig, Parts};
use thalweg_protocol::messages::api_versions::{ApiVersion, ApiVersionsResponse};
use thalweg_protocol::messages::find_coordinator::{Coordinator, FindCoordinatorResponse};
use thalweg_protocol::messages::heartbeat::HeartbeatResponse;
use thalweg_protocol::messages::metadata::{
    MetadataRequest, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};
use thalweg_protocol::{ApiKey, Message, Reader, Str, Uuid, frame, versions};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

/// A request as the broker received it.
#[derive(Debug, Clone)]
pub(crate) struct Got {
    pub(crate) connection: usize,
    pub(crate) key: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    pub(crate) client_id: Option<Str>,
    pub(crate) body: Bytes,
}

impl Got {
    /// Returns a correct response to this request.
    pub(crate) fn respond<M: Message>(&self, message: &M) -> Reaction {
        let bytes = frame::encode_response(self.key, self.version, self.correlation_id, message);
        Reaction::Bytes(bytes.expect("the test's response is good"))
    }

    pub(crate) fn decode<M: Message>(&self) -> M {
        M::decode(&mut Reader::new(self.body.clone()), self.version).expect("a readable request")
    }
}

/// How the broker reacts to a request.
#[derive(Debug, Clone)]
pub(crate) enum Reaction {
    /// The default reaction: responses to versions, metadata and heartbeats.
    Usual,
    Bytes(Vec<u8>),
    /// Sends these bytes, then closes.
    BytesThenClose(Vec<u8>),
    Silence,
    Later(Duration, Box<Self>),
}

type Script = Arc<dyn Fn(&Got) -> Reaction + Send + Sync>;

/// Node 1 at "broker:9092", in its own network.
#[derive(Clone)]
pub(crate) struct Broker {
    pub(crate) network: MemoryNetwork,
    pub(crate) got: Arc<Mutex<Vec<Got>>>,
    script: Script,
    connections: Arc<Mutex<usize>>,
    hang_up: Arc<tokio::sync::Notify>,
}

impl Broker {
    /// Starts a broker, which serves until the test ends. Must be called on a tokio runtime.
    pub(crate) fn start(script: impl Fn(&Got) -> Reaction + Send + Sync + 'static) -> Self {
        let broker = Self::new(script);
        let listener = broker.network.listen("broker", 9092);
        broker.serve(listener);
        broker
    }

    /// Makes a broker that does not listen yet.
    pub(crate) fn new(script: impl Fn(&Got) -> Reaction + Send + Sync + 'static) -> Self {
        Self {
            network: MemoryNetwork::new(),
            got: Arc::default(),
            script: Arc::new(script),
            connections: Arc::default(),
            hang_up: Arc::default(),
        }
    }

    pub(crate) fn usual() -> Self {
        Self::start(|_| Reaction::Usual)
    }

    pub(crate) fn serve(&self, mut listener: MemoryListener) {
        let broker = self.clone();
        tokio::spawn(async move {
            while let Some(stream) = listener.accept().await {
                let broker = broker.clone();
                tokio::spawn(async move {
                    let hang_up = Arc::clone(&broker.hang_up);
                    tokio::select! {
                        () = broker.connection(stream) => {}
                        () = hang_up.notified() => {}
                    }
                });
            }
        });
    }

    #[expect(
        clippy::unused_self,
        reason = "reads as what it is: how to reach this broker"
    )]
    pub(crate) fn config(&self) -> ClientConfig {
        let bootstrap_servers = vec![Address::new("broker", 9092)];
        let client_id = Some("tester".to_owned());
        ClientConfig {
            bootstrap_servers,
            client_id,
            seed: Some(1),
            ..ClientConfig::default()
        }
    }

    pub(crate) fn parts(&self, config: &ClientConfig) -> Parts {
        Parts::with_transport(config, Arc::new(self.network.clone())).expect("a good config")
    }

    /// Breaks every connection.
    pub(crate) fn hang_up(&self) {
        self.hang_up.notify_waiters();
    }

    pub(crate) fn got(&self, key: ApiKey) -> Vec<Got> {
        let got = self.got.lock().expect("no test panics while it holds this");
        got.iter().filter(|got| got.key == key).cloned().collect()
    }

    pub(crate) async fn connection(self, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
        let connection = {
            let mut connections = self.connections.lock().expect("never poisoned");
            *connections += 1;
            *connections
        };
        while let Some(got) = read_request(&mut stream, connection).await {
            self.got.lock().expect("never poisoned").push(got.clone());
            let mut reaction = (self.script)(&got);
            while let Reaction::Later(wait, then) = reaction {
                tokio::time::sleep(wait).await;
                reaction = *then;
            }
            if let Reaction::Usual = reaction {
                reaction = usual(&got);
            }
            let (bytes, close) = match reaction {
                Reaction::Bytes(bytes) => (bytes, false),
                Reaction::BytesThenClose(bytes) => (bytes, true),
                _ => (Vec::new(), false),
            };
            if stream.write_all(&bytes).await.is_err() || stream.flush().await.is_err() || close {
                return;
            }
        }
    }
}

async fn read_request(stream: &mut (impl AsyncRead + Unpin), connection: usize) -> Option<Got> {
    let length = stream.read_i32().await.ok()?;
    let mut bytes = vec![0; usize::try_from(length).ok()?];
    stream.read_exact(&mut bytes).await.ok()?;
    let mut reader = Reader::new(Bytes::from(bytes));
    let header = frame::decode_request_header(&mut reader).expect("a readable header");
    Some(Got {
        connection,
        key: ApiKey(header.request_api_key),
        version: header.request_api_version,
        correlation_id: header.correlation_id,
        client_id: header.client_id,
        body: reader.rest(),
    })
}

pub(crate) fn usual(got: &Got) -> Reaction {
    match got.key {
        ApiKey::API_VERSIONS => got.respond(&all_versions()),
        ApiKey::METADATA => got.respond(&metadata(got, "broker", 9092)),
        ApiKey::HEARTBEAT => got.respond(&HeartbeatResponse::default()),
        ApiKey::FIND_COORDINATOR => got.respond(&FindCoordinatorResponse {
            coordinators: vec![Coordinator {
                key: Str::from("g"),
                node_id: 1,
                host: Str::from("broker"),
                port: 9092,
                ..Coordinator::default()
            }],
            ..FindCoordinatorResponse::default()
        }),
        _ => Reaction::Silence,
    }
}

/// Every version that we support ourselves.
pub(crate) fn all_versions() -> ApiVersionsResponse {
    let range = |key: ApiKey| {
        let range = versions::client_versions(key)?;
        let (min_version, max_version) = (*range.start(), *range.end());
        Some(ApiVersion {
            api_key: key.0,
            min_version,
            max_version,
        })
    };
    let api_keys = (0..100).map(ApiKey).filter_map(range).collect();
    ApiVersionsResponse {
        api_keys,
        ..ApiVersionsResponse::default()
    }
}

/// One node, and two partitions for each requested topic.
pub(crate) fn metadata(got: &Got, host: &str, port: i32) -> MetadataResponse {
    let request: MetadataRequest = got.decode();
    let partition = |partition_index| MetadataResponsePartition {
        partition_index,
        leader_id: 1,
        leader_epoch: 0,
        ..MetadataResponsePartition::default()
    };
    let topics =
        request
            .topics
            .unwrap_or_default()
            .into_iter()
            .map(|asked| MetadataResponseTopic {
                name: asked.name,
                topic_id: Uuid([7; 16]),
                partitions: vec![partition(0), partition(1)],
                ..MetadataResponseTopic::default()
            });
    MetadataResponse {
        brokers: vec![MetadataResponseBroker {
            node_id: 1,
            host: Str::from(host),
            port,
            ..MetadataResponseBroker::default()
        }],
        controller_id: 1,
        cluster_id: Some(Str::from("scripted")),
        topics: topics.collect(),
        ..MetadataResponse::default()
    }
}

/// The versions of an old broker: only these ranges.
pub(crate) fn ranges(ranges: &[(ApiKey, i16, i16)]) -> ApiVersionsResponse {
    let api_keys = ApiVersions::new(ranges.iter().copied())
        .iter()
        .map(|(key, range)| ApiVersion {
            api_key: key.0,
            min_version: *range.start(),
            max_version: *range.end(),
        })
        .collect();
    ApiVersionsResponse {
        api_keys,
        ..ApiVersionsResponse::default()
    }
}
