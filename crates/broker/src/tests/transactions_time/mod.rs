//! Transactions with timeouts, several nodes, faults, and administrators.

mod administrators;
mod faults;
mod limits;

use super::transactional::*;
use super::*;

fn bench() -> Bench {
    let mut bench = Bench::new(1);
    bench.create("t", 1, &[]);
    bench
}

fn tick(bench: &mut Bench) {
    bench.core.tick(bench.now, bench.now_ms);
}

fn state(bench: &mut Bench, id: &str) -> String {
    describe(bench, id).transaction_state.to_string()
}
