//! Offsets that the application asks for, watermarks and lag.

use std::task::Poll;
use std::time::Duration;

use thalweg_consumer::{ConsumerError, FetchPosition, OffsetSpec, TopicPartition};
use thalweg_protocol::ErrorCode;

use crate::broker::Broker;
use crate::positions::ten;
use crate::world::{World, config, noop, tp};

#[test]
fn lookups_return_offsets_in_the_order_asked_and_over_several_leaders() {
    let mut broker = Broker::new(&[1, 2]);
    broker.create("t", 2, 1);
    broker.log("t", 1).leader = 2;
    ten(&mut broker);
    broker.log("t", 0).timestamps = vec![(3, 500), (6, 900)];
    let mut world = World::new(config(), broker);
    world.run();
    let asked = vec![
        (tp(1), OffsetSpec::Latest),
        (tp(0), OffsetSpec::Timestamp(600)),
        (tp(0), OffsetSpec::MaxTimestamp),
        (tp(0), OffsetSpec::Timestamp(1000)),
    ];
    let pending = world
        .consumer
        .list_offsets(asked, world.now + Duration::from_secs(5));
    world.advance(Duration::from_secs(1));
    let Poll::Ready(found) = pending.poll(noop()) else {
        panic!("not answered");
    };
    let found = found.expect("no error");
    let found: Vec<_> = found
        .iter()
        .map(|f| (f.partition.partition, f.offset, f.timestamp))
        .collect();
    assert_eq!(found, [(1, 0, -1), (0, 6, 900), (0, 6, 900), (0, -1, -1)]);
}

#[test]
fn a_lookup_of_an_unknown_topic_times_out_and_says_what_was_wrong() {
    let mut world = World::new(config(), Broker::new(&[1]));
    let target = vec![(TopicPartition::new("nowhere", 0), OffsetSpec::Latest)];
    let pending = world
        .consumer
        .list_offsets(target, world.now + Duration::from_secs(2));
    world.advance(Duration::from_secs(3));
    let Poll::Ready(found) = pending.poll(noop()) else {
        panic!("not in time");
    };
    let error = found.expect_err("no such topic");
    assert!(error.to_string().contains("leader of nowhere-0"), "{error}");
}

#[test]
fn a_topic_that_may_not_be_read_raises() {
    let mut broker = Broker::new(&[1]);
    broker.create("t", 1, 1);
    broker
        .topic_errors
        .insert("t".into(), ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    let mut world = World::new(config(), broker);
    world.assign_all(1);
    let error = world.drain(1).expect_err("refused");
    let refused = matches!(&error, ConsumerError::TopicAuthorizationFailed { topics, .. }
        if topics.len() == 1 && &*topics[0] == "t");
    assert!(refused, "{error}");
}

#[test]
fn watermarks_and_lag_follow_the_fetches() {
    let mut world = World::with_topic(config(), 1, ten);
    world.drain(4).expect("records");
    let partitions = world.consumer.partitions();
    assert_eq!(partitions.high_watermark(&tp(0)), Ok(Some(10)));
    assert_eq!(partitions.log_start_offset(&tp(0)), Ok(Some(0)));
    let lag = partitions.lag(&tp(0), thalweg_consumer::IsolationLevel::ReadUncommitted);
    assert_eq!(lag, Ok(Some(6)));
    assert_eq!(
        partitions.all_consumed(),
        [(
            tp(0),
            FetchPosition {
                offset: 4,
                leader_epoch: 1
            }
        )]
    );
    let other = TopicPartition::new("t", 7);
    assert_eq!(
        world.consumer.seek(&other, 0, -1),
        Err(ConsumerError::NotAssigned { partition: other })
    );
}
