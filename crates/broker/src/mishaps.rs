//! What happens to real clusters and never to this one by itself: refusals of single partitions, and
//! elections that lose records. The simulation asks for them.

use bytes::Bytes;
use thalweg_protocol::ErrorCode;
use thalweg_records::BatchHeader;

use crate::Core;
use crate::partition::Partition;
use crate::storage::ProducerStates;
use crate::topology::NewTopic;

/// Which codes a partition answers with, whatever the request holds; `None`: as usual.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Refusals {
    pub produce: Option<ErrorCode>,
    pub fetch: Option<ErrorCode>,
}

/// What an unclean election, or the deletion of a topic, took.
#[derive(Debug, Default, Clone)]
pub struct Lost {
    /// In wire form, with their offsets.
    pub batches: Vec<Bytes>,
    /// The node that led before, if it lives.
    pub deposed: Option<i32>,
    /// Whether it leads again, as no other node lives.
    pub leads_again: bool,
}

impl Core {
    /// Refuses one partition from now on. False if there is no such partition.
    pub fn refuse(&mut self, topic: &str, partition: i32, refusals: Refusals) -> bool {
        let found = self.partition_mut(topic, partition);
        found.is_some_and(|found| {
            found.refusals = refusals;
            true
        })
    }

    /// Elects a leader whose log ends at `end_offset` or before, at the end of a batch: what follows is
    /// lost, and what the producers of the lost batches did is unknown. Partitions with transactions
    /// are left alone, as a lost marker would leave its transaction open for ever.
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

    /// Deletes a topic; what it held, by partition.
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

    /// Sees to it that a topic exists, if need be with the broker's defaults. False if no node lives
    /// that could have it.
    pub fn create_topic_named(&mut self, name: &str) -> bool {
        let wish = NewTopic {
            name: name.to_owned(),
            ..NewTopic::default()
        };
        let (options, random) = (&self.options, &mut self.random);
        let created = self.topology.create_topic(wish, false, options, random);
        created.is_ok() || self.topology.topic(name).is_some()
    }

    /// Where the next record of a partition goes.
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

/// A leader knows of producers what its own log says.
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
