//! The client actor: one task that owns the cluster and the role, and runs both.
//!
//! ```text
//!   ┌▶ events ─▶ cluster.handle          commands ─▶ pending requests, closing
//!   │  job results, responses ─▶ role    cluster.poll, role.poll
//!   │  actions ─▶ sockets, jobs ─▶ pool  until nothing is left
//!   └─ sleep until a notification or the next deadline
//! ```
//! A panic in a turn ends this client. Every caller that waits for it gets the panic's message. The
//! I/O thread and the other clients continue.

use std::collections::BTreeMap;
use std::future::{Future as _, poll_fn};
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::{Duration, Instant};

use thalweg_cluster::{
    Action, Address, Cluster, ConnectionId, Event, Job, Notifier, RequestId, Role,
};
use tokio::time::Sleep;

use super::connections::Connections;
use super::failing::{Panic, caught, words};
use super::inbox::{Command, Inbox, JobResults, RoleCalls};
use super::pending::{SentRequest, Step, UnsentRequest, no_brokers};
use crate::clock::{self, WallClock};
use crate::codec_pool::CodecPool;
use crate::config::ClientConfig;
use crate::connection::Opener;
use crate::log::{self, Level, Logger, Repeated};
use crate::runtime::Runtime;

/// The limit on rounds before the other tasks of the thread get their turn.
const ROUNDS_MAX: usize = 8;

/// The actor wakes this often even without a deadline. Nothing depends on it.
const SLEEP_MAX: Duration = Duration::from_secs(60);

/// After this time without any response, the client logs a warning. It does so earlier if all
/// addresses have failed.
const BOOTSTRAP_NOTICE_AFTER: Duration = Duration::from_secs(5);

type Results<R> = JobResults<Result<<<R as Role>::Job as Job>::Output, Panic>>;

pub(super) struct Actor<R: Role> {
    role: R,
    cluster: Cluster,
    inbox: Arc<Inbox>,
    calls: Arc<RoleCalls<R>>,
    results: Arc<Results<R>>,
    jobs_running: usize,
    wall_clock: WallClock,
    /// Virtual time must not pass while a codec thread works, so jobs run on the actor's thread.
    inline_jobs: bool,
    connections: Connections,
    pending: Vec<UnsentRequest>,
    sent: BTreeMap<RequestId, SentRequest>,
    closing: Option<Instant>,
    repeated: Repeated,
    /// When to log that no broker has responded. It is logged once.
    bootstrap_notice_at: Option<Instant>,
}

impl<R: Role> Actor<R> {
    pub(super) fn new(
        role: R,
        cluster: Cluster,
        inbox: Arc<Inbox>,
        calls: Arc<RoleCalls<R>>,
        opener: Opener,
        config: &ClientConfig,
        inline_jobs: bool,
    ) -> Self {
        Self {
            role,
            cluster,
            connections: Connections::new(Arc::clone(&inbox), opener),
            inbox,
            calls,
            results: Arc::default(),
            jobs_running: 0,
            wall_clock: config.wall_clock,
            inline_jobs,
            pending: Vec::new(),
            sent: BTreeMap::new(),
            closing: None,
            repeated: Repeated::default(),
            bootstrap_notice_at: None,
        }
    }

    pub(super) async fn run(mut self) {
        let notifier = Arc::clone(self.inbox.notifier());
        let mut sleep = Box::pin(tokio::time::sleep(Duration::ZERO));
        self.bootstrap_notice_at = Some(clock::now() + BOOTSTRAP_NOTICE_AFTER);
        loop {
            notifier.unpark();
            let (now, deadline) = match caught(|| self.turn_and_deadline()) {
                Ok(Some(times)) => times,
                Ok(None) => break,
                Err(panic) => return self.fail(words(&panic)),
            };
            // Timers are coarse and round up, so work that is due at once must not wait for one.
            if deadline <= now || !park(&notifier, &mut sleep, deadline).await {
                // Something arrived meanwhile, or is due. The connections' tasks still need their
                // turn.
                tokio::task::yield_now().await;
            }
        }
    }

    /// Takes a turn. Returns its time and the next deadline, or `None` when the client is closed.
    fn turn_and_deadline(&mut self) -> Option<(Instant, Instant)> {
        let now = self.turn()?;
        // Use the turn's time, not the clock's. Work that became due since is not done yet, but the
        // cores leave out deadlines that they think are past.
        let deadline = self.next_deadline(now).unwrap_or(now + SLEEP_MAX);
        Some((now, deadline))
    }

