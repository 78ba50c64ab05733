//! The interface between a client's actor and the core that it drives.

use std::time::Instant;

use crate::cluster::Cluster;
use crate::error::RequestError;
use crate::request::{RequestId, ResponseBody};

/// CPU-heavy work (compression, checksums, decompression) that a codec thread runs.
///
/// Put reusable contexts into a `thread_local!`: the pool's threads live as long as the process.
/// Jobs may finish in any order, so a role that needs an order restores it itself.
pub trait Job: Send + 'static {
    type Output: Send + 'static;
    fn run(self) -> Self::Output;
}

/// The job type of roles without codec work.
#[derive(Debug)]
pub enum NoJob {}

impl Job for NoJob {
    type Output = Self;
    fn run(self) -> Self {
        self
    }
}

/// A core that a client's actor drives: the producer's sender, the consumer's fetcher, or [`Idle`].
///
/// One turn of the actor: it passes events to the cluster, calls [`Cluster::poll`], passes
/// responses to `on_response` and finished jobs to `job_done`, then calls `poll`, then carries out
/// actions and jobs until none is left. Then it sleeps until an event, a notification, or the
/// earlier of the two `next_deadline`s.
pub trait Role: Send + 'static {
    type Job: Job;

    /// Its warnings go to the logger `thalweg.<name>`.
    const LOGGER: &'static str;

    /// Does what is due: sends requests by [`Cluster::send`] and expires what is too old.
    fn poll(&mut self, cluster: &mut Cluster, now: Instant, now_ms: i64);

    /// Takes the response to a request that this role sent, or the error that replaces it.
    fn on_response(
        &mut self,
        id: RequestId,
        result: Result<ResponseBody, RequestError>,
        cluster: &mut Cluster,
        now: Instant,
        now_ms: i64,
    );

    /// When `poll` must be called again at the latest.
    fn next_deadline(&self, now: Instant) -> Option<Instant>;

    /// Returns work for a codec thread. The actor calls it until it returns `None` or the pool is
    /// full.
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

    /// Returns a line for the application's log, as a core has no logger. The actor calls it after
    /// `poll` until it returns `None`.
    fn poll_warning(&mut self) -> Option<String>;

    /// Starts closing: take nothing new, and finish what can be finished before `deadline`.
    fn close(&mut self, deadline: Instant, cluster: &mut Cluster, now: Instant) {
        let _ = (deadline, cluster, now);
    }

    /// Whether nothing is left to finish after `close`.
    fn is_closed(&self) -> bool {
        true
    }

    /// Fails all that is left, now: the deadline of `close` has passed, or the client ends.
    fn abort(&mut self, now: Instant) {
        let _ = now;
    }

    /// Fails all that is left, now, for a reason in the client itself and not in a broker.
    ///
    /// Called after a panic, perhaps of this role itself, so its state may be inconsistent.
    fn fail(&mut self, reason: &str, now: Instant) {
        let _ = reason;
        self.abort(now);
    }

    /// Called once the client reports itself as closed. Wakes the threads that looked just before
    /// that.
    fn ended(&mut self) {}
}

/// The role of admin clients, which only send single requests and have no core.
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
