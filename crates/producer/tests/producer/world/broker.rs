//! Brokers as far as a producer can tell: metadata, producer ids, logs that check sequences like
//! Kafka's `ProducerAppendInfo`, and a script of faults.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use thalweg_cluster::{
    Action, ApiVersions, ConnectionError, ConnectionId, Event, Frame, NodeId, Purpose,
};
use thalweg_protocol::messages::api_versions::{
    ApiVersion, ApiVersionsResponse, FinalizedFeatureKey,
};
use thalweg_protocol::messages::header::RequestHeader;
use thalweg_protocol::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use thalweg_protocol::messages::metadata::{
    MetadataRequest, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};
use thalweg_protocol::messages::produce::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse,
    ProduceRequest, ProduceResponse, TopicProduceResponse,
};
use thalweg_protocol::{ApiKey, ErrorCode, Message, Reader, Str, Uuid, frame};
use thalweg_records::{BatchHeader, Decompressor, batches};

use crate::world::coordinator::{Coordinator, Outcome, Values};

/// What happens to one Produce request instead of the usual.
#[derive(Debug, Clone)]
pub(crate) enum Reaction {
    Usual,
    /// The connection breaks before anything is written.
    LoseRequest,
    /// The request is written, then the connection breaks.
    LoseAnswer,
    /// Nothing happens until `release`, then the usual. Until then its bytes belong to the
    /// producer, like those of a request that a socket has not accepted yet.
    Hold,
    /// The request is never answered.
    Silence,
    /// Nothing is written, and every partition is answered with this error.
    Refuse(ErrorCode),
    /// The request is written, and answered with this error.
    RefuseAfterWriting(ErrorCode),
    /// This partition is refused, the others get the usual answer.
    RefusePartition(i32, ErrorCode),
    /// The request is refused, with the new leader's id and epoch.
    Moved(NodeId, i32),
    /// These records are invalid (KIP-467).
    InvalidRecords(Vec<(i32, &'static str)>),
    /// The request is written, but the answer does not mention it.
    Forget,
    Throttle(i32),
    /// The answer cannot be decoded.
    Garbage,
    /// The request is written, and answered with the correlation id of another one.
    WrongCorrelationId,
}

#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) offset: i64,
    pub(crate) timestamp: i64,
    pub(crate) key: Option<Vec<u8>>,
    pub(crate) value: Option<Vec<u8>>,
    pub(crate) headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

#[derive(Debug, Default)]
struct Producer {
    epoch: i16,
    /// First and last sequence and base offset of the last five batches.
    batches: VecDeque<(i32, i32, i64)>,
}

#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(crate) records: Vec<Stored>,
    pub(crate) headers: Vec<BatchHeader>,
    producers: BTreeMap<i64, Producer>,
}

impl Log {
    pub(crate) fn values(&self) -> Vec<String> {
        let text = |record: &Stored| {
            String::from_utf8_lossy(record.value.as_deref().unwrap_or_default()).into_owned()
        };
        self.records.iter().map(text).collect()
    }

    /// Forgets what a restart forgets: Kafka's snapshot has only the last batch of each producer.
    fn restart(&mut self) {
        for producer in self.producers.values_mut() {
            producer.batches.drain(..producer.batches.len() - 1);
        }
    }

    /// Forgets all producers, as if they had expired or their records had been deleted.
    pub(crate) fn forget_producers(&mut self) {
        self.producers.clear();
    }
}

#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) id: Uuid,
    /// Leader and epoch by partition.
    pub(crate) leaders: Vec<(NodeId, i32)>,
}

#[derive(Debug)]
struct Held {
    conn: ConnectionId,
    node: NodeId,
    /// Not copied: the frame is read when its turn comes, to see what its memory contains then.
    frame: Frame,
    /// What happens to it once the earlier requests are answered. `None`: `release` decides.
    reaction: Option<Reaction>,
}

impl Held {
    fn read(&self) -> Asked {
        let (header, mut reader) = open(&self.frame);
        Asked::new(self.conn, self.node, &header, &mut reader)
    }
}

#[derive(Debug)]
struct Asked {
    conn: ConnectionId,
    node: NodeId,
    version: i16,
    correlation_id: i32,
    request: ProduceRequest,
}

