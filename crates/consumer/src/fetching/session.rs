//! Incremental fetch sessions (KIP-227): the broker remembers what is fetched, and requests
//! contain only changes.
//!
//! ```text
//!            first response: ID        response: epoch + 1
//!   Full ----------------------> Incremental -----------> Incremental
//!    ^   \ ID 0: no session          |
//!    |    '-> Full                   | error, lost response, broker closed it
//!    '-------------------------------'   (a full request that names the old ID closes it)
//! ```
//! A partition that may not be fetched now (undrained records, paused) is *forgotten*, because the
//! broker would send its records again. It is added again later. Both changes are incremental.

use indexmap::{IndexMap, IndexSet};
use thalweg_protocol::{ErrorCode, Uuid};

use crate::topic_partition::TopicPartition;

const INITIAL_EPOCH: i32 = 0;
const FINAL_EPOCH: i32 = -1;

/// The fetch of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// [`crate::partitions::state::PartitionState::handle`]
    pub(crate) handle: u32,
    /// Place in the rotation, for requests that list all partitions.
    pub(crate) turn: u64,
    pub(crate) partition: TopicPartition,
    pub(crate) topic_id: Uuid,
    /// The partition's stamp. Responses under another stamp are stale.
    pub(crate) stamp: u64,
    pub(crate) fetch_offset: i64,
    pub(crate) bytes_max: i32,
    pub(crate) current_leader_epoch: i32,
}

impl Wanted {
    /// Whether the broker remembers the same for both. It does not know the stamp.
    fn same_on_the_wire(&self, other: &Self) -> bool {
        self.fetch_offset == other.fetch_offset
            && self.bytes_max == other.bytes_max
            && self.current_leader_epoch == other.current_leader_epoch
    }
}

/// The content of the next request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) session_id: i32,
    pub(crate) session_epoch: i32,
    pub(crate) send: Vec<Wanted>,
    pub(crate) forget: Vec<(TopicPartition, Uuid)>,
}

impl Plan {
    pub(crate) fn is_full(&self) -> bool {
        self.session_epoch <= INITIAL_EPOCH
    }
}

/// A change that the broker does not know yet.
#[derive(Debug)]
enum Change {
    Want(Wanted),
    Leave,
}

/// The session with one node.
#[derive(Debug, Default)]
pub(crate) struct FetchSession {
    id: i32,
    /// Epoch of the next request. 0 opens a session (and closes `id`, if there is one).
    epoch: i32,
    /// The partitions of the last request. Responses are checked against them.
    partitions: IndexMap<u32, Wanted>,
    /// Changes since then, by handle.
    changes: IndexMap<u32, Change>,
    /// Number of partitions to fetch, including changes.
    wanted: usize,
    /// Whether the last request named topics by ID. A change of this needs another session.
    by_topic_id: bool,
    /// Number of partitions whose topic ID is not known, including changes.
    nameless: usize,
    /// The partitions of the last request by handle, if it was sent outside of the session.
    aside: Option<IndexMap<u32, Wanted>>,
}

impl FetchSession {
    /// Adds or changes a partition to fetch from now on.
    pub(crate) fn want(&mut self, wanted: Wanted) {
        let nameless = usize::from(wanted.topic_id == Uuid::ZERO);
        let before = self
            .standing(wanted.handle)
            .map(|w| usize::from(w.topic_id == Uuid::ZERO));
        self.wanted += usize::from(before.is_none());
        self.nameless = self.nameless + nameless - before.unwrap_or(0);
        self.changes.insert(wanted.handle, Change::Want(wanted));
    }

    pub(crate) fn leave(&mut self, handle: u32) {
        let Some(before) = self.standing(handle) else {
            return;
        };
        self.nameless -= usize::from(before.topic_id == Uuid::ZERO);
        self.wanted -= 1;
        self.changes.insert(handle, Change::Leave);
    }

