//! Brokers as far as a producer can tell: metadata, producer ids, logs, and a script of faults.

mod log;
mod produce;
mod reaction;
mod request;
mod responses;

pub(crate) use reaction::Reaction;
pub(crate) use request::copied;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use thalweg_cluster::{Action, ConnectionError, ConnectionId, Event, Frame, NodeId};
use thalweg_protocol::{ApiKey, ErrorCode, Uuid};
use thalweg_records::Decompressor;

use crate::world::broker::log::Log;
use crate::world::broker::request::Held;
use crate::world::coordinator::Coordinator;

#[derive(Debug)]
pub(crate) struct Topic {
    pub(crate) id: Uuid,
    /// Leader and epoch by partition.
    pub(crate) leaders: Vec<(NodeId, i32)>,
}

#[derive(Debug, Default)]
pub(crate) struct Brokers {
    pub(crate) nodes: BTreeSet<NodeId>,
    /// These nodes are up for the other nodes, but clients cannot connect to them.
    pub(crate) unreachable: BTreeSet<NodeId>,
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
    pub(crate) conns: BTreeMap<ConnectionId, NodeId>,
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

    /// Returns the oldest held request, which shares its memory with the producer.
    pub(crate) fn held_frame(&self) -> Frame {
        self.held.front().expect("a request is held").frame.clone()
    }

    /// Responds to the oldest held request.
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

    /// Writes the batches of the oldest held request. The response has not arrived yet.
    pub(crate) fn release_late(&mut self) -> Event {
        self.release();
        self.events.pop_back().expect("a response")
    }

    /// Lets a response of `release_late` arrive, whatever happened to its connection.
    pub(crate) fn arrive(&mut self, response: Event) {
        self.events.push_back(response);
    }

    /// Writes the batches of the oldest held request, and never responds.
    pub(crate) fn release_without_response(&mut self) {
        let held = self.held.pop_front().expect("a request is held");
        self.produce(&held.read(), |_, write| write());
    }

    /// Breaks all connections of a node.
    pub(crate) fn disconnect(&mut self, node: NodeId) {
        let conns: Vec<_> = self
            .conns
            .iter()
            .filter(|&(_, &to)| to == node)
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
            Action::Connect { conn, node, .. } => self.connect(conn, node),
            Action::Write { conn, frame } => self.read(conn, &frame),
            Action::Reauthenticate { .. } => panic!("these connections have no sessions"),
            Action::Close { conn } => {
                self.conns.remove(&conn);
                self.held.retain(|held| held.conn != conn);
            }
        }
    }
}
