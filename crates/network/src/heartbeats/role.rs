//! A consumer's role: the fetcher, and the heartbeats of its membership.

use std::time::Instant;

use thalweg_cluster::{Cluster, RequestError, RequestId, ResponseBody, Role};
use thalweg_consumer::Fetcher;

use super::manager::HeartbeatManager;

type FetcherJob = <Fetcher as Role>::Job;

#[derive(Debug)]
pub(crate) struct ConsumerRole {
    pub(crate) fetcher: Fetcher,
    pub(crate) heartbeats: HeartbeatManager,
}

impl Role for ConsumerRole {
    const LOGGER: &'static str = Fetcher::LOGGER;
    type Job = FetcherJob;

    fn poll(&mut self, cluster: &mut Cluster, now: Instant, now_ms: i64) {
        self.heartbeats.poll(cluster, now);
        self.fetcher.poll(cluster, now, now_ms);
    }

    fn on_response(
        &mut self,
        id: RequestId,
        result: Result<ResponseBody, RequestError>,
        cluster: &mut Cluster,
        now: Instant,
        now_ms: i64,
    ) {
        if self.heartbeats.owns(id) {
            self.heartbeats.on_response(id, result, cluster, now);
        } else {
            self.fetcher.on_response(id, result, cluster, now, now_ms);
        }
    }

    fn next_deadline(&self, now: Instant) -> Option<Instant> {
        let heartbeats = self.heartbeats.next_deadline(now);
        let fetcher = self.fetcher.next_deadline(now);
        heartbeats.into_iter().chain(fetcher).min()
    }

    fn poll_job(&mut self) -> Option<FetcherJob> {
        self.fetcher.poll_job()
    }

    fn job_done(
        &mut self,
        output: <FetcherJob as thalweg_cluster::Job>::Output,
        cluster: &mut Cluster,
        now: Instant,
        now_ms: i64,
    ) {
        self.fetcher.job_done(output, cluster, now, now_ms);
    }

    fn poll_warning(&mut self) -> Option<String> {
        self.fetcher.poll_warning()
    }

    fn close(&mut self, deadline: Instant, cluster: &mut Cluster, now: Instant) {
        self.heartbeats.close();
        self.fetcher.close(deadline, cluster, now);
    }

    fn is_closed(&self) -> bool {
        self.fetcher.is_closed()
    }

    fn abort(&mut self, now: Instant) {
        self.fetcher.abort(now);
    }

    fn ended(&mut self) {
        self.fetcher.ended();
    }
}
