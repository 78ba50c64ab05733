//! The APIs that the broker supports: one table for the response of `ApiVersions` and for the
//! handlers.
//!
//! ```text
//! ApiCall -> row of the table, version served? -> decode -> fault? -> handler -> encode -> Outcome
//! ```
//! A request of an unsupported API or version closes the connection, as in Kafka. Only
//! `ApiVersions` gets a response, so that a newer client can try again with an older version
//! (KIP-511).

use std::ops::RangeInclusive;
use std::time::Instant;

use thalweg_protocol::messages::api_versions::ApiVersion;
use thalweg_protocol::{ApiKey, DecodeError, Reader, Request, Str};

use crate::core::{Connection, Core};
use crate::faults::FaultAction;
use crate::groups::{CoordinatorRequest, GROUP_APIS, Origin, Routed};
use crate::handlers;
use crate::requests::context::{Context, Injected};
use crate::requests::needs::needs;
use crate::requests::response::{Outcome, Reply, ReplyTo};
use crate::requests::subject::Subject;
use crate::requests::wait::{Wait, WaitsFor};

/// One request for its handler.
pub(crate) struct ApiCall<'a> {
    pub(crate) core: &'a mut Core,
    pub(crate) connection: &'a mut Connection,
    pub(crate) client_id: Option<Str>,
    pub(crate) reply_to: ReplyTo,
    /// Positioned at the body.
    pub(crate) input: Reader,
    pub(crate) frame_bytes: usize,
    pub(crate) now: Instant,
    pub(crate) now_ms: i64,
}

type Served = Result<Outcome, DecodeError>;

