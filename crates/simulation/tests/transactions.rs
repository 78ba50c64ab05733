//! Runs transactions by seed: all or nothing, whatever goes wrong. A seed that failed once is kept.

use std::time::Duration;

use thalweg_consumer::IsolationLevel;
use thalweg_producer::ProducerConfig;
use thalweg_simulation::{
    Broken, Ending, FaultPlan, TransactionalReport, TransactionalScenario, seeds,
};

/// Seeds that found a defect, of a client or of this simulation.
const REGRESSIONS: &[u64] = &[11_610];
const VERSIONS: [u8; 2] = [1, 2];

fn check(scenario: &TransactionalScenario) -> TransactionalReport {
    let report = scenario.run();
    let wrongs = report.wrongs();
    let (seed, version) = (scenario.seed, scenario.version);
    assert!(
        wrongs.is_empty(),
        "seed {seed}, version {version}: {wrongs:?}"
    );
    report
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
    let (mut runs, mut committed, mut disturbances) = (0, 0, 0);
    for version in VERSIONS {
        for seed in seeds("transactions, storm", 0, 100) {
            let producer = ProducerConfig {
                // The default is a minute, and two silent connections already take that long.
                transaction_timeout: Duration::from_secs(300),
                ..ProducerConfig::default()
            };
            let scenario = TransactionalScenario {
                faults: FaultPlan::stormy(),
                transactions: 40,
                producer,
                ..TransactionalScenario::new(seed, version)
            };
            let report = check(&scenario);
            let commits = report.ledger.count(Ending::Committed);
            assert!(commits > 10, "seed {seed}: only {commits} commits");
            assert_eq!(
                report.producers, 2,
                "seed {seed}: none fails for good, so the one, and the one that looks"
            );
            (runs, committed) = (runs + 1, committed + commits);
            disturbances += report.disturbances;
        }
    }
    // Each transaction commits by chance, and one storm of thousands may be calm. So only the means
    // of both are checked closely.
    assert!(
        committed > 20 * runs,
        "only {committed} commits in {runs} runs"
    );
    let runs = runs as u64;
    assert!(
        disturbances > 10 * runs,
        "too calm: {disturbances} disturbances in {runs} storms"
    );
}

#[test]
fn neither_deaths_nor_takeovers_tear_a_transaction() {
    let (mut runs, mut producers) = (0, 0);
    for version in VERSIONS {
        for seed in seeds("transactions, deaths", 100, 100) {
            let scenario = TransactionalScenario {
                faults: FaultPlan::stormy(),
                transactions: 40,
                deaths: 300,
                ..TransactionalScenario::new(seed, version)
            };
            let report = check(&scenario);
            (runs, producers) = (runs + 1, producers + report.producers);
        }
    }
    assert!(
        producers > 8 * runs,
        "only {producers} producers in {runs} runs"
    );
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
        // Each takes up to two seconds: some end in time, most do not.
        let aborted = report.ledger.count(Ending::Aborted);
        let committed = report.ledger.count(Ending::Committed);
        assert!(aborted > 20 && committed > 5, "{aborted}, {committed}");
    }
}

#[test]
fn promises_hold_in_any_weather() {
    let fixed_and_fresh = seeds("transactions, any weather", 1_000, 400);
    let mut committed = 0;
    for seed in fixed_and_fresh.chain(REGRESSIONS.iter().copied()) {
        let report = check(&TransactionalScenario::drawn(seed));
        committed += report.ledger.count(Ending::Committed);
    }
    assert!(
        committed > 4_000,
        "only {committed} transactions were committed"
    );
}
