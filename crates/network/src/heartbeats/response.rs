//! What the response to a heartbeat means, for both APIs: `Heartbeat` and `ConsumerGroupHeartbeat`.

use std::time::Duration;

use thalweg_protocol::ErrorCode;
use thalweg_protocol::dynamic::Value;

/// The longest interval that is accepted. With the longer one of a damaged response, the member
/// would send nothing and its session would time out. Kafka's own brokers allow 15 seconds by
/// default (`group.consumer.max.heartbeat.interval.ms`).
const INTERVAL_MAX: Duration = Duration::from_secs(60);

/// The fields of the response that concern the heartbeats themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ResponseFields {
    pub(crate) code: ErrorCode,
    /// The member's epoch, if the API has one.
    pub(crate) epoch: Option<i64>,
    pub(crate) interval: Option<Duration>,
    pub(crate) has_assignment: bool,
}

/// What happens to the heartbeats after a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// They continue at the interval.
    GoOn,
    /// The heartbeat was not accepted, or the response says nothing about the membership: retry
    /// soon.
    TryAgain {
        /// The group has another coordinator now.
        look_up: bool,
    },
    /// The broker no longer knows this member or generation. The member in Python decides what to
    /// do.
    Pause,
}

impl ResponseFields {
    pub(crate) fn read(body: &Value) -> Self {
        let int = |name| body.get(name).and_then(Value::as_int);
        let code = int("ErrorCode").and_then(|code| i16::try_from(code).ok());
        let interval = int("HeartbeatIntervalMs").and_then(|ms| u64::try_from(ms).ok());
        Self {
            code: code.map_or(ErrorCode::UNKNOWN_SERVER_ERROR, ErrorCode),
            epoch: int("MemberEpoch"),
            interval: interval
                .filter(|&ms| ms > 0)
                .map(|ms| Duration::from_millis(ms).min(INTERVAL_MAX)),
            has_assignment: !matches!(body.get("Assignment"), None | Some(Value::Null)),
        }
    }

    /// Whether the response tells Python nothing new, if the heartbeat had this epoch.
    pub(crate) fn is_quiet(&self, epoch: Option<i64>) -> bool {
        self.code == ErrorCode::NONE && self.epoch == epoch && !self.has_assignment
    }

    /// Decides what happens next. `is_classic` means that it is the response to `Heartbeat`, which
    /// a classic member can only repeat. A member of the newer protocol decides itself how to
    /// continue after an error.
    pub(crate) fn after(&self, is_classic: bool) -> After {
        match self.code {
            // During a rebalance the group keeps a member that heartbeats until the rebalance
            // timeout. It removes a silent one after the session timeout, even if its application
            // is only busy with its records.
            ErrorCode::NONE | ErrorCode::REBALANCE_IN_PROGRESS => After::GoOn,
            ErrorCode::NOT_COORDINATOR | ErrorCode::COORDINATOR_NOT_AVAILABLE => {
                After::TryAgain { look_up: true }
            }
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS => After::TryAgain { look_up: false },
            ErrorCode::UNKNOWN_MEMBER_ID
            | ErrorCode::ILLEGAL_GENERATION
            | ErrorCode::FENCED_INSTANCE_ID => After::Pause,
            // Whatever else is wrong, a silent member is removed after the session timeout.
            _ if is_classic => After::TryAgain { look_up: false },
            _ => After::Pause,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classic(code: i16) -> ResponseFields {
        let fields = vec![("ThrottleTimeMs", 0_i32.into()), ("ErrorCode", code.into())];
        ResponseFields::read(&Value::Struct(fields))
    }

    fn consumer(epoch: i32, assignment: Value) -> ResponseFields {
        ResponseFields::read(&Value::Struct(vec![
            ("ErrorCode", 0_i16.into()),
            ("MemberEpoch", epoch.into()),
            ("HeartbeatIntervalMs", 5_000_i32.into()),
            ("Assignment", assignment),
        ]))
    }

    #[test]
    fn a_plain_response_is_quiet() {
        assert!(classic(0).is_quiet(None));
        assert_eq!(classic(0).after(true), After::GoOn);
        assert!(consumer(7, Value::Null).is_quiet(Some(7)));
        assert_eq!(
            consumer(7, Value::Null).interval,
            Some(Duration::from_secs(5))
        );
    }

    #[test]
    fn an_interval_of_days_is_taken_for_a_minute() {
        let damaged = Value::Struct(vec![("HeartbeatIntervalMs", i32::MAX.into())]);
        assert_eq!(ResponseFields::read(&damaged).interval, Some(INTERVAL_MAX));
    }

    #[test]
    fn another_epoch_or_an_assignment_is_news() {
        assert!(!consumer(8, Value::Null).is_quiet(Some(7)));
        let assignment = Value::Struct(vec![("TopicPartitions", Value::Array(Vec::new()))]);
        assert!(
            !consumer(7, assignment).is_quiet(Some(7)),
            "an empty one is one, too"
        );
    }

    #[test]
    fn every_error_is_news_and_only_some_let_heartbeats_go_on() {
        let after_of = |code: ErrorCode, is_classic| {
            let response = classic(code.0);
            assert!(!response.is_quiet(None), "{}", code.name());
            response.after(is_classic)
        };
        let after = |code| {
            let found = after_of(code, true);
            assert_eq!(found, after_of(code, false), "{}", code.name());
            found
        };
        assert_eq!(after(ErrorCode::REBALANCE_IN_PROGRESS), After::GoOn);
        for moved in [
            ErrorCode::NOT_COORDINATOR,
            ErrorCode::COORDINATOR_NOT_AVAILABLE,
        ] {
            assert_eq!(after(moved), After::TryAgain { look_up: true });
        }
        let loads = after(ErrorCode::COORDINATOR_LOAD_IN_PROGRESS);
        assert_eq!(loads, After::TryAgain { look_up: false });
        for lost in [
            ErrorCode::UNKNOWN_MEMBER_ID,
            ErrorCode::ILLEGAL_GENERATION,
            ErrorCode::FENCED_INSTANCE_ID,
        ] {
            assert_eq!(after(lost), After::Pause);
        }
        for other in [
            ErrorCode::UNKNOWN_SERVER_ERROR,
            ErrorCode::REQUEST_TIMED_OUT,
            ErrorCode::GROUP_AUTHORIZATION_FAILED,
        ] {
            assert_eq!(after_of(other, true), After::TryAgain { look_up: false });
            assert_eq!(after_of(other, false), After::Pause);
        }
    }
}
