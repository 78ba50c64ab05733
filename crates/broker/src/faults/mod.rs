//! Faults that tests ask for: errors, delays and lost responses, to see how clients react.
//!
//! ```text
//! broker.faults().on(ApiKey::PRODUCE).topic("t").times(2).then_fail(code)   -> FaultId
//! request -> count it -> the first fault that matches and is not used up -> its action
//! ```
//! At most one fault applies to a request: of those that match, the one that was added first. The
//! faults know no sockets. The server gets the action for the connection.
//!
//! ```text
//! logins.rs    faults of logins and of TLS handshakes
//! mishaps.rs   refusals and elections that lose records, for the simulation
//! ```

pub(crate) mod logins;
pub(crate) mod mishaps;

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::time::Duration;

use thalweg_protocol::{ApiKey, ErrorCode, Str};

/// Names a fault; never given twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FaultId(pub u64);

/// What a fault does to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultAction {
    /// The request is not applied. The response has this code wherever the API reports errors. If
    /// the fault names a topic, only that topic gets the code.
    Fail(ErrorCode),
    /// The request is applied at once, but gets its response only after this time. Later requests
    /// of the connection wait.
    Delay(Duration),
    /// The request is not applied, and the connection is closed.
    Disconnect,
    /// The request is applied, but the broker closes the connection instead of sending a response.
    ApplyThenDisconnect,
    /// The request is not applied. Neither it nor any later request of the connection gets a
    /// response, as if the network had lost them.
    Silence,
    /// SCRAM: the broker accepts the login, but its signature is wrong, as if it did not know the
    /// password.
    BadServerSignature,
    /// SCRAM: the broker wants this number of iterations. If the client uses it, its proof does not
    /// fit the broker's keys.
    ScramIterations(u32),
    /// The broker closes the connection after the client's first message of the TLS handshake.
    CloseInTlsHandshake,
    /// The broker accepts only this version of TLS.
    TlsVersion(TlsVersion),
}

/// A version of TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsVersion {
    V1_2,
    V1_3,
}

/// The requests that a fault applies to.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FaultMatch {
    /// `None` means any API.
    pub api: Option<ApiKey>,
    /// The node that receives the request.
    pub node: Option<i32>,
    /// A topic that the request gives by name or id.
    pub topic: Option<Str>,
}

#[derive(Debug)]
struct Fault {
    matches: FaultMatch,
    action: FaultAction,
    /// `None` means until it is removed.
    times_left: Option<u32>,
    hits: u64,
}

/// A fault that applies to the current request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Applied {
    pub(crate) action: FaultAction,
    pub(crate) topic: Option<Str>,
}

/// The faults of a broker, and the number of requests that it has received for each API.
#[derive(Debug, Default)]
pub(crate) struct FaultRegistry {
    faults: BTreeMap<FaultId, Fault>,
    next_id: u64,
    seen: BTreeMap<(ApiKey, i32), u64>,
}

impl FaultRegistry {
    pub(crate) fn add(
        &mut self,
        matches: FaultMatch,
        action: FaultAction,
        times: Option<u32>,
    ) -> FaultId {
        let id = FaultId(self.next_id);
        self.next_id += 1;
        let fault = Fault {
            matches,
            action,
            times_left: times,
            hits: 0,
        };
        self.faults.insert(id, fault);
        id
    }

    pub(crate) fn remove(&mut self, id: FaultId) -> bool {
        self.faults.remove(&id).is_some()
    }

    pub(crate) fn clear(&mut self) {
        self.faults.clear();
    }

    /// Returns how often the fault has applied, even after it was used up. Returns `None` once it
    /// is removed.
    pub(crate) fn hits(&self, id: FaultId) -> Option<u64> {
        self.faults.get(&id).map(|fault| fault.hits)
    }

    pub(crate) fn count(&mut self, api: ApiKey, node: i32) {
        *self.seen.entry((api, node)).or_default() += 1;
    }

    /// Returns the number of requests received, for each API.
    pub(crate) fn seen(&self, api: Option<ApiKey>) -> BTreeMap<ApiKey, u64> {
        let mut counts = BTreeMap::new();
        for ((key, _), count) in &self.seen {
            if api.is_none_or(|wanted| wanted == *key) {
                *counts.entry(*key).or_default() += count;
            }
        }
        counts
    }

    /// What a fault on `WriteTxnMarkers` does to the markers of a coordinator. There is no request,
    /// as all nodes are in one process, so faults of any API are not for them.
    pub(crate) fn take_for_markers(&mut self, node: i32, topics: Vec<Str>) -> Option<FaultAction> {
        let markers = ApiKey::WRITE_TXN_MARKERS;
        let is_meant = |fault: &Fault| fault.matches.api == Some(markers);
        let fault = self.take_if(markers, node, is_meant, || topics)?;
        Some(fault.action)
    }

