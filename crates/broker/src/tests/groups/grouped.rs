//! A group coordinator for tests, controlled by hand: it publishes views and takes events.

use std::collections::{BTreeMap, BTreeSet};
use std::task::Poll;

use thalweg_protocol::messages::heartbeat::HeartbeatRequest;
use thalweg_protocol::messages::join_group::JoinGroupRequest;
use thalweg_protocol::{ErrorCode, Str};

use super::*;
use crate::{GroupEvent, GroupEventKind, GroupKind, GroupRequest, GroupView, MemberView};

pub(super) const SESSION: Duration = Duration::from_secs(10);
pub(super) const MOMENT: Duration = Duration::from_millis(1);
/// A moment less than a session.
pub(super) const ALMOST: Duration = Duration::from_millis(9_999);

/// A bench with one node whose groups are served.
pub(super) fn served() -> Bench {
    served_by(1, &[])
}

pub(super) fn served_by(nodes: u16, options: &[(&str, &str)]) -> Bench {
    let mut bench = Bench::with_options(nodes, options);
    bench.core.serve_groups();
    bench.core.tell_of_topics(bench.now);
    assert_eq!(bench.all_events().len(), 1, "what there is already");
    bench
}

/// A group in this state, whose watched members have its epoch.
pub(super) fn view(kind: GroupKind, state: &str, epoch: i32, members: &[&str]) -> GroupView {
    let member = |id: &&str| {
        let member = MemberView {
            instance_id: None,
            session_timeout_ms: SESSION.as_millis() as u32,
            epoch,
            assignment_epochs: BTreeMap::new(),
            heartbeat: ErrorCode::NONE,
            is_watched: true,
        };
        (Str::from(*id), member)
    };
    GroupView {
        kind,
        protocol_type: "consumer".into(),
        state: state.into(),
        epoch,
        topics: BTreeSet::new(),
        members: members.iter().map(member).collect(),
    }
}

pub(super) fn classic(state: &str, epoch: i32, members: &[&str]) -> GroupView {
    view(GroupKind::Classic, state, epoch, members)
}

pub(super) fn consumers(state: &str, epoch: i32, members: &[&str]) -> GroupView {
    view(GroupKind::Consumer, state, epoch, members)
}

/// Gives a member a `group.instance.id`.
pub(super) fn make_static(view: &mut GroupView, member: &str, instance: &str) {
    let member = view.members.get_mut(member).unwrap();
    member.instance_id = Some(instance.into());
}

impl Bench {
    pub(super) fn clock_ms(&self) -> f64 {
        self.core.group_clock_ms(self.now)
    }

    /// Publishes the group `g` as of now.
    pub(super) fn publish(&mut self, view: GroupView) {
        self.publish_at("g", view, self.clock_ms());
    }

    pub(super) fn publish_at(&mut self, group: &str, view: GroupView, at_ms: f64) {
        let (now, now_ms) = (self.now, self.now_ms);
        self.core.publish_group(group, view, at_ms, now, now_ms);
    }

    /// Takes the new events of groups, without events about topics.
    pub(super) fn events(&mut self) -> Vec<GroupEvent> {
        let mut events = self.all_events();
        events.retain(|event| !matches!(event.kind, GroupEventKind::Topics));
        events
    }

    pub(super) fn all_events(&mut self) -> Vec<GroupEvent> {
        let waker = Waker::from(Arc::clone(&self.woken));
        match self.core.poll_group_events(&waker) {
            Poll::Ready(events) => events.expect("it is open"),
            Poll::Pending => Vec::new(),
        }
    }

    /// Takes the only event, which must be a request.
    pub(super) fn request(&mut self) -> GroupRequest {
        let mut events = self.events();
        assert_eq!(events.len(), 1, "{events:?}");
        match events.remove(0).kind {
            GroupEventKind::Request(request) => request,
            other => panic!("no request: {other:?}"),
        }
    }

    /// Lets time pass, and does what is due then.
    pub(super) fn tick_after(&mut self, time: Duration) {
        self.pass(time);
        self.core.tick(self.now, self.now_ms);
    }

    /// Takes the newly expired members, with their groups.
    pub(super) fn expired(&mut self) -> Vec<(String, String)> {
        let events = self.events().into_iter();
        let expired = events.filter_map(|event| match event.kind {
            GroupEventKind::Expired { member } => Some((event.group.into(), member.into())),
            _ => None,
        });
        expired.collect()
    }

    /// Takes the newly deleted groups.
    pub(super) fn deleted(&mut self) -> Vec<String> {
        let events = self.events().into_iter();
        let deleted = events.filter(|event| matches!(event.kind, GroupEventKind::Deleted));
        deleted.map(|event| event.group.into()).collect()
    }

    pub(super) fn beat(&mut self, member: &str, generation: i32) -> ErrorCode {
        self.beat_as(member, None, generation)
    }

    pub(super) fn beat_as(
        &mut self,
        member: &str,
        instance: Option<&str>,
        generation: i32,
    ) -> ErrorCode {
        let request = HeartbeatRequest {
            group_id: "g".into(),
            generation_id: generation,
            member_id: member.into(),
            group_instance_id: instance.map(Str::from),
        };
        ErrorCode(self.ask(&request, 4).error_code)
    }

    pub(super) fn respond<M: Message>(&mut self, request: &GroupRequest, response: &M) -> bool {
        let mut body = Vec::new();
        response.encode(&mut body, request.version).unwrap();
        let now = self.now;
        self.core
            .respond_to_group_request(request.ticket, body.into(), now)
    }
}

pub(super) fn join(member: &str) -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: "g".into(),
        session_timeout_ms: SESSION.as_millis() as i32,
        member_id: member.into(),
        protocol_type: "consumer".into(),
        ..JoinGroupRequest::default()
    }
}