    /// Does all that can be done, and returns the time of that. Returns `None` when the client is
    /// closed.
    fn turn(&mut self) -> Option<Instant> {
        let mut now = clock::now();
        for _ in 0..ROUNDS_MAX {
            self.take_in(now);
            self.tell_of_bootstrap(now);
            let now_ms = self.wall_clock.now_ms(now);
            self.hand_out_responses(now, now_ms);
            self.role.poll(&mut self.cluster, now, now_ms);
            self.advance_pending(now);
            self.tell_warnings();
            // After the others, because they may have asked the cluster for metadata or a
            // coordinator.
            self.cluster.poll(now);
            let acted = self.carry_out() | self.start_jobs();
            if self
                .closing
                .is_some_and(|deadline| self.close_if_done(deadline, now))
            {
                return None;
            }
            if !acted && !self.cluster.has_responses() {
                return Some(now);
            }
            now = clock::now();
        }
        // Not finished: continue after the other tasks.
        self.inbox.notifier().notify();
        Some(now)
    }

    fn take_in(&mut self, now: Instant) {
        for event in self.inbox.take_events() {
            self.note(&event);
            self.cluster.handle(event, now);
        }
        for command in self.inbox.take_commands() {
            match command {
                Command::Request(pending) => self.pending.push(pending),
                Command::Cluster(call) => call(&mut self.cluster, now),
                Command::Close { deadline } => self.start_closing(deadline, now),
            }
        }
        for call in self.calls.take() {
            call(&mut self.role, &mut self.cluster, now);
        }
        for output in self.results.take() {
            self.jobs_running -= 1;
            // Jobs catch panics of codecs. After any other panic the role never gets its result.
            let output = output.unwrap_or_else(|panic| resume_unwind(panic));
            let now_ms = self.wall_clock.now_ms(now);
            self.role.job_done(output, &mut self.cluster, now, now_ms);
        }
    }

    /// Logs once why no broker has responded, while the client keeps trying: the caller that made
    /// it may wait for long. After a fatal error calls do not wait, and [`Self::note`] has logged
    /// it.
    fn tell_of_bootstrap(&mut self, now: Instant) {
        let Some(at) = self.bootstrap_notice_at else {
            return;
        };
        let answered = self.cluster.is_bootstrapped();
        if !answered && now < at && !self.cluster.has_tried_bootstrap() {
            return;
        }
        self.bootstrap_notice_at = None;
        if !answered
            && !self
                .cluster
                .fatal_error()
                .is_some_and(|error| error.is_fatal())
        {
            log::emit(Logger::Network, Level::Warning, || {
                format!(
                    "client {}: {}. The client keeps trying",
                    self.connections.client_id(),
                    no_brokers(&self.cluster)
                )
            });
        }
    }

    fn tell_warnings(&mut self) {
        while let Some(message) = self.role.poll_warning() {
            log::emit(Logger::named(R::LOGGER), Level::Warning, || message);
        }
    }

    /// Logs events of connections, and drops the outbox of an ended one.
    fn note(&mut self, event: &Event) {
        let (conn, what, error) = match event {
            Event::ConnectFailed { conn, error } => (conn, "failed", error),
            Event::Disconnected { conn, error } => (conn, "was lost", error),
            _ => return,
        };
        self.connections.forget(*conn);
        let level = if error.is_fatal() {
            Level::Error
        } else if !self.cluster.is_bootstrapped() {
            // One warning reports all of them together.
            Level::Info
        } else {
            Level::Warning
        };
        if log::is_enabled(Logger::Network, level) {
            let connection = self.connection_in_words(*conn);
            let problem = format!("{connection} {what}: {}", error.problem());
            if self.repeated.is_news(&problem, clock::now()) {
                log::emit(Logger::Network, level, || {
                    format!("{connection} {what}: {error}")
                });
            }
        }
    }

    /// Describes a connection for the log: its client and where it leads.
    fn connection_in_words(&self, conn: ConnectionId) -> String {
        let client = self.connections.client_id();
        match self.cluster.place_of(conn) {
            None => format!("client {client}: a connection"),
            Some((node, address)) if node < 0 => {
                format!("client {client}: the connection to bootstrap address {address}")
            }
            Some((node, address)) => {
                format!("client {client}: the connection to node {node} at {address}")
            }
        }
    }

    fn hand_out_responses(&mut self, now: Instant, now_ms: i64) {
        while let Some((id, result)) = self.cluster.poll_response() {
            let Some(sent) = self.sent.remove(&id) else {
                self.role
                    .on_response(id, result, &mut self.cluster, now, now_ms);
                continue;
            };
            self.pending.extend(sent.answered(result, now));
        }
    }

    fn advance_pending(&mut self, now: Instant) {
        for pending in std::mem::take(&mut self.pending) {
            match pending.advance(&mut self.cluster, now) {
                Step::Wait(pending) => self.pending.push(pending),
                Step::Sent(id, sent) => {
                    self.sent.insert(id, sent);
                }
                Step::Done => {}
            }
        }
        // The caller's deadline may pass before the connection's. The response is then dropped.
        let late: Vec<RequestId> = self
            .sent
            .iter()
            .filter(|(_, sent)| now >= sent.deadline())
            .map(|(&id, _)| id)
            .collect();
        for id in late {
            if let Some(sent) = self.sent.remove(&id) {
                sent.forget();
            }
        }
    }

