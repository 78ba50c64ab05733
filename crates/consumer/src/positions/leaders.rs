//! Applies new metadata to the assigned partitions: their leaders, and whether they exist.
//!
//! A snapshot of the metadata shares the topics that did not change with the snapshot before it.
//! Only the other topics are checked, and those that lacked a leader or a partition before. The
//! lock of the partitions is held for [`PARTITIONS_PER_LOCK`] partitions at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use thalweg_cluster::{Cluster, Metadata, NodeId, Topic};
use thalweg_protocol::{ErrorCode, Str};

use crate::error::ConsumerError;
use crate::fetching::fetcher::Fetcher;
use crate::partitions::PARTITIONS_PER_LOCK;
use crate::partitions::state::{Leader, PartitionNews};
use crate::positions::absence::Absence;
use crate::topic_partition::TopicPartition;

/// Maximum number of warnings about missing partitions per response.
const ABSENCES_TOLD_MAX: usize = 10;

/// The assigned partitions by topic, with what the last check saw.
#[derive(Debug, Default)]
pub(crate) struct Leaders {
    topics: BTreeMap<Str, Watched>,
    nodes: Vec<NodeId>,
    /// Partitions checked so far. This measures the cost of a snapshot without a clock.
    looks: u64,
}

#[derive(Debug, Default)]
struct Watched {
    partitions: Vec<TopicPartition>,
    /// `None`: all partitions must be checked.
    seen: Option<Arc<Topic>>,
    /// Some partition had no leader, or did not exist.
    incomplete: bool,
}

impl Leaders {
    /// Replaces the assignment. Partitions that stay are checked again, because they may have been
    /// revoked and assigned again in between.
    fn assign(&mut self, partitions: Vec<TopicPartition>) {
        self.topics.clear();
        for partition in partitions {
            let watched = self.topics.entry(partition.topic.clone()).or_default();
            watched.partitions.push(partition);
        }
    }

    /// Returns the topics to check, with their metadata.
    fn due<'a>(
        &'a mut self,
        metadata: &'a Metadata,
    ) -> impl Iterator<Item = (&'a Str, &'a mut Watched, Option<&'a Arc<Topic>>)> {
        let nodes: Vec<NodeId> = metadata.nodes().map(|node| node.id).collect();
        // A leader counts only while its address is known.
        let moved = nodes != self.nodes;
        self.nodes = nodes;
        self.topics.iter_mut().filter_map(move |(name, watched)| {
            let topic = metadata.topic(name);
            let is_same = match (&watched.seen, topic) {
                (Some(seen), Some(topic)) => Arc::ptr_eq(seen, topic),
                _ => false,
            };
            let due = moved || !is_same || watched.incomplete;
            (due || metadata.topic_error(name).is_some()).then_some((name, watched, topic))
        })
    }
}

/// The result of checking the metadata.
#[derive(Default)]
struct Found {
    /// A partition has no leader.
    leaderless: bool,
    absent: BTreeSet<String>,
    refused: BTreeMap<Str, ErrorCode>,
}

impl Fetcher {
    /// Applies new metadata and a new assignment. Returns true if there was either.
    pub(crate) fn refresh_leaders(&mut self, cluster: &mut Cluster, now: Instant) -> bool {
        let assignment = self.shared.partitions.lock().version();
        let changed = assignment != self.seen_assignment;
        if changed {
            let (version, partitions) = self.shared.partitions.versioned_assignment();
            self.seen_assignment = version;
            self.leaders.assign(partitions);
            let topics: BTreeSet<Str> = self.leaders.topics.keys().cloned().collect();
            // A bad name was refused when it was assigned, or the metadata will report it.
            let _ = cluster.pin_topics(&topics, now);
        }
        let metadata = Arc::clone(cluster.metadata());
        if !changed && metadata.version == self.seen_metadata {
            return false;
        }
        let answered = metadata.version != self.seen_metadata;
        self.seen_metadata = metadata.version;
        let leaderless = self.take_metadata(&metadata, now);
        self.give_up_unlisted_replicas(&metadata);
        self.nodes
            .retain(|id, node| metadata.node(*id).is_some() || node.is_used());
        if answered && leaderless {
            // A check finds each such partition only once. But an election may take longer than
            // this response, and a topic may get the partition later.
            cluster.request_update();
        }
        true
    }

