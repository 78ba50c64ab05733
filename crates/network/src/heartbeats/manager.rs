//! The I/O thread's half: sends what is due, reads responses, and watches the polls.
//!
//! ```text
//!   poll:  has the group admitted this member? ─▶ start
//!          is the application away too long? ─▶ leave, stop
//!          is a heartbeat due? ─▶ find the coordinator ─▶ send
//!   on_response:  quiet ─▶ only the schedule      notable ─▶ Notable and the schedule
//! ```

use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_cluster::{Backoff, Cluster, RequestError, RequestId, ResponseBody};
use thalweg_protocol::ErrorCode;
use thalweg_protocol::dynamic::Value;

use super::admissions::Admissions;
use super::metrics::HeartbeatMetrics;
use super::notable::Notable;
use super::poll_watch::PollWatch;
use super::request::ManagedRequest;
use super::response::{After, ResponseFields};
use super::schedule::Schedule;
use crate::client::{NamedRequest, RequestTarget, Response};
use crate::error::ClientError;
use crate::log::{self, Level, Logger};

/// The field with the member's epoch, in the APIs that have it.
const EPOCH: &str = "MemberEpoch";

/// What to repeat, and what to do when the application does not poll.
#[derive(Debug, Clone)]
pub struct HeartbeatPlan {
    pub target: RequestTarget,
    pub request: NamedRequest,
    pub interval: Duration,
    /// A coordinator that takes longer to respond is treated as dead, so that there is time to
    /// reach another one. `None`: the same limit as for any request.
    pub response_timeout: Option<Duration>,
    /// Sent once if the application does not poll. `None`: the member only stops its heartbeats.
    pub leave: Option<NamedRequest>,
    pub max_poll_interval: Duration,
}

/// What both threads of a consumer share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) notable: Notable,
    pub(super) poll_watch: PollWatch,
    pub(super) metrics: HeartbeatMetrics,
    pub(super) admissions: Admissions,
}

#[derive(Debug)]
pub(crate) struct HeartbeatManager {
    shared: Arc<Shared>,
    request_timeout: Duration,
    backoff: Backoff,
    order: Option<HeartbeatOrder>,
    heartbeat: Option<Heartbeat>,
    leave: Option<ManagedRequest>,
    closed: bool,
}

/// The last order from Python.
#[derive(Debug)]
struct HeartbeatOrder {
    generation: u64,
    plan: HeartbeatPlan,
    schedule: Schedule,
    /// The error of the last response, if it had one.
    failing: Option<ErrorCode>,
}

/// The heartbeat in flight. Its order may have been replaced since.
#[derive(Debug)]
struct Heartbeat {
    generation: u64,
    epoch: Option<i64>,
    request: ManagedRequest,
}

impl Heartbeat {
    /// Only heartbeats of the newer protocol have an epoch.
    fn is_classic(&self) -> bool {
        self.epoch.is_none()
    }
}

impl HeartbeatManager {
    pub(super) fn new(shared: Arc<Shared>, request_timeout: Duration, backoff: Backoff) -> Self {
        Self {
            shared,
            request_timeout,
            backoff,
            order: None,
            heartbeat: None,
            leave: None,
            closed: false,
        }
    }

    /// Starts heartbeats, or replaces the running ones.
    pub(super) fn start(&mut self, generation: u64, plan: HeartbeatPlan, now: Instant) {
        if self.closed {
            return;
        }
        let replaced = self.order.as_ref().map(|order| &order.schedule);
        let schedule = Schedule::start(plan.interval, replaced, now);
        self.order = Some(HeartbeatOrder {
            generation,
            plan,
            schedule,
            failing: None,
        });
        self.drop_unsent();
    }

    pub(super) fn stop(&mut self) {
        self.order = None;
        self.drop_unsent();
    }

    /// Drops unsent requests, which are outdated now. A member that joins again must not be made to
    /// leave.
    fn drop_unsent(&mut self) {
        self.heartbeat
            .take_if(|heartbeat| !heartbeat.request.is_sent());
        self.leave.take_if(|leave| !leave.is_sent());
    }

