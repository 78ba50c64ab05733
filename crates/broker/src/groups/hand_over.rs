//! Hands a request over to the coordinator, with what its handler adds.

use bytes::Bytes;
use thalweg_protocol::{ErrorCode, Request, Str};

use super::describe::{Completion, read, write};
use super::events::{GroupEvent, GroupEventKind, GroupRequest, GroupTicket, Waiting};
use crate::Core;
use crate::requests::context::Context;
use crate::requests::response::ReplyTo;
use crate::requests::subject::Subject;

/// A request that the coordinator responds to, unless the handler does.
pub(crate) trait CoordinatorRequest: Request + Subject {
    /// Makes a response with the error, for each group if the request may name several.
    fn refusal(groups: &[Str], code: ErrorCode) -> Self::Response;

    /// Returns the error of a response. Only requests that hold a member's session need it.
    fn error(_: &Self::Response) -> ErrorCode {
        ErrorCode::NONE
    }
}

/// What responds to a request: the handler, or the coordinator.
pub(crate) enum Routed<R: Request> {
    Here(R::Response),
    Coordinator(HandOver),
}

/// A request for the coordinator.
pub(crate) struct HandOver {
    /// The groups that it is about.
    pub(crate) groups: Vec<Str>,
    /// The member that sent it. Its session does not run until the response.
    pub(crate) member: Option<Str>,
    /// `None` means the body as received.
    pub(crate) body: Option<Bytes>,
    pub(crate) draft: Option<Bytes>,
    pub(crate) completion: Completion,
}

impl HandOver {
    /// Makes a member's request.
    pub(crate) fn of_member(group: &Str, member: Option<&Str>) -> Self {
        Self {
            groups: vec![group.detached()],
            member: member.map(Str::detached),
            body: None,
            draft: None,
            completion: Completion::Nothing,
        }
    }
}

/// The client that sent a request.
pub(crate) struct Origin {
    pub(crate) client_id: Option<Str>,
    pub(crate) client_host: String,
    pub(crate) principal: String,
    /// The request's body as received.
    pub(crate) body: Bytes,
}

/// Routes a request about one group: to the coordinator, or back with an error.
pub(crate) fn route<R: CoordinatorRequest>(
    context: &Context<'_>,
    group: &Str,
    member: Option<&Str>,
) -> Routed<R> {
    match context.check_group(group) {
        Ok(()) => Routed::Coordinator(HandOver::of_member(group, member)),
        Err(code) => Routed::Here(R::refusal(&[], code)),
    }
}

fn refuse<R: CoordinatorRequest>(groups: &[Str], version: i16, code: ErrorCode) -> Bytes {
    let body = write(&R::refusal(groups, code), version);
    // The tests encode refusals in all versions.
    debug_assert!(body.is_ok(), "{} v{version}: {body:?}", R::KEY);
    body.unwrap_or_default()
}

/// Whether a response shows that the request came from a member. A refused request does not keep a
/// session alive. But a client that must join again was accepted as a member.
fn accepts<R: CoordinatorRequest>(body: &Bytes, version: i16) -> bool {
    let response = read::<R::Response>(body.clone(), version);
    let accepted = [ErrorCode::NONE, ErrorCode::REBALANCE_IN_PROGRESS];
    response.is_ok_and(|response| accepted.contains(&R::error(&response)))
}

impl Core {
    /// Puts the request into the coordinator's queue. Fails if that is full.
    pub(crate) fn hand_over<R: CoordinatorRequest>(
        &mut self,
        hand_over: HandOver,
        origin: Origin,
        (reply_to, node): (&ReplyTo, i32),
        now: std::time::Instant,
    ) -> Result<GroupTicket, R::Response> {
        let body = hand_over.body.unwrap_or(origin.body);
        let draft_bytes = hand_over.draft.as_ref().map_or(0, Bytes::len);
        if !self.groups.events.has_room_for(body.len() + draft_bytes) {
            let code = ErrorCode::COORDINATOR_NOT_AVAILABLE;
            return Err(R::refusal(&hand_over.groups, code));
        }
        let group = match hand_over.groups.as_slice() {
            [group] if hand_over.draft.is_none() => group.clone(),
            _ => Str::default(),
        };
        let holds = hand_over.member.map(|member| (group.clone(), member));
        let sessions = &mut self.groups.table.sessions;
        if let Some(who) = &holds
            && self.groups.events.supersede(reply_to.key, who)
        {
            sessions.release(who, false, now);
        }
        let holds = holds.filter(|who| sessions.hold(who, now));
        let ticket = self.groups.events.ticket();
        let waiting = Waiting {
            key: reply_to.key,
            version: reply_to.version,
            node,
            groups: hand_over.groups,
            holds,
            completion: hand_over.completion,
            refuse: refuse::<R>,
            accepts: accepts::<R>,
            response: None,
            waiter: None,
        };
        self.groups.events.wait_for(ticket, waiting);
        let request = GroupRequest {
            ticket,
            key: reply_to.key,
            version: reply_to.version,
            node,
            client_id: origin.client_id,
            client_host: origin.client_host,
            principal: origin.principal,
            body,
            draft: hand_over.draft,
        };
        self.groups.events.push(GroupEvent {
            at_ms: self.group_clock_ms(now),
            group,
            kind: GroupEventKind::Request(request),
        });
        Ok(ticket)
    }
}
