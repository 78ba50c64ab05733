//! Runs groups of consumers by seed. A seed that failed once is kept.

use thalweg_simulation::{SharingScenario, seeds};

/// Seeds whose runs broke a promise before a fix.
const REGRESSIONS: &[u64] = &[10_349];

#[test]
fn partitions_change_hands_and_positions_hold() {
    let (mut runs, mut handed_out, mut rebalances, mut commits, mut seeks) = (0, 0, 0, 0, 0);
    for seed in seeds("sharing", 0, 500).chain(REGRESSIONS.iter().copied()) {
        let report = SharingScenario::drawn(seed).run();
        assert!(report.wrongs.is_empty(), "seed {seed}: {:?}", report.wrongs);
        runs += 1;
        handed_out += report.handed_out;
        rebalances += report.rebalances;
        commits += report.commits;
        seeks += report.seeks;
    }
    assert!(
        handed_out > 100 * runs,
        "only {handed_out} records in {runs} runs"
    );
    for (what, count) in [
        ("rebalances", rebalances),
        ("commits", commits),
        ("seeks", seeks),
    ] {
        assert!(count > 3 * runs, "only {count} {what} in {runs} runs");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let scenario = SharingScenario::drawn(7);
    assert_eq!(scenario.run(), scenario.run());
}
