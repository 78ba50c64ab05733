//! Heartbeats that begin with the answer to a `JoinGroup`, not with Python's next look at it.
//!
//! From that answer on the group counts the session's time again, and an application that computes
//! meanwhile may look at it minutes later.

use std::sync::{Mutex, PoisonError};

use thalweg_protocol::ErrorCode;
use thalweg_protocol::dynamic::Value;

use super::manager::HeartbeatPlan;
use crate::client::Response;

/// What identifies a member, in the answer to a `JoinGroup` and in a `Heartbeat`.
const IDENTITY: [&str; 2] = ["GenerationId", "MemberId"];

/// The last one that the I/O thread has not taken up: the order's generation, and what to repeat.
#[derive(Debug, Default)]
pub(super) struct Admissions(Mutex<Option<(u64, HeartbeatPlan)>>);

impl Admissions {
    /// Nothing, if the answer refuses the member.
    pub(super) fn note(&self, generation: u64, mut plan: HeartbeatPlan, answer: &Response) {
        // A copy of a few pointers; who asked reads it, too.
        let Ok(body) = answer.clone().decode_by_name() else {
            return;
        };
        let code = body.get("ErrorCode").and_then(Value::as_int);
        if code != Some(i64::from(ErrorCode::NONE.0)) {
            return;
        }
        for name in IDENTITY {
            if let Some(value) = body.get(name) {
                plan.request.set(name, value);
            }
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((generation, plan));
    }

    pub(super) fn take(&self) -> Option<(u64, HeartbeatPlan)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
