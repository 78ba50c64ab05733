//! [`Core`]: the complete broker without sockets, threads and clocks.
//!
//! ```text
//! frame, now --handle--> count, fault? -> handler (handlers/*, one API each) -> Outcome
//! waker, now --poll_wait--> Outcome of a request that had to wait
//! now --tick--> retention, transactions that are too old; next_deadline() says when
//! ```
//! Nodes share everything: a node is an id, an address and the partitions that it leads. Only one
//! thread at a time uses the core. It never blocks, so a mutex around it is held only briefly.

use std::task::Waker;
use std::time::{Duration, Instant};

use bytes::Bytes;
use thalweg_protocol::{ApiKey, Reader, Str, Uuid, frame};
use thalweg_security::acl::{Acls, Who};

use crate::BrokerError;
use crate::faults::FaultRegistry;
use crate::fetch::{Reader as FetchReader, SessionCache};
use crate::groups::Groups;
use crate::offsets::CommittedOffsets;
use crate::options::BrokerOptions;
use crate::quotas::{Payer, QuotaKind, Quotas};
use crate::random::Random;
use crate::requests::api;
use crate::requests::response::{Outcome, ReplyTo};
use crate::requests::wait::Wait;
use crate::security::authentication::Authentication;
use crate::security::{Principal, Security, SecurityConfig};
use crate::storage::validate::Codecs;
use crate::timer::Timer;
use crate::topology::coordinator::MovedCoordinators;
use crate::topology::{Node, Topology};
use crate::transactions::{Now, Transactions};

/// The first retention check comes at most this long after the start, as in Kafka.
const FIRST_RETENTION: Duration = Duration::from_secs(30);

/// The first producer ids of two brokers differ by a multiple of this.
const PRODUCER_IDS_APART: i64 = 1000;

/// The maximum size of a request other than Produce. A decoded request takes many times its encoded
/// size. Only Produce carries records, so it may be as large as `socket.request.max.bytes`.
const PLAIN_REQUEST_BYTES_MAX: usize = 16 << 20;

/// The broker without sockets.
pub struct Core {
    pub(crate) options: BrokerOptions,
    pub(crate) topology: Topology,
    pub(crate) faults: FaultRegistry,
    pub(crate) sessions: SessionCache,
    pub(crate) offsets: CommittedOffsets,
    pub(crate) groups: Groups,
    pub(crate) transactions: Transactions,
    pub(crate) moved_coordinators: MovedCoordinators,
    pub(crate) codecs: Codecs,
    pub(crate) random: Random,
    pub(crate) security: Security,
    pub(crate) quotas: Quotas,
    /// `None`: everybody may do everything.
    pub(crate) acls: Option<Acls>,
    pub(crate) next_producer_id: i64,
    /// The size of all batches in memory.
    pub(crate) memory_bytes: u64,
    /// The start of its time.
    pub(crate) started: Instant,
    /// Whether the current request has already applied retention to make room.
    has_made_room: bool,
    next_retention: Instant,
    next_offsets_retention: Instant,
    next_tokens_check: Instant,
    timer: Timer,
}

/// The client's side of a connection, one for each connection.
#[derive(Debug)]
pub struct Connection {
    /// The node that accepted it.
    pub(crate) node: i32,
    /// The client's address as `DescribeGroups` shows it, in Java's form: `/127.0.0.1`.
    pub(crate) client_host: String,
    pub(crate) authentication: Authentication,
    /// The client ID of the last request.
    client_id: Option<Str>,
    /// Until when nothing is read, because the client has exceeded a quota.
    pub(crate) mute_until: Option<Instant>,
}

impl Connection {
    /// Whether the client has logged in, or need not.
    pub fn is_authenticated(&self) -> bool {
        self.authentication.is_complete()
    }

    /// Sets the user of the client's certificate. If the client must log in, it has no effect.
    pub(crate) fn identify(&mut self, subject: &str) {
        self.authentication.identify(Principal::user(subject));
    }

    /// Returns the user and the address, for ACLs.
    pub(crate) fn who(&self) -> Who<'_> {
        Who {
            principal: self.authentication.principal().text(),
            host: self.client_host.trim_start_matches('/'),
        }
    }

    /// Returns the user and the address, for a request that waits.
    pub(crate) fn reader(&self) -> FetchReader {
        FetchReader {
            principal: self.authentication.principal().clone(),
            host: self.who().host.to_owned(),
        }
    }

    /// Returns the user.
    pub fn principal(&self) -> &Principal {
        self.authentication.principal()
    }
}

/// The address of a node.
#[derive(Debug, Clone)]
pub struct NodeAddress {
    /// The host that clients are told to connect to.
    pub host: String,
    pub port: u16,
}

