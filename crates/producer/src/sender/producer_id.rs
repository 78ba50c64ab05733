//! Requests a producer id (`InitProducerId`) once, as soon as any broker accepts requests.

use std::time::Instant;

use thalweg_cluster::{Cluster, Outgoing, Purpose, RequestError, ResponseBody};
use thalweg_protocol::messages::init_producer_id::InitProducerIdRequest;
use thalweg_protocol::{ApiKey, ErrorCode, Str};

use crate::error::ProducerError;
use crate::idempotence::{ProducerIdAndEpoch, ProducerIdState};
use crate::sender::Sender;

impl Sender {
    pub(super) fn request_producer_id(&mut self, cluster: &mut Cluster, now: Instant) {
        let ProducerIdState::Wanted {
            failures,
            not_before,
        } = self.producer_id
        else {
            return;
        };
        if not_before.is_some_and(|at| now < at) {
            return;
        }
        // From here on it waits for a connection, which has its own deadlines.
        self.producer_id = ProducerIdState::Wanted {
            failures,
            not_before: None,
        };
        if self.active.is_empty() && (self.closing || self.refused_producer_id) {
            return;
        }
        let Some(node) = cluster.least_loaded_node(now) else {
            return;
        };
        let version = match cluster.require_version(node, ApiKey::INIT_PRODUCER_ID) {
            Ok(version) => version,
            Err(error) => return self.producer_id_failed(&error, failures, now),
        };
        let request = InitProducerIdRequest {
            transactional_id: None,
            transaction_timeout_ms: i32::MAX,
            ..Default::default()
        };
        let outgoing = Outgoing::new(&request, version, self.config.request_timeout)
            .expect("every version can express a request without a transactional id");
        let id = cluster.send(node, Purpose::General, outgoing, now);
        self.producer_id = ProducerIdState::Requested { failures, id };
    }

    pub(super) fn producer_id_answered(
        &mut self,
        result: Result<ResponseBody, RequestError>,
        now: Instant,
    ) {
        let ProducerIdState::Requested { failures, .. } = self.producer_id else {
            return;
        };
        let body = match result {
            Ok(body) => body,
            Err(error) => return self.producer_id_failed(&error, failures, now),
        };
        let Ok(response) = body.decode::<InitProducerIdRequest>() else {
            return self.retry_producer_id(failures, now);
        };
        let code = ErrorCode(response.error_code);
        if code.is_ok() {
            let producer = ProducerIdAndEpoch {
                id: response.producer_id,
                epoch: response.producer_epoch,
            };
            self.producer_id = ProducerIdState::Known(producer);
            self.refused_producer_id = false;
            for index in self.active.clone() {
                self.reconsider(index, now);
            }
        } else if code.is_retriable() {
            self.retry_producer_id(failures, now);
        } else if code == ErrorCode::CLUSTER_AUTHORIZATION_FAILED {
            self.refuse_unsent(code);
            self.retry_producer_id(failures, now);
            for index in self.active.clone() {
                self.reconsider(index, now);
            }
        } else {
            self.fail_for_good(&format!("InitProducerId: {code}: {}", code.message()));
        }
    }

    /// Fails what waits for a producer id that the brokers do not assign to this principal. The
    /// next records ask for one again, as an administrator may have granted the permission.
    fn refuse_unsent(&mut self, code: ErrorCode) {
        self.refused_producer_id = true;
        let (api, principal) = (ApiKey::INIT_PRODUCER_ID, &self.config.principal);
        let message = format!("{}: {}", api.name(), code.message());
        let message = Str::from(principal.explained(&message, api, code, ""));
        for index in self.active.clone() {
            let state = &mut self.partitions[index];
            let error = ProducerError::Broker {
                topic: state.topic.name().clone(),
                partition: state.partition,
                code,
                message: message.clone(),
                possibly_written: false,
            };
            for batch in state.take_unsent() {
                self.outcomes.fail(&batch, error.clone());
            }
        }
    }

    fn producer_id_failed(&mut self, error: &RequestError, failures: u32, now: Instant) {
        if error.is_retriable() {
            self.retry_producer_id(failures, now);
        } else {
            self.fail_for_good(&format!("InitProducerId: {error}"));
        }
    }

    fn retry_producer_id(&mut self, failures: u32, now: Instant) {
        let not_before = Some(now + self.backoff.after(failures));
        self.producer_id = ProducerIdState::Wanted {
            failures: failures + 1,
            not_before,
        };
    }
}
