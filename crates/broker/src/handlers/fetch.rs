//! `Fetch` // key 1
//!
//! Finds the requested partitions (in the request or in a session) and responds at once if there is
//! enough. Otherwise the request waits. Reading and encoding are in `fetch/`.

use std::collections::BTreeSet;
use std::time::Duration;

use thalweg_protocol::messages::fetch::{FetchRequest, FetchResponse};
use thalweg_protocol::{ErrorCode, Str};

use crate::Core;
use crate::fetch::{
    FINAL_EPOCH, INITIAL_EPOCH, NO_SESSION, PendingFetch, Scope, Session, TargetKey, error_body,
    forgotten, has_long_names, targets, uses_ids,
};
use crate::quotas::{Payer, QuotaKind};
use crate::requests::context::Context;
use crate::requests::response::{Reply, ReplyTo};
use crate::requests::subject::{Subject, topic_name};
use crate::requests::wait::{Wait, WaitsFor};

/// The limit on a client's wait. A larger value could overflow the clock.
const WAIT_MAX: Duration = Duration::from_secs(24 * 3600);

impl Subject for FetchRequest {
    fn topics(&self, core: &Core) -> Vec<Str> {
        let named = self.topics.iter();
        let mut topics: Vec<Str> = named
            .filter_map(|topic| topic_name(core, &topic.topic, topic.topic_id))
            .collect();
        // A request without names is about the session's partitions.
        let sessions = (1..=core.topology.nodes_count())
            .filter_map(|node| core.sessions.get(node, self.session_id));
        // By name or by id, as the version has it; the other is empty.
        let gone = [12, 13].map(|version| forgotten(self, version));
        let gone: BTreeSet<_> = gone.iter().flatten().collect();
        let stays = |key: &&TargetKey| !gone.contains(key);
        for (key, _) in sessions.flat_map(Session::keys).filter(stays) {
            topics.extend(key.find(&core.topology).map(|topic| topic.name.clone()));
        }
        topics
    }
}

pub(crate) fn handle(
    context: &mut Context<'_>,
    reply_to: ReplyTo,
    request: FetchRequest,
) -> Reply<FetchResponse> {
    let scope = match find_scope(context, &request) {
        Ok(scope) => scope,
        Err(code) => {
            return Reply::Body(error_body(context.version, code, &context.core.topology));
        }
    };
    let max_bytes = request
        .max_bytes
        .min(context.core.options.fetch_max_bytes)
        .max(0);
    let payer = Payer {
        user: context.connection.principal().name(),
        client_id: context.client_id.as_deref().unwrap_or_default(),
    };
    // More would always be too much.
    let quota = context.core.quotas.bytes_max(QuotaKind::Fetch, payer);
    let max_bytes = quota.map_or(max_bytes, |quota| max_bytes.min(quota as i32));
    let mut fetch = PendingFetch {
        version: context.version,
        node: context.node,
        read_committed: request.isolation_level == 1,
        min_bytes: request.min_bytes.clamp(0, max_bytes) as usize,
        max_bytes: max_bytes as usize,
        scope,
        injected: context.injected.take(),
        reader: context.connection.reader(),
        client_id: context.client_id.take().unwrap_or_default().detached(),
        throttled: None,
    };
    let must_respond = request.max_wait_ms <= 0;
    if let Some(body) = fetch.poll(context.core, must_respond, None, context.now) {
        if let Some(until) = fetch.throttled {
            context.connection.mute(until);
        }
        return Reply::Body(body);
    }
    let time = Duration::from_millis(request.max_wait_ms as u64).min(WAIT_MAX);
    let deadline = Some(context.now + time);
    let records = WaitsFor::Records(Box::new(fetch));
    Reply::Wait(Wait::new(reply_to, deadline, records))
}

fn find_scope(context: &mut Context<'_>, request: &FetchRequest) -> Result<Scope, ErrorCode> {
    if let Some(code) = context.refusal().filter(|code| is_of_sessions(*code)) {
        return Err(code);
    }
    if has_long_names(request) {
        return Err(ErrorCode::INVALID_TOPIC_EXCEPTION);
    }
    let (version, node, id) = (context.version, context.node, request.session_id);
    let targets = targets(request, version);
    let sessions = &mut context.core.sessions;
    if request.session_epoch == FINAL_EPOCH || request.session_epoch == INITIAL_EPOCH {
        if id != NO_SESSION {
            sessions.close(node, id);
        }
        let opens_session = request.session_epoch == INITIAL_EPOCH && version >= 7;
        return Ok(Scope::Request {
            targets,
            opens_session,
        });
    }
    let changes = (targets, forgotten(request, version));
    let epoch = request.session_epoch;
    let session = sessions.advance((node, id), epoch, changes, uses_ids(version), context.now)?;
    if session.is_empty() {
        sessions.close(node, id);
        return Ok(Scope::Request {
            targets: Vec::new(),
            opens_session: false,
        });
    }
    Ok(Scope::Session(id))
}

/// Whether a Fetch response reports this error for the complete request.
fn is_of_sessions(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::FETCH_SESSION_ID_NOT_FOUND
            | ErrorCode::INVALID_FETCH_SESSION_EPOCH
            | ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR
    )
}
