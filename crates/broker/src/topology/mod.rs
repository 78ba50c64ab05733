//! [`Topology`]: nodes, topics, and which node leads which partition.
//!
//! ```text
//! stop_node: live -> dead; its partitions get a live leader (a live replica if there is one),
//!            epoch + 1; Metadata omits the node, as KRaft does
//! start_node: dead -> live; leaders do not move, as Kafka leaves them for some minutes
//! ```
//! Replicas exist only in metadata: all nodes share the same log of a partition, so any live node
//! may lead it. Nodes have the ids 1 to N.
//!
//! ```text
//! topic.rs        a topic, and which names are legal
//! partition.rs    a log, its leader, and the requests that wait for it
//! assignment.rs   chooses the nodes of the replicas
//! coordinator.rs  finds the node that coordinates a group or a transactional id
//! ```

pub(crate) mod assignment;
pub(crate) mod coordinator;
pub(crate) mod partition;
pub(crate) mod topic;

use std::collections::BTreeMap;

use thalweg_protocol::{ErrorCode, Str, Uuid};

use crate::error::ApiError;
use crate::options::BrokerOptions;
use crate::random::Random;
use crate::topology::assignment::NewReplicas;
use crate::topology::partition::{NO_LEADER, Partition};
use crate::topology::topic::Topic;

#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) id: i32,
    /// The host that clients are told to connect to.
    pub(crate) host: Str,
    pub(crate) port: u16,
    pub(crate) is_live: bool,
}

#[derive(Debug)]
pub(crate) struct Topology {
    pub(crate) cluster_id: Str,
    nodes: Vec<Node>,
    topics: BTreeMap<Uuid, Topic>,
    ids: BTreeMap<Str, Uuid>,
    /// Topic names by their form in metrics.
    metric_names: BTreeMap<String, Str>,
    pub(crate) partitions_count: usize,
    /// Counts added topics and partitions, and deleted topics.
    pub(crate) changes: u64,
    /// The place of the next topic's first replica, so that leaders are spread over the nodes.
    pub(crate) next_node: usize,
}

/// A topic to create.
#[derive(Debug, Default)]
pub(crate) struct NewTopic {
    pub(crate) name: String,
    /// The nodes of each partition's replicas, or the numbers of partitions and replicas.
    pub(crate) replicas: NewReplicas,
    pub(crate) options: BTreeMap<String, String>,
}

impl Topology {
    pub(crate) fn new(nodes: Vec<Node>, random: &mut Random) -> Self {
        Self {
            cluster_id: random.uuid().to_string().into(),
            nodes,
            topics: BTreeMap::new(),
            ids: BTreeMap::new(),
            metric_names: BTreeMap::new(),
            partitions_count: 0,
            changes: 0,
            next_node: 0,
        }
    }

    pub(crate) fn nodes_count(&self) -> i32 {
        self.nodes.len() as i32
    }

    pub(crate) fn node(&self, id: i32) -> Option<&Node> {
        self.nodes.iter().find(|node| node.id == id)
    }

    pub(crate) fn is_live(&self, id: i32) -> bool {
        self.node(id).is_some_and(|node| node.is_live)
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter()
    }

