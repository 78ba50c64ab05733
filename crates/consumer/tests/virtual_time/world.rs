//! A consumer, a cluster and a scripted broker in one thread, in virtual time.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::Bytes;
use thalweg_cluster::metadata::LeaderHint;
use thalweg_cluster::{
    Action, Address, ApiVersions, Cluster, ClusterConfig, ConnectionError, ConnectionId, Event,
    Job, NodeId, Notifier, Role,
};
use thalweg_consumer::{
    BatchInfo, Consumer, ConsumerConfig, ConsumerError, DecodeJob, Demand, Drained, Fetcher, Offer,
    OffsetReset, RecordSink, TopicPartition,
};
use thalweg_protocol::{ApiKey, Str};
use thalweg_records::RecordRef;

use crate::broker::Broker;

pub(crate) const NOW_MS: i64 = 1_700_000_000_000;

pub(crate) struct World {
    pub(crate) now: Instant,
    pub(crate) consumer: Arc<Consumer>,
    pub(crate) fetcher: Fetcher,
    pub(crate) cluster: Cluster,
    pub(crate) broker: Broker,
    pub(crate) connections: BTreeMap<ConnectionId, NodeId>,
    /// The connection of the last fetch to each node.
    fetch_connections: BTreeMap<NodeId, ConnectionId>,
    /// Leaves decode jobs in `jobs` until `run_jobs`.
    pub(crate) hold_jobs: bool,
    pub(crate) jobs: VecDeque<DecodeJob>,
    /// Leaves responses in `responses` until `deliver`.
    pub(crate) hold_responses: bool,
    pub(crate) responses: VecDeque<(ConnectionId, Bytes)>,
    notifier: Arc<Notifier>,
    /// Something happened outside of a turn.
    events: bool,
    /// The deadline that the last turn returned.
    slept_until: Option<Instant>,
}

pub(crate) fn tp(partition: i32) -> TopicPartition {
    TopicPartition::new("t", partition)
}

pub(crate) fn config() -> ConsumerConfig {
    ConsumerConfig {
        auto_offset_reset: OffsetReset::Earliest,
        ..ConsumerConfig::default()
    }
}

