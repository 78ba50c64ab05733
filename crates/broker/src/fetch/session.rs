//! Fetch sessions (KIP-227): the broker remembers what a client fetches. So a request names only
//! what changed, and a response only the partitions with something new.
//!
//! ```text
//! request: session id, epoch       meaning
//!          any,        -1          no session; a named session is closed
//!          any,        0           all partitions; opens a session, and closes a named one
//!          id,         n           only changes; n must be the next epoch
//! ```

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use thalweg_protocol::ErrorCode;

use super::read::PartitionRead;
use super::target::{Target, TargetKey};
use crate::random::Random;

pub(crate) const NO_SESSION: i32 = 0;
pub(crate) const INITIAL_EPOCH: i32 = 0;
pub(crate) const FINAL_EPOCH: i32 = -1;

/// A session that was idle for this long may give its slot to another (Kafka's constant).
const EVICT_AFTER: Duration = Duration::from_secs(120);

/// The limit on partitions in all sessions together. A client whose session does not fit names all
/// its partitions in each Fetch.
const PARTITIONS_MAX: usize = 1_000_000;

#[derive(Debug)]
struct Cached {
    target: Target,
    order: u64,
    /// The value in the last response. -1: the next response must contain the partition.
    high_watermark: i64,
    log_start_offset: i64,
}

#[derive(Debug)]
pub(crate) struct Session {
    /// The epoch that the next request must have.
    next_epoch: i32,
    uses_ids: bool,
    cached: BTreeMap<TargetKey, Cached>,
    /// The order of reading. Partitions that had records move to the end.
    order: BTreeMap<u64, TargetKey>,
    next_order: u64,
    last_used: Instant,
}

impl Session {
    fn new(targets: Vec<(TargetKey, Target)>, uses_ids: bool, now: Instant) -> Self {
        let mut session = Self {
            next_epoch: 1,
            uses_ids,
            cached: BTreeMap::new(),
            order: BTreeMap::new(),
            next_order: 0,
            last_used: now,
        };
        for (key, target) in targets {
            session.put(key, target);
        }
        session
    }

    fn put(&mut self, key: TargetKey, target: Target) {
        if let Some(cached) = self.cached.get_mut(&key) {
            cached.target = target;
            return;
        }
        let order = self.take_order();
        self.order.insert(order, key.clone());
        let cached = Cached {
            target,
            order,
            high_watermark: -1,
            log_start_offset: -1,
        };
        self.cached.insert(key, cached);
    }

    fn take_order(&mut self) -> u64 {
        self.next_order += 1;
        self.next_order
    }

