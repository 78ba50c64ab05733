//! Handles the response to a request, or its absence, for each batch of the request.
//!
//! | response | what happens |
//! |---|---|
//! | no error, `DUPLICATE_SEQUENCE_NUMBER` | written |
//! | too large, several records | split, and the pieces are sent |
//! | out of order | waits for earlier batches; the oldest is not written: there is a gap |
//! | out of order, and possibly written | written if a later one is, else the leader is searched |
//! | unknown producer | if it is the oldest, there is a gap; if possibly written, it fails |
//! | out of order, in a transaction | if it is the oldest, it fails, and the transaction with it |
//! | retriable | sent again after a backoff, at once if there is a new leader |
//! | no response | like retriable, but the batch may have been written |
//! | anything else | failed; later batches start a new epoch |

use std::sync::Arc;
use std::time::{Duration, Instant};

use thalweg_cluster::metadata::LeaderHint;
use thalweg_cluster::{Cluster, Node, Purpose, RequestError, ResponseBody};
use thalweg_protocol::messages::produce::{
    PartitionProduceResponse, ProduceRequest, ProduceResponse,
};
use thalweg_protocol::planted::{Bug, is_planted};
use thalweg_protocol::{ApiKey, ErrorCode, Str};

use crate::batch::completion::{Failure, Written};
use crate::config::Acks;
use crate::error::ProducerError;
use crate::idempotence::means_not_written;
use crate::sender::Sender;
use crate::sender::batch::ProducerBatch;
use crate::sender::codec::{CodecJob, Work};
use crate::sender::partition::SenderPartition;
use crate::sender::request::{InFlightBatch, InFlightRequest};
use crate::sender::split::{SplitBatch, SplitJob};

/// Under version 2 of the protocol the broker itself adds the partition to the transaction. It may
/// find that the markers of the last transaction are still being written, which takes only a
/// moment.
const CONCURRENT_TRANSACTIONS_BACKOFF: Duration = Duration::from_millis(20);

/// Why an attempt failed.
#[derive(Debug)]
struct Trouble {
    /// [`ErrorCode::NONE`] if the error is not from a broker.
    code: ErrorCode,
    reason: Arc<str>,
    retriable: bool,
    /// Set if the batch may be in the log.
    maybe_written: bool,
    invalid_records: Vec<(u32, Option<Str>)>,
}

impl Sender {
    pub(super) fn produce_answered(
        &mut self,
        request: &InFlightRequest,
        result: Result<ResponseBody, RequestError>,
        cluster: &mut Cluster,
        now: Instant,
    ) {
        let metrics = Arc::clone(self.accumulator.metrics());
        metrics.request_done();
        let body = match result {
            Ok(body) => body,
            Err(error) => return self.no_response(request, &Trouble::from(&error), now),
        };
        if self.config.acks == Acks::None {
            return self.handed_over(request, now);
        }
        metrics.answered(now.saturating_duration_since(request.sent_at), now);
        let response = match body.decode::<ProduceRequest>() {
            Ok(response) => response,
            Err(error) => {
                let reason = format!("unreadable response to Produce: {error}");
                return self.no_response(request, &Trouble::unanswered(&reason), now);
            }
        };
        metrics.throttled(response.throttle_time_ms, now);
        cluster.throttle(
            request.node,
            Purpose::Produce,
            response.throttle_time_ms,
            now,
        );
        let mut refused = Vec::new();
        for (sent, told) in request.matched(&response) {
            let Some(told) = told else {
                let trouble =
                    Trouble::unanswered("the response to Produce does not contain the partition");
                self.failed(sent, trouble, now);
                continue;
            };
            let code = ErrorCode(told.error_code);
            if code.is_ok() || code == ErrorCode::DUPLICATE_SEQUENCE_NUMBER {
                self.written(sent, told, now);
                continue;
            }
            let trouble = self.explained(sent, Trouble::from(told));
            self.failed(sent, trouble, now);
            if code.is_invalid_metadata() {
                refused.push((sent.index, told));
            }
        }
        // A leader named in the response is as good as new metadata (KIP-951).
        let news = self.learn_leaders(&refused, &response, cluster);
        if news < refused.len() {
            cluster.request_update();
        }
        for (index, _) in refused {
            self.look_up_leader(index, cluster);
            self.reconsider(index, now);
        }
    }