impl World {
    #[expect(
        clippy::disallowed_methods,
        reason = "virtual time has to begin somewhere"
    )]
    pub(crate) fn new(config: ConsumerConfig, broker: Broker) -> Self {
        let notifier = Arc::new(Notifier::new());
        let (consumer, fetcher) = Consumer::new(config, Arc::clone(&notifier));
        let cluster_config = ClusterConfig {
            bootstrap_servers: vec![Address {
                host: "broker".into(),
                port: 9000,
            }],
            ..ClusterConfig::default()
        };
        Self {
            now: Instant::now(),
            consumer,
            fetcher,
            cluster: Cluster::new(cluster_config, Arc::clone(&notifier)),
            notifier,
            events: true,
            slept_until: None,
            broker,
            connections: BTreeMap::new(),
            fetch_connections: BTreeMap::new(),
            hold_jobs: false,
            jobs: VecDeque::new(),
            hold_responses: false,
            responses: VecDeque::new(),
        }
    }

    /// Creates a topic "t" on node 1, with all partitions assigned and their positions found.
    pub(crate) fn with_topic(
        config: ConsumerConfig,
        partitions: i32,
        fill: impl FnOnce(&mut Broker),
    ) -> Self {
        let mut broker = Broker::new(&[1]);
        broker.create("t", partitions, 1);
        fill(&mut broker);
        let mut world = Self::new(config, broker);
        world.assign_all(partitions);
        world
    }

    pub(crate) fn assign_all(&mut self, partitions: i32) {
        let all: Vec<_> = (0..partitions).map(tp).collect();
        self.consumer.assign(&all);
        self.run();
    }

    /// Does what the actor would do at this moment, and no more: it takes a turn only after an
    /// event, a notification or a deadline. So a missing wake-up makes a test hang.
    pub(crate) fn run(&mut self) {
        for _ in 0..10_000 {
            for (node, frame) in self.broker.release(self.now) {
                let conn = self.fetch_connection(node);
                self.responses.push_back((conn, frame));
            }
            let delivered = !self.hold_responses && self.deliver();
            let notified = !self.notifier.park(Waker::noop());
            self.notifier.unpark();
            if !delivered && !notified && !self.events && !self.is_due() {
                return;
            }
            self.events = self.turn();
        }
        panic!("the client never comes to rest");
    }

    fn is_due(&self) -> bool {
        let deadlines = [
            self.cluster.next_deadline(self.now),
            self.fetcher.next_deadline(self.now),
        ];
        deadlines.into_iter().flatten().any(|at| at <= self.now)
            || self.slept_until.is_some_and(|at| at <= self.now)
    }

    /// Takes one turn. Returns true if something was done that may cause more work.
    fn turn(&mut self) -> bool {
        let mut acted = false;
        while let Some((id, result)) = self.cluster.poll_response() {
            self.fetcher
                .on_response(id, result, &mut self.cluster, self.now, NOW_MS);
        }
        self.fetcher.poll(&mut self.cluster, self.now, NOW_MS);
        self.cluster.poll(self.now);
        while let Some(action) = self.cluster.poll_action() {
            self.act(action);
            acted = true;
        }
        while let Some(job) = self.fetcher.poll_job() {
            self.jobs.push_back(job);
        }
        if !self.hold_jobs && !self.jobs.is_empty() {
            self.run_jobs();
            acted = true;
        }
        let next = [
            self.cluster.next_deadline(self.now),
            self.fetcher.next_deadline(self.now),
        ];
        self.slept_until = next.into_iter().flatten().min();
        acted || self.cluster.has_responses()
    }

    pub(crate) fn run_jobs(&mut self) {
        while let Some(job) = self.jobs.pop_front() {
            let done = job.run();
            self.fetcher
                .job_done(done, &mut self.cluster, self.now, NOW_MS);
            self.events = true;
        }
    }

    pub(crate) fn deliver(&mut self) -> bool {
        let mut any = false;
        while let Some((conn, frame)) = self.responses.pop_front() {
            self.cluster.handle(Event::Frame { conn, frame }, self.now);
            any = true;
        }
        any
    }

    /// Delivers the responses that are held, and holds those to the requests that follow.
    pub(crate) fn deliver_held(&mut self) {
        self.hold_responses = true;
        self.events |= self.deliver();
        self.run();
    }

    fn fetch_connection(&self, node: NodeId) -> ConnectionId {
        // A held fetch arrived on the newest connection to its node.
        *self
            .fetch_connections
            .get(&node)
            .expect("a held fetch came by a connection")
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Connect { conn, port, .. } => {
                let node = NodeId::from(port) - 9000;
                let node = if node == 0 {
                    self.broker.nodes[0]
                } else {
                    node
                };
                if let Some(error) = self.broker.down.get(&node).cloned() {
                    self.cluster
                        .handle(Event::ConnectFailed { conn, error }, self.now);
                    return;
                }
                self.connections.insert(conn, node);
                let api_versions = Arc::new(self.api_versions());
                self.cluster
                    .handle(Event::Connected { conn, api_versions }, self.now);
            }
            Action::Write { conn, frame } => {
                let mut bytes = frame.head.to_vec();
                for segment in &frame.segments {
                    bytes.extend_from_slice(segment);
                }
                let node = self.connections[&conn];
                if i16::from_be_bytes([bytes[4], bytes[5]]) == ApiKey::FETCH.0 {
                    self.fetch_connections.insert(node, conn);
                }
                let request = Bytes::from(bytes).slice(4..);
                if let Some(response) = self.broker.respond(node, request, self.now) {
                    self.responses.push_back((conn, response));
                }
            }
            Action::Reauthenticate { .. } => panic!("these connections have no sessions"),
            Action::Close { conn } => {
                self.connections.remove(&conn);
            }
        }
    }

    fn api_versions(&self) -> ApiVersions {
        let keys = [
            ApiKey::FETCH,
            ApiKey::LIST_OFFSETS,
            ApiKey::METADATA,
            ApiKey::OFFSET_FOR_LEADER_EPOCH,
        ];
        ApiVersions::new(keys.into_iter().map(|key| {
            let versions = key.valid_versions().expect("a known API");
            let max = self.broker.max_versions.get(&key.0).copied();
            (key, *versions.start(), max.unwrap_or(*versions.end()))
        }))
    }

    /// Reports a new leader, as the response for another partition would (KIP-951).
    pub(crate) fn hear_of_leader(&mut self, partition: i32, node: NodeId, epoch: i32) {
        let hint = LeaderHint {
            topic: Str::from("t"),
            partition,
            leader: node,
            leader_epoch: epoch,
        };
        self.cluster.update_leaders(&[hint], &[]);
        self.events = true;
    }

    /// Requests fresh metadata.
    pub(crate) fn refresh_metadata(&mut self) {
        self.cluster.request_update();
        self.events = true;
        self.advance(Duration::from_millis(200));
    }

    /// Breaks every connection.
    pub(crate) fn disconnect(&mut self) {
        self.broker.held.clear();
        self.responses.clear();
        for conn in std::mem::take(&mut self.connections).into_keys() {
            let error = ConnectionError::ClosedByPeer;
            self.cluster
                .handle(Event::Disconnected { conn, error }, self.now);
            self.events = true;
        }
    }

    /// Stops a node and breaks its connections.
    pub(crate) fn take_down(&mut self, node: NodeId) {
        let (address, reason) = (format!("node {node}"), "refused".to_owned());
        let error = ConnectionError::Connect { address, reason };
        self.broker.down.insert(node, error);
        self.broker.held.retain(|held| held.node != node);
        let broken: Vec<_> = self
            .connections
            .iter()
            .filter(|(_, of)| **of == node)
            .collect();
        for conn in broken
            .into_iter()
            .map(|(conn, _)| *conn)
            .collect::<Vec<_>>()
        {
            self.connections.remove(&conn);
            self.responses.retain(|(of, _)| *of != conn);
            let error = ConnectionError::ClosedByPeer;
            self.cluster
                .handle(Event::Disconnected { conn, error }, self.now);
            self.events = true;
        }
    }

    /// Advances the time in small steps, and does the work that is due.
    pub(crate) fn advance(&mut self, by: Duration) {
        let end = self.now + by;
        while self.now < end {
            self.run();
            let next = [
                self.cluster.next_deadline(self.now),
                self.fetcher.next_deadline(self.now),
                self.broker.held.iter().map(|held| held.until).min(),
            ];
            let next = next.into_iter().flatten().filter(|at| *at > self.now).min();
            self.now = next.unwrap_or(end).min(end);
        }
        self.run();
    }

    pub(crate) fn drain(&mut self, max: usize) -> Result<Collected, ConsumerError> {
        self.drain_only(&[], max)
    }

    pub(crate) fn drain_only(
        &mut self,
        only: &[TopicPartition],
        max: usize,
    ) -> Result<Collected, ConsumerError> {
        let mut collected = Collected::default();
        let drained = self
            .consumer
            .drain(Demand::up_to(max).of(only), &mut collected)?;
        assert_eq!(drained.records, collected.records.len());
        collected.drained = drained;
        Ok(collected)
    }

    /// Drains, and seeks at the first record of a partition, as a deserializer or another thread
    /// would.
    pub(crate) fn drain_seeking(
        &mut self,
        max: usize,
        partition: i32,
        seek: impl FnOnce(&Consumer),
    ) -> Result<Collected, ConsumerError> {
        let mut sink = Seeking {
            collected: Collected::default(),
            consumer: Arc::clone(&self.consumer),
            partition,
            seek: Some(seek),
        };
        let drained = self.consumer.drain(Demand::up_to(max), &mut sink)?;
        sink.collected.drained = drained;
        Ok(sink.collected)
    }

    /// Takes one step, as an iteration does.
    pub(crate) fn step(&mut self) -> Result<Collected, ConsumerError> {
        let mut collected = Collected::default();
        let drained = self.consumer.drain(Demand::step(), &mut collected)?;
        assert_eq!(drained.records, collected.records.len());
        collected.drained = drained;
        Ok(collected)
    }

    /// Drains and fetches until nothing arrives, even after the longest wait of a fetch.
    pub(crate) fn drain_all(&mut self) -> Vec<Taken> {
        let mut all = Vec::new();
        loop {
            self.run();
            let mut got = self.drain(usize::MAX).expect("nothing is wrong here");
            if got.records.is_empty() {
                self.advance(Duration::from_millis(600));
                got = self.drain(usize::MAX).expect("nothing is wrong here");
                if got.records.is_empty() {
                    return all;
                }
            }
            all.extend(got.records);
        }
    }

    pub(crate) fn position(&self, partition: i32) -> i64 {
        let position = self
            .consumer
            .partitions()
            .position(&tp(partition))
            .expect("assigned");
        position.expect("a position is known").offset
    }

    pub(crate) fn buffered(&self) -> Vec<i32> {
        self.consumer
            .buffered()
            .iter()
            .map(|tp| tp.partition)
            .collect()
    }
}