    /// Stops sending. Python decides whether to leave the group.
    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.order = None;
        self.drop_unsent();
    }

    pub(crate) fn poll(&mut self, cluster: &mut Cluster, now: Instant) {
        if let Some((generation, plan)) = self.shared.admissions.take()
            && self.shared.notable.is_current(generation)
        {
            self.start(generation, plan, now);
        }
        if self.overdue_at(now).is_some_and(|at| at <= now) {
            self.expire(now);
        }
        if let Some(leave) = &mut self.leave {
            leave.advance(cluster, now);
            // No call waits for the outcome. If the request is lost, the broker removes the member
            // after its session timeout.
            if leave.outcome().is_some() {
                self.leave = None;
            }
        }
        self.begin(now);
        self.advance(cluster, now);
    }

    /// Returns when the application will have been away from poll too long.
    fn overdue_at(&self, now: Instant) -> Option<Instant> {
        let limit = self.order.as_ref()?.plan.max_poll_interval;
        Some(self.shared.poll_watch.overdue_at(limit, now))
    }

    fn expire(&mut self, now: Instant) {
        let Some(order) = self.order.take() else {
            return;
        };
        let Shared {
            notable,
            poll_watch,
            ..
        } = &*self.shared;
        // One step: the watch that a simultaneous new order has started must continue.
        if !notable.expire(order.generation, || poll_watch.unwatch()) {
            // The application is back and has given a new order, which has yet to arrive. This one
            // is over.
            return;
        }
        self.drop_unsent();
        let HeartbeatPlan {
            target,
            leave,
            max_poll_interval,
            ..
        } = order.plan;
        log::emit(Logger::Consumer, Level::Warning, || {
            expired(max_poll_interval, leave.is_some())
        });
        self.leave = leave.map(|leave| {
            ManagedRequest::new(leave.into_request(target), self.request_timeout, now)
        });
    }

    /// Makes the next heartbeat if it is due and none is in flight.
    fn begin(&mut self, now: Instant) {
        let Some(order) = &mut self.order else { return };
        if self.heartbeat.is_some() || !order.schedule.is_due(now) {
            return;
        }
        order.schedule.asked(now);
        let request = order.plan.request.clone();
        let limit = order.plan.response_timeout.unwrap_or(self.request_timeout);
        self.heartbeat = Some(Heartbeat {
            generation: order.generation,
            epoch: request.int(EPOCH),
            request: ManagedRequest::new(
                request.into_request(order.plan.target.clone()),
                limit.min(self.request_timeout),
                now,
            ),
        });
    }

    fn advance(&mut self, cluster: &mut Cluster, now: Instant) {
        let Some(heartbeat) = &mut self.heartbeat else {
            return;
        };
        if !heartbeat.request.is_sent() {
            if !self.shared.notable.begin(heartbeat.generation) {
                self.heartbeat = None; // the order that replaces it is in flight
                return;
            }
            heartbeat.request.advance(cluster, now);
            if heartbeat.request.is_sent() {
                self.shared.metrics.sent(now);
                if let Some(order) = &mut self.order {
                    order.schedule.sent(now);
                }
            } else {
                self.shared.notable.end();
            }
        }
        self.conclude(cluster, now);
    }

    pub(crate) fn owns(&self, id: RequestId) -> bool {
        let heartbeat = self.heartbeat.iter().map(|heartbeat| &heartbeat.request);
        heartbeat.chain(&self.leave).any(|request| request.owns(id))
    }

    /// Handles the response to a request that it [owns](Self::owns).
    pub(crate) fn on_response(
        &mut self,
        id: RequestId,
        result: Result<ResponseBody, RequestError>,
        cluster: &mut Cluster,
        now: Instant,
    ) {
        if self.leave.take_if(|leave| leave.owns(id)).is_some() {
            return;
        }
        if let Some(heartbeat) = &mut self.heartbeat {
            heartbeat.request.answered(result, now);
        }
        self.conclude(cluster, now);
    }

    /// Takes the outcome of the heartbeat in flight, if there is one.
    fn conclude(&mut self, cluster: &mut Cluster, now: Instant) {
        let Some(outcome) = self.heartbeat.as_ref().and_then(|it| it.request.outcome()) else {
            return;
        };
        let Some(heartbeat) = self.heartbeat.take() else {
            return;
        };
        self.settle(&heartbeat, outcome, cluster, now);
        self.shared.notable.end();
    }

    fn settle(
        &mut self,
        heartbeat: &Heartbeat,
        outcome: Result<Response, ClientError>,
        cluster: &mut Cluster,
        now: Instant,
    ) {
        if self.closed {
            return;
        }
        let outcome = outcome.and_then(|response| {
            let sent_at = heartbeat.request.sent_at.unwrap_or(now);
            let took = now.saturating_duration_since(sent_at);
            self.shared.metrics.answered(took, now);
            response.decode_by_name()
        });
        match outcome {
            Ok(body) => self.answered(heartbeat, body, cluster, now),
            Err(error) => self.failed(heartbeat, error, now),
        }
    }

    fn answered(
        &mut self,
        heartbeat: &Heartbeat,
        body: Value,
        cluster: &mut Cluster,
        now: Instant,
    ) {
        let response = ResponseFields::read(&body);
        let after = response.after(heartbeat.is_classic());
        let mut repeated = false;
        if let Some(order) = of_generation(&mut self.order, heartbeat.generation) {
            match after {
                After::GoOn => {
                    order.schedule.answered(response.interval, now);
                    order.adopt(&response);
                }
                After::TryAgain { look_up } => {
                    // A lasting error is reported once, not after each attempt.
                    repeated = order.failing == Some(response.code);
                    order.schedule.retry(&mut self.backoff, now);
                    if let (true, RequestTarget::Coordinator { kind, key }) =
                        (look_up, &order.plan.target)
                    {
                        cluster.invalidate_coordinator(*kind, key, now);
                    }
                }
                After::Pause => order.schedule.pause(),
            }
            order.failing = Some(response.code).filter(|code| code.is_error());
        }
        if !repeated && !response.is_quiet(heartbeat.epoch) {
            self.shared.notable.tell(heartbeat.generation, Ok(body));
        }
    }

    fn failed(&mut self, heartbeat: &Heartbeat, error: ClientError, now: Instant) {
        if let Some(order) = of_generation(&mut self.order, heartbeat.generation) {
            // Retry: the cluster no longer takes an unreachable node for the coordinator, and the
            // password may be corrected before the session ends.
            if error.is_retriable() || error.is_refused_login() || heartbeat.is_classic() {
                order.schedule.retry(&mut self.backoff, now);
            } else {
                order.schedule.pause();
            }
        }
        self.shared.notable.tell(heartbeat.generation, Err(error));
    }

    pub(crate) fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let due = match &self.heartbeat {
            None => self.order.as_ref().and_then(|it| it.schedule.due_at()),
            Some(heartbeat) => heartbeat.request.deadline(),
        };
        let leave = self.leave.as_ref().and_then(ManagedRequest::deadline);
        let overdue = self.overdue_at(now);
        [due, leave, overdue].into_iter().flatten().min()
    }
}

impl HeartbeatOrder {
    /// Takes over a higher epoch from the coordinator. It would refuse a heartbeat with the
    /// previous epoch, and Python may be too busy to update it for long.
    fn adopt(&mut self, response: &ResponseFields) {
        if let (Some(epoch), Some(old)) = (response.epoch, self.plan.request.int(EPOCH))
            && epoch > old
        {
            self.plan.request.set(EPOCH, &Value::Int(epoch));
        }
    }
}

fn of_generation(
    order: &mut Option<HeartbeatOrder>,
    generation: u64,
) -> Option<&mut HeartbeatOrder> {
    order
        .as_mut()
        .filter(|order| order.generation == generation)
}

fn expired(limit: Duration, leaves: bool) -> String {
    let consequence = if leaves {
        "so this member leaves the group, and its partitions go to other members"
    } else {
        "so this member sends no more heartbeats. After its session timeout, its partitions go to \
         other members"
    };
    format!(
        "the application has not called poll for max_poll_interval_ms ({} ms), {consequence}. The \
         next poll joins again. If processing takes that long, raise max_poll_interval_ms, or \
         lower max_poll_records so that a poll returns fewer records",
        limit.as_millis()
    )
}
