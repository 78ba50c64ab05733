//! Runs worlds whose SASL sessions end every few seconds (KIP-368): what else may go wrong, nothing is
//! lost, doubled or reordered, and no transaction is torn. A seed that failed once is kept.

use std::time::Duration;

use thalweg_simulation::{
    Ending, FaultPlan, Scenario, SessionCounts, SharingScenario, TransactionalScenario, seeds,
};

/// Sessions of these lengths, in milliseconds. The shortest ones end before the client may log in
/// again, a second after the last time.
const SESSIONS_MS: [u64; 4] = [3_000, 1_100, 800, 10_000];

fn session(seed: u64) -> Duration {
    let at = seed % SESSIONS_MS.len() as u64;
    Duration::from_millis(SESSIONS_MS[at as usize])
}

fn calm(sessions: SessionCounts, renewed: u64) {
    let SessionCounts {
        late,
        refused,
        pipelined,
        ..
    } = sessions;
    assert_eq!((late, refused, pipelined), (0, 0, 0), "{sessions:?}");
    assert!(sessions.renewed >= renewed, "{sessions:?}");
}

/// Scenario 64.
#[test]
fn in_calm_weather_no_request_comes_after_the_end_of_its_session() {
    for seed in 0..8 {
        let scenario = Scenario {
            session: Some(session(seed)),
            ..Scenario::new(seed)
        };
        let report = scenario.run();
        assert_eq!(report.wrongs(), [""; 0], "seed {seed}");
        assert_eq!(report.history.failed(), 0);
        calm(report.sessions, 20);
    }
}

#[test]
fn in_calm_weather_every_commit_succeeds() {
    for (seed, version) in [(0, 1), (1, 2), (2, 2), (3, 1)] {
        let report = TransactionalScenario {
            session: Some(session(seed)),
            ..TransactionalScenario::new(seed, version)
        }
        .run();
        assert_eq!(report.wrongs(), [""; 0], "seed {seed}");
        assert_eq!(report.producers, 2, "none fails for good");
        let ended = [Ending::Committed, Ending::Aborted].map(|how| report.ledger.count(how));
        assert_eq!(ended[0] + ended[1], 60);
        calm(report.sessions, 20);
    }
}

#[test]
fn nothing_is_lost_or_doubled_in_a_storm() {
    let mut renewed = 0;
    for seed in seeds("sessions, storm", 30_000, 40) {
        let scenario = Scenario {
            faults: FaultPlan::stormy(),
            records: 400,
            sending_takes: Duration::from_secs(30),
            session: Some(session(seed)),
            ..Scenario::new(seed)
        };
        let report = scenario.run();
        assert_eq!(report.wrongs(), [""; 0], "seed {seed}");
        renewed += report.sessions.renewed;
    }
    assert!(renewed > 400, "{renewed}");
}

#[test]
fn promises_hold_in_any_weather() {
    for seed in seeds("sessions, any weather", 31_000, 40) {
        let scenario = Scenario {
            session: Some(session(seed)),
            ..Scenario::drawn(seed)
        };
        let report = scenario.run();
        assert_eq!(report.wrongs(), [""; 0], "seed {seed}");
    }
}

#[test]
fn no_transaction_is_torn_in_any_weather() {
    let mut committed = 0;
    for seed in seeds("sessions, transactions", 32_000, 40) {
        let report = TransactionalScenario {
            session: Some(session(seed)),
            ..TransactionalScenario::drawn(seed)
        }
        .run();
        assert_eq!(report.wrongs(), [""; 0], "seed {seed}");
        committed += report.ledger.count(Ending::Committed);
    }
    assert!(committed > 400, "{committed}");
}

#[test]
fn positions_hold_in_any_weather() {
    for seed in seeds("sessions, sharing", 33_000, 40) {
        let mut scenario = SharingScenario::drawn(seed);
        scenario.base.session = Some(session(seed));
        let report = scenario.run();
        assert_eq!(report.wrongs, [""; 0], "seed {seed}");
    }
}
