//! One hostile frame costs the broker only bounded memory and time, whatever its API.
//!
//! ```text
//! hostile/     for each API the most expensive frames for their size: repeated names, huge counts,
//!              names of 30 KB, batches that decompress to a lot
//! here         each at 256 KiB and at 1 MiB: measures the peak and the total of allocated bytes,
//!              the size of the response, and the time
//! ```

#![allow(clippy::disallowed_methods)] // measures time
#![allow(clippy::too_many_lines)] // tables of attacks

#[path = "hostile/attacks.rs"]
mod attacks;
#[path = "hostile/groups.rs"]
mod groups;
#[path = "hostile/records.rs"]
mod records;
#[path = "hostile/topics.rs"]
mod topics;
#[path = "hostile/users.rs"]
mod users;
#[path = "hostile/world.rs"]
mod world;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use attacks::{Attack, attacks};
use thalweg_broker::Outcome;
use thalweg_protocol::ApiKey;
use thalweg_protocol::dynamic::Value;
use world::World;

/// Counts the allocations of this thread.
struct Counting;

thread_local! {
    /// Bytes allocated in total, allocated now, and the peak.
    static COUNTS: Cell<(usize, isize, isize)> = const { Cell::new((0, 0, 0)) };
}

fn count(bytes: isize) {
    COUNTS.with(|counts| {
        let (total, now, peak) = counts.get();
        let now = now + bytes;
        counts.set((total + bytes.max(0) as usize, now, peak.max(now)));
    });
}

// SAFETY: everything is passed to the system's allocator. Counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size as isize);
        count(-(layout.size() as isize));
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const SMALL_FRAME_BYTES: usize = 256 << 10;
const FRAME_BYTES: usize = 1 << 20;
/// The growth of the total that is allowed for four times the bytes. Vectors grow in powers of two.
const GROWTH_MAX: usize = 6;
/// A byte of a frame may become a decoded and answered struct: see `protocol/tests/allocation.rs`.
const PEAK_PER_FRAME_BYTE: usize = 256;
const RESPONSE_PER_FRAME_BYTE: usize = 64;
/// What a response may say about the state of the test's broker, however short the request.
const STATE_BYTES: usize = 4 << 20;
/// All take less than a second on an idle machine. Quadratic work on 1 MiB takes minutes.
const TIME_MAX: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy)]
struct Cost {
    frame_bytes: usize,
    response_bytes: usize,
    peak_bytes: usize,
    total_bytes: usize,
    time: Duration,
}

fn cost_of(attack: &Attack, frame_bytes: usize) -> Cost {
    let mut world = World::new();
    let frame = attack.frame(frame_bytes);
    let frame_bytes = frame.len();
    COUNTS.with(|counts| counts.set((0, 0, 0)));
    let started = Instant::now();
    let outcome = world.handle(frame);
    let time = started.elapsed();
    let (total_bytes, _, peak) = COUNTS.with(Cell::get);
    let response_bytes = match &outcome {
        Outcome::Response(response) => response.pieces.iter().map(bytes::Bytes::len).sum(),
        Outcome::Wait(_) => 0,
        other => panic!("{}: {other:?}", attack.name),
    };
    Cost {
        frame_bytes,
        response_bytes,
        peak_bytes: peak.max(0) as usize,
        total_bytes,
        time,
    }
}

/// Returns the limits that an attack exceeds.
fn complaints(attack: &Attack) -> Vec<String> {
    let small = cost_of(attack, SMALL_FRAME_BYTES);
    let large = cost_of(attack, FRAME_BYTES);
    let limits = [
        (
            "peak",
            large.peak_bytes,
            attack.peak_bytes + PEAK_PER_FRAME_BYTE * large.frame_bytes + STATE_BYTES,
        ),
        (
            "response",
            large.response_bytes,
            RESPONSE_PER_FRAME_BYTE * large.frame_bytes + STATE_BYTES,
        ),
        (
            "growth",
            large.total_bytes,
            GROWTH_MAX * small.total_bytes + STATE_BYTES,
        ),
        (
            "microseconds",
            large.time.as_micros() as usize,
            TIME_MAX.as_micros() as usize,
        ),
    ];
    eprintln!("{}: {large:?} small {:?}", attack.name, small.time);
    let broken = limits.into_iter().filter(|(_, is, max)| is > max);
    broken
        .map(|(what, is, max)| format!("{}: {what} {is} > {max}: {large:?}", attack.name))
        .collect()
}

fn assert_bounded(attacks: &[Attack]) {
    let complaints: Vec<String> = attacks.iter().flat_map(complaints).collect();
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

// Several tests, so that they run in parallel.

#[test]
fn the_worst_frames_of_records_are_answered_within_bounds() {
    assert_bounded(&records::all());
}

#[test]
fn the_worst_frames_of_topics_are_answered_within_bounds() {
    assert_bounded(&topics::all());
}

#[test]
fn the_worst_frames_of_groups_are_answered_within_bounds() {
    assert_bounded(&groups::all());
}

#[test]
fn the_worst_frames_of_users_are_answered_within_bounds() {
    assert_bounded(&users::all());
}

#[test]
fn every_api_that_is_announced_has_a_worst_frame() {
    let response = World::new().ask(ApiKey::API_VERSIONS, 0, &Value::Struct(vec![]));
    let Some(Value::Array(rows)) = response.get("ApiKeys") else {
        panic!("{response:?}");
    };
    let announced: BTreeSet<i64> = rows
        .iter()
        .map(|row| match row.get("ApiKey") {
            Some(Value::Int(key)) => *key,
            other => panic!("{other:?}"),
        })
        .collect();
    let attacked: BTreeSet<i64> = attacks().iter().map(|attack| attack.key.0.into()).collect();
    assert_eq!(attacked, announced);
}
