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
const GENERATION: &str = "GenerationId";
const MEMBER: &str = "MemberId";

/// The last one that the I/O thread has not taken up: the order's generation, and what to repeat.
#[derive(Debug, Default)]
pub(super) struct Admissions(Mutex<Option<(u64, HeartbeatPlan)>>);

impl Admissions {
    /// Nothing, if the answer refuses the member.
    pub(super) fn note(&self, generation: u64, mut plan: HeartbeatPlan, answer: &Response) {
        // Decoded once more by who asked, who may not do so for minutes.
        let Ok(body) = answer.clone().decode_by_name() else {
            return;
        };
        let code = body.get("ErrorCode").and_then(Value::as_int);
        if code != Some(i64::from(ErrorCode::NONE.0)) {
            return;
        }
        let member = body.get(MEMBER).and_then(Value::as_str);
        if let (Some(generation), Some(member)) = (body.get(GENERATION), member) {
            // Heartbeats keep it, and must not keep the answer: a leader's holds all members.
            let member = Value::Str(member.detached());
            plan.request.set(GENERATION, generation);
            plan.request.set(MEMBER, &member);
            // Brokers before 2.2 name a new member in this answer only.
            if let Some(leave) = &mut plan.leave {
                leave.set(MEMBER, &member);
            }
        }
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((generation, plan));
    }

    pub(super) fn take(&self) -> Option<(u64, HeartbeatPlan)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
