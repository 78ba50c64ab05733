//! The seeds that a test runs: always the same ones, and a block of new ones.

use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

/// Set this to the first seed of a printed block to run the block again.
const FRESH_FIRST: &str = "THALWEG_SIMULATION_SEED";
const SCALE: &str = "THALWEG_TEST_SCALE";

/// Returns the factor for the number of seeds: 1 in everyday runs, more in the full test run.
pub fn scale() -> u64 {
    number(SCALE).unwrap_or(1)
}

/// Returns `count` seeds from `first` on and a tenth as many random ones, both times the scale.
///
/// The first random seed is printed to stderr even while the test's output is captured, so that any
/// failure can be run again.
pub fn seeds(test: &str, first: u64, count: u64) -> impl Iterator<Item = u64> {
    let fresh = number(FRESH_FIRST).unwrap_or_else(anything);
    let (count, fresh_count) = (count * scale(), count.div_ceil(10) * scale());
    let told = writeln!(
        std::io::stderr(),
        "{test}: seeds {first}..{}, and {fresh_count} from {FRESH_FIRST}={fresh}",
        first + count
    );
    drop(told);
    (first..first + count).chain(fresh..fresh + fresh_count)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn anything() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let nanos = since.map_or(0, |since| since.as_nanos() as u64);
    // Short enough to type.
    nanos % 1_000_000_000_000
}