    /// Checks the due topics. Returns true if a partition has no leader.
    fn take_metadata(&mut self, metadata: &Metadata, now: Instant) -> bool {
        let mut found = Found::default();
        let mut leaders = std::mem::take(&mut self.leaders);
        let mut looks = 0;
        for (name, watched, topic) in leaders.due(metadata) {
            let error = metadata
                .topic_error(name)
                .filter(|code| !code.is_retriable());
            found.refused.extend(error.map(|code| (name.clone(), code)));
            watched.seen = topic.cloned();
            watched.incomplete = false;
            for piece in watched.partitions.chunks(PARTITIONS_PER_LOCK) {
                looks += piece.len() as u64;
                let lacking = self.take_piece(piece, topic, metadata, now, &mut found);
                watched.incomplete |= lacking;
                found.leaderless |= lacking;
            }
        }
        leaders.looks += looks;
        self.leaders = leaders;
        self.warn_of_absent(&found.absent);
        self.raise_refused(&found.refused);
        found.leaderless
    }

    /// Checks some partitions of one topic. Returns true if one lacks a leader.
    fn take_piece(
        &self,
        piece: &[TopicPartition],
        topic: Option<&Arc<Topic>>,
        metadata: &Metadata,
        now: Instant,
        found: &mut Found,
    ) -> bool {
        let news = piece.iter().map(|partition| {
            let known = topic.and_then(|topic| topic.partition(partition.partition));
            let leader = known.and_then(|known| {
                let node = known.leader.filter(|&id| metadata.node(id).is_some())?;
                let epoch = known.leader_epoch;
                Some(Leader { node, epoch })
            });
            let absence = match known {
                Some(_) => None,
                None => Absence::of(partition, metadata),
            };
            let news = PartitionNews {
                partition,
                topic_id: topic.map(|topic| topic.id),
                leader,
                is_absent: absence.is_some(),
            };
            (news, absence)
        });
        let (news, absences): (Vec<_>, Vec<_>) = news.unzip();
        let due = self
            .shared
            .partitions
            .take_news(&news, metadata.version, now);
        let absences = absences.into_iter().zip(due);
        let told = absences.filter_map(|(absence, is_due)| absence.filter(|_| is_due));
        found.absent.extend(told.map(|absence| absence.to_string()));
        news.iter().any(|news| news.leader.is_none())
    }

    fn warn_of_absent(&mut self, absent: &BTreeSet<String>) {
        for text in absent.iter().take(ABSENCES_TOLD_MAX) {
            self.warnings
                .push_back(format!("{text}. The consumer waits for it"));
        }
        let more = absent.len().saturating_sub(ABSENCES_TOLD_MAX);
        if more > 0 {
            let text = format!("{more} more assigned partitions or topics do not exist, either");
            self.warnings.push_back(text);
        }
    }

    fn raise_refused(&self, refused: &BTreeMap<Str, ErrorCode>) {
        for (topic, &code) in refused {
            let error = if code == ErrorCode::TOPIC_AUTHORIZATION_FAILED {
                self.shared.config.not_authorized(topic)
            } else {
                ConsumerError::Broker {
                    api: "Metadata",
                    code,
                    context: topic.to_string(),
                }
            };
            self.shared.partitions.lock().push_error(error, Vec::new());
            self.shared.partitions.wake();
        }
    }

    /// Returns how many partition checks were caused by new metadata or assignments.
    pub fn looks(&self) -> u64 {
        self.leaders.looks
    }
}
