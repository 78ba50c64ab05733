//! What appends need to know of a topic: its partitions, and which of them is the sticky one.
//!
//! An entry is looked up once by name, and senders keep the `Arc`. It contains the built-in
//! partitioner of KIP-794: all keyless records go to one partition until a batch's worth of bytes
//! went there, then to another one. That one is chosen at random, less likely the longer its queue
//! is.
//!
//! The sticky partition and its generation share one word. So an append can read it, lock that
//! partition, and check that it is still sticky. The word changes only under the lock of the
//! current sticky partition, so it cannot change between that check and the append.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use thalweg_cluster::{Metadata, NodeId};
use thalweg_protocol::{SplitMix64, Str, Uuid};

use crate::batch::compression_ratio::CompressionRatio;
use crate::partitioning::partition_table::{PartitionEntry, PartitionTable};
use crate::sync::lock;

/// Draws of a partition before its load no longer counts. This number of rejections means that
/// almost all queues are long.
const DRAWS_MAX: usize = 16;

/// A topic that records are appended to.
#[derive(Debug)]
pub struct TopicEntry {
    name: Str,
    /// Its number among the topics of the producer.
    index: usize,
    /// Set if it was sent to or looked up by name since the last check for idle topics.
    used: AtomicBool,
    table: PartitionTable,
    partitions: AtomicU32,
    sticky: AtomicU64,
    round_robin: AtomicU32,
    /// The longest queue among its partitions, when last checked.
    depth_max: AtomicU32,
    pub(crate) ratio: CompressionRatio,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Version of the metadata that was applied last.
    version: u64,
    id: Uuid,
    /// The partitions that have a leader, each with its leader.
    available: Arc<[(i32, NodeId)]>,
    random: SplitMix64,
}

/// The sticky partition as an append saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sticky(u64);

impl Sticky {
    fn new(generation: u32, partition: i32) -> Self {
        // Adds 1, as partition 0 of generation 0 must differ from "none yet".
        Self(u64::from(generation) << 32 | (u64::from(partition.cast_unsigned()) + 1))
    }

    #[inline]
    pub(crate) fn partition(self) -> i32 {
        (self.0 as u32 - 1).cast_signed()
    }

    #[inline]
    pub(crate) fn generation(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

/// How the next sticky partition is chosen.
#[derive(Debug, Clone, Copy)]
pub(crate) struct StickyRules<'a> {
    /// If set, a long queue makes a partition less likely.
    pub(crate) adaptive: bool,
    /// Brokers that have accepted nothing for too long.
    pub(crate) unavailable: &'a BTreeSet<NodeId>,
}

impl TopicEntry {
    pub(crate) fn new(name: Str, index: usize, seed: u64) -> Self {
        Self {
            name,
            index,
            used: AtomicBool::new(true),
            table: PartitionTable::default(),
            partitions: AtomicU32::new(0),
            sticky: AtomicU64::new(0),
            round_robin: AtomicU32::new(0),
            depth_max: AtomicU32::new(0),
            ratio: CompressionRatio::default(),
            state: Mutex::new(State {
                version: 0,
                id: Uuid::ZERO,
                available: Arc::default(),
                random: SplitMix64::new(seed),
            }),
        }
    }

    /// Creates a placeholder that is not a topic.
    pub(crate) fn nameless() -> Self {
        Self::new(Str::default(), usize::MAX, 0)
    }

    /// Creates a topic with this many partitions, none of which has a leader.
    #[cfg(test)]
    pub(crate) fn with_partitions(count: u32) -> Self {
        let topic = Self::new(Str::from("t"), 0, 1);
        topic.partitions.store(count, Ordering::Release);
        topic
    }

