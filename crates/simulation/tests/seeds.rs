//! Runs by seed. A seed that failed once is kept in `REGRESSIONS`.

use std::time::Duration;

use thalweg_producer::ProducerConfig;
use thalweg_records::Compression;
use thalweg_simulation::{FaultPlan, Report, Scenario, Violation};

/// Seeds whose runs broke a promise before a fix.
const REGRESSIONS: &[u64] = &[];

fn check(scenario: &Scenario) -> Report {
    let report = scenario.run();
    let violations = report.history.check();
    assert!(
        violations.is_empty() && report.consumer_errors.is_empty(),
        "seed {}: {:?} {:?}",
        scenario.seed,
        &violations[..violations.len().min(5)],
        report.consumer_errors,
    );
    report
}

/// 1 in everyday runs; the full test run multiplies the seeds.
fn scale() -> u64 {
    let given = std::env::var("THALWEG_TEST_SCALE").ok();
    given.and_then(|scale| scale.parse().ok()).unwrap_or(1)
}

#[test]
fn what_is_produced_is_read() {
    let scenario = Scenario::new(1);
    let report = check(&scenario);
    assert_eq!(report.history.acknowledged() as u64, scenario.records);
    assert_eq!(report.history.read_count() as u64, scenario.records);
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let scenario = Scenario {
        faults: FaultPlan::stormy(),
        ..Scenario::new(7)
    };
    assert_eq!(scenario.run(), scenario.run());
}

#[test]
fn nothing_is_lost_or_doubled_in_a_storm() {
    for seed in (0..20 * scale()).chain(REGRESSIONS.iter().copied()) {
        let scenario = Scenario {
            faults: FaultPlan::stormy(),
            ..Scenario::new(seed)
        };
        let report = check(&scenario);
        assert_eq!(
            report.history.failed(),
            0,
            "seed {seed}: two minutes are enough for all"
        );
        let disturbances = report.disturbances;
        assert!(
            disturbances > 10,
            "seed {seed}: too calm a storm: {disturbances}"
        );
    }
}

#[test]
fn promises_hold_in_any_weather() {
    for seed in (1_000..1_000 + 50 * scale()).chain(REGRESSIONS.iter().copied()) {
        check(&Scenario::drawn(seed));
    }
}

#[test]
fn compressed_batches_survive_a_storm() {
    for (seed, compression) in (100..).zip([
        Compression::Gzip,
        Compression::Snappy,
        Compression::Lz4,
        Compression::Zstd,
    ]) {
        let producer = ProducerConfig {
            compression,
            ..ProducerConfig::default()
        };
        check(&Scenario {
            faults: FaultPlan::stormy(),
            producer,
            ..Scenario::new(seed)
        });
    }
}

#[test]
fn a_lost_answer_is_no_second_record() {
    let faults = FaultPlan {
        lose_answer: 200,
        cut_answer: 100,
        ..FaultPlan::default()
    };
    for seed in 200..205 {
        let report = check(&Scenario {
            faults: faults.clone(),
            ..Scenario::new(seed)
        });
        assert_eq!(report.history.failed(), 0);
    }
}

#[test]
fn without_idempotence_the_checker_finds_the_doubles() {
    let producer = ProducerConfig {
        enable_idempotence: false,
        ..ProducerConfig::default()
    };
    let faults = FaultPlan {
        lose_answer: 200,
        ..FaultPlan::default()
    };
    let report = Scenario {
        faults,
        producer,
        ..Scenario::new(600)
    }
    .run();
    let doubled = |found: &Violation| matches!(found, Violation::Duplicate { .. });
    assert!(
        report.history.check().iter().any(doubled),
        "else the storms show nothing"
    );
}

#[test]
fn a_silent_broker_is_given_up_after_the_request_timeout() {
    let faults = FaultPlan {
        silence: 20,
        ..FaultPlan::default()
    };
    for seed in 300..303 {
        let report = check(&Scenario {
            faults: faults.clone(),
            ..Scenario::new(seed)
        });
        assert!(report.took >= Duration::from_secs(30));
    }
}

#[test]
fn records_that_run_out_of_time_are_told_so() {
    // More silence than the delivery timeout can bear.
    let producer = ProducerConfig {
        delivery_timeout: Duration::from_secs(3),
        request_timeout: Duration::from_secs(1),
        ..ProducerConfig::default()
    };
    let faults = FaultPlan {
        silence: 300,
        lose_answer: 300,
        ..FaultPlan::default()
    };
    let mut failed = 0;
    for seed in 400..405 {
        let scenario = Scenario {
            faults: faults.clone(),
            producer: producer.clone(),
            ..Scenario::new(seed)
        };
        failed += check(&scenario).history.failed();
    }
    assert!(failed > 0, "the faults must bite, else this shows nothing");
}

#[test]
fn a_small_buffer_only_slows_down() {
    let producer = ProducerConfig {
        buffer_memory: 64 * 1024,
        batch_size: 1024,
        ..ProducerConfig::default()
    };
    let scenario = Scenario {
        faults: FaultPlan::stormy(),
        producer,
        records: 5_000,
        ..Scenario::new(500)
    };
    check(&scenario);
}