/// A producer may outlive its broker and meet the next one on the same port. If both brokers gave
/// the same ids, a new producer's batches could pass for the old one's duplicates.
fn first_producer_id(seed: u64) -> i64 {
    // Not drawn from the broker's other numbers: a seed keeps its topic ids.
    i64::from(Random::new(!seed).positive_i32()) * PRODUCER_IDS_APART
}

impl Core {
    /// Makes a broker with one node for each address. The nodes get the ids 1, 2, ...
    pub fn new(addresses: &[NodeAddress], options: BrokerOptions, seed: u64, now: Instant) -> Self {
        let nodes = (1..)
            .zip(addresses)
            .map(|(id, address)| Node {
                id,
                host: address.host.as_str().into(),
                port: address.port,
                is_live: true,
            })
            .collect();
        let mut random = Random::new(seed);
        let interval = Duration::from_millis(options.retention_check_interval_ms);
        let offsets_interval = Duration::from_millis(options.offsets_retention_check_interval_ms);
        let next_tokens_check = now + options.tokens.check_interval;
        Self {
            topology: Topology::new(nodes, &mut random),
            sessions: SessionCache::new(options.fetch_session_slots_max),
            faults: FaultRegistry::default(),
            offsets: CommittedOffsets::default(),
            groups: Groups::default(),
            transactions: Transactions::default(),
            quotas: Quotas::default(),
            moved_coordinators: MovedCoordinators::default(),
            codecs: Codecs::default(),
            random,
            acls: options.acls(),
            security: Security::new(&SecurityConfig::default(), &options),
            options,
            next_producer_id: first_producer_id(seed),
            memory_bytes: 0,
            started: now,
            has_made_room: false,
            next_retention: now + FIRST_RETENTION.min(interval),
            next_offsets_retention: now + offsets_interval,
            next_tokens_check,
            timer: Timer::default(),
        }
    }

    /// Sets how clients must connect. Without this, everybody may.
    pub fn secure(&mut self, config: &SecurityConfig) {
        self.security = Security::new(config, &self.options);
    }

    /// Ends the sessions of all clients that have logged in. A connection may log in again. Any
    /// other request closes it.
    pub fn expire_sessions(&mut self) {
        self.security.era += 1;
    }

    /// Returns the state of a new connection.
    pub fn connect(&self, node: i32, client_host: String) -> Connection {
        Connection {
            node,
            client_host,
            authentication: Authentication::new(self.security.protocol.has_sasl()),
            client_id: None,
            mute_until: None,
        }
    }

    /// Serves one frame (without its length).
    pub fn handle(
        &mut self,
        connection: &mut Connection,
        frame: Bytes,
        now: Instant,
        now_ms: i64,
    ) -> Outcome {
        self.has_made_room = false;
        let frame_bytes = frame.len();
        let mut input = Reader::new(frame);
        let Ok(header) = frame::decode_request_header(&mut input) else {
            return Outcome::Close;
        };
        let key = ApiKey(header.request_api_key);
        if key != ApiKey::PRODUCE && frame_bytes > PLAIN_REQUEST_BYTES_MAX {
            return Outcome::Close;
        }
        self.faults.count(key, connection.node);
        if !connection.authentication.admits(key, &self.security, now) {
            return Outcome::Close;
        }
        connection.client_id.clone_from(&header.client_id);
        let call = api::ApiCall {
            core: self,
            connection,
            client_id: header.client_id,
            reply_to: ReplyTo {
                key,
                version: header.request_api_version,
                correlation_id: header.correlation_id,
                delay: None,
                then_close: false,
            },
            input,
            frame_bytes,
            now,
            now_ms,
        };
        let outcome = api::dispatch(call);
        self.tell_of_topics(now);
        self.wake_timer();
        outcome
    }

    /// Records the time that the broker's thread has needed for a request of the client.
    pub fn spend_time(&mut self, connection: &mut Connection, time: Duration, now: Instant) {
        let payer = Payer {
            user: connection.authentication.principal().name(),
            client_id: connection.client_id.as_deref().unwrap_or_default(),
        };
        let percent = time.as_secs_f64() * 100.0;
        let wait = self.quotas.record(QuotaKind::Request, payer, percent, now);
        if !wait.is_zero() {
            connection.mute(now + wait);
        }
    }

    /// Adds a connection of an address (`127.0.0.1`). If there were too many, returns the time after
    /// which to close it.
    pub fn admit(&mut self, ip: &str, now: Instant) -> Result<(), Duration> {
        self.quotas.admit(ip, now)
    }

    /// Checks whether a waiting request can get its response now. If not, the waker is woken when
    /// it perhaps can. Call it at the wait's deadline, too.
    pub fn poll_wait(&mut self, wait: &mut Wait, waker: &Waker, now: Instant) -> Option<Outcome> {
        wait.poll(self, waker, now)
    }