    /// Completes the batches of a request with acks=0: the socket has accepted its last byte.
    fn handed_over(&mut self, request: &InFlightRequest, now: Instant) {
        for sent in request.batches() {
            if let Some(batch) = self.partitions[sent.index].take_in_flight(sent) {
                if !batch.abandoned {
                    self.outcomes.succeed(
                        &batch,
                        Written {
                            base_offset: -1,
                            log_append_time_ms: None,
                        },
                    );
                }
                self.reconsider(sent.index, now);
            }
        }
    }

    fn no_response(&mut self, request: &InFlightRequest, trouble: &Trouble, now: Instant) {
        for sent in request.batches() {
            self.failed(sent, trouble.again(), now);
        }
    }

    fn written(&mut self, sent: InFlightBatch, told: &PartitionProduceResponse, now: Instant) {
        let state = &mut self.partitions[sent.index];
        let Some(batch) = state.take_in_flight(sent) else {
            return;
        };
        // A duplicate of a batch that the broker no longer remembers has no offset.
        let known = told.error_code == ErrorCode::NONE.0;
        if let Some(sequence) = batch.sequence {
            let at = Some(told.base_offset).filter(|&at| known && at >= 0);
            state
                .sequences
                .acknowledge(sequence, batch.records, sent.order, at, now);
        }
        if state.is_searching() {
            let before = state.found(sent.order);
            self.outcomes.settle_unseen(state, &before);
        }
        if !batch.abandoned {
            let append_time = Some(told.log_append_time_ms).filter(|&ms| known && ms >= 0);
            let base_offset = if known { told.base_offset } else { -1 };
            self.outcomes.succeed(
                &batch,
                Written {
                    base_offset,
                    log_append_time_ms: append_time,
                },
            );
        }
        self.reconsider(sent.index, now);
    }

    /// Passes all leaders that a response names to the cluster. Returns how many were new.
    fn learn_leaders(
        &self,
        refused: &[(usize, &PartitionProduceResponse)],
        response: &ProduceResponse,
        cluster: &mut Cluster,
    ) -> usize {
        let hint = |&(index, told): &(usize, &PartitionProduceResponse)| {
            let leader = &told.current_leader;
            let state: &SenderPartition = &self.partitions[index];
            (leader.leader_id >= 0 && leader.leader_epoch >= 0).then(|| LeaderHint {
                topic: state.topic.name().clone(),
                partition: state.partition,
                leader: leader.leader_id,
                leader_epoch: leader.leader_epoch,
            })
        };
        let hints: Vec<LeaderHint> = refused.iter().filter_map(hint).collect();
        let endpoints = response.node_endpoints.iter().map(|node| Node {
            id: node.node_id,
            host: node.host.clone(),
            port: u16::try_from(node.port).unwrap_or(0),
            rack: node.rack.clone(),
        });
        cluster.update_leaders(&hints, &endpoints.collect::<Vec<_>>())
    }

    /// Handles the failure of one batch of a request.
    /// Adds to a refusal what to grant.
    fn explained(&self, sent: InFlightBatch, mut trouble: Trouble) -> Trouble {
        let topic = self.partitions[sent.index].topic.name();
        let (api, code) = (ApiKey::PRODUCE, trouble.code);
        if matches!(
            code,
            ErrorCode::TOPIC_AUTHORIZATION_FAILED | ErrorCode::CLUSTER_AUTHORIZATION_FAILED
        ) {
            let principal = &self.config.principal;
            trouble.reason = Arc::from(principal.explained(&trouble.reason, api, code, topic));
        }
        trouble
    }

