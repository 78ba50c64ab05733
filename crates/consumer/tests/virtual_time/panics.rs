//! A sink that panics, which is a bug of the client, neither loses records nor blocks partitions.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use thalweg_consumer::{BatchInfo, Consumer, Demand, Offer, RecordSink};
use thalweg_records::RecordRef;

use crate::batches::plain;
use crate::world::{World, config, tp};

/// Panics at a record, after it has taken others.
struct PanicsAfter(usize);

impl RecordSink for PanicsAfter {
    fn begin_batch(&mut self, _: &BatchInfo<'_>) -> Offer {
        Offer::Taken
    }

    fn record(&mut self, _: &RecordRef<'_>) -> Offer {
        assert!(self.0 > 0, "planned");
        self.0 -= 1;
        Offer::Taken
    }
}

/// Panics after each record.
struct PanicsAtTheEnd;

impl RecordSink for PanicsAtTheEnd {
    fn begin_batch(&mut self, _: &BatchInfo<'_>) -> Offer {
        Offer::Taken
    }

    fn record(&mut self, _: &RecordRef<'_>) -> Offer {
        Offer::Taken
    }

    fn end_batch(&mut self) {
        panic!("planned");
    }
}

fn of_two_batches(partitions: i32) -> World {
    let world = World::with_topic(config(), partitions, |broker| {
        for partition in 0..partitions {
            broker.append("t", partition, 10, plain(0, 10));
            broker.append("t", partition, 20, plain(10, 10));
        }
    });
    assert_eq!(world.buffered().len(), partitions as usize);
    world
}

fn expect_panic<T>(world: &World, call: impl FnOnce(&Consumer) -> T) {
    let consumer = Arc::clone(&world.consumer);
    let outcome = catch_unwind(AssertUnwindSafe(|| call(&consumer)));
    assert!(outcome.is_err(), "the sink panics");
}

#[test]
fn a_drain_whose_sink_panics_is_undone() {
    for taken in [0, 5, 16, 20, 30, 35] {
        let mut world = of_two_batches(2);
        assert_eq!(world.drain(4).expect("records").records.len(), 4);
        expect_panic(&world, |consumer| {
            consumer.drain(Demand::up_to(usize::MAX), &mut PanicsAfter(taken))
        });
        assert_eq!((world.position(0), world.position(1)), (4, 0));
        let rest = world.drain_all();
        let of = |partition| {
            let records = rest.iter().filter(move |one| one.partition == partition);
            records.map(|one| one.offset).collect::<Vec<_>>()
        };
        assert_eq!(of(0), (4..20).collect::<Vec<_>>(), "after {taken} records");
        assert_eq!(of(1), (0..20).collect::<Vec<_>>(), "after {taken} records");
        assert_eq!(world.consumer.buffered_bytes().0, 0);
        assert_eq!(world.consumer.metrics().records_consumed_total.get(), 40);
    }
}

#[test]
fn a_step_whose_sink_panics_takes_no_record() {
    for taken in 0..19 {
        let mut world = of_two_batches(1);
        for offset in 0..taken {
            let got = world.step().expect("a record");
            assert_eq!(got.offsets(0), [offset]);
        }
        if taken % 2 == 0 {
            expect_panic(&world, |consumer| {
                consumer.drain(Demand::step(), &mut PanicsAfter(0))
            });
        } else {
            expect_panic(&world, |consumer| {
                consumer.drain(Demand::step(), &mut PanicsAtTheEnd)
            });
        }
        assert_eq!(world.position(0), taken);
        for offset in taken..20 {
            world.run();
            let got = world.step().expect("a record");
            assert_eq!(got.offsets(0), [offset], "after {taken} steps");
        }
        assert_eq!(world.consumer.buffered_bytes().0, 0);
    }
}

#[test]
fn a_seek_during_a_drain_that_panics_holds() {
    struct Seeks<'a>(&'a Consumer);
    impl RecordSink for Seeks<'_> {
        fn begin_batch(&mut self, _: &BatchInfo<'_>) -> Offer {
            self.0.seek(&tp(0), 12, -1).expect("assigned");
            panic!("planned");
        }

        fn record(&mut self, _: &RecordRef<'_>) -> Offer {
            Offer::Refused
        }
    }
    let mut world = of_two_batches(1);
    expect_panic(&world, |consumer| {
        consumer.drain(Demand::up_to(usize::MAX), &mut Seeks(consumer))
    });
    assert_eq!(world.position(0), 12);
    world.run();
    let got = world.drain(usize::MAX).expect("records");
    assert_eq!(got.offsets(0), (12..20).collect::<Vec<_>>());
}