    /// Returns the fetch of a partition, including changes.
    fn standing(&self, handle: u32) -> Option<&Wanted> {
        match self.changes.get(&handle) {
            Some(Change::Want(wanted)) => Some(wanted),
            Some(Change::Leave) => None,
            None => self.partitions.get(&handle),
        }
    }

    /// Returns the number of partitions to fetch.
    pub(crate) fn wanted(&self) -> usize {
        self.wanted
    }

    /// Whether this partition is to be fetched.
    pub(crate) fn wants(&self, handle: u32) -> bool {
        self.standing(handle).is_some()
    }

    /// Whether all topics can be named by ID.
    pub(crate) fn knows_topic_ids(&self) -> bool {
        self.nameless == 0
    }

    /// Returns the next request: the changes, or everything if there is no session.
    pub(crate) fn plan(&mut self, by_topic_id: bool, enabled: bool) -> Plan {
        self.aside = None;
        if self.by_topic_id != by_topic_id {
            self.by_topic_id = by_topic_id;
            self.reopen();
        }
        let (send, forget) = self.apply_changes();
        debug_assert_eq!(
            self.partitions.len(),
            self.wanted,
            "every change is applied"
        );
        if enabled && self.epoch != INITIAL_EPOCH {
            return Plan {
                session_id: self.id,
                session_epoch: self.epoch,
                send,
                forget,
            };
        }
        let (session_id, session_epoch) = if enabled {
            (self.id, INITIAL_EPOCH)
        } else {
            (0, FINAL_EPOCH)
        };
        let mut all: Vec<Wanted> = self.partitions.values().cloned().collect();
        all.sort_by_key(|wanted| wanted.turn);
        Plan {
            session_id,
            session_epoch,
            send: all,
            forget: Vec::new(),
        }
    }

    /// Returns a request outside of the session, for these partitions only. It does not change
    /// what the broker remembers, and the session ignores its response.
    pub(crate) fn plan_aside(&mut self, handles: &[u32]) -> Plan {
        let wanted = handles.iter().filter_map(|&handle| self.standing(handle));
        let send: Vec<Wanted> = wanted.cloned().collect();
        let asked = send.iter().map(|wanted| (wanted.handle, wanted.clone()));
        self.aside = Some(asked.collect());
        Plan {
            session_id: 0,
            session_epoch: FINAL_EPOCH,
            send,
            forget: Vec::new(),
        }
    }

    fn apply_changes(&mut self) -> (Vec<Wanted>, Vec<(TopicPartition, Uuid)>) {
        let mut send = Vec::new();
        let mut forget = Vec::new();
        for (handle, change) in std::mem::take(&mut self.changes) {
            match change {
                Change::Leave => {
                    if let Some(gone) = self.partitions.swap_remove(&handle) {
                        forget.push((gone.partition, gone.topic_id));
                    }
                }
                Change::Want(wanted) => match self.partitions.insert(handle, wanted.clone()) {
                    Some(known) if known.topic_id != wanted.topic_id => {
                        // The topic was created again. To the broker this is another partition.
                        forget.push((known.partition, known.topic_id));
                        send.push(wanted);
                    }
                    Some(known) if known.same_on_the_wire(&wanted) => {}
                    _ => send.push(wanted),
                },
            }
        }
        if !forget.is_empty() && !send.is_empty() {
            // A partition that was assigned again has another handle and the same name. The broker
            // adds first and forgets afterwards, so one request must not do both for a partition.
            // If topics go by name, the broker does not see that a topic was created again.
            let by_topic_id = self.by_topic_id;
            let id = |topic_id: Uuid| by_topic_id.then_some(topic_id);
            let sent: IndexSet<_> = send
                .iter()
                .map(|s| (&s.partition, id(s.topic_id)))
                .collect();
            forget.retain(|(partition, topic_id)| !sent.contains(&(partition, id(*topic_id))));
        }
        (send, forget)
    }

    /// Whether the last request was sent outside of the session.
    pub(crate) fn is_aside(&self) -> bool {
        self.aside.is_some()
    }

