//! Plants known bugs one at a time. The worlds must find each of them: otherwise the success of the
//! other tests would prove little.

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};

use thalweg_protocol::planted::{Bug, plant};
use thalweg_simulation::{Scenario, SharingScenario, TransactionalScenario};

/// Everyday runs must find each bug within this many seeds.
const SEEDS_MAX: u64 = 2_000;

/// Returns what is wrong with the world of a seed.
type Judge = fn(u64) -> Vec<String>;

fn produced(seed: u64) -> Vec<String> {
    Scenario::drawn(seed).run().wrongs()
}

fn lossy(seed: u64) -> Vec<String> {
    Scenario::lossy(seed).run().wrongs()
}

fn with_zombies(seed: u64) -> Vec<String> {
    let mut scenario = Scenario::lossy(seed);
    scenario.faults.zombies = true;
    scenario.run().wrongs()
}

fn unnumbered(seed: u64) -> Vec<String> {
    Scenario::unnumbered(seed).run().wrongs()
}

fn shared(seed: u64) -> Vec<String> {
    SharingScenario::drawn(seed).run().wrongs
}

fn transactional(seed: u64) -> Vec<String> {
    TransactionalScenario::drawn(seed).run().wrongs()
}

/// Runs a world with a planted bug. A failed assertion of the product counts as found.
fn judge_with(bug: Option<Bug>, judge: Judge, seed: u64) -> Vec<String> {
    plant(bug);
    let wrongs = catch_unwind(AssertUnwindSafe(|| judge(seed)));
    plant(None);
    wrongs.unwrap_or_else(|_| vec!["a panic".to_owned()])
}

fn is_caught(bug: Bug, judge: Judge) {
    let caught = (0..SEEDS_MAX).find_map(|seed| {
        let wrongs = judge_with(Some(bug), judge, seed);
        (!wrongs.is_empty()).then_some((seed, wrongs))
    });
    let Some((seed, wrongs)) = caught else {
        panic!("{bug:?} is not caught within {SEEDS_MAX} seeds");
    };
    let seeds = seed + 1;
    let told = writeln!(
        std::io::stderr(),
        "{bug:?}: caught by seed {seed}, after {seeds} seeds: {}",
        wrongs[0]
    );
    drop(told);
    let without = judge_with(None, judge, seed);
    assert!(
        without.is_empty(),
        "{bug:?}: seed {seed} fails without it, too: {without:?}"
    );
}

macro_rules! caught {
    ($($test:ident: $bug:ident in $judge:ident;)*) => {$(
        #[test]
        fn $test() {
            is_caught(Bug::$bug, $judge);
        }
    )*};
}

caught! {
    a_silent_partition_is_caught: SilentPartition in produced;
    a_lost_seek_is_caught: LostSeek in shared;
    a_late_committed_offset_is_caught: LateCommitted in shared;
    a_commit_of_unreceived_records_is_caught: CommitUnreceived in shared;
    a_prefetch_kept_after_a_revocation_is_caught: StalePrefetch in shared;
    a_retry_without_backoff_is_caught: NoBackoff in produced;
    a_leak_of_aborted_records_is_caught: AbortedLeak in transactional;
    an_ignored_truncation_is_caught: TruncationIgnored in lossy;
    a_renumbered_batch_is_caught: Renumbered in produced;
    an_unanswered_batch_taken_for_written_is_caught: UnansweredTaken in with_zombies;
    an_order_lost_after_a_gap_is_caught: OrderAfterGap in produced;
    an_order_lost_without_idempotence_is_caught: NotMuted in unnumbered;
    lost_headers_are_caught: HeadersLost in produced;
    epochs_of_a_deleted_topic_are_caught: EpochsOfDeleted in lossy;
}