    fn forget(&mut self, key: &TargetKey) {
        if let Some(cached) = self.cached.remove(key) {
            self.order.remove(&cached.order);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.cached.is_empty()
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &TargetKey> {
        self.cached.keys()
    }

    /// Returns the targets in the order of reading.
    pub(crate) fn targets(&self) -> Vec<(TargetKey, Target)> {
        let target = |key: &TargetKey| (key.clone(), self.cached[key].target);
        self.order.values().map(target).collect()
    }

    /// Returns whether the response must contain the partition, and stores what the response says
    /// about it.
    pub(crate) fn update(&mut self, read: &PartitionRead<'_>) -> bool {
        let Some(cached) = self.cached.get_mut(&read.key) else {
            return true;
        };
        let has_records = read.records_bytes() > 0;
        let has_error = read.code != ErrorCode::NONE;
        let has_news = has_records
            || has_error
            || read.diverging.is_some()
            || cached.high_watermark != read.high_watermark
            || cached.log_start_offset != read.log_start_offset;
        cached.log_start_offset = read.log_start_offset;
        // After an error the next response must contain the partition, whatever its state.
        cached.high_watermark = if has_error { -1 } else { read.high_watermark };
        if has_records {
            self.move_to_end(&read.key);
        }
        has_news
    }

    fn move_to_end(&mut self, key: &TargetKey) {
        let order = self.take_order();
        if let Some(cached) = self.cached.get_mut(key)
            && let Some(key) = self.order.remove(&cached.order)
        {
            cached.order = order;
            self.order.insert(order, key);
        }
    }
}

/// The sessions of all nodes. Each node has its own slots.
#[derive(Debug)]
pub(crate) struct SessionCache {
    sessions: BTreeMap<(i32, i32), Session>,
    slots_max: usize,
    /// The number of partitions in all sessions.
    partitions: usize,
    partitions_max: usize,
}

impl SessionCache {
    pub(crate) fn new(slots_max: usize) -> Self {
        Self {
            sessions: BTreeMap::new(),
            slots_max,
            partitions: 0,
            partitions_max: PARTITIONS_MAX,
        }
    }

    /// Opens a session and returns its id, or [`NO_SESSION`] if all slots are in use.
    pub(crate) fn open(
        &mut self,
        node: i32,
        targets: Vec<(TargetKey, Target)>,
        uses_ids: bool,
        random: &mut Random,
        now: Instant,
    ) -> i32 {
        if !self.make_room(node, now) || !self.has_room_for(targets.len()) {
            return NO_SESSION;
        }
        let mut id = random.positive_i32();
        while self.sessions.contains_key(&(node, id)) {
            id = random.positive_i32();
        }
        let session = Session::new(targets, uses_ids, now);
        self.partitions += session.cached.len();
        self.sessions.insert((node, id), session);
        id
    }

    fn make_room(&mut self, node: i32, now: Instant) -> bool {
        let of_node = || self.sessions.range((node, i32::MIN)..=(node, i32::MAX));
        if of_node().count() < self.slots_max {
            return true;
        }
        let oldest = of_node().min_by_key(|(_, session)| session.last_used);
        let evicted = oldest
            .filter(|(_, session)| now.saturating_duration_since(session.last_used) >= EVICT_AFTER)
            .map(|(key, _)| *key);
        evicted.is_some_and(|key| self.remove(key))
    }

    fn has_room_for(&self, partitions: usize) -> bool {
        self.partitions + partitions <= self.partitions_max
    }

    fn remove(&mut self, key: (i32, i32)) -> bool {
        let Some(session) = self.sessions.remove(&key) else {
            return false;
        };
        self.partitions -= session.cached.len();
        true
    }

    /// Applies an incremental request to a session.
    pub(crate) fn advance(
        &mut self,
        (node, id): (i32, i32),
        epoch: i32,
        changes: (Vec<(TargetKey, Target)>, Vec<TargetKey>),
        uses_ids: bool,
        now: Instant,
    ) -> Result<&Session, ErrorCode> {
        let has_room = self.has_room_for(changes.0.len());
        let unknown = ErrorCode::FETCH_SESSION_ID_NOT_FOUND;
        let session = self.get(node, id).ok_or(unknown)?;
        if session.next_epoch != epoch {
            return Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        }
        if session.uses_ids != uses_ids {
            return Err(ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR);
        }
        if !has_room {
            self.close(node, id);
        }
        let session = self.sessions.get_mut(&(node, id)).ok_or(unknown)?;
        let before = session.cached.len();
        // The epoch after the highest is 1, because 0 means a new session.
        session.next_epoch = epoch.checked_add(1).unwrap_or(1);
        session.last_used = now;
        let (targets, forgotten) = changes;
        for (key, target) in targets {
            session.put(key, target);
        }
        for key in &forgotten {
            session.forget(key);
        }
        self.partitions = self.partitions - before + session.cached.len();
        Ok(session)
    }

    pub(crate) fn get(&self, node: i32, id: i32) -> Option<&Session> {
        self.sessions.get(&(node, id))
    }

    pub(crate) fn get_mut(&mut self, node: i32, id: i32) -> Option<&mut Session> {
        self.sessions.get_mut(&(node, id))
    }

    pub(crate) fn close(&mut self, node: i32, id: i32) {
        self.remove((node, id));
    }

    /// Removes a node's sessions. A stopping process would lose them too.
    pub(crate) fn drop_node(&mut self, node: i32) {
        self.sessions.retain(|key, _| key.0 != node);
        let left = self.sessions.values();
        self.partitions = left.map(|session| session.cached.len()).sum();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::disallowed_methods)] // virtual time begins at some instant

    use thalweg_protocol::Uuid;

    use super::super::target::TopicKey;
    use super::*;

    fn target(partition: i32) -> (TargetKey, Target) {
        let key = (TopicKey::Id(Uuid::from_u64_pair(0, 1)), partition);
        let target = Target {
            fetch_offset: 0,
            bytes_max: 1,
            current_leader_epoch: -1,
            last_fetched_epoch: -1,
        };
        (key, target)
    }

    #[test]
    fn epochs_must_follow_each_other_and_wrap_to_one() {
        let (mut cache, mut random, now) = (SessionCache::new(2), Random::new(3), Instant::now());
        let id = cache.open(1, vec![target(0)], true, &mut random, now);
        let mut advance = |id, epoch, ids| {
            cache
                .advance((1, id), epoch, (vec![], vec![]), ids, now)
                .map(|_| ())
                .err()
        };
        assert_eq!(advance(id, 1, true), None);
        assert_eq!(
            advance(id, 1, true),
            Some(ErrorCode::INVALID_FETCH_SESSION_EPOCH)
        );
        assert_eq!(
            advance(id, 2, false),
            Some(ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR)
        );
        assert_eq!(
            advance(id ^ 1, 2, true),
            Some(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)
        );
        cache.get_mut(1, id).unwrap().next_epoch = i32::MAX;
        let session = cache
            .advance((1, id), i32::MAX, (vec![], vec![]), true, now)
            .unwrap();
        assert_eq!(session.next_epoch, 1);
    }

    #[test]
    fn slots_are_given_away_only_after_long_idleness() {
        let (mut cache, mut random, now) = (SessionCache::new(2), Random::new(3), Instant::now());
        let mut open =
            |node, now| cache.open(node, vec![target(0)], true, &mut random, now) != NO_SESSION;
        assert!(open(1, now) && open(1, now) && open(2, now));
        assert!(!open(1, now + Duration::from_secs(119)));
        assert!(open(1, now + Duration::from_secs(120)));
    }

    #[test]
    fn sessions_remember_so_many_partitions_together() {
        let (mut cache, mut random, now) = (SessionCache::new(9), Random::new(3), Instant::now());
        cache.partitions_max = 5;
        let targets = |count| (0..count).map(target).collect::<Vec<_>>();
        let first = cache.open(1, targets(3), true, &mut random, now);
        assert_ne!(first, NO_SESSION);
        assert_eq!(
            cache.open(1, targets(3), true, &mut random, now),
            NO_SESSION
        );
        let second = cache.open(1, targets(2), true, &mut random, now);
        assert_ne!(second, NO_SESSION);
        let changes = (vec![target(7)], vec![]);
        let refused = cache.advance((1, second), 1, changes, true, now);
        assert_eq!(refused.err(), Some(ErrorCode::FETCH_SESSION_ID_NOT_FOUND));
        assert_eq!((cache.partitions, cache.sessions.len()), (3, 1));
        let changes = (vec![target(7)], vec![target(0).0, target(1).0]);
        cache.advance((1, first), 1, changes, true, now).unwrap();
        assert_eq!(cache.partitions, 2);
        cache.drop_node(1);
        assert_eq!(cache.partitions, 0);
    }

    #[test]
    fn partitions_are_forgotten_and_those_with_records_go_to_the_end() {
        let now = Instant::now();
        let mut session = Session::new((0..3).map(target).collect(), true, now);
        session.move_to_end(&target(0).0);
        session.forget(&target(1).0);
        session.put(target(5).0, target(5).1);
        let order: Vec<i32> = session.targets().iter().map(|(key, _)| key.1).collect();
        assert_eq!(order, [2, 0, 5]);
        assert_eq!(session.cached.len(), session.order.len());
    }
}
