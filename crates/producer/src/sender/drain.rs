//! Makes requests from ready partitions. Each node that accepts a request gets one batch of each
//! partition, in rotating order, until the request is full.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use thalweg_cluster::{Cluster, NodeId, Outgoing, Purpose, RequestError};
use thalweg_protocol::{ApiKey, Uuid};

use crate::batch::chunk::Chunk;
use crate::config::Acks;
use crate::error::ProducerError;
use crate::metrics::SentBatch;
use crate::sender::Sender;
use crate::sender::batch::ProducerBatch;
use crate::sender::codec::CompressedBatch;
use crate::sender::partition::Readiness;
use crate::sender::request::{
    DrainedBatch, InFlightRequest, TOPIC_IDS_FROM, encode, sort, usable_version,
};
use crate::sync::lock;

impl Sender {
    pub(super) fn drain(&mut self, cluster: &mut Cluster, now: Instant) {
        let all = self.is_everything_urgent();
        let mut unavailable = BTreeSet::new();
        for node in self.nodes.waiting() {
            while all || self.nodes.get_mut(node).has_urgent() {
                if !cluster.is_ready(node, Purpose::Produce, now) {
                    let error = cluster.connection_error(node, Purpose::Produce);
                    let queue = self.nodes.get_mut(node);
                    queue.error = error;
                    let since = *queue.unready_since.get_or_insert(now);
                    let limit = self.config.partitioner_availability_timeout;
                    if !limit.is_zero() && now.duration_since(since) >= limit {
                        unavailable.insert(node);
                    }
                    break;
                }
                let queue = self.nodes.get_mut(node);
                (queue.unready_since, queue.error) = (None, None);
                let drained = self.collect(node, all, now);
                if drained.is_empty() {
                    break;
                }
                self.send(node, drained, cluster, now);
            }
        }
        if unavailable != self.unavailable {
            self.accumulator.set_unavailable(unavailable.clone());
            self.unavailable = unavailable;
        }
    }

    /// Collects one batch of each partition in the node's ring, as many as fit, starting where the
    /// last request ended. If the first batch alone exceeds the limit, it is sent alone.
    fn collect(&mut self, node: NodeId, all: bool, now: Instant) -> Vec<DrainedBatch> {
        let mut drained: Vec<DrainedBatch> = Vec::new();
        let mut bytes = 0;
        for _ in 0..self.nodes.get_mut(node).turns() {
            let Some(index) = self.nodes.pop(node, &mut self.partitions) else {
                break;
            };
            let rules = self.rules(index, now);
            let state = &mut self.partitions[index];
            let front = state.front();
            let readiness = state.readiness(&rules, front);
            let bytes_max = self.config.request_bytes_max();
            if !drained.is_empty() && bytes + state.next_len(front) > bytes_max {
                self.nodes
                    .unpop(index, state, node, readiness == Readiness::Urgent);
                break;
            }
            let may_go = match readiness {
                Readiness::Urgent => true,
                // The sticky partition fills up quickly. Taking it now would send a partial batch.
                Readiness::Lingering(_) => all || !state.is_sticky(),
                _ => false,
            };
            if let Some(batch) = may_go.then(|| self.take(index)).flatten() {
                bytes += batch.wire_len();
                let state = &self.partitions[index];
                drained.push(DrainedBatch {
                    index,
                    topic: Arc::clone(&state.topic),
                    topic_id: state.topic_id,
                    partition: state.partition,
                    batch,
                });
                // If it enters the ring again, then only once this batch is in flight.
            } else {
                self.reconsider(index, now);
            }
        }
        drained
    }

    /// Takes the partition's next batch and numbers it. Returns `None` if there is none, or if a
    /// codec thread has to compress it first.
    fn take(&mut self, index: usize) -> Option<ProducerBatch> {
        let compresses = self.compresses();
        let state = &mut self.partitions[index];
        let mut batch = if let Some(at) = state.next_retry() {
            state.retry.remove(at)?
        } else if state
            .prepared
            .front()
            .is_some_and(|prepared| prepared.is_ready)
        {
            state.prepared.pop_front()?.batch
        } else {
            let open = lock(&state.entry().queue).pop()?;
            if compresses {
                self.prepare(index, open);
                return None;
            }
            ProducerBatch::close_uncompressed(open)
        };
        if self.producer_id.is_enabled() && batch.sequence.is_none() {
            let state = &mut self.partitions[index];
            let current = state.sequences.producer().or(self.producer_id.known());
            let current = current.expect("a partition sends nothing before the producer has an id");
            batch.sequence = Some(state.sequences.assign(current, batch.records));
        }
        if let Some(manager) = &mut self.transactions {
            batch.transactional = true;
            manager.batch_leaves();
        }
        Some(batch)
    }

