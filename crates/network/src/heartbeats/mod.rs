//! A group member's heartbeats and the watch over its polls. Both are on the I/O thread, so that
//! they continue whatever Python does.
//!
//! ```text
//!   Python                          shared                    the I/O thread
//!   ──────                          ──────                    ──────────────
//!   start, stop ───────────── calls, by generation ────────▶ HeartbeatManager ──▶ coordinator
//!   join ────────────────── its response ──▶ Admissions ───▶   │
//!   poll: enter ... return ──▶ PollWatch (one atomic) ─────▶   │ Schedule: when the next is due
//!   take_notable ◀──────────── Notable ◀───────────────────────┘ ResponseFields: their meaning
//! ```
//!
//! This module knows when to send the requests it was given, and which responses say nothing new.
//! What new information means for the membership, and what to send then, is decided by the
//! coordinator's member in Python.

mod admissions;
mod manager;
mod metrics;
mod notable;
mod poll_watch;
mod request;
mod response;
mod role;
mod schedule;

use std::sync::Arc;
use std::time::Instant;

use thalweg_cluster::Backoff;
use thalweg_cluster::metrics::MetricGroup;
use thalweg_consumer::{Consumer, ConsumerConfig};

pub use manager::HeartbeatPlan;
pub use notable::{HeartbeatNews, HeartbeatOutcome};
pub use poll_watch::{PollWatch, Polling};
pub(crate) use role::ConsumerRole;

use admissions::Admissions;
use manager::{HeartbeatManager, Shared};
use metrics::HeartbeatMetrics;
use notable::{Notable, Reentry};

use crate::client::{Client, Request, Response, Ticket};
use crate::clock;

/// A different salt than for the fetcher's backoffs, which use the same seed.
const SEED_SALT: u64 = 0x4845_4152_5442;

/// The application's half.
#[derive(Debug)]
pub(crate) struct Heartbeats {
    shared: Arc<Shared>,
    reentry: Reentry,
}

impl Heartbeats {
    /// Makes both halves.
    pub(crate) fn new(consumer: &Arc<Consumer>) -> (Self, HeartbeatManager) {
        let reentry = Reentry::new(Arc::clone(consumer));
        let ConsumerConfig {
            metrics,
            request_timeout,
            retry_backoff,
            retry_backoff_max,
            seed,
            ..
        } = *consumer.config();
        let shared = Arc::new(Shared {
            notable: Notable::new(reentry.clone()),
            poll_watch: PollWatch::new(),
            metrics: HeartbeatMetrics::new(metrics),
            admissions: Admissions::default(),
        });
        let backoff = Backoff::new(retry_backoff, retry_backoff_max, seed ^ SEED_SALT);
        let manager = HeartbeatManager::new(Arc::clone(&shared), request_timeout, backoff);
        (Self { shared, reentry }, manager)
    }

    pub(crate) fn reentry(&self) -> &Reentry {
        &self.reentry
    }

    pub(crate) fn poll_watch(&self) -> &PollWatch {
        &self.shared.poll_watch
    }

    pub(crate) fn start(&self, client: &Client<ConsumerRole>, plan: HeartbeatPlan) {
        let generation = self.renew_and_watch();
        // Nothing waits for these calls: a closed client needs no heartbeats.
        drop(client.call(move |role, _, now| role.heartbeats.start(generation, plan, now)));
    }

    /// Sends a `JoinGroup`. Its response starts the heartbeats, unless another order comes before
    /// that.
    pub(crate) fn join(
        &self,
        client: &Client<ConsumerRole>,
        mut request: Request,
        plan: HeartbeatPlan,
    ) -> Ticket<Response> {
        let generation = self.renew_and_watch();
        drop(client.call(|role, _, _| role.heartbeats.stop()));
        let shared = Arc::clone(&self.shared);
        request.on_response = Some(Box::new(move |response| {
            // A response to an outdated order must not replace the response to a later one.
            if shared.notable.is_current(generation) {
                shared.admissions.note(generation, plan, response);
            }
        }));
        client.view().request(request)
    }

    pub(crate) fn stop(&self, client: &Client<ConsumerRole>) {
        let Shared {
            notable,
            poll_watch,
            ..
        } = &*self.shared;
        notable.renew(|| poll_watch.unwatch());
        drop(client.call(|role, _, _| role.heartbeats.stop()));
    }

    fn renew_and_watch(&self) -> u64 {
        let Shared {
            notable,
            poll_watch,
            ..
        } = &*self.shared;
        notable.renew(|| poll_watch.watch(clock::now()))
    }

    pub(crate) fn take_notable(&self) -> Vec<HeartbeatNews> {
        self.shared.notable.take()
    }

    pub(crate) fn is_old_in_flight(&self) -> bool {
        self.shared.notable.is_old_in_flight()
    }

    pub(crate) fn take_expired(&self) -> bool {
        self.shared.notable.take_expired()
    }

    pub(crate) fn metrics(&self, now: Instant) -> MetricGroup {
        self.shared.metrics.snapshot(now)
    }
}