    /// Does what is due. Call it at [`next_deadline`](Self::next_deadline).
    pub fn tick(&mut self, now: Instant, now_ms: i64) {
        self.has_made_room = false;
        self.tick_transactions(Now {
            instant: now,
            ms: now_ms,
        });
        self.tick_groups(now);
        if now >= self.next_offsets_retention {
            let interval = self.options.offsets_retention_check_interval_ms;
            self.next_offsets_retention = now + Duration::from_millis(interval);
            self.retain_offsets(now, now_ms);
        }
        if now >= self.next_tokens_check {
            self.next_tokens_check = now + self.options.tokens.check_interval;
            self.security.tokens.forget(now_ms);
        }
        if now >= self.next_retention {
            let interval = self.options.retention_check_interval_ms;
            self.next_retention = now + Duration::from_millis(interval);
            self.retain(now_ms);
        }
    }

    pub fn next_deadline(&self) -> Instant {
        let retention = self.next_retention.min(self.next_offsets_retention);
        let retention = retention.min(self.next_tokens_check);
        let transactions = self.transactions.next_deadline();
        let sessions = self.groups.table.sessions.next_deadline();
        [transactions, sessions]
            .into_iter()
            .flatten()
            .fold(retention, Instant::min)
    }

    /// Returns the next deadline. `waker` is woken as soon as a request makes it earlier.
    pub fn poll_deadline(&mut self, waker: &Waker) -> Instant {
        let deadline = self.next_deadline();
        self.timer.arm(deadline, waker);
        deadline
    }

    /// Wakes the timer if the deadline has become earlier.
    pub(crate) fn wake_timer(&mut self) {
        self.timer.wake_if_before(self.next_deadline());
    }

    /// Applies retention, and forgets producers that were silent for long.
    pub(crate) fn retain(&mut self, now_ms: i64) {
        let mut freed = 0;
        for topic in self.topology.topics_mut() {
            for partition in &mut topic.partitions {
                freed += partition.log.retain(&topic.options, now_ms);
                partition
                    .producers
                    .expire(now_ms, self.options.producer_id_expiration_ms);
                let start = partition.log.start_offset();
                partition.producers.forget_before(start);
            }
        }
        let expiration = self.options.transactional_id_expiration_ms;
        self.transactions.expire(now_ms, expiration);
        self.memory_bytes -= freed;
    }

    /// Whether `more` bytes fit into memory. If not, it first applies retention, at most once for
    /// each request, because that goes through all partitions.
    pub(crate) fn has_room(&mut self, more: usize, now_ms: i64) -> bool {
        let Some(max) = self.options.memory_bytes_max else {
            return true;
        };
        let is_full = self.memory_bytes + more as u64 > max;
        if is_full && !std::mem::replace(&mut self.has_made_room, true) {
            self.retain(now_ms);
        }
        self.memory_bytes + more as u64 <= max
    }

    pub(crate) fn new_producer_id(&mut self) -> i64 {
        let id = self.next_producer_id;
        self.next_producer_id += 1;
        id
    }

    /// Stops a node. The owner of its sockets must close them first.
    pub fn stop_node(&mut self, node: i32, now: Instant) -> Result<(), BrokerError> {
        self.check_node(node)?;
        self.topology.stop_node(node);
        self.sessions.drop_node(node);
        self.drop_group_waits(node, now);
        self.recoordinate_groups(now);
        Ok(())
    }

    pub fn start_node(&mut self, node: i32, now: Instant) -> Result<(), BrokerError> {
        self.check_node(node)?;
        self.topology.start_node(node);
        self.recoordinate_groups(now);
        Ok(())
    }

    pub(crate) fn check_node(&self, node: i32) -> Result<(), BrokerError> {
        let nodes = self.topology.nodes_count();
        if (1..=nodes).contains(&node) {
            Ok(())
        } else {
            Err(BrokerError::NoSuchNode { node, nodes })
        }
    }

    /// Deletes a topic with everything that is kept for it.
    pub(crate) fn delete_topic(&mut self, id: Uuid) -> bool {
        let gone = self.drop_topic(id).into_iter().collect();
        self.offsets.forget_topics(&gone);
        !gone.is_empty()
    }

    /// Deletes a topic, but keeps its committed offsets for
    /// [`forget_topics`](crate::offsets::CommittedOffsets::forget_topics).
    pub(crate) fn drop_topic(&mut self, id: Uuid) -> Option<Str> {
        let topic = self.topology.delete_topic(id)?;
        self.memory_bytes -= topic.size_bytes();
        Some(topic.name)
    }
}