    pub fn name(&self) -> &Str {
        &self.name
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn note_used(&self) {
        // Written only if it changes, as many threads read it.
        if !self.used.load(Ordering::Relaxed) {
            self.used.store(true, Ordering::Relaxed);
        }
    }

    /// Returns whether the topic was used since the last call.
    pub(crate) fn take_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// Returns the number of known partitions. 0 until the first metadata of the topic.
    #[inline]
    pub fn partition_count(&self) -> u32 {
        self.partitions.load(Ordering::Acquire)
    }

    /// Returns the topic's latest known id. Zero if unknown.
    pub fn id(&self) -> Uuid {
        lock(&self.state).id
    }

    /// Applies newer metadata. A topic that is missing there stays as it was: a broker that is
    /// starting may not know all topics yet.
    pub(crate) fn update(&self, metadata: &Metadata) {
        let Some(topic) = metadata.topic(&self.name) else {
            return;
        };
        let mut state = lock(&self.state);
        if state.version >= metadata.version {
            return;
        }
        let is_known = |leader: &NodeId| metadata.node(*leader).is_some();
        let leaders = topic
            .partitions
            .iter()
            .filter_map(|p| Some((p.index, p.leader.filter(is_known)?)));
        state.available = leaders.collect();
        state.version = metadata.version;
        state.id = topic.id;
        let count = topic
            .partitions
            .last()
            .map_or(0, |last| last.index.saturating_add(1).max(0));
        self.partitions
            .store(count.cast_unsigned(), Ordering::Release);
    }

    /// Returns a partition. `index` must be below [`Self::partition_count`].
    #[inline]
    pub(crate) fn partition(&self, index: i32) -> &PartitionEntry {
        let index = index.cast_unsigned();
        self.table.get(index).unwrap_or_else(|| {
            // Under the lock, so that a closing thread finds every partition that an append could
            // use. A partition created later is created by a thread that sees `closed`.
            let _state = lock(&self.state);
            self.table.get_or_create(index)
        })
    }

    /// Calls `f` for all partitions that were used.
    pub(crate) fn for_each_partition(&self, mut f: impl FnMut(&PartitionEntry)) {
        let partitions = {
            let _state = lock(&self.state);
            self.table.existing()
        };
        for index in partitions {
            f(self.partition(index.cast_signed()));
        }
    }

    #[inline]
    pub(crate) fn existing_partition(&self, index: i32) -> Option<&PartitionEntry> {
        self.table.get(index.cast_unsigned())
    }

    #[inline]
    pub(crate) fn sticky(&self) -> Option<Sticky> {
        let word = self.sticky.load(Ordering::Acquire);
        (word != 0).then_some(Sticky(word))
    }

    /// Returns whether this is still the sticky partition. Call this with its lock held.
    #[inline]
    pub(crate) fn is_sticky(&self, seen: Sticky) -> bool {
        self.sticky.load(Ordering::Relaxed) == seen.0
    }

    /// Chooses the first sticky partition. Two threads that do so at the same time agree on one.
    pub(crate) fn first_sticky(&self, rules: StickyRules<'_>) -> Sticky {
        let chosen = Sticky::new(0, self.choose(rules));
        match self
            .sticky
            .compare_exchange(0, chosen.0, Ordering::AcqRel, Ordering::Acquire)
        {
            Ok(_) => chosen,
            Err(other) => Sticky(other),
        }
    }

    /// Switches to another partition. Call this with the lock of the current sticky partition held.
    pub(crate) fn switch_sticky(&self, from: Sticky, rules: StickyRules<'_>) {
        let next = Sticky::new(from.generation().wrapping_add(1), self.choose(rules));
        let moved =
            self.sticky
                .compare_exchange(from.0, next.0, Ordering::AcqRel, Ordering::Relaxed);
        debug_assert!(
            moved.is_ok(),
            "the caller holds the lock of the sticky partition"
        );
    }

    /// Chooses a partition among those with a leader, or among all if none has one.
    fn choose(&self, rules: StickyRules<'_>) -> i32 {
        let mut state = lock(&self.state);
        let State {
            available, random, ..
        } = &mut *state;
        if available.is_empty() {
            return random.below(u64::from(self.partition_count().max(1))) as i32;
        }
        let depth_max = self.depth_max.load(Ordering::Relaxed);
        let mut drawn = available[random.below(available.len() as u64) as usize];
        for _ in 0..DRAWS_MAX {
            let depth = match self.existing_partition(drawn.0) {
                Some(partition) if rules.adaptive => partition.depth().min(depth_max),
                _ => 0,
            };
            // Accepted with a probability proportional to Java's weight: longest queue + 1 - its
            // own.
            let by_load = random.below(u64::from(depth_max) + 1) >= u64::from(depth);
            if by_load && !rules.unavailable.contains(&drawn.1) {
                break;
            }
            drawn = available[random.below(available.len() as u64) as usize];
        }
        drawn.0
    }

    /// Returns the next partition in turn, among those with a leader if there are any.
    pub(crate) fn next_in_turn(&self) -> i32 {
        let turn = self.round_robin.fetch_add(1, Ordering::Relaxed) as usize;
        let available = Arc::clone(&lock(&self.state).available);
        match available.len() {
            0 => (turn % self.partition_count().max(1) as usize) as i32,
            len => available[turn % len].0,
        }
    }

    /// Notes the length of a queue that has grown.
    pub(crate) fn raise_depth_max(&self, depth: usize) {
        self.depth_max
            .fetch_max(u32::try_from(depth).unwrap_or(u32::MAX), Ordering::Relaxed);
    }

    pub(crate) fn set_depth_max(&self, depth: u32) {
        self.depth_max.store(depth, Ordering::Relaxed);
    }
}