    fn send(
        &mut self,
        node: NodeId,
        mut drained: Vec<DrainedBatch>,
        cluster: &mut Cluster,
        now: Instant,
    ) {
        sort(&mut drained);
        let version = match self.produce_version(node, cluster) {
            Ok(version) => usable_version(version, &drained),
            Err(error) => return self.refuse(drained, &error.to_string(), now),
        };
        let timeout = self.config.request_timeout;
        let timeout_ms = i32::try_from(timeout.as_millis()).unwrap_or(i32::MAX);
        let id = self
            .transactions
            .as_ref()
            .map(|manager| manager.id().clone());
        let body = match encode(&mut drained, id, self.config.acks, timeout_ms, version) {
            Ok(body) => body,
            Err(error) => return self.refuse(drained, &error.to_string(), now),
        };
        self.count(&drained, now);
        let expects_response = self.config.acks != Acks::None;
        let outgoing = Outgoing {
            api_key: ApiKey::PRODUCE,
            version,
            body,
            timeout,
            expects_response,
        };
        let id = cluster.send(node, Purpose::Produce, outgoing, now);
        self.requests
            .insert(id, InFlightRequest::new(node, now, &drained));
        for DrainedBatch {
            index, mut batch, ..
        } in drained
        {
            let state = &mut self.partitions[index];
            batch.attempts += 1;
            batch.retry_at = None;
            batch.sent_to = Some(node);
            batch.sent_epoch = state.leader_epoch;
            let by_name =
                version < TOPIC_IDS_FROM || batch.attempts > 1 && batch.sent_topic_id == Uuid::ZERO;
            batch.sent_topic_id = if by_name { Uuid::ZERO } else { state.topic_id };
            state.in_flight.push_back(batch);
            self.reconsider(index, now);
        }
    }

    fn produce_version(&self, node: NodeId, cluster: &Cluster) -> Result<i16, RequestError> {
        match &self.transactions {
            None => cluster.require_version(node, ApiKey::PRODUCE),
            Some(manager) => {
                cluster.require_transactional_version(node, ApiKey::PRODUCE, manager.version())
            }
        }
    }

    /// Fails batches that can never be sent to this broker.
    fn refuse(&mut self, drained: Vec<DrainedBatch>, reason: &str, now: Instant) {
        for DrainedBatch { index, batch, .. } in drained {
            let state = &mut self.partitions[index];
            let error = batch.network_error(Arc::from(reason));
            self.outcomes.fail(&batch, error);
            state.give_up(&batch);
            self.reconsider(index, now);
        }
    }

    fn count(&self, drained: &[DrainedBatch], now: Instant) {
        let batches = drained
            .iter()
            .map(|DrainedBatch { topic, batch, .. }| SentBatch {
                topic: topic.name(),
                records: batch.records,
                bytes: batch.wire_len(),
                raw_bytes: batch.raw_bytes,
                section_bytes: batch.section_len(),
                record_bytes_max: batch.record_bytes_max,
                queued: now.saturating_duration_since(batch.created),
                is_retry: batch.attempts > 0,
            });
        self.accumulator.metrics().sent(batches, now);
    }

    /// Takes a batch back from a codec thread.
    pub(super) fn compressed(&mut self, done: CompressedBatch, now: Instant) {
        let state = &mut self.partitions[done.index];
        let Some(at) = state
            .prepared
            .iter()
            .position(|p| p.batch.order == done.order)
        else {
            // The batch expired or the producer was closed. Dropping the chunks returns them to the
            // pool.
            return;
        };
        match done.section {
            Ok(section) => {
                let ratio = section.compressed_bytes as f32 / section.raw_bytes.max(1) as f32;
                state.topic.ratio.observe(ratio);
                let prepared = &mut state.prepared[at];
                prepared.batch.codec = section.codec;
                prepared.batch.segments = section.chunks.into_iter().map(Chunk::freeze).collect();
                prepared.is_ready = true;
            }
            Err(reason) => {
                if let Some(prepared) = state.prepared.remove(at) {
                    let error = ProducerError::Codec {
                        topic: state.topic.name().clone(),
                        partition: state.partition,
                        reason,
                    };
                    self.outcomes.fail(&prepared.batch, error);
                }
            }
        }
        self.reconsider(done.index, now);
    }
}