    /// Returns the fault for this request, and uses it up once. `topics` is called only if a fault
    /// names a topic, because it goes through the request.
    pub(crate) fn take(
        &mut self,
        api: ApiKey,
        node: i32,
        topics: impl FnOnce() -> Vec<Str>,
    ) -> Option<Applied> {
        let is_meant = |fault: &Fault| !fault.action.is_of_login();
        self.take_if(api, node, is_meant, topics)
    }

    fn take_if(
        &mut self,
        api: ApiKey,
        node: i32,
        is_meant: impl Fn(&Fault) -> bool,
        topics: impl FnOnce() -> Vec<Str>,
    ) -> Option<Applied> {
        if self.faults.is_empty() {
            return None;
        }
        let mut candidates = self
            .faults
            .values_mut()
            .filter(|fault| fault.times_left != Some(0) && fault.is_for(api, node))
            .filter(|fault| is_meant(fault))
            .peekable();
        candidates.peek()?;
        let topics = LazyCell::new(topics);
        // Metadata has its errors by topic: without topics nothing can fail.
        let by_topic = api == ApiKey::METADATA;
        let fault = candidates.find(|fault| match &fault.matches.topic {
            None if by_topic && fault.fails() => !topics.is_empty(),
            None => true,
            Some(topic) => topics.contains(topic),
        })?;
        fault.hits += 1;
        fault.times_left = fault.times_left.map(|times| times - 1);
        Some(Applied {
            action: fault.action,
            topic: fault.matches.topic.clone(),
        })
    }
}

impl Fault {
    fn fails(&self) -> bool {
        matches!(self.action, FaultAction::Fail(_))
    }

    fn is_for(&self, api: ApiKey, node: i32) -> bool {
        self.matches.api.is_none_or(|wanted| wanted == api)
            && self.matches.node.is_none_or(|wanted| wanted == node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(topics: &[&str]) -> Vec<Str> {
        topics.iter().map(|name| Str::from(*name)).collect()
    }

    fn on(api: ApiKey) -> FaultMatch {
        FaultMatch {
            api: Some(api),
            ..FaultMatch::default()
        }
    }

    #[test]
    fn faults_apply_in_the_order_added_and_are_used_up() {
        let mut faults = FaultRegistry::default();
        let first = faults.add(on(ApiKey::PRODUCE), FaultAction::Disconnect, Some(2));
        let second = faults.add(FaultMatch::default(), FaultAction::Silence, None);
        let mut take = |api| faults.take(api, 1, Vec::new).map(|applied| applied.action);
        assert_eq!(take(ApiKey::PRODUCE), Some(FaultAction::Disconnect));
        assert_eq!(take(ApiKey::FETCH), Some(FaultAction::Silence));
        assert_eq!(take(ApiKey::PRODUCE), Some(FaultAction::Disconnect));
        assert_eq!(take(ApiKey::PRODUCE), Some(FaultAction::Silence));
        assert_eq!(
            (faults.hits(first), faults.hits(second)),
            (Some(2), Some(2))
        );
        faults.clear();
        assert_eq!(faults.take(ApiKey::FETCH, 1, Vec::new), None);
    }

    #[test]
    fn a_fault_of_a_topic_or_node_leaves_others_alone() {
        let mut faults = FaultRegistry::default();
        let of_topic = FaultMatch {
            topic: Some("a".into()),
            node: Some(2),
            ..on(ApiKey::FETCH)
        };
        faults.add(of_topic, FaultAction::Disconnect, None);
        assert_eq!(faults.take(ApiKey::FETCH, 1, || names(&["a"])), None);
        assert_eq!(faults.take(ApiKey::FETCH, 2, || names(&["b"])), None);
        let applied = faults
            .take(ApiKey::FETCH, 2, || names(&["b", "a"]))
            .unwrap();
        assert_eq!(applied.topic, Some("a".into()));
    }

    #[test]
    fn faults_of_several_topics_on_one_api_each_meet_their_own() {
        let mut faults = FaultRegistry::default();
        let mut add = |topic: &str| {
            let of_topic = FaultMatch {
                topic: Some(topic.into()),
                ..on(ApiKey::PRODUCE)
            };
            faults.add(of_topic, FaultAction::Disconnect, None)
        };
        let ids = ["a", "b", "c"].map(&mut add);
        for topic in ["c", "b", "c", "d"] {
            faults.take(ApiKey::PRODUCE, 1, || names(&[topic]));
        }
        assert_eq!(ids.map(|id| faults.hits(id)), [Some(0), Some(1), Some(2)]);
    }

    #[test]
    fn requests_are_counted_by_api_over_all_nodes() {
        let mut faults = FaultRegistry::default();
        faults.count(ApiKey::FETCH, 1);
        faults.count(ApiKey::FETCH, 2);
        faults.count(ApiKey::METADATA, 1);
        assert_eq!(faults.seen(None)[&ApiKey::FETCH], 2);
        assert_eq!(
            faults.seen(Some(ApiKey::METADATA)),
            BTreeMap::from([(ApiKey::METADATA, 1)])
        );
    }
}