    /// Returns what the last request asked for a partition.
    pub(crate) fn asked(&self, handle: u32) -> Option<&Wanted> {
        self.aside.as_ref().unwrap_or(&self.partitions).get(&handle)
    }

    /// Processes a successful response with its session ID.
    pub(crate) fn answered(&mut self, session_id: i32) {
        if self.is_aside() {
            return;
        }
        if session_id == 0 {
            // There is no session, or no longer: the broker has no room for one.
            self.id = 0;
            self.epoch = INITIAL_EPOCH;
        } else {
            self.id = session_id;
            self.epoch = self.epoch.checked_add(1).unwrap_or(1);
        }
    }

    /// The broker refused the complete request, so the next one is full.
    pub(crate) fn refused(&mut self, code: ErrorCode) {
        if code == ErrorCode::FETCH_SESSION_ID_NOT_FOUND {
            self.id = 0;
        }
        self.epoch = INITIAL_EPOCH;
    }

    /// No response arrived, so the broker's state is unknown. The next request closes the old
    /// session and opens another one.
    pub(crate) fn reopen(&mut self) {
        self.epoch = INITIAL_EPOCH;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(handle: u32, fetch_offset: i64) -> Wanted {
        Wanted {
            handle,
            turn: u64::from(handle),
            partition: TopicPartition::new("t", handle as i32),
            topic_id: Uuid([7; 16]),
            stamp: 1,
            fetch_offset,
            bytes_max: 1 << 20,
            current_leader_epoch: 3,
        }
    }

    fn handles(wanted: &[Wanted]) -> Vec<u32> {
        wanted.iter().map(|w| w.handle).collect()
    }

    /// Plans the request that makes the broker fetch exactly these.
    fn next(session: &mut FetchSession, wanted: Vec<Wanted>) -> Plan {
        for handle in 0..10 {
            if !wanted.iter().any(|w| w.handle == handle) {
                session.leave(handle);
            }
        }
        for wanted in wanted {
            session.want(wanted);
        }
        session.plan(true, true)
    }

    fn opened() -> FetchSession {
        let mut session = FetchSession::default();
        let plan = next(&mut session, vec![wanted(0, 0), wanted(1, 0), wanted(2, 0)]);
        assert_eq!((plan.session_id, plan.session_epoch), (0, 0));
        assert!(plan.is_full());
        session.answered(42);
        session
    }

    #[test]
    fn only_changes_are_sent() {
        let mut session = opened();
        let plan = next(&mut session, vec![wanted(0, 0), wanted(1, 10)]);
        assert_eq!((plan.session_id, plan.session_epoch), (42, 1));
        assert_eq!(handles(&plan.send), [1]);
        assert_eq!(plan.forget.len(), 1);
        assert_eq!(plan.forget[0].0.partition, 2);
        session.answered(42);
        let plan = next(
            &mut session,
            vec![wanted(0, 0), wanted(1, 10), wanted(2, 5)],
        );
        assert_eq!((plan.session_epoch, handles(&plan.send)), (2, vec![2]));
        assert!(plan.forget.is_empty());
    }

    #[test]
    fn errors_reopen_with_one_full_request() {
        let mut session = opened();
        session.refused(ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
        let plan = next(&mut session, vec![wanted(0, 0)]);
        assert_eq!((plan.session_id, plan.session_epoch), (0, 0));
        session.answered(43);
        session.refused(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        let plan = next(&mut session, vec![wanted(0, 0)]);
        assert_eq!(
            (plan.session_id, plan.session_epoch),
            (43, 0),
            "the old session is closed"
        );
        session.answered(44);
        assert_eq!(next(&mut session, vec![wanted(0, 0)]).session_epoch, 1);
    }

    #[test]
    fn without_a_session_every_request_is_full() {
        let mut session = FetchSession::default();
        for _ in 0..2 {
            let plan = next(&mut session, vec![wanted(0, 0)]);
            assert_eq!(
                (plan.session_id, plan.session_epoch, plan.send.len()),
                (0, 0, 1)
            );
            session.answered(0);
        }
        let plan = session.plan(true, false);
        assert_eq!(
            (plan.session_id, plan.session_epoch, plan.send.len()),
            (0, -1, 1)
        );
    }

    #[test]
    fn a_recreated_topic_replaces_the_old_id() {
        let mut session = opened();
        let mut recreated = wanted(0, 0);
        recreated.topic_id = Uuid([8; 16]);
        let plan = next(&mut session, vec![recreated, wanted(1, 0), wanted(2, 0)]);
        assert_eq!(handles(&plan.send), [0]);
        assert_eq!(plan.forget, [(TopicPartition::new("t", 0), Uuid([7; 16]))]);
    }

    #[test]
    fn a_recreated_topic_that_goes_by_name_is_sent_and_not_forgotten() {
        let mut session = FetchSession::default();
        session.want(wanted(0, 0));
        session.want(wanted(1, 0));
        session.plan(false, true);
        session.answered(42);
        session.want(Wanted {
            topic_id: Uuid([8; 16]),
            ..wanted(0, 0)
        });
        let plan = session.plan(false, true);
        assert_eq!((plan.session_epoch, handles(&plan.send)), (1, vec![0]));
        assert!(plan.forget.is_empty());
    }

    #[test]
    fn a_partition_assigned_anew_is_sent_and_not_forgotten() {
        let mut session = opened();
        let mut recreated = wanted(9, 100);
        recreated.partition = TopicPartition::new("t", 0);
        let plan = next(&mut session, vec![recreated, wanted(1, 0), wanted(2, 0)]);
        assert_eq!(handles(&plan.send), [9]);
        assert!(plan.forget.is_empty());
    }

    #[test]
    fn responses_are_judged_by_what_was_asked_not_by_what_is_wanted_since() {
        let mut session = opened();
        session.want(wanted(1, 99));
        session.leave(2);
        assert_eq!(session.asked(1).map(|w| w.fetch_offset), Some(0));
        assert!(session.asked(2).is_some());
        assert_eq!(session.wanted(), 2);
        session.plan(true, true);
        assert_eq!(session.asked(1).map(|w| w.fetch_offset), Some(99));
        assert!(session.asked(2).is_none());
    }

    #[test]
    fn a_full_request_names_the_longest_unserved_first() {
        let mut session = FetchSession::default();
        for (handle, turn) in [(0, 9), (1, 3), (2, 5)] {
            session.want(Wanted {
                turn,
                ..wanted(handle, 0)
            });
        }
        assert_eq!(handles(&session.plan(true, true).send), [1, 2, 0]);
    }

    #[test]
    fn one_topic_without_an_id_is_enough_to_go_by_names() {
        let mut session = opened();
        assert!(session.knows_topic_ids());
        session.want(Wanted {
            topic_id: Uuid::ZERO,
            ..wanted(1, 0)
        });
        assert!(!session.knows_topic_ids());
        session.leave(1);
        assert!(session.knows_topic_ids());
    }

    #[test]
    fn a_request_aside_leaves_the_session_as_it_was() {
        let mut session = opened();
        session.want(wanted(1, 10));
        session.leave(2);
        let plan = session.plan_aside(&[1, 2]);
        assert_eq!((plan.session_id, plan.session_epoch), (0, -1));
        assert_eq!(handles(&plan.send), [1]);
        assert_eq!(session.asked(1).map(|w| w.fetch_offset), Some(10));
        assert!(session.asked(0).is_none());
        session.answered(0);
        let plan = session.plan(true, true);
        assert_eq!((plan.session_id, plan.session_epoch), (42, 1));
        assert_eq!((handles(&plan.send), plan.forget.len()), (vec![1], 1));
        assert!(session.asked(0).is_some());
    }

    #[test]
    fn epochs_wrap_to_one() {
        let mut session = opened();
        session.epoch = i32::MAX;
        session.answered(42);
        assert_eq!(session.epoch, 1);
    }
}