    pub(crate) fn live_nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| node.is_live)
    }

    /// Returns any live node, as each can act as controller. Returns -1 if none is live.
    pub(crate) fn controller(&self) -> i32 {
        self.live_nodes().next().map_or(-1, |node| node.id)
    }

    /// Returns the first live node from place `place` on, in rotation. It is the same node as long
    /// as that node is live.
    pub(crate) fn node_at(&self, place: usize) -> Option<&Node> {
        let count = self.nodes.len();
        (0..count)
            .map(|step| &self.nodes[(place + step) % count])
            .find(|node| node.is_live)
    }

    pub(crate) fn topics(&self) -> impl Iterator<Item = &Topic> {
        self.ids.values().map(|id| &self.topics[id])
    }

    pub(crate) fn topics_mut(&mut self) -> impl Iterator<Item = &mut Topic> {
        self.topics.values_mut()
    }

    pub(crate) fn topic(&self, name: &str) -> Option<&Topic> {
        self.topics.get(self.ids.get(name)?)
    }

    pub(crate) fn topic_mut(&mut self, name: &str) -> Option<&mut Topic> {
        self.topics.get_mut(self.ids.get(name)?)
    }

    pub(crate) fn topic_by_id(&self, id: Uuid) -> Option<&Topic> {
        self.topics.get(&id)
    }

    pub(crate) fn topic_by_id_mut(&mut self, id: Uuid) -> Option<&mut Topic> {
        self.topics.get_mut(&id)
    }

    /// Checks the new topic and creates it, unless `validate_only` is set. Without `validate_only`
    /// the returned id is that of an existing topic.
    pub(crate) fn create_topic(
        &mut self,
        wish: NewTopic,
        validate_only: bool,
        broker: &BrokerOptions,
        random: &mut Random,
    ) -> Result<Uuid, ApiError> {
        self.check_new_name(&wish.name)?;
        let options = broker
            .topic_options(&wish.options)
            .map_err(|error| ApiError::new(ErrorCode::INVALID_CONFIG, error.to_string()))?;
        let replicas = self.assign(&wish.replicas, broker)?;
        let id = random.uuid();
        if validate_only {
            return Ok(id);
        }
        self.next_node += 1;
        self.partitions_count += replicas.len();
        self.changes += 1;
        let partitions = replicas
            .into_iter()
            .map(|nodes| self.new_partition(nodes))
            .collect();
        let name = Str::from(wish.name);
        self.ids.insert(name.clone(), id);
        self.metric_names
            .insert(topic::metric_name(&name), name.clone());
        self.topics.insert(
            id,
            Topic {
                name,
                id,
                own_options: wish.options,
                options,
                partitions,
            },
        );
        Ok(id)
    }

    fn check_new_name(&self, name: &str) -> Result<(), ApiError> {
        topic::check_name(name)
            .map_err(|why| ApiError::new(ErrorCode::INVALID_TOPIC_EXCEPTION, why))?;
        if self.ids.contains_key(name) {
            let why = format!("Topic '{name}' already exists.");
            return Err(ApiError::new(ErrorCode::TOPIC_ALREADY_EXISTS, why));
        }
        if let Some(other) = self.metric_names.get(&topic::metric_name(name)) {
            let why = format!(
                "Topic '{name}' collides with existing topic: {}",
                other.as_str()
            );
            return Err(ApiError::new(ErrorCode::INVALID_TOPIC_EXCEPTION, why));
        }
        Ok(())
    }

    fn new_partition(&self, replicas: Vec<i32>) -> Partition {
        let leader = self.elect(&replicas);
        Partition::new(replicas, leader)
    }

    /// Chooses a live replica, otherwise any live node.
    fn elect(&self, replicas: &[i32]) -> i32 {
        let replica = replicas.iter().copied().find(|id| self.is_live(*id));
        replica
            .or_else(|| self.live_nodes().next().map(|node| node.id))
            .unwrap_or(NO_LEADER)
    }

    /// Adds partitions to a topic, up to `count` in total (KIP-195).
    pub(crate) fn create_partitions(
        &mut self,
        name: &str,
        count: i32,
        assigned: Option<Vec<Vec<i32>>>,
        validate_only: bool,
    ) -> Result<(), ApiError> {
        let Some(topic) = self.topic(name) else {
            return Err(ApiError::unknown_topic());
        };
        let present = topic.partitions.len() as i32;
        if count <= present {
            let why = if count == present {
                format!("Topic already has {present} partition(s).")
            } else {
                format!(
                    "The topic {name} currently has {present} partition(s); {count} would not be an increase."
                )
            };
            return Err(ApiError::new(ErrorCode::INVALID_PARTITIONS, why));
        }
        let replicas = match assigned {
            None => self.spread(present, count, topic.replication_factor())?,
            Some(lists) if lists.len() as i32 == count - present => {
                self.check_assignment(&lists)?;
                lists
            }
            Some(lists) => {
                let why = format!(
                    "Attempted to add {} additional partition(s), but only {} assignment(s) were specified.",
                    count - present,
                    lists.len()
                );
                return Err(ApiError::new(ErrorCode::INVALID_REPLICA_ASSIGNMENT, why));
            }
        };
        if validate_only {
            return Ok(());
        }
        self.partitions_count += replicas.len();
        self.changes += 1;
        let more: Vec<Partition> = replicas
            .into_iter()
            .map(|nodes| self.new_partition(nodes))
            .collect();
        if let Some(topic) = self.topic_mut(name) {
            topic.partitions.extend(more);
        }
        Ok(())
    }

    /// Removes a topic and returns it, after waking its waiters.
    pub(crate) fn delete_topic(&mut self, id: Uuid) -> Option<Topic> {
        let mut topic = self.topics.remove(&id)?;
        self.ids.remove(&topic.name);
        self.metric_names.remove(&topic::metric_name(&topic.name));
        self.partitions_count -= topic.partitions.len();
        self.changes += 1;
        for partition in &mut topic.partitions {
            partition.waiters.wake_all();
        }
        Some(topic)
    }

    /// Stops a node, whose partitions get other leaders. Returns false if it was already stopped.
    pub(crate) fn stop_node(&mut self, id: i32) -> bool {
        self.set_live(id, false)
    }

    /// Starts a node again. Returns false if it was running.
    pub(crate) fn start_node(&mut self, id: i32) -> bool {
        self.set_live(id, true)
    }

    fn set_live(&mut self, id: i32, is_live: bool) -> bool {
        let Some(node) = self.nodes.iter_mut().find(|node| node.id == id) else {
            return false;
        };
        if node.is_live == is_live {
            return false;
        }
        node.is_live = is_live;
        self.elect_leaders();
        true
    }

    /// Elects a leader for each partition whose leader is dead or missing.
    fn elect_leaders(&mut self) {
        let mut topics = std::mem::take(&mut self.topics);
        for partition in topics.values_mut().flat_map(|topic| &mut topic.partitions) {
            if !self.is_live(partition.leader) {
                let leader = self.elect(&partition.replicas);
                if leader != partition.leader {
                    if partition.leader == NO_LEADER {
                        // No node was live.
                        partition.producers.restart();
                    }
                    lead(partition, leader);
                }
            }
        }
        self.topics = topics;
    }

    /// Makes a live node the leader of a partition, even if it is not a replica.
    pub(crate) fn move_leader(
        &mut self,
        name: &str,
        index: i32,
        node: i32,
    ) -> Result<(), ApiError> {
        if !self.is_live(node) {
            let why = format!("node {node} is not running: start it first");
            return Err(ApiError::new(ErrorCode::BROKER_NOT_AVAILABLE, why));
        }
        let partition = self
            .topic_mut(name)
            .and_then(|topic| topic.partition_mut(index))
            .ok_or_else(ApiError::unknown_topic)?;
        if partition.leader != node {
            lead(partition, node);
        }
        Ok(())
    }

    /// Returns the live replicas of a partition.
    pub(crate) fn isr(&self, partition: &Partition) -> Vec<i32> {
        partition
            .replicas
            .iter()
            .copied()
            .filter(|id| self.is_live(*id))
            .collect()
    }

    pub(crate) fn offline_replicas(&self, partition: &Partition) -> Vec<i32> {
        partition
            .replicas
            .iter()
            .copied()
            .filter(|id| !self.is_live(*id))
            .collect()
    }
}

/// Sets the leader. It must be among the replicas, so a new node replaces the old leader in that
/// list.
fn lead(partition: &mut Partition, leader: i32) {
    if leader != NO_LEADER && !partition.replicas.contains(&leader) {
        let place = partition
            .replicas
            .iter()
            .position(|id| *id == partition.leader);
        partition.replicas[place.unwrap_or(0)] = leader;
    }
    partition.set_leader(leader);
}
