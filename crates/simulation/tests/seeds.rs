//! Runs scenarios by seed. A seed that failed once is kept as a test.

use std::time::Duration;

use thalweg_producer::ProducerConfig;
use thalweg_records::Compression;
use thalweg_simulation::{FaultPlan, Report, Scenario, seeds};

fn check(scenario: &Scenario) -> Report {
    let report = scenario.run();
    let wrongs = report.wrongs();
    assert!(wrongs.is_empty(), "seed {}: {wrongs:?}", scenario.seed);
    report
}

#[test]
fn what_is_produced_is_read() {
    let scenario = Scenario::new(1);
    let report = check(&scenario);
    let all = (scenario.records + report.probes) as usize;
    assert_eq!(report.history.acknowledged(), all);
    assert_eq!(report.history.read_count(), all);
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
    let (mut runs, mut disturbances) = (0, 0);
    for seed in seeds("storm", 0, 200) {
        let scenario = Scenario {
            faults: FaultPlan::stormy(),
            records: 400,
            sending_takes: Duration::from_secs(30),
            ..Scenario::new(seed)
        };
        let report = check(&scenario);
        assert_eq!(
            report.history.failed(),
            0,
            "seed {seed}: two minutes are enough for all"
        );
        runs += 1;
        disturbances += report.disturbances;
    }
    // One storm of thousands may be calm, so only their mean is checked.
    assert!(
        disturbances > 20 * runs,
        "too calm: {disturbances} disturbances in {runs} storms"
    );
}

/// Checks that most records of all runs together are acknowledged, and not only each partition's
/// last one. A single run may fail everything that it sent during the faults: some have delivery
/// timeouts shorter than the time for which brokers are silent.
fn check_all(seeds: impl Iterator<Item = u64>, world: fn(u64) -> Scenario) -> u64 {
    let (mut sent, mut acknowledged, mut refusals) = (0, 0, 0);
    for seed in seeds {
        let scenario = world(seed);
        let report = check(&scenario);
        sent += scenario.records + report.probes;
        acknowledged += report.history.acknowledged() as u64;
        refusals += report.refusals;
    }
    assert!(
        acknowledged * 10 > sent * 7,
        "only {acknowledged} of {sent} records were acknowledged"
    );
    refusals
}

#[test]
fn promises_hold_in_any_weather() {
    let refusals = check_all(seeds("any weather", 1_000, 500), Scenario::drawn);
    assert!(refusals > 50, "readers were refused only {refusals} times");
}

#[test]
fn only_what_the_cluster_has_lost_is_missing() {
    check_all(seeds("losses", 2_000, 200), Scenario::lossy);
}

/// The leader moves away and back between two metadata updates. Meanwhile its log is truncated, and
/// it accepts a batch into the empty log. That proves nothing about an earlier batch that was lost.
#[test]
fn a_batch_in_another_log_proves_no_earlier_one() {
    let mut scenario = Scenario::lossy(2_319);
    scenario.faults.zombies = true;
    check(&scenario);
}

#[test]
fn one_request_at_a_time_keeps_the_order_without_idempotence() {
    check_all(seeds("unnumbered", 3_000, 100), Scenario::unnumbered);
}

#[test]
fn a_run_in_which_every_record_fails_is_wrong() {
    let refused = Scenario {
        producer: ProducerConfig {
            max_request_size: 1,
            ..ProducerConfig::default()
        },
        records: 10,
        ..Scenario::new(4_000)
    };
    let report = refused.run();
    assert_eq!(report.history.acknowledged(), 0);
    assert_eq!(report.wrongs(), ["4 partitions take no record in calm"]);
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
fn a_lost_response_is_no_second_record() {
    let faults = FaultPlan {
        lose_response: 200,
        cut_response: 100,
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
        lose_response: 200,
        ..FaultPlan::default()
    };
    let report = Scenario {
        faults,
        producer,
        ..Scenario::new(600)
    }
    .run();
    assert!(report.history.repeats() > 0, "else the storms show nothing");
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
    // Brokers are silent for longer than the delivery timeout allows.
    let producer = ProducerConfig {
        delivery_timeout: Duration::from_secs(3),
        request_timeout: Duration::from_secs(1),
        ..ProducerConfig::default()
    };
    let faults = FaultPlan {
        silence: 300,
        lose_response: 300,
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
