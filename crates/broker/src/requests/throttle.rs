//! The part of [`Context`] that records what clients use of their quotas.

use std::time::{Duration, Instant};

use thalweg_protocol::ErrorCode;

use super::context::Context;
use crate::core::Connection;
use crate::error::ApiError;
use crate::quotas::{Payer, QuotaKind};

impl Context<'_> {
    /// Records an amount. If the client exceeds its quota, the response contains the throttle time,
    /// and the broker does not read from the connection for this time.
    pub(crate) fn spend(&mut self, kind: QuotaKind, amount: f64) {
        let payer = Payer {
            user: self.connection.principal().name(),
            client_id: self.client_id.as_deref().unwrap_or_default(),
        };
        let wait = self.core.quotas.record(kind, payer, amount, self.now);
        self.throttle(wait);
    }

    /// Records partitions that the client creates or deletes. If `is_strict`, the client
    /// understands `THROTTLING_QUOTA_EXCEEDED`, and gets it while earlier requests exceed its
    /// quota.
    pub(crate) fn spend_mutations(
        &mut self,
        partitions: usize,
        is_strict: bool,
    ) -> Result<(), ApiError> {
        let payer = Payer {
            user: self.connection.principal().name(),
            client_id: self.client_id.as_deref().unwrap_or_default(),
        };
        let (count, now) = (partitions as f64, self.now);
        let quotas = &mut self.core.quotas;
        match quotas.record_mutations(payer, count, is_strict, now) {
            Ok(wait) => {
                self.throttle(wait);
                Ok(())
            }
            Err(wait) => {
                self.throttle(wait);
                Err(ApiError::of(ErrorCode::THROTTLING_QUOTA_EXCEEDED))
            }
        }
    }

    fn throttle(&mut self, wait: Duration) {
        if wait.is_zero() {
            return;
        }
        self.throttle_ms = self.throttle_ms.max(throttle_ms(wait));
        self.connection.mute(self.now + wait);
    }
}

/// Returns the value of the field `throttle_time_ms`.
pub(crate) fn throttle_ms(wait: Duration) -> i32 {
    i32::try_from(wait.as_millis()).unwrap_or(i32::MAX)
}

impl Connection {
    /// Reads nothing until then.
    pub(crate) fn mute(&mut self, until: Instant) {
        self.mute_until = Some(self.mute_until.map_or(until, |earlier| earlier.max(until)));
    }

    /// Returns until when the owner of the socket must read nothing, once.
    pub fn take_mute(&mut self) -> Option<Instant> {
        self.mute_until.take()
    }
}
