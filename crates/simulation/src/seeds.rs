//! Which seeds a test runs: the same ones always, and a block that nobody has run before.

use std::io::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

/// Runs a fresh block again: its first seed, as it was printed.
const FRESH_FIRST: &str = "THALWEG_SIMULATION_SEED";
const SCALE: &str = "THALWEG_TEST_SCALE";

/// 1 in everyday runs; the full test run multiplies the seeds.
pub fn scale() -> u64 {
    number(SCALE).unwrap_or(1)
}

/// `count` seeds from `first` on, and a tenth of that from anywhere, both times the scale. Where the
/// fresh ones begin is written past the capture of output, so that any failure can be run again.
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
    // Short enough to be typed again.
    nanos % 1_000_000_000_000
}
