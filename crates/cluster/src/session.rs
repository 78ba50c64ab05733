//! SASL sessions: how long a broker accepts requests after an authentication (KIP-368).
//!
//! ```text
//!   authentication ── requests ──▶ held_from ── none ──▶ due ──▶ SaslHandshake, SaslAuthenticate
//!   └────────────── at least a second ──────────────────┘        on the same connection
//! ```
//! A broker checks the end of a session only when it reads a request, and accepts `SaslHandshake`
//! even after the end. So an idle connection may outlive its session: it authenticates again when a
//! request needs it.

use std::time::{Duration, Instant};

use crate::error::SetupStep;

/// A session lasts no longer than this, whatever the broker says. More could overflow an instant.
const LIFETIME_MAX: Duration = Duration::from_secs(365 * 86_400);

/// A broker refuses a second re-authentication within this time.
const BETWEEN_MIN: Duration = Duration::from_secs(1);

/// The part of the lifetime in which requests are sent, and what a random number may add to it: the
/// rule of Java's `SaslClientAuthenticator`. The rest allows for slow networks and brokers.
const USED: f64 = 0.85;
const USED_JITTER: f64 = 0.10;

/// The rest is at least this long, or half of the lifetime: of a session of a second, 5% would be
/// less than one pause of a garbage collector. Java has no such limit.
const UNUSED_MIN: Duration = Duration::from_millis(500);

/// What a successful authentication says about its session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SaslSession {
    /// The time just before the client wrote its last message. The session began after it.
    pub since: Instant,
    /// The broker's `session_lifetime_ms`. Without one, or with 0, the session has no end.
    pub lifetime_ms: i64,
    /// Whether the broker knows KIP-368 at all (Kafka 2.2 or later).
    pub can_be_renewed: bool,
}

/// The limited session of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Session {
    /// The client writes no request from here on.
    pub(crate) held_from: Instant,
    /// The earliest time to authenticate again. It is later than `held_from` only if the session is
    /// shorter than about a second.
    pub(crate) due: Instant,
}

impl Session {
    /// Returns `None` if the session has no end. `random` is from 0 to 1: connections that opened at
    /// the same time do not all authenticate again at the same time.
    pub(crate) fn new(sasl: &SaslSession, random: f64) -> Option<Self> {
        let lifetime = u64::try_from(sasl.lifetime_ms).ok().filter(|&ms| ms > 0)?;
        let lifetime = Duration::from_millis(lifetime).min(LIFETIME_MAX);
        let used = lifetime.mul_f64(USED + USED_JITTER * random);
        let held_from =
            sasl.since + used.min(lifetime.saturating_sub(UNUSED_MIN.min(lifetime / 2)));
        Some(Self {
            held_from,
            due: held_from.max(sasl.since + BETWEEN_MIN),
        })
    }
}

/// A re-authentication that has started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reauthentication {
    pub(crate) since: Instant,
    pub(crate) deadline: Instant,
    /// What it waits for.
    pub(crate) step: SetupStep,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(
        clippy::disallowed_methods,
        reason = "the sessions need some instant to start from"
    )]
    fn times(lifetime_ms: i64, random: f64) -> Option<(Duration, Duration)> {
        let sasl = SaslSession {
            since: Instant::now(),
            lifetime_ms,
            can_be_renewed: true,
        };
        let session = Session::new(&sasl, random)?;
        Some((session.held_from - sasl.since, session.due - sasl.since))
    }

    #[test]
    fn requests_end_when_java_authenticates_again() {
        for (random, percent) in [(0.0, 85), (0.5, 90), (1.0, 95)] {
            let (held_from, due) = times(3_600_000, random).expect("it has an end");
            assert_eq!(held_from.as_secs(), 3600 * percent / 100);
            assert_eq!(due, held_from);
        }
    }

    #[test]
    fn a_short_session_holds_requests_until_a_second_has_passed() {
        for lifetime_ms in [1, 500, 1000] {
            let (held_from, due) = times(lifetime_ms, 1.0).expect("it has an end");
            assert!(held_from < Duration::from_millis(lifetime_ms as u64));
            assert_eq!(due, BETWEEN_MIN);
        }
    }

    #[test]
    fn a_broker_has_time_to_read_the_last_request() {
        for (lifetime_ms, unused_ms) in [(100, 50), (800, 400), (3_000, 500), (20_000, 1_000)] {
            let (held_from, _) = times(lifetime_ms, 1.0).expect("it has an end");
            assert_eq!(held_from.as_millis(), lifetime_ms as u128 - unused_ms);
        }
    }

    #[test]
    fn a_session_is_never_negative_and_a_year_at_most() {
        assert_eq!(times(0, 0.0), None);
        assert_eq!(times(-1, 0.0), None);
        assert_eq!(times(i64::MIN, 0.0), None);
        let (held_from, _) = times(i64::MAX, 1.0).expect("it has an end");
        assert!(held_from < LIFETIME_MAX && held_from > LIFETIME_MAX / 2);
    }
}
