//! Events of real clusters that never happen here by themselves: refusals of single partitions, and
//! elections that lose records. The simulation causes them.

use bytes::Bytes;
use thalweg_protocol::ErrorCode;
use thalweg_records::BatchHeader;

use crate::Core;
use crate::storage::ProducerStates;
use crate::topology::NewTopic;
use crate::topology::partition::Partition;

/// The codes that a partition responds with, whatever the request contains. `None` means that it
/// responds as usual.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Refusals {
    pub produce: Option<ErrorCode>,
    pub fetch: Option<ErrorCode>,
}

/// What an unclean election, or the deletion of a topic, lost.
#[derive(Debug, Default, Clone)]
pub struct Lost {
    /// The batches in wire form, with their offsets.
    pub batches: Vec<Bytes>,
    /// The previous leader, if it is live.
    pub deposed: Option<i32>,
    /// Whether it leads again, because no other node is live.
    pub leads_again: bool,
}

impl Core {
    /// Makes one partition refuse requests from now on. Returns false if there is no such
    /// partition.
    pub fn refuse(&mut self, topic: &str, partition: i32, refusals: Refusals) -> bool {
        let found = self.partition_mut(topic, partition);
        found.is_some_and(|found| {
            found.refusals = refusals;
            true
        })
    }

    /// Elects a leader whose log ends at `end_offset` or at the last end of a batch before it.
    /// Later batches are lost, and so is the state of their producers. Partitions with transactions
    /// do not change, because a lost marker would leave its transaction open for ever.
    pub fn elect_uncleanly(&mut self, topic: &str, partition: i32, end_offset: i64) -> Lost {
        let live: Vec<i32> = self.topology.live_nodes().map(|node| node.id).collect();
        let Some(found) = self.partition_mut(topic, partition) else {
            return Lost::default();
        };
        if found.log.batches().any(|batch| is_control(&batch)) {
            return Lost::default();
        }
        let batches = found.log.truncate(end_offset);
        found.producers = remembered(found);
        let others = live.iter().copied().find(|&node| node != found.leader);
        let leader = others.unwrap_or(found.leader);
        let deposed = Some(found.leader).filter(|node| live.contains(node));
        if leader >= 0 && !found.replicas.contains(&leader) {
            found.replicas.push(leader);
        }
        found.set_leader(leader);
        let freed: usize = batches.iter().map(Bytes::len).sum();
        self.memory_bytes -= freed as u64;
        Lost {
            batches,
            deposed,
            leads_again: deposed == Some(leader),
        }
    }

    /// Deletes a topic. Returns the contents of each partition.
    pub fn delete_topic_named(&mut self, name: &str) -> Vec<Lost> {
        let Some(topic) = self.topology.topic(name) else {
            return Vec::new();
        };
        let of_one = |partition: &Partition| Lost {
            batches: partition.log.batches().collect(),
            ..Lost::default()
        };
        let lost = topic.partitions.iter().map(of_one).collect();
        let id = topic.id;
        self.delete_topic(id);
        lost
    }

    /// Creates a topic with the broker's defaults unless it exists. Returns false if it could not
    /// be created.
    pub fn create_topic_named(&mut self, name: &str) -> bool {
        let wish = NewTopic {
            name: name.to_owned(),
            ..NewTopic::default()
        };
        let (options, random) = (&self.options, &mut self.random);
        let created = self.topology.create_topic(wish, false, options, random);
        created.is_ok() || self.topology.topic(name).is_some()
    }

    /// Returns the offset of the partition's next record.
    pub fn end_offset(&self, topic: &str, partition: i32) -> Option<i64> {
        let found = self.topology.topic(topic)?.partition(partition)?;
        Some(found.log.end_offset())
    }

    fn partition_mut(&mut self, topic: &str, partition: i32) -> Option<&mut Partition> {
        self.topology.topic_mut(topic)?.partition_mut(partition)
    }
}

fn is_control(batch: &Bytes) -> bool {
    BatchHeader::parse(batch).is_ok_and(|header| header.attributes.is_control())
}

/// Returns the producer state that a leader can rebuild from its own log.
fn remembered(partition: &Partition) -> ProducerStates {
    let mut states = ProducerStates::default();
    for batch in partition.log.batches() {
        if let Ok(header) = BatchHeader::parse(&batch)
            && header.producer_id >= 0
        {
            states.appended(&header, header.base_offset, header.max_timestamp);
        }
    }
    states
}