    fn failed(&mut self, sent: InFlightBatch, trouble: Trouble, now: Instant) {
        let state = &mut self.partitions[sent.index];
        let Some(mut batch) = state.take_in_flight(sent) else {
            return;
        };
        if trouble.maybe_written {
            batch.maybe_written |= !state.is_behind_gap(sent.order);
        } else if batch.attempts == 1 {
            // The result of its only attempt is known now.
            batch.maybe_written = false;
            batch.in_doubt_under = None;
        }
        batch.last_error = Some(Arc::clone(&trouble.reason));
        let refused_for_place = trouble.code == ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER;
        if batch.abandoned || !refused_for_place {
            state.cancel_search();
        }
        let is_proven = batch.maybe_written && state.sequences.is_proven(sent.order);
        if refused_for_place && is_proven && !batch.abandoned {
            // The broker has a later batch, and since a restart it remembers only that one.
            self.outcomes.succeed_unseen(std::slice::from_ref(&batch));
        } else if refused_for_place && state.sequences.is_cut_off(sent.order) && !batch.abandoned {
            self.outcomes
                .settle_unseen(state, std::slice::from_ref(&batch));
        } else if batch.abandoned {
            self.partitions[sent.index].give_up(&batch);
        } else if is_too_large(trouble.code) && batch.records > 1 {
            self.split(sent.index, batch);
        } else if self.may_retry(&mut batch, &trouble, sent.index, now) {
            self.retry(sent.index, batch, &trouble, now);
        } else {
            let failure = Failure {
                error: batch.error(&trouble),
                invalid_records: trouble.invalid_records,
            };
            self.outcomes.fail(&batch, failure);
            self.partitions[sent.index].give_up(&batch);
        }
        self.reconsider(sent.index, now);
    }

    fn may_retry(
        &mut self,
        batch: &mut ProducerBatch,
        trouble: &Trouble,
        index: usize,
        now: Instant,
    ) -> bool {
        let too_old = now.duration_since(batch.created) >= self.config.delivery_timeout;
        if too_old || batch.attempts > self.config.retries {
            return false;
        }
        let out_of_order = trouble.code == ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER;
        let unknown_producer = trouble.code == ErrorCode::UNKNOWN_PRODUCER_ID;
        let lost_place = batch.sequence.is_some() && (out_of_order || unknown_producer);
        let state = &mut self.partitions[index];
        if batch.transactional && lost_place && state.is_oldest(batch.order) {
            // A batch of this transaction is missing before this one, so it can only be aborted.
            return false;
        }
        if lost_place && state.is_searching() {
            batch.ruled_out = true;
        } else if lost_place && state.is_oldest(batch.order) {
            // No earlier batch is open, so the log lacks one. If an earlier attempt of this batch
            // still arrives, the next epoch fences it.
            if !batch.maybe_written || is_planted(Bug::Renumbered) {
                state.break_off(batch.order);
            } else if unknown_producer || !state.start_search(batch) {
                state.break_off_in_doubt();
            }
        }
        lost_place || trouble.retriable
    }

    fn retry(&mut self, index: usize, mut batch: ProducerBatch, trouble: &Trouble, now: Instant) {
        let out_of_order = trouble.code == ErrorCode::OUT_OF_ORDER_SEQUENCE_NUMBER;
        // An out-of-order batch waits for the batches before it, not for a backoff.
        let waits = !(out_of_order && batch.sequence.is_some());
        let attempts = batch.attempts.saturating_sub(1);
        let backoff = if trouble.code == ErrorCode::CONCURRENT_TRANSACTIONS {
            CONCURRENT_TRANSACTIONS_BACKOFF
        } else {
            self.backoff.after(attempts)
        };
        batch.retry_at = waits.then(|| now + backoff);
        self.partitions[index].put_back(batch);
    }

    /// Has a codec thread split the batch (KIP-126). Until then it keeps its position, and no batch
    /// of the partition overtakes it.
    fn split(&mut self, index: usize, mut batch: ProducerBatch) {
        let state = &mut self.partitions[index];
        state.topic.ratio.reset(1.0);
        let (codec, level) = (self.config.compression, self.config.compression_level);
        let job = SplitJob::new(index, &batch, self.config.batch_size, codec, level);
        self.jobs.push_back(CodecJob(Work::Split(job)));
        batch.is_being_split = true;
        batch.split_in_doubt |= batch.maybe_written;
        state.put_back(batch);
    }

