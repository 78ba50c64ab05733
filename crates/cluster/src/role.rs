//! The seam between a client's actor and the core that it drives.

use std::time::Instant;

use crate::cluster::Cluster;
use crate::error::RequestError;
use crate::request::{RequestId, ResponseBody};

/// CPU-heavy work (compression, checksums, decompression) that a codec thread runs.
///
/// Contexts worth reusing belong in a `thread_local!`: the pool's threads live as long as the
/// process. Order among jobs is the role's own affair: they may finish in any order.
pub trait Job: Send + 'static {
    type Output: Send + 'static;
    fn run(self) -> Self::Output;
}

/// For roles without codec work.
#[derive(Debug)]
pub enum NoJob {}

impl Job for NoJob {
    type Output = Self;
    fn run(self) -> Self {
        self
    }
}

/// A core that a client's actor drives: the producer's sender, the consumer's fetcher, or none.
///
/// One turn of the actor: events into the cluster, [`Cluster::poll`], answers to `on_response`,
/// finished jobs to `job_done`, then `poll`, then actions and jobs out, until nothing is left; then
/// it sleeps until an event, a notification or the earlier of the two `next_deadline`s.
pub trait Role: Send + 'static {
    type Job: Job;

    /// The logger `thalweg.<name>` that its warnings are for.
    const LOGGER: &'static str;

    /// Does what is due: starts requests by [`Cluster::send`], expires what is too old.
    fn poll(&mut self, cluster: &mut Cluster, now: Instant, now_ms: i64);

    /// An answer (or its absence) to a request that this role sent.
    fn on_response(
        &mut self,
        id: RequestId,
        result: Result<ResponseBody, RequestError>,
        cluster: &mut Cluster,
        now: Instant,
        now_ms: i64,
    );

    /// When `poll` wants to be called again at the latest.
    fn next_deadline(&self, now: Instant) -> Option<Instant>;

    /// Work for a codec thread; called until it gives none, or until the pool is full.
    fn poll_job(&mut self) -> Option<Self::Job> {
        None
    }

    fn job_done(
        &mut self,
        output: <Self::Job as Job>::Output,
        cluster: &mut Cluster,
        now: Instant,
        now_ms: i64,
    ) {
        let _ = (output, cluster, now, now_ms);
    }

    /// A line for the application's log: a core has no logger. Called after `poll` until it gives
    /// none.
    fn poll_warning(&mut self) -> Option<String>;

    /// The application closes: take nothing new, finish what can be finished until `deadline`.
    fn close(&mut self, deadline: Instant, cluster: &mut Cluster, now: Instant) {
        let _ = (deadline, cluster, now);
    }

    /// After `close`: nothing is left to finish.
    fn is_closed(&self) -> bool {
        true
    }

    /// The deadline of `close` is over, or the client dies: fail all that is left, now.
    fn abort(&mut self, now: Instant) {
        let _ = now;
    }

    /// The client has failed for a reason that is in no broker: fail all that is left with it, now.
    ///
    /// Called after a panic, perhaps of this role itself: what it holds may be inconsistent.
    fn fail(&mut self, reason: &str, now: Instant) {
        let _ = reason;
        self.abort(now);
    }

    /// From here on the client says that it is closed: wake who looked just before.
    fn ended(&mut self) {}
}

/// No role of its own: admin clients, which only send single requests.
#[derive(Debug, Default)]
pub struct Idle;

impl Role for Idle {
    type Job = NoJob;

    const LOGGER: &'static str = "network";

    fn poll(&mut self, _: &mut Cluster, _: Instant, _: i64) {}

    fn on_response(
        &mut self,
        _: RequestId,
        _: Result<ResponseBody, RequestError>,
        _: &mut Cluster,
        _: Instant,
        _: i64,
    ) {
    }

    fn next_deadline(&self, _: Instant) -> Option<Instant> {
        None
    }

    fn poll_warning(&mut self) -> Option<String> {
        None
    }
}
