//! A transaction coordinator (and a group's) as far as a producer can tell, for both versions of
//! the protocol, with a script of faults.
//!
//! It checks what the producer must not violate: a batch is in a transaction that includes its
//! partition, epochs only grow, and what an abort ended is never visible.

mod responses;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use thalweg_protocol::messages::add_partitions_to_txn::AddPartitionsToTxnResponse;
use thalweg_protocol::messages::end_txn::EndTxnResponse;
use thalweg_protocol::{ApiKey, ErrorCode, Message, Reader};
use thalweg_records::BatchHeader;

/// What happens to one request instead of the usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    Usual,
    /// The request is refused with this error, and nothing is done.
    Error(ErrorCode),
    /// The request is processed, and nevertheless answered with this error.
    ErrorAfter(ErrorCode),
    /// The connection breaks before anything is done.
    LoseRequest,
    /// The request is processed, then the connection breaks.
    LoseResponse,
    /// The request is processed and never answered.
    Silence,
    /// The request is processed, and the response mentions no partition. Only for
    /// `AddPartitionsToTxn`.
    Omit,
}

/// What the transport does with the response.
#[derive(Debug)]
pub(crate) enum Outcome {
    Response(Box<dyn Encode>),
    Break,
    Nothing,
}

/// A message of any type.
pub(crate) trait Encode: std::fmt::Debug {
    fn frame(&self, key: ApiKey, version: i16, correlation_id: i32) -> Vec<u8>;
}