    /// Carries out the cluster's actions. Returns whether there were any.
    fn carry_out(&mut self) -> bool {
        let mut acted = false;
        while let Some(action) = self.cluster.poll_action() {
            acted = true;
            match action {
                Action::Connect {
                    conn,
                    host,
                    port,
                    address,
                    ..
                } => {
                    log::emit(Logger::Network, Level::Debug, || {
                        format!("{}: opening", self.connection_in_words(conn))
                    });
                    self.connections.open(conn, Address { host, port }, address);
                }
                Action::Write { conn, frame } => self.connections.write(conn, frame),
                Action::Reauthenticate { conn } => {
                    log::emit(Logger::Network, Level::Debug, || {
                        format!("{}: authenticating again", self.connection_in_words(conn))
                    });
                    self.connections.reauthenticate(conn);
                }
                Action::Close { conn } => self.connections.close(conn),
            }
        }
        acted
    }

    fn start_jobs(&mut self) -> bool {
        let mut started = false;
        let pool = Runtime::existing()
            .map(Runtime::codec)
            .filter(|_| !self.inline_jobs);
        let limit = pool.map_or(usize::MAX, CodecPool::jobs_max_per_client);
        while self.jobs_running < limit {
            let Some(job) = self.role.poll_job() else {
                break;
            };
            started = true;
            self.jobs_running += 1;
            let Some(pool) = pool else {
                self.results.push(caught(|| job.run()));
                continue;
            };
            let results = Arc::clone(&self.results);
            let notifier = Arc::clone(self.inbox.notifier());
            let client = Arc::as_ptr(&self.results).addr();
            pool.submit(client, move || {
                results.push(caught(|| job.run()));
                notifier.notify();
            });
        }
        started
    }

    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let pending = self.pending.iter().map(|pending| pending.deadline).min();
        let sent = self.sent.values().map(SentRequest::deadline).min();
        [
            self.cluster.next_deadline(now),
            self.role.next_deadline(now),
            pending,
            sent,
            self.closing,
            self.bootstrap_notice_at,
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn start_closing(&mut self, deadline: Instant, now: Instant) {
        let deadline = self
            .closing
            .map_or(deadline, |earlier| earlier.min(deadline));
        self.closing = Some(deadline);
        self.role.close(deadline, &mut self.cluster, now);
    }

    /// Ends the client if the role has finished or the deadline has passed.
    fn close_if_done(&mut self, deadline: Instant, now: Instant) -> bool {
        let done = self.role.is_closed() && self.jobs_running == 0;
        if !done && now < deadline {
            return false;
        }
        self.shut_down(now);
        true
    }

    fn shut_down(&mut self, now: Instant) {
        self.inbox.set_closed();
        self.cluster.close(now);
        self.hand_out_responses(now, self.wall_clock.now_ms(now));
        self.role.abort(now);
        self.let_go();
    }

    /// Ends the client after a panic. Each step is caught separately, because the role or cluster
    /// may panic again.
    fn fail(&mut self, reason: &str) {
        // First, because whatever is dropped from here on reports this error.
        self.inbox.ending().fail(reason);
        self.inbox.set_closed();
        let error = self.inbox.ending().error();
        log::emit(Logger::named(R::LOGGER), Level::Error, || error.to_string());
        let now = clock::now();
        let _ = caught(|| self.role.fail(&error.to_string(), now));
        let _ = caught(|| self.cluster.close(now));
        self.let_go();
    }

    /// Closes connections and drops the requests of other threads, which get the reason why the
    /// client ended.
    fn let_go(&mut self) {
        self.connections.close_all();
        self.pending.clear();
        self.sent.clear();
    }
}

impl<R: Role> Drop for Actor<R> {
    /// Also runs when the runtime shuts down or its thread panics: threads that wait must get an
    /// error.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.fail("the I/O thread panicked");
        } else if !self.cluster.is_closed() {
            self.shut_down(clock::now());
        }
        self.inbox.end();
        let _ = caught(|| self.role.ended());
        self.calls.clear();
        self.cluster.shared_metadata().wake();
    }
}

/// Sleeps until a notification or the deadline. Returns false if it did not sleep, because a
/// notification had already come.
async fn park(notifier: &Notifier, sleep: &mut Pin<Box<Sleep>>, deadline: Instant) -> bool {
    let deadline = tokio::time::Instant::from_std(deadline);
    if sleep.deadline() != deadline {
        sleep.as_mut().reset(deadline);
    }
    let mut parked = false;
    poll_fn(|cx| {
        if sleep.as_mut().poll(cx).is_ready() || parked {
            return Poll::Ready(parked);
        }
        if !notifier.park(cx.waker()) {
            return Poll::Ready(false);
        }
        parked = true;
        Poll::Pending
    })
    .await
}