struct Api {
    key: ApiKey,
    serve: fn(ApiCall<'_>) -> Served,
}

const fn api(key: ApiKey, serve: fn(ApiCall<'_>) -> Served) -> Api {
    Api { key, serve }
}

/// Sorted by key.
#[rustfmt::skip]
#[allow(clippy::redundant_closure_for_method_calls)] // the method alone is not general enough
const APIS: &[Api] = &[
    api(ApiKey::PRODUCE, |call| call.serve(handlers::produce::handle)),
    api(ApiKey::FETCH, |call| call.serve(handlers::fetch::handle)),
    api(ApiKey::LIST_OFFSETS, |call| call.respond(handlers::list_offsets::handle)),
    api(ApiKey::METADATA, |call| call.respond(handlers::metadata::handle)),
    api(ApiKey::OFFSET_COMMIT, |call| call.respond(handlers::offset_commit::handle)),
    api(ApiKey::OFFSET_FETCH, |call| call.respond(handlers::offset_fetch::handle)),
    api(ApiKey::FIND_COORDINATOR, |call| call.respond(handlers::find_coordinator::handle)),
    api(ApiKey::JOIN_GROUP, |call| call.route(handlers::join_group::handle)),
    api(ApiKey::HEARTBEAT, |call| call.respond(handlers::heartbeat::handle)),
    api(ApiKey::LEAVE_GROUP, |call| call.route(handlers::leave_group::handle)),
    api(ApiKey::SYNC_GROUP, |call| call.route(handlers::sync_group::handle)),
    api(ApiKey::DESCRIBE_GROUPS, |call| call.route(handlers::describe_groups::handle)),
    api(ApiKey::LIST_GROUPS, |call| call.respond(handlers::list_groups::handle)),
    api(ApiKey::SASL_HANDSHAKE, |call| call.serve(handlers::sasl_handshake::handle)),
    api(ApiKey::API_VERSIONS, |call| call.respond(handlers::api_versions::handle)),
    api(ApiKey::CREATE_TOPICS, |call| call.respond(handlers::create_topics::handle)),
    api(ApiKey::DELETE_TOPICS, |call| call.respond(handlers::delete_topics::handle)),
    api(ApiKey::DELETE_RECORDS, |call| call.respond(handlers::delete_records::handle)),
    api(ApiKey::INIT_PRODUCER_ID, |call| call.respond(handlers::init_producer_id::handle)),
    api(ApiKey::OFFSET_FOR_LEADER_EPOCH, |call| call.respond(handlers::offset_for_leader_epoch::handle)),
    api(ApiKey::ADD_PARTITIONS_TO_TXN, |call| call.respond(handlers::add_partitions_to_txn::handle)),
    api(ApiKey::ADD_OFFSETS_TO_TXN, |call| call.respond(handlers::add_offsets_to_txn::handle)),
    api(ApiKey::END_TXN, |call| call.respond(handlers::end_txn::handle)),
    api(ApiKey::WRITE_TXN_MARKERS, |call| call.respond(handlers::write_txn_markers::handle)),
    api(ApiKey::TXN_OFFSET_COMMIT, |call| call.respond(handlers::txn_offset_commit::handle)),
    api(ApiKey::DESCRIBE_ACLS, |call| call.respond(handlers::acls::describe)),
    api(ApiKey::CREATE_ACLS, |call| call.respond(handlers::acls::create)),
    api(ApiKey::DELETE_ACLS, |call| call.respond(handlers::acls::delete)),
    api(ApiKey::DESCRIBE_CONFIGS, |call| call.respond(handlers::describe_configs::handle)),
    api(ApiKey::ALTER_CONFIGS, |call| call.respond(handlers::alter_configs::handle)),
    api(ApiKey::DESCRIBE_LOG_DIRS, |call| call.respond(handlers::describe_log_dirs::handle)),
    api(ApiKey::SASL_AUTHENTICATE, |call| call.serve(handlers::sasl_authenticate::handle)),
    api(ApiKey::CREATE_PARTITIONS, |call| call.respond(handlers::create_partitions::handle)),
    api(ApiKey::CREATE_DELEGATION_TOKEN, |call| call.respond(handlers::delegation_tokens::create)),
    api(ApiKey::RENEW_DELEGATION_TOKEN, |call| call.respond(handlers::delegation_tokens::renew)),
    api(ApiKey::EXPIRE_DELEGATION_TOKEN, |call| call.respond(handlers::delegation_tokens::expire)),
    api(ApiKey::DESCRIBE_DELEGATION_TOKEN, |call| call.respond(handlers::delegation_tokens::describe)),
    api(ApiKey::DELETE_GROUPS, |call| call.respond(handlers::delete_groups::handle)),
    api(ApiKey::ELECT_LEADERS, |call| call.respond(handlers::elect_leaders::handle)),
    api(ApiKey::INCREMENTAL_ALTER_CONFIGS, |call| call.respond(handlers::incremental_alter_configs::handle)),
    api(ApiKey::LIST_PARTITION_REASSIGNMENTS, |call| call.respond(handlers::list_partition_reassignments::handle)),
    api(ApiKey::OFFSET_DELETE, |call| call.respond(handlers::offset_delete::handle)),
    api(ApiKey::DESCRIBE_CLIENT_QUOTAS, |call| call.respond(handlers::describe_client_quotas::handle)),
    api(ApiKey::ALTER_CLIENT_QUOTAS, |call| call.respond(handlers::alter_client_quotas::handle)),
    api(ApiKey::DESCRIBE_USER_SCRAM_CREDENTIALS, |call| call.respond(handlers::describe_user_scram_credentials::handle)),
    api(ApiKey::ALTER_USER_SCRAM_CREDENTIALS, |call| call.respond(handlers::alter_user_scram_credentials::handle)),
    api(ApiKey::DESCRIBE_CLUSTER, |call| call.respond(handlers::describe_cluster::handle)),
    api(ApiKey::DESCRIBE_PRODUCERS, |call| call.respond(handlers::describe_producers::handle)),
    api(ApiKey::DESCRIBE_TRANSACTIONS, |call| call.respond(handlers::describe_transactions::handle)),
    api(ApiKey::LIST_TRANSACTIONS, |call| call.respond(handlers::list_transactions::handle)),
    api(ApiKey::CONSUMER_GROUP_HEARTBEAT, |call| call.route(handlers::consumer_group_heartbeat::handle)),
    api(ApiKey::CONSUMER_GROUP_DESCRIBE, |call| call.route(handlers::consumer_group_describe::handle)),
    api(ApiKey::LIST_CONFIG_RESOURCES, |call| call.respond(handlers::list_config_resources::handle)),
    api(ApiKey::DESCRIBE_TOPIC_PARTITIONS, |call| call.respond(handlers::describe_topic_partitions::handle)),
];

impl Api {
    fn versions(&self) -> RangeInclusive<i16> {
        self.key
            .valid_versions()
            .expect("the schema contains every API of the table")
    }

    fn announced(&self) -> ApiVersion {
        let versions = self.versions();
        // librdkafka turns compression off if Produce does not start at 0, although no client uses
        // those versions (KAFKA-18659).
        let min_version = match self.key {
            ApiKey::PRODUCE => 0,
            _ => *versions.start(),
        };
        ApiVersion {
            api_key: self.key.0,
            min_version,
            max_version: *versions.end(),
        }
    }

    fn is_served(&self, core: &Core) -> bool {
        core.groups.is_served() || !GROUP_APIS.contains(&self.key)
    }
}

/// Returns the rows of an `ApiVersions` response.
pub(crate) fn announced(core: &Core) -> Vec<ApiVersion> {
    APIS.iter()
        .filter(|api| api.is_served(core))
        .map(Api::announced)
        .collect()
}

pub(crate) fn dispatch(call: ApiCall<'_>) -> Outcome {
    let (key, version) = (call.reply_to.key, call.reply_to.version);
    let api = APIS
        .iter()
        .find(|api| api.key == key && api.is_served(call.core));
    let Some(api) = api else {
        return Outcome::Close;
    };
    if !api.versions().contains(&version) {
        return match key {
            ApiKey::API_VERSIONS => handlers::api_versions::unsupported_version(call),
            _ => Outcome::Close,
        };
    }
    // A request that cannot be decoded gets no response.
    (api.serve)(call).unwrap_or(Outcome::Close)
}

impl ApiCall<'_> {
    /// Serves an API whose handler always has a response.
    fn respond<R: Request + Subject>(
        self,
        handle: fn(&mut Context<'_>, R) -> R::Response,
    ) -> Served {
        self.serve_with(|context, _, request| Reply::Message(handle(context, request)))
    }

    fn serve<R: Request + Subject>(
        self,
        handle: fn(&mut Context<'_>, ReplyTo, R) -> Reply<R::Response>,
    ) -> Served {
        self.serve_with(handle)
    }

    fn serve_with<R: Request + Subject>(
        mut self,
        handle: impl FnOnce(&mut Context<'_>, ReplyTo, R) -> Reply<R::Response>,
    ) -> Served {
        let mut reply_to = self.reply_to;
        let request = R::decode(&mut self.input, reply_to.version)?;
        // Taken out for a moment, because finding the topics borrows the core.
        let mut faults = std::mem::take(&mut self.core.faults);
        let fault = faults.take(reply_to.key, self.connection.node, || {
            request.topics(self.core)
        });
        self.core.faults = faults;
        let mut injected = None;
        if let Some(fault) = &fault {
            match fault.action {
                FaultAction::Disconnect => return Ok(Outcome::Close),
                FaultAction::Silence => return Ok(Outcome::Mute),
                FaultAction::Delay(delay) => reply_to.delay = Some(delay),
                FaultAction::ApplyThenDisconnect => reply_to.then_close = true,
                FaultAction::Fail(_) => injected = Injected::from_fault(fault),
                FaultAction::BadServerSignature
                | FaultAction::ScramIterations(_)
                | FaultAction::CloseInTlsHandshake
                | FaultAction::TlsVersion(_) => {} // they are not about requests
            }
        }
        let now = self.now;
        let last_delay = self.core.options.failed_authentication_delay;
        let mut context = Context {
            core: self.core,
            node: self.connection.node,
            connection: self.connection,
            needs: needs(reply_to.key),
            version: reply_to.version,
            frame_bytes: self.frame_bytes,
            now,
            now_ms: self.now_ms,
            injected,
            client_id: self.client_id,
            throttle_ms: 0,
        };
        Ok(match handle(&mut context, reply_to, request) {
            Reply::Message(message) => reply_to.message(&message, now),
            Reply::Last(message) => reply_to.last(&message, last_delay, now),
            Reply::Body(body) => reply_to.body(body, now),
            Reply::Nothing if reply_to.then_close => Outcome::Close,
            Reply::Nothing => Outcome::Nothing,
            Reply::Close => Outcome::Close,
            Reply::Wait(wait) => Outcome::Wait(wait),
        })
    }

    /// Serves an API whose handler may leave the response to the group coordinator.
    fn route<R: CoordinatorRequest>(self, handle: fn(&mut Context<'_>, R) -> Routed<R>) -> Served {
        let origin = Origin {
            client_id: self.client_id.as_ref().map(Str::detached),
            client_host: self.connection.client_host.clone(),
            principal: self.connection.who().principal.to_owned(),
            body: self.input.rest(),
        };
        let (node, now) = (self.connection.node, self.now);
        self.serve_with(move |context, reply_to, request| {
            let ticket = match handle(context, request) {
                Routed::Here(response) => return Reply::Message(response),
                Routed::Coordinator(hand_over) => {
                    let core = &mut *context.core;
                    core.hand_over::<R>(hand_over, origin, (&reply_to, node), now)
                }
            };
            match ticket {
                Ok(ticket) => Reply::Wait(Wait::new(reply_to, None, WaitsFor::Coordinator(ticket))),
                Err(response) => Reply::Message(response),
            }
        })
    }
}