    /// Replaces a batch by its pieces. Each piece keeps its part of the sequences.
    pub(super) fn was_split(&mut self, done: SplitBatch, now: Instant) {
        let state = &mut self.partitions[done.index];
        let is_it = |b: &ProducerBatch| b.is_being_split && b.order == done.order;
        let Some(at) = state.retry.iter().position(is_it) else {
            // The batch expired or the producer was closed.
            return;
        };
        let batch = state
            .retry
            .remove(at)
            .expect("the queue has a batch at this position");
        match done.pieces {
            Ok(pieces) => {
                self.accumulator.metrics().split(now);
                for piece in pieces {
                    state.put_back(piece.into_batch(&batch));
                }
            }
            Err(reason) => {
                let (topic, partition) = (state.topic.name().clone(), state.partition);
                let reason = Arc::from(reason);
                self.outcomes.fail(
                    &batch,
                    ProducerError::Codec {
                        topic,
                        partition,
                        reason,
                    },
                );
                state.give_up(&batch);
            }
        }
        self.reconsider(done.index, now);
    }
}

fn is_too_large(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::MESSAGE_TOO_LARGE | ErrorCode::RECORD_LIST_TOO_LARGE
    )
}

impl SenderPartition {
    /// Notes that a batch ends without an acknowledgement. If it is certainly not in the log, there
    /// is a gap before the later batches. Otherwise its outcome is unknown.
    pub(super) fn give_up(&mut self, batch: &ProducerBatch) {
        match batch.sequence {
            None => {}
            Some(_) if batch.maybe_written => self.sequences.lose(batch.order),
            Some(_) => self.break_off(batch.order),
        }
    }
}

impl ProducerBatch {
    fn error(&self, trouble: &Trouble) -> ProducerError {
        if trouble.code.is_ok() {
            return self.network_error(Arc::clone(&trouble.reason));
        }
        ProducerError::Broker {
            topic: self.completion.topic().clone(),
            partition: self.completion.partition(),
            code: trouble.code,
            message: Str::from(&*trouble.reason),
            possibly_written: self.possibly_written(),
        }
    }

    pub(super) fn network_error(&self, reason: Arc<str>) -> ProducerError {
        ProducerError::Network {
            topic: self.completion.topic().clone(),
            partition: self.completion.partition(),
            reason,
            possibly_written: self.possibly_written(),
        }
    }
}

impl Trouble {
    /// Creates the trouble for a request that got no response: the broker may have processed it.
    fn unanswered(reason: &str) -> Self {
        Self {
            code: ErrorCode::NONE,
            reason: Arc::from(reason),
            retriable: true,
            maybe_written: true,
            invalid_records: Vec::new(),
        }
    }

    /// Copies this for another batch of the request.
    fn again(&self) -> Self {
        Self {
            reason: Arc::clone(&self.reason),
            invalid_records: Vec::new(),
            ..*self
        }
    }
}

impl From<&RequestError> for Trouble {
    fn from(error: &RequestError) -> Self {
        Self {
            retriable: error.is_retriable(),
            maybe_written: error.possibly_written(),
            ..Self::unanswered(&error.to_string())
        }
    }
}

impl From<&PartitionProduceResponse> for Trouble {
    fn from(told: &PartitionProduceResponse) -> Self {
        let code = ErrorCode(told.error_code);
        let message = told
            .error_message
            .as_deref()
            .unwrap_or_else(|| code.message());
        let invalid = |error: &thalweg_protocol::messages::produce::BatchIndexAndErrorMessage| {
            let index = u32::try_from(error.batch_index).ok()?;
            let message = error.batch_index_error_message.as_ref();
            // Detached, as the application's future keeps it and must not keep the whole response.
            Some((index, message.map(Str::detached)))
        };
        Self {
            code,
            reason: Arc::from(message),
            retriable: code.is_retriable(),
            maybe_written: !means_not_written(code, told.base_offset),
            invalid_records: told.record_errors.iter().filter_map(invalid).collect(),
        }
    }
}
