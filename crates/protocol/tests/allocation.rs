//! The memory that decoding allocates is limited by what the bytes can hold.

mod support;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bytes::Bytes;
use thalweg_protocol::dynamic::{self, FieldSchema, Kind, StructSchema, Value};
use thalweg_protocol::fuzzing::{Visitor, visit};
use thalweg_protocol::{Message, Reader, SplitMix64};

/// Counts the bytes that this thread allocates.
struct Counting;

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator, and counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.with(|count| count.set(count.get() + layout.size()));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocated_by<T>(work: impl FnOnce() -> T) -> usize {
    let before = ALLOCATED.with(Cell::get);
    drop(work());
    ALLOCATED.with(Cell::get) - before
}

struct Decode(i16, Bytes);

impl Visitor for Decode {
    type Output = usize;
    fn visit<M: Message>(self) -> usize {
        let mut input = Reader::new(self.1);
        allocated_by(|| M::decode(&mut input, self.0))
    }
}

/// Limits of the allocated memory as a multiple of the message's bytes. One byte may represent a
/// whole struct of defaults, but the multiple is constant: no count in the bytes can raise it. An
/// empty string of one byte takes 32 in memory, and in the by-name codec each field of a struct
/// takes 56.
const TYPED_FACTOR: usize = 60;
const BY_NAME_FACTOR: usize = 120;
const BASE: usize = 4096;

fn assert_bounded(data: &[u8]) {
    for api in dynamic::schemas() {
        for version in api.versions() {
            for (schema, response) in [(&api.request, false), (&api.response, true)] {
                let body = Bytes::copy_from_slice(data);
                let mut input = Reader::new(body.clone());
                let by_name = allocated_by(|| dynamic::decode_message(schema, version, &mut input));
                let limit = BASE + BY_NAME_FACTOR * data.len();
                assert!(
                    by_name <= limit,
                    "{} {version} by name: {by_name}",
                    schema.name
                );
                if let Some(typed) = visit(api.key, response, Decode(version, body)) {
                    let limit = BASE + TYPED_FACTOR * data.len();
                    assert!(typed <= limit, "{} {version} typed: {typed}", schema.name);
                }
            }
        }
    }
}

/// Scenario 10.
#[test]
fn great_counts_allocate_nothing_that_the_bytes_cannot_hold() {
    // As counts in either form, these bytes mean millions and more.
    for fill in [0x7f, 0xff, 0x80, 0x10, 0x01, 0x00, 0x02] {
        for length in [1, 7, 64, 1000, 20_000] {
            assert_bounded(&vec![fill; length]);
        }
    }
}

#[test]
fn noise_allocates_nothing_that_the_bytes_cannot_hold() {
    let mut random = SplitMix64::new(3);
    for _ in 0..60 {
        let length = random.below(2000);
        assert_bounded(&support::bytes(length, &mut random));
    }
}

/// Returns an array of a thousand elements, each as small as possible.
fn crowd(field: &'static FieldSchema) -> Option<Value> {
    let Kind::Array(element) = field.kind else {
        return None;
    };
    let smallest = match element {
        Kind::Struct(_) => Value::Struct(vec![]),
        Kind::String => Value::from(""),
        Kind::Uuid => Value::Uuid(thalweg_protocol::Uuid::ZERO),
        _ => Value::Int(0),
    };
    Some(Value::Array(vec![smallest; 1000]))
}

/// Returns values of a struct that each have one large array, at any level of nesting.
fn crowded(schema: &'static StructSchema) -> Vec<Value> {
    let mut values = Vec::new();
    for field in schema.fields {
        values.extend(crowd(field).map(|array| Value::Struct(vec![(field.name, array)])));
        if let Kind::Array(Kind::Struct(inner)) = field.kind {
            values.extend(
                crowded(inner)
                    .into_iter()
                    .map(|value| Value::Struct(vec![(field.name, Value::Array(vec![value]))])),
            );
        }
    }
    values
}

#[test]
fn the_smallest_elements_set_the_bound() {
    let mut largest = 0;
    for api in dynamic::schemas() {
        for (schema, response) in [(&api.request, false), (&api.response, true)] {
            for value in crowded(schema.root) {
                for version in api.versions() {
                    let mut bytes = Vec::new();
                    if dynamic::encode_message(schema, version, &value, &mut bytes).is_err() {
                        continue;
                    }
                    let body = Bytes::from(bytes);
                    let mut input = Reader::new(body.clone());
                    let used =
                        allocated_by(|| dynamic::decode_message(schema, version, &mut input));
                    assert!(
                        used <= BASE + BY_NAME_FACTOR * body.len(),
                        "{}: {used}",
                        schema.name
                    );
                    largest = largest.max(used / body.len().max(1));
                    if let Some(used) = visit(api.key, response, Decode(version, body.clone())) {
                        assert!(
                            used <= BASE + TYPED_FACTOR * body.len(),
                            "{}: {used}",
                            schema.name
                        );
                    }
                }
            }
        }
    }
    assert!(
        largest > BY_NAME_FACTOR / 2,
        "the bound is far from what happens: {largest}"
    );
}

#[test]
fn a_true_message_with_a_great_count_put_into_it_allocates_no_more() {
    let mut random = SplitMix64::new(4);
    for api in dynamic::schemas() {
        for version in api.versions() {
            for schema in [&api.request, &api.response] {
                let value = support::message(schema, version, 90, &mut random);
                let mut bytes = Vec::new();
                dynamic::encode_message(schema, version, &value, &mut bytes).expect("valid");
                if bytes.len() < 4 {
                    continue;
                }
                let at = random.below(bytes.len() as u64 - 3) as usize;
                bytes[at..at + 4].copy_from_slice(&[0x7f, 0xff, 0xff, 0x7f]);
                let mut input = Reader::new(Bytes::from(bytes.clone()));
                let used = allocated_by(|| dynamic::decode_message(schema, version, &mut input));
                assert!(
                    used <= BASE + BY_NAME_FACTOR * bytes.len(),
                    "{} {used}",
                    schema.name
                );
            }
        }
    }
}