impl<M: Message + std::fmt::Debug> Encode for M {
    fn frame(&self, key: ApiKey, version: i16, correlation_id: i32) -> Vec<u8> {
        thalweg_protocol::frame::encode_response(key, version, correlation_id, self)
            .expect("a valid response")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Txn {
    #[default]
    Empty,
    Ongoing,
    Complete {
        commit: bool,
    },
}

type Producer = (i64, i16);

type Place = (String, i32);

#[derive(Debug)]
pub(crate) struct Coordinator {
    /// The finalized level of `transaction.version`.
    pub(crate) level: i16,
    /// The level that new connections see, if it is not `level`.
    pub(crate) level_told: Option<i16>,
    /// Set if the level becomes 2 when the open transaction has ended.
    pub(crate) learn_when_ended: bool,
    pub(crate) node: i32,
    /// What happens to the next requests, by API.
    pub(crate) script: BTreeMap<ApiKey, VecDeque<Reply>>,
    /// Every request that arrived, with its version.
    pub(crate) asked: Vec<(ApiKey, i16)>,
    /// The producers in the `InitProducerId` requests, and whether each `EndTxn` request commits.
    pub(crate) inits: Vec<Producer>,
    pub(crate) ends: Vec<bool>,
    pub(crate) first_epoch: i16,
    producer: Option<Producer>,
    last: Option<Producer>,
    next_id: i64,
    txn: Txn,
    partitions: BTreeSet<Place>,
    groups: BTreeSet<String>,
    pending_offsets: BTreeMap<Place, i64>,
    pub(crate) offsets: BTreeMap<Place, i64>,
    /// The records that a reader of committed records sees.
    pub(crate) committed: BTreeMap<Place, Vec<String>>,
    /// The number of records of each log that a marker has decided.
    decided: BTreeMap<Place, usize>,
    pub(crate) commits: usize,
    pub(crate) aborts: usize,
}

impl Default for Coordinator {
    fn default() -> Self {
        Self {
            level: 2,
            level_told: None,
            learn_when_ended: false,
            node: 1,
            script: BTreeMap::new(),
            asked: Vec::new(),
            inits: Vec::new(),
            ends: Vec::new(),
            first_epoch: 0,
            producer: None,
            last: None,
            next_id: 500,
            txn: Txn::Empty,
            partitions: BTreeSet::new(),
            groups: BTreeSet::new(),
            pending_offsets: BTreeMap::new(),
            offsets: BTreeMap::new(),
            committed: BTreeMap::new(),
            decided: BTreeMap::new(),
            commits: 0,
            aborts: 0,
        }
    }
}

/// The values of all logs.
pub(crate) type Values = BTreeMap<Place, Vec<String>>;

impl Coordinator {
    pub(crate) const KEYS: [ApiKey; 5] = [
        ApiKey::FIND_COORDINATOR,
        ApiKey::ADD_PARTITIONS_TO_TXN,
        ApiKey::ADD_OFFSETS_TO_TXN,
        ApiKey::TXN_OFFSET_COMMIT,
        ApiKey::END_TXN,
    ];

    fn v2(&self) -> bool {
        self.level >= 2
    }

    pub(crate) fn on(&mut self, key: ApiKey, replies: impl IntoIterator<Item = Reply>) {
        self.script.entry(key).or_default().extend(replies);
    }

    pub(crate) fn count(&self, key: ApiKey) -> usize {
        self.asked.iter().filter(|(asked, _)| *asked == key).count()
    }

    /// Lets a newer producer take over the transactional id.
    pub(crate) fn take_over(&mut self, values: &Values) {
        self.end(false, values);
        self.producer = self.producer.map(|(id, epoch)| (id, epoch + 1));
        self.last = None;
        self.txn = Txn::Empty;
    }

    /// Aborts a transaction that has been open for too long, and fences its epoch.
    pub(crate) fn time_out(&mut self, values: &Values) {
        let old = self.producer;
        self.end(false, values);
        self.producer = old.map(|(id, epoch)| (id, epoch + 1));
        self.last = old;
        self.txn = Txn::Complete { commit: false };
    }

    /// Checks whether a batch may be written. Under version 2 the broker adds its partition.
    pub(crate) fn admits(&mut self, place: &Place, header: &BatchHeader) -> Result<(), ErrorCode> {
        assert!(
            header.attributes.is_transactional(),
            "{place:?}: {header:?}"
        );
        let producer = (header.producer_id, header.producer_epoch);
        if self.producer != Some(producer) {
            return Err(ErrorCode::INVALID_PRODUCER_EPOCH);
        }
        if self.v2() {
            self.txn = Txn::Ongoing;
            self.partitions.insert(place.clone());
        } else {
            assert!(self.txn == Txn::Ongoing, "a batch outside of a transaction");
            assert!(self.partitions.contains(place), "{place:?} was not added");
        }
        Ok(())
    }

    /// Commits or aborts all records of the transaction.
    fn end(&mut self, commit: bool, values: &Values) {
        for (place, all) in values {
            let decided = self.decided.entry(place.clone()).or_default();
            let open = &all[*decided..];
            *decided = all.len();
            assert!(
                open.is_empty() || self.partitions.contains(place),
                "{place:?} hangs: no marker is written there"
            );
            if commit {
                let seen = self.committed.entry(place.clone()).or_default();
                seen.extend_from_slice(open);
            }
        }
        let offsets = std::mem::take(&mut self.pending_offsets);
        if commit {
            self.offsets.extend(offsets);
            self.commits += 1;
        } else {
            self.aborts += 1;
        }
        self.partitions.clear();
        self.groups.clear();
        self.txn = Txn::Complete { commit };
        if std::mem::take(&mut self.learn_when_ended) {
            self.level = 2;
        }
    }

    /// Notes that the logs are empty again, because their topic was created again.
    pub(crate) fn forget_logs(&mut self) {
        self.decided.clear();
    }

    pub(crate) fn handle(
        &mut self,
        key: ApiKey,
        version: i16,
        reader: &mut Reader,
        values: &Values,
    ) -> Outcome {
        self.asked.push((key, version));
        let script = self.script.get_mut(&key);
        let reply = script.and_then(VecDeque::pop_front).unwrap_or(Reply::Usual);
        if reply == Reply::LoseRequest {
            return Outcome::Break;
        }
        let refused = match reply {
            Reply::Error(code) => Some(code),
            _ => None,
        };
        let response = self.act(key, version, reader, refused, values);
        match reply {
            Reply::LoseResponse => Outcome::Break,
            Reply::Silence => Outcome::Nothing,
            Reply::Omit => Outcome::Response(Box::new(AddPartitionsToTxnResponse::default())),
            Reply::ErrorAfter(code) => {
                assert_eq!(key, ApiKey::END_TXN, "only used for this one");
                Outcome::Response(Box::new(EndTxnResponse {
                    error_code: code.0,
                    ..EndTxnResponse::default()
                }))
            }
            _ => Outcome::Response(response),
        }
    }

    fn next(&mut self) -> Producer {
        match self.producer {
            Some((id, epoch)) if epoch < i16::MAX - 1 => (id, epoch + 1),
            known => {
                self.next_id += 1;
                let epoch = if known.is_none() { self.first_epoch } else { 0 };
                (self.next_id, epoch)
            }
        }
    }

    fn open(&mut self, producer: Producer, add: impl FnOnce(&mut Self)) -> ErrorCode {
        if self.producer != Some(producer) {
            return ErrorCode::PRODUCER_FENCED;
        }
        self.txn = Txn::Ongoing;
        add(self);
        ErrorCode::NONE
    }

    fn decide(&mut self, named: Producer, commit: bool, values: &Values) -> ErrorCode {
        let again = Txn::Complete { commit };
        if self.v2() && self.last == Some(named) && self.txn == again {
            return ErrorCode::NONE;
        }
        if self.producer != Some(named) {
            return ErrorCode::PRODUCER_FENCED;
        }
        if !self.v2() && self.txn == again {
            return ErrorCode::NONE;
        }
        // Version 2 allows the abort of an empty transaction.
        if self.txn != Txn::Ongoing && (commit || !self.v2()) {
            return ErrorCode::INVALID_TXN_STATE;
        }
        self.end(commit, values);
        if self.v2() {
            self.last = Some(named);
            self.producer = Some(self.next());
        }
        ErrorCode::NONE
    }
}