impl Asked {
    fn new(conn: ConnectionId, node: NodeId, header: &RequestHeader, reader: &mut Reader) -> Self {
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
fn open(frame: &Frame) -> (RequestHeader, Reader) {
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

#[derive(Debug, Default)]
pub(crate) struct Brokers {
    pub(crate) nodes: BTreeSet<NodeId>,
    /// These nodes are up for the other nodes, but clients cannot connect to them.
    pub(crate) unreachable: BTreeSet<NodeId>,
    /// If set, a second connection for producing is refused, as by a limit of connections per
    /// address.
    pub(crate) refuses_second: bool,
    pub(crate) topics: BTreeMap<String, Topic>,
    pub(crate) logs: BTreeMap<(String, i32), Log>,
    /// Reactions to the next Produce requests, in order.
    pub(crate) script: VecDeque<Reaction>,
    /// Versions lower than the newest one.
    pub(crate) caps: BTreeMap<ApiKey, i16>,
    /// If set, producers without state must begin at 0, as brokers before 2.5 required.
    pub(crate) wants_known_producers: bool,
    pub(crate) message_max_bytes: usize,
    pub(crate) producer_id_errors: VecDeque<ErrorCode>,
    pub(crate) first_epoch: i16,
    pub(crate) conns: BTreeMap<ConnectionId, (NodeId, Purpose)>,
    /// The node and topic-partitions of each Produce request that arrived, and their versions
    /// below.
    pub(crate) requests: Vec<(NodeId, Vec<(String, i32)>)>,
    pub(crate) versions: Vec<i16>,
    pub(crate) producer_ids: i64,
    /// The bytes of each request's batches.
    pub(crate) request_bytes: Vec<usize>,
    pub(crate) metadata_requests: usize,
    /// Set if all producers here are transactional.
    pub(crate) transactional: bool,
    pub(crate) coordinator: Coordinator,
    held: VecDeque<Held>,
    events: VecDeque<Event>,
    decompressor: Decompressor,
}

impl Brokers {
    pub(crate) fn new(nodes: i32, topics: &[(&str, i32)]) -> Self {
        let mut brokers = Self {
            nodes: (1..=nodes).collect(),
            message_max_bytes: 1024 * 1024,
            ..Self::default()
        };
        for &(name, partitions) in topics {
            brokers.create_topic(name, partitions);
        }
        brokers
    }

    pub(crate) fn create_topic(&mut self, name: &str, partitions: i32) {
        let number = self.topics.len() as u8 + 1;
        let nodes: Vec<NodeId> = self.nodes.iter().copied().collect();
        let leaders = (0..partitions)
            .map(|p| (nodes[p as usize % nodes.len()], 0))
            .collect();
        self.topics.insert(
            name.to_owned(),
            Topic {
                id: Uuid([number; 16]),
                leaders,
            },
        );
    }

    /// Deletes a topic and creates it again: with another id, empty logs, and epochs from 0.
    pub(crate) fn recreate_topic(&mut self, name: &str) {
        let topic = self.topics.get_mut(name).expect("the topic exists");
        topic.id.0[0] += 100;
        topic.leaders.iter_mut().for_each(|leader| leader.1 = 0);
        self.logs.retain(|(topic, _), _| topic != name);
    }

    /// Empties the log, but remembers a batch of the producer that was never sent. So everything
    /// that the producer sends next is out of order.
    pub(crate) fn recreate_log_with_gap(&mut self, name: &str, partition: i32) {
        let log = self.log(name, partition);
        log.records.clear();
        log.headers.clear();
        for producer in log.producers.values_mut() {
            producer.batches = VecDeque::from([(500_000, 500_000, 0)]);
        }
    }

    pub(crate) fn move_leader(&mut self, name: &str, partition: i32, to: NodeId) {
        let leader =
            &mut self.topics.get_mut(name).expect("the topic exists").leaders[partition as usize];
        *leader = (to, leader.1 + 1);
    }

    pub(crate) fn log(&mut self, name: &str, partition: i32) -> &mut Log {
        self.logs.entry((name.to_owned(), partition)).or_default()
    }

    /// Returns the number of requests that wait for `release`.
    pub(crate) fn held(&self) -> usize {
        self.held
            .iter()
            .filter(|held| held.reaction.is_none())
            .count()
    }

    /// Returns the connection of each partition in the held requests, the oldest request first.
    pub(crate) fn held_partitions(&self) -> Vec<(i32, Purpose)> {
        let of_one = |held: &Held| {
            let purpose = self.conns[&held.conn].1;
            let topics = held.read().request.topic_data;
            let partitions = topics.into_iter().flat_map(|topic| topic.partition_data);
            let found: Vec<_> = partitions.map(|each| (each.index, purpose)).collect();
            found
        };
        self.held.iter().flat_map(of_one).collect()
    }

    pub(crate) fn has_connection(&self, purpose: Purpose) -> bool {
        self.conns.values().any(|&(_, of)| of == purpose)
    }

    /// Returns the oldest held request, which shares its memory with the producer.
    pub(crate) fn held_frame(&self) -> Frame {
        self.held.front().expect("a request is held").frame.clone()
    }

    /// Answers the oldest held request.
    pub(crate) fn release(&mut self) {
        self.release_with(&Reaction::Usual);
    }

    pub(crate) fn release_with(&mut self, reaction: &Reaction) {
        let held = self.held.pop_front().expect("a request is held");
        self.react(&held.read(), reaction);
        // A connection's requests are answered in order: the later ones had to wait.
        while let Some(held) = self.held.pop_front() {
            match held.reaction {
                Some(ref reaction) => self.react(&held.read(), reaction),
                None => return self.held.push_front(held),
            }
        }
    }

    /// Writes the batches of the oldest held request. The answer has not arrived yet.
    pub(crate) fn release_late(&mut self) -> Event {
        self.release();
        self.events.pop_back().expect("an answer")
    }

    /// Lets an answer of `release_late` arrive, whatever happened to its connection.
    pub(crate) fn arrive(&mut self, answer: Event) {
        self.events.push_back(answer);
    }

    /// Writes the batches of the oldest held request, and never answers.
    pub(crate) fn release_without_answer(&mut self) {
        let held = self.held.pop_front().expect("a request is held");
        self.produce(&held.read(), |_, write| write());
    }

    /// Breaks all connections of a node.
    pub(crate) fn disconnect(&mut self, node: NodeId) {
        self.disconnect_if(|to| to.0 == node);
    }

    /// Breaks all second connections for producing.
    pub(crate) fn disconnect_second(&mut self) {
        self.disconnect_if(|to| to.1 == Purpose::SecondProduce);
    }

    fn disconnect_if(&mut self, is_meant: impl Fn((NodeId, Purpose)) -> bool) {
        let conns: Vec<_> = self
            .conns
            .iter()
            .filter(|&(_, &to)| is_meant(to))
            .map(|(&c, _)| c)
            .collect();
        for conn in conns {
            self.break_connection(conn);
        }
    }

    fn break_connection(&mut self, conn: ConnectionId) {
        if self.conns.remove(&conn).is_some() {
            let error = ConnectionError::Io("connection reset by peer".to_owned());
            self.events.push_back(Event::Disconnected { conn, error });
        }
        self.held.retain(|held| held.conn != conn);
    }

    /// Restarts all nodes, one after another, without an election.
    pub(crate) fn restart(&mut self) {
        for node in self.nodes.clone() {
            self.disconnect(node);
        }
        self.logs.values_mut().for_each(Log::restart);
    }

    pub(crate) fn stop(&mut self, node: NodeId) {
        self.nodes.remove(&node);
        self.disconnect(node);
    }

    pub(crate) fn start(&mut self, node: NodeId) {
        self.nodes.insert(node);
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    pub(crate) fn act(&mut self, action: Action) {
        match action {
            Action::Connect {
                conn,
                node,
                purpose,
                ..
            } => self.connect(conn, node, purpose),
            Action::Write { conn, frame } => self.read(conn, &frame),
            Action::Close { conn } => {
                self.conns.remove(&conn);
                self.held.retain(|held| held.conn != conn);
            }
        }
    }

    fn connect(&mut self, conn: ConnectionId, node: NodeId, purpose: Purpose) {
        // Bootstrap addresses lead to the first node that is up.
        let node = if node < 0 {
            self.nodes.first().copied().unwrap_or(node)
        } else {
            node
        };
        let refused = self.refuses_second && purpose == Purpose::SecondProduce;
        if refused || !self.nodes.contains(&node) || self.unreachable.contains(&node) {
            let error = ConnectionError::Connect {
                address: format!("n{node}:9092"),
                reason: "connection refused".to_owned(),
            };
            self.events.push_back(Event::ConnectFailed { conn, error });
            return;
        }
        let keys = [
            ApiKey::PRODUCE,
            ApiKey::METADATA,
            ApiKey::API_VERSIONS,
            ApiKey::INIT_PRODUCER_ID,
        ];
        let ranges = keys.into_iter().chain(Coordinator::KEYS).map(|key| {
            let valid = key.valid_versions().expect("these APIs exist");
            let max = self.caps.get(&key).copied().unwrap_or(*valid.end());
            ApiVersion {
                api_key: key.0,
                min_version: *valid.start(),
                max_version: max,
            }
        });
        let level = self
            .coordinator
            .level_told
            .unwrap_or(self.coordinator.level);
        let answer = ApiVersionsResponse {
            api_keys: ranges.collect(),
            finalized_features: vec![FinalizedFeatureKey {
                name: Str::from("transaction.version"),
                min_version_level: 1,
                max_version_level: level,
            }],
            finalized_features_epoch: i64::from(level),
            ..Default::default()
        };
        let api_versions = Arc::new(ApiVersions::from_response(&answer));
        self.conns.insert(conn, (node, purpose));
        self.events
            .push_back(Event::Connected { conn, api_versions });
    }

    fn read(&mut self, conn: ConnectionId, frame: &Frame) {
        let Some(&(node, _)) = self.conns.get(&conn) else {
            return;
        };
        let (header, mut reader) = open(frame);
        if let Some(request) = frame.notify {
            self.events.push_back(Event::Written { conn, request });
        }
        let (version, correlation_id) = (header.request_api_version, header.correlation_id);
        match ApiKey(header.request_api_key) {
            ApiKey::METADATA => {
                let request =
                    MetadataRequest::decode(&mut reader, version).expect("our own request");
                let answer = self.metadata(&request);
                self.answer(conn, ApiKey::METADATA, version, correlation_id, &answer);
            }
            key if Coordinator::KEYS.contains(&key) => {
                self.coordinate(conn, key, version, correlation_id, &mut reader);
            }
            ApiKey::INIT_PRODUCER_ID if self.transactional => {
                let key = ApiKey::INIT_PRODUCER_ID;
                self.coordinate(conn, key, version, correlation_id, &mut reader);
            }
            ApiKey::INIT_PRODUCER_ID => {
                InitProducerIdRequest::decode(&mut reader, version).expect("our own request");
                let answer = self.init_producer_id();
                self.answer(
                    conn,
                    ApiKey::INIT_PRODUCER_ID,
                    version,
                    correlation_id,
                    &answer,
                );
            }
            ApiKey::PRODUCE => {
                let asked = Asked::new(conn, node, &header, &mut reader);
                self.note(node, version, &asked.request);
                let reaction = self.script.pop_front().unwrap_or(Reaction::Usual);
                let hold = matches!(reaction, Reaction::Hold);
                if hold || self.held.iter().any(|held| held.conn == conn) {
                    self.held.push_back(Held {
                        conn,
                        node,
                        frame: frame.clone(),
                        reaction: (!hold).then_some(reaction),
                    });
                } else {
                    self.react(&asked, &reaction);
                }
            }
            other => panic!("nobody sends {other}"),
        }
    }

    fn coordinate(
        &mut self,
        conn: ConnectionId,
        key: ApiKey,
        version: i16,
        correlation_id: i32,
        reader: &mut Reader,
    ) {
        let values = self.all_values();
        match self.coordinator.handle(key, version, reader, &values) {
            Outcome::Break => self.break_connection(conn),
            Outcome::Nothing => {}
            Outcome::Answer(answer) => {
                let frame = answer.frame(key, version, correlation_id);
                let frame = Bytes::from(frame).slice(4..);
                self.events.push_back(Event::Frame { conn, frame });
            }
        }
    }

    /// Returns the values of every log.
    pub(crate) fn all_values(&self) -> Values {
        let logs = self.logs.iter();
        logs.map(|(place, log)| (place.clone(), log.values()))
            .collect()
    }

    fn note(&mut self, node: NodeId, version: i16, request: &ProduceRequest) {
        let mut partitions = Vec::new();
        let mut bytes = 0;
        for topic in &request.topic_data {
            let name = self.topic_name(version, &topic.name, topic.topic_id);
            for partition in &topic.partition_data {
                partitions.push((name.clone().unwrap_or_default(), partition.index));
                bytes += partition.records.as_ref().map_or(0, Bytes::len);
            }
        }
        self.requests.push((node, partitions));
        self.versions.push(version);
        self.request_bytes.push(bytes);
    }

    fn topic_name(&self, version: i16, name: &str, id: Uuid) -> Option<String> {
        if version < 13 {
            return Some(name.to_owned());
        }
        self.topics
            .iter()
            .find(|(_, topic)| topic.id == id)
            .map(|(name, _)| name.clone())
    }

    fn answer<M: Message>(
        &mut self,
        conn: ConnectionId,
        key: ApiKey,
        version: i16,
        correlation_id: i32,
        answer: &M,
    ) {
        let bytes =
            frame::encode_response(key, version, correlation_id, answer).expect("a valid answer");
        self.events.push_back(Event::Frame {
            conn,
            frame: Bytes::from(bytes).slice(4..),
        });
    }

    fn metadata(&mut self, request: &MetadataRequest) -> MetadataResponse {
        self.metadata_requests += 1;
        let broker = |&id: &NodeId| MetadataResponseBroker {
            node_id: id,
            host: Str::from(format!("n{id}")),
            port: 9092,
            ..Default::default()
        };
        let names: Vec<String> = match &request.topics {
            None => self.topics.keys().cloned().collect(),
            Some(asked) => asked
                .iter()
                .filter_map(|t| t.name.as_deref().map(str::to_owned))
                .collect(),
        };
        MetadataResponse {
            brokers: self.nodes.iter().map(broker).collect(),
            controller_id: 1,
            cluster_id: Some(Str::from("cluster")),
            topics: names.iter().map(|name| self.describe(name)).collect(),
            ..Default::default()
        }
    }

    fn describe(&self, name: &str) -> MetadataResponseTopic {
        let mut told = MetadataResponseTopic {
            name: Some(Str::from(name)),
            ..Default::default()
        };
        let Some(topic) = self.topics.get(name) else {
            told.error_code = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION.0;
            return told;
        };
        if self
            .caps
            .get(&ApiKey::METADATA)
            .is_none_or(|&cap| cap >= 10)
        {
            told.topic_id = topic.id;
        }
        told.partitions = topic
            .leaders
            .iter()
            .enumerate()
            .map(|(index, &(leader, epoch))| MetadataResponsePartition {
                partition_index: index as i32,
                leader_id: leader,
                leader_epoch: epoch,
                replica_nodes: vec![leader],
                isr_nodes: vec![leader],
                ..Default::default()
            })
            .collect();
        told
    }

    fn init_producer_id(&mut self) -> InitProducerIdResponse {
        let error = self.producer_id_errors.pop_front();
        if let Some(code) = error {
            return InitProducerIdResponse {
                error_code: code.0,
                ..Default::default()
            };
        }
        self.producer_ids += 1;
        InitProducerIdResponse {
            producer_id: 1000 + self.producer_ids,
            producer_epoch: self.first_epoch,
            ..Default::default()
        }
    }

    fn react(&mut self, asked: &Asked, reaction: &Reaction) {
        let conn = asked.conn;
        match reaction {
            Reaction::Silence => {}
            Reaction::LoseRequest => self.break_connection(conn),
            Reaction::LoseAnswer => {
                self.produce(asked, |_, write| write());
                self.break_connection(conn);
            }
            Reaction::WrongCorrelationId => {
                self.produce(asked, |_, write| write());
                let bytes = (asked.correlation_id + 1).to_be_bytes();
                self.events.push_back(Event::Frame {
                    conn,
                    frame: Bytes::copy_from_slice(&bytes),
                });
            }
            Reaction::Garbage => {
                let mut bytes = asked.correlation_id.to_be_bytes().to_vec();
                bytes.extend_from_slice(&[0, 0x7f]);
                self.events.push_back(Event::Frame {
                    conn,
                    frame: Bytes::from(bytes),
                });
            }
            Reaction::Forget => {
                self.produce(asked, |_, write| write());
                self.reply(asked, &ProduceResponse::default());
            }
            reaction => {
                let answer =
                    self.produce(asked, |partition, write| decide(reaction, partition, write));
                let answer = decorate(answer, reaction);
                self.reply(asked, &answer);
            }
        }
    }

    fn reply(&mut self, asked: &Asked, answer: &ProduceResponse) {
        if asked.request.acks != 0 && self.conns.contains_key(&asked.conn) {
            self.answer(
                asked.conn,
                ApiKey::PRODUCE,
                asked.version,
                asked.correlation_id,
                answer,
            );
        }
    }

    /// Answers a Produce request. `decide` returns each partition's answer, and calls its second
    /// argument to write the batch.
    fn produce(
        &mut self,
        asked: &Asked,
        decide: impl Fn(i32, &mut dyn FnMut() -> PartitionProduceResponse) -> PartitionProduceResponse,
    ) -> ProduceResponse {
        let mut answer = ProduceResponse::default();
        for topic in &asked.request.topic_data {
            let name = self.topic_name(asked.version, &topic.name, topic.topic_id);
            let mut told = TopicProduceResponse {
                name: topic.name.clone(),
                topic_id: topic.topic_id,
                ..Default::default()
            };
            for partition in &topic.partition_data {
                let records = partition.records.clone().unwrap_or_default();
                let mut write =
                    || self.append(asked.node, name.as_deref(), partition.index, &records);
                let answer = decide(partition.index, &mut write);
                told.partition_responses.push(PartitionProduceResponse {
                    index: partition.index,
                    ..answer
                });
            }
            answer.responses.push(told);
        }
        answer
    }

    fn append(
        &mut self,
        node: NodeId,
        name: Option<&str>,
        partition: i32,
        records: &Bytes,
    ) -> PartitionProduceResponse {
        let refused = |code: ErrorCode| PartitionProduceResponse {
            error_code: code.0,
            base_offset: -1,
            ..Default::default()
        };
        let Some(name) = name else {
            return refused(ErrorCode::UNKNOWN_TOPIC_ID);
        };
        let leader = self
            .topics
            .get(name)
            .and_then(|t| t.leaders.get(partition as usize));
        match leader {
            None => return refused(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
            Some(&(leader, _)) if leader != node => {
                return refused(ErrorCode::NOT_LEADER_OR_FOLLOWER);
            }
            Some(_) => {}
        }
        if records.len() > self.message_max_bytes {
            return refused(ErrorCode::MESSAGE_TOO_LARGE);
        }
        let mut found = batches(records.clone());
        let raw = found.next().expect("one batch").expect("a whole batch");
        assert!(
            found.next().is_none(),
            "Produce carries one batch a partition"
        );
        raw.validate_crc().expect("the checksum holds");
        let header = raw.header;
        let wants_known = self.wants_known_producers;
        if self.transactional {
            let place = (name.to_owned(), partition);
            if let Err(code) = self.coordinator.admits(&place, &header) {
                return refused(code);
            }
        }
        let log = self.logs.entry((name.to_owned(), partition)).or_default();
        let base_offset = match log.check(&header, wants_known) {
            Err(code) => return refused(code),
            Ok(Some(duplicate)) => duplicate,
            Ok(None) => {
                let batch = raw
                    .decode(&mut self.decompressor, 64 << 20)
                    .expect("a readable batch");
                log.push(&batch)
            }
        };
        PartitionProduceResponse {
            base_offset,
            log_start_offset: 0,
            ..Default::default()
        }
    }
}

fn decorate(mut answer: ProduceResponse, reaction: &Reaction) -> ProduceResponse {
    match *reaction {
        Reaction::Throttle(ms) => answer.throttle_time_ms = ms,
        Reaction::Moved(leader, epoch) => {
            answer.node_endpoints = vec![NodeEndpoint {
                node_id: leader,
                host: Str::from(format!("n{leader}")),
                port: 9092,
                rack: None,
            }];
            for partition in answer
                .responses
                .iter_mut()
                .flat_map(|t| &mut t.partition_responses)
            {
                partition.current_leader = LeaderIdAndEpoch {
                    leader_id: leader,
                    leader_epoch: epoch,
                };
            }
        }
        _ => {}
    }
    answer
}

fn decide(
    reaction: &Reaction,
    partition: i32,
    write: &mut dyn FnMut() -> PartitionProduceResponse,
) -> PartitionProduceResponse {
    let refused = |code: ErrorCode| PartitionProduceResponse {
        error_code: code.0,
        base_offset: -1,
        ..Default::default()
    };
    match reaction {
        Reaction::Refuse(code) => refused(*code),
        // Like Kafka's DelayedProduce: another error code, and the offset stays.
        Reaction::RefuseAfterWriting(code) => PartitionProduceResponse {
            error_code: code.0,
            ..write()
        },
        Reaction::RefusePartition(which, code) if *which == partition => refused(*code),
        Reaction::Moved(..) => refused(ErrorCode::NOT_LEADER_OR_FOLLOWER),
        Reaction::InvalidRecords(errors) => PartitionProduceResponse {
            record_errors: errors
                .iter()
                .map(|&(index, message)| BatchIndexAndErrorMessage {
                    batch_index: index,
                    batch_index_error_message: Some(Str::from(message)),
                })
                .collect(),
            error_message: Some(Str::from("One or more records have been rejected")),
            ..refused(ErrorCode::INVALID_RECORD)
        },
        _ => write(),
    }
}

impl Log {
    /// Checks a batch's sequence. Returns the offset if the batch is a duplicate.
    fn check(&mut self, header: &BatchHeader, wants_known: bool) -> Result<Option<i64>, ErrorCode> {
        if header.producer_id < 0 {
            return Ok(None);
        }
        let (first, last) = (header.base_sequence, header.last_sequence());
        let Some(known) = self.producers.get(&header.producer_id) else {
            let unknown = wants_known && first != 0;
            return if unknown {
                Err(ErrorCode::UNKNOWN_PRODUCER_ID)
            } else {
                Ok(None)
            };
        };
        if header.producer_epoch < known.epoch {
            return Err(ErrorCode::INVALID_PRODUCER_EPOCH);
        }
        if header.producer_epoch > known.epoch {
            return if first == 0 {
                Ok(None)
            } else {
                Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER)
            };
        }
        if let Some(same) = known.batches.iter().find(|b| b.0 == first && b.1 == last) {
            return Ok(Some(same.2));
        }
        let newest = known
            .batches
            .back()
            .expect("a known producer has written")
            .1;
        let next = if newest == i32::MAX { 0 } else { newest + 1 };
        if first == next {
            Ok(None)
        } else {
            Err(ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER)
        }
    }

    fn push(&mut self, batch: &thalweg_records::DecodedBatch) -> i64 {
        let base_offset = self.records.len() as i64;
        let header = batch.header;
        assert_eq!(header.last_offset_delta + 1, header.records_count);
        let mut max_timestamp = i64::MIN;
        for record in batch {
            let record = record.expect("a readable record");
            assert_eq!(record.offset, self.records.len() as i64 - base_offset);
            max_timestamp = max_timestamp.max(record.timestamp);
            self.records.push(Stored {
                offset: self.records.len() as i64,
                timestamp: record.timestamp,
                key: record.key.map(<[u8]>::to_vec),
                value: record.value.map(<[u8]>::to_vec),
                headers: record
                    .headers
                    .iter()
                    .map(|header| (header.key.to_vec(), header.value.map(<[u8]>::to_vec)))
                    .collect(),
            });
        }
        assert_eq!(max_timestamp, header.max_timestamp);
        self.headers.push(header);
        if header.producer_id >= 0 {
            let producer = self.producers.entry(header.producer_id).or_default();
            if producer.epoch != header.producer_epoch {
                *producer = Producer {
                    epoch: header.producer_epoch,
                    ..Producer::default()
                };
            }
            producer
                .batches
                .push_back((header.base_sequence, header.last_sequence(), base_offset));
            if producer.batches.len() > 5 {
                producer.batches.pop_front();
            }
        }
        base_offset
    }
}
