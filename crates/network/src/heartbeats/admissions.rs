//! Heartbeats that start with the response to a `JoinGroup`, before Python looks at that response.
//!
//! From that response on, the group counts the session time again. An application that is busy
//! computing may look at it only minutes later.

use std::sync::{Mutex, PoisonError};

use thalweg_protocol::ErrorCode;
use thalweg_protocol::dynamic::Value;

use super::manager::HeartbeatPlan;
use crate::client::Response;

/// The fields that identify a member, in the response to a `JoinGroup` and in a `Heartbeat`.
const GENERATION: &str = "GenerationId";
const MEMBER: &str = "MemberId";

/// The last admission that the I/O thread has not taken: the generation of its order, and its plan.
#[derive(Debug, Default)]
pub(super) struct Admissions(Mutex<Option<(u64, HeartbeatPlan)>>);

impl Admissions {
    /// Stores the plan of an admitted member. Does nothing if the response refuses the member.
    pub(super) fn note(&self, generation: u64, mut plan: HeartbeatPlan, response: &Response) {
        // The caller decodes it again, perhaps minutes later.
        let Ok(body) = response.clone().decode_by_name() else {
            return;
        };
        let code = body.get("ErrorCode").and_then(Value::as_int);
        if code != Some(i64::from(ErrorCode::NONE.0)) {
            return;
        }
        let member = body.get(MEMBER).and_then(Value::as_str);
        if let (Some(generation), Some(member)) = (body.get(GENERATION), member) {
            // Heartbeats keep the member id, but must not keep the response: a leader's lists all
            // members.
            let member = Value::Str(member.detached());
            plan.request.set(GENERATION, generation);
            plan.request.set(MEMBER, &member);
            // Brokers before 2.2 give a new member its id only in this response.
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
