//! `JoinGroup`, `Heartbeat`, `LeaveGroup`, `SyncGroup`, `ConsumerGroupHeartbeat` // keys 11, 12, 13, 14, 68
//!
//! Served by the group coordinator; only the answer that a fault wants is written here.

use thalweg_protocol::messages::{
    consumer_group_heartbeat, heartbeat, join_group, leave_group, sync_group,
};
use thalweg_protocol::{ApiKey, ErrorCode};

use crate::answer::Outcome;
use crate::api::Call;

/// An answer that carries the error and nothing else.
pub(crate) fn group_error(call: &Call<'_>, code: ErrorCode) -> Outcome {
    let error_code = code.0;
    let (to, now) = (&call.reply_to, call.now);
    match to.key {
        ApiKey::JOIN_GROUP => to.message(
            &join_group::JoinGroupResponse {
                error_code,
                ..Default::default()
            },
            now,
        ),
        ApiKey::HEARTBEAT => to.message(
            &heartbeat::HeartbeatResponse {
                error_code,
                ..Default::default()
            },
            now,
        ),
        ApiKey::LEAVE_GROUP => to.message(
            &leave_group::LeaveGroupResponse {
                error_code,
                ..Default::default()
            },
            now,
        ),
        ApiKey::SYNC_GROUP => to.message(
            &sync_group::SyncGroupResponse {
                error_code,
                ..Default::default()
            },
            now,
        ),
        ApiKey::CONSUMER_GROUP_HEARTBEAT => {
            let answer = consumer_group_heartbeat::ConsumerGroupHeartbeatResponse {
                error_code,
                ..Default::default()
            };
            to.message(&answer, now)
        }
        // Errors of ConsumerGroupDescribe belong to groups that only the coordinator knows.
        _ => Outcome::Close,
    }
}
