//! Transactions by seed: all or nothing, whatever goes wrong. A seed that failed once is kept.

use std::time::Duration;

use thalweg_consumer::IsolationLevel;
use thalweg_producer::ProducerConfig;
use thalweg_simulation::{Broken, Ending, FaultPlan, TransactionalReport, TransactionalScenario};

/// Seeds whose runs broke a promise before a fix.
const REGRESSIONS: &[u64] = &[];
const VERSIONS: [u8; 2] = [1, 2];

fn check(scenario: &TransactionalScenario) -> TransactionalReport {
    let report = scenario.run();
    let broken = report.ledger.check(&report.reads);
    assert!(
        broken.is_empty() && report.errors.is_empty(),
        "seed {}, version {}: {:?} {:?}",
        scenario.seed,
        scenario.version,
        &broken[..broken.len().min(5)],
        report.errors,
    );
    report
}

/// 1 in everyday runs; the full test run multiplies the seeds.
fn scale() -> u64 {
    let given = std::env::var("THALWEG_TEST_SCALE").ok();
    given.and_then(|scale| scale.parse().ok()).unwrap_or(1)
}

#[test]
fn in_calm_weather_every_commit_succeeds() {
    for version in VERSIONS {
        let report = check(&TransactionalScenario::new(1, version));
        assert_eq!(report.producers, 2, "the one, and the one that looks");
        let (committed, aborted) = (
            report.ledger.count(Ending::Committed),
            report.ledger.count(Ending::Aborted),
        );
        assert_eq!(committed + aborted, 60);
        assert!(committed > 30 && aborted > 5, "{committed}, {aborted}");
    }
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let scenario = TransactionalScenario {
        faults: FaultPlan::stormy(),
        deaths: 100,
        ..TransactionalScenario::new(7, 2)
    };
    assert_eq!(scenario.run(), scenario.run());
}

#[test]
fn a_storm_tears_no_transaction() {
    for version in VERSIONS {
        for seed in 0..10 * scale() {
            let scenario = TransactionalScenario {
                faults: FaultPlan::stormy(),
                ..TransactionalScenario::new(seed, version)
            };
            let report = check(&scenario);
            let committed = report.ledger.count(Ending::Committed);
            assert!(committed > 30, "seed {seed}: only {committed} commits");
            assert_eq!(
                report.producers, 2,
                "seed {seed}: none fails for good, so the one, and the one that looks"
            );
            let disturbances = report.disturbances;
            assert!(disturbances > 10, "seed {seed}: {disturbances}");
        }
    }
}

#[test]
fn neither_deaths_nor_takeovers_tear_a_transaction() {
    for version in VERSIONS {
        for seed in 100..100 + 10 * scale() {
            let scenario = TransactionalScenario {
                faults: FaultPlan::stormy(),
                deaths: 300,
                ..TransactionalScenario::new(seed, version)
            };
            let report = check(&scenario);
            assert!(report.producers > 8, "seed {seed}: {}", report.producers);
        }
    }
}

#[test]
fn a_reader_of_uncommitted_records_finds_what_leaks() {
    let scenario = TransactionalScenario {
        isolation_level: IsolationLevel::ReadUncommitted,
        ..TransactionalScenario::new(200, 2)
    };
    let report = scenario.run();
    let leaked = |found: &Broken| matches!(found, Broken::Leaked { .. });
    let broken = report.ledger.check(&report.reads);
    assert!(broken.iter().any(leaked), "else the storms show nothing");
}

#[test]
fn transactions_that_take_too_long_are_aborted_by_the_broker() {
    let producer = ProducerConfig {
        transaction_timeout: Duration::from_millis(500),
        ..ProducerConfig::default()
    };
    for version in VERSIONS {
        let report = check(&TransactionalScenario {
            producer: producer.clone(),
            records_max: 2,
            ..TransactionalScenario::new(300, version)
        });
        // Up to two seconds each: some make it, most do not.
        let aborted = report.ledger.count(Ending::Aborted);
        let committed = report.ledger.count(Ending::Committed);
        assert!(aborted > 20 && committed > 5, "{aborted}, {committed}");
    }
}

#[test]
fn promises_hold_in_any_weather() {
    for seed in (1_000..1_000 + 40 * scale()).chain(REGRESSIONS.iter().copied()) {
        check(&TransactionalScenario::drawn(seed));
    }
}