/// A record that was returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) partition: i32,
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) value: Vec<u8>,
}

#[derive(Debug, Default)]
pub(crate) struct Collected {
    pub(crate) records: Vec<Taken>,
    pub(crate) drained: Drained,
    pub(crate) limit: Option<usize>,
    pub(crate) current: Option<(i32, i32)>,
}

impl Collected {
    pub(crate) fn offsets(&self, partition: i32) -> Vec<i64> {
        self.records
            .iter()
            .filter(|r| r.partition == partition)
            .map(|r| r.offset)
            .collect()
    }
}

impl RecordSink for Collected {
    fn begin_batch(&mut self, batch: &BatchInfo<'_>) -> Offer {
        self.current = Some((batch.partition.partition, batch.leader_epoch));
        Offer::Taken
    }

    fn record(&mut self, record: &RecordRef<'_>) -> Offer {
        if self.limit.is_some_and(|limit| self.records.len() >= limit) {
            return Offer::Refused;
        }
        let (partition, leader_epoch) = self.current.expect("a run was begun");
        self.records.push(Taken {
            partition,
            offset: record.offset,
            leader_epoch,
            value: record.value.unwrap_or_default().to_vec(),
        });
        Offer::Taken
    }
}

struct Seeking<F> {
    collected: Collected,
    consumer: Arc<Consumer>,
    partition: i32,
    seek: Option<F>,
}

impl<F: FnOnce(&Consumer)> RecordSink for Seeking<F> {
    fn begin_batch(&mut self, batch: &BatchInfo<'_>) -> Offer {
        self.collected.begin_batch(batch)
    }

    fn record(&mut self, record: &RecordRef<'_>) -> Offer {
        let offer = self.collected.record(record);
        let last = self.collected.records.last();
        if last.is_some_and(|last| last.partition == self.partition)
            && let Some(seek) = self.seek.take()
        {
            seek(&self.consumer);
        }
        offer
    }
}

pub(crate) fn noop() -> &'static Waker {
    Waker::noop()
}
