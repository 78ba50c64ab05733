//! Lookups of offsets while a range is read.

use std::sync::Arc;
use std::time::Duration;

use thalweg_consumer::{ConsumerError, IsolationLevel, RangeReader, RangeStep};

use crate::ranges::{STRICT, forty, range, world};
use crate::world::{Collected, noop};

#[test]
fn a_lookup_without_a_response_is_no_busy_loop() {
    let mut world = world(IsolationLevel::ReadUncommitted, |broker| {
        forty(broker);
        broker.log("t", 0).log_start = 25;
    });
    let begun = world.now;
    let consumer = Arc::clone(&world.consumer);
    let mut reader =
        RangeReader::new(consumer, vec![range(5, 30)], STRICT, begun).expect("a range");
    let mut polls = 0;
    let error = loop {
        world.run();
        polls += 1;
        match reader.poll(&mut Collected::default(), noop(), world.now) {
            Ok(step) => assert_eq!(step, RangeStep::Pending),
            Err(error) => break error,
        }
        let wait = reader.deadline().saturating_duration_since(world.now);
        // Only for a lookup does it wait for long: the fetch was out of range.
        world.broker.silent |= wait > Duration::from_secs(10);
        world.advance(wait.max(Duration::from_millis(1)));
    };
    assert!(
        world.broker.silent && !matches!(error, ConsumerError::DataLoss { .. }),
        "{error}"
    );
    let took = world.now - begun;
    assert!(took + Duration::from_secs(1) >= STRICT.timeout, "{took:?}");
    assert!(polls < 20, "{polls} polls");
}
