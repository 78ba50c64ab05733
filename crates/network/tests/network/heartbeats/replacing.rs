//! Assignments in the responses, and responses to heartbeats that others have replaced.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use thalweg_protocol::dynamic::Value;

use crate::broker::{Broker, Reaction};
use crate::heartbeats::{
    CONSUMER_HEARTBEAT, by_name, client, consumer, epochs, outcomes, pass, plan,
};

#[tokio::test(start_paused = true)]
async fn an_assignment_is_told_and_its_epoch_goes_into_what_follows() {
    let beats = Arc::new(AtomicI32::new(0));
    let broker = Broker::start(move |got| match got.key {
        CONSUMER_HEARTBEAT => {
            let assignment = match beats.fetch_add(1, Ordering::SeqCst) {
                1 => Value::Struct(vec![("TopicPartitions", Value::Array(Vec::new()))]),
                _ => Value::Null,
            };
            let epoch = beats.load(Ordering::SeqCst).min(2);
            by_name(
                got,
                vec![
                    ("MemberId", "m".into()),
                    ("MemberEpoch", epoch.into()),
                    ("HeartbeatIntervalMs", 1_000_i32.into()),
                    ("Assignment", assignment),
                ],
            )
        }
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    client.start_heartbeats(plan(consumer(1)));
    tokio::time::sleep(Duration::from_millis(10_500)).await;
    assert_eq!(epochs(&broker), [1, 1, 2, 2, 2, 2, 2, 2], "at 3, 4, ... 10");
    let told = outcomes(&client);
    assert_eq!(told.len(), 1, "{told:?}");
    let epoch = told[0].as_ref().map(|body| body.get("MemberEpoch"));
    assert_eq!(epoch, Ok(Some(&Value::Int(2))));
}

#[tokio::test(start_paused = true)]
async fn a_response_to_what_was_replaced_is_told_only_if_it_is_good_news() {
    for (code, told) in [(0_i16, 1), (110, 0)] {
        let broker = Broker::start(move |got| match got.key {
            CONSUMER_HEARTBEAT => {
                let fields = vec![
                    ("ErrorCode", code.into()),
                    ("MemberEpoch", 2_i32.into()),
                    ("HeartbeatIntervalMs", 3_000_i32.into()),
                ];
                Reaction::Later(Duration::from_secs(1), Box::new(by_name(got, fields)))
            }
            _ => Reaction::Usual,
        });
        let client = client(&broker);
        client.start_heartbeats(plan(consumer(1)));
        tokio::time::sleep(Duration::from_millis(3_500)).await;
        assert_eq!(epochs(&broker), [1]);
        client.start_heartbeats(plan(consumer(7)));
        pass(2).await;
        assert_eq!(client.take_notable_heartbeats().len(), told, "code {code}");
        pass(1).await;
        assert_eq!(epochs(&broker), [1, 7], "an interval after the last");
    }
}

#[tokio::test(start_paused = true)]
async fn who_replaces_heartbeats_learns_when_the_last_of_them_is_answered() {
    let broker = Broker::start(|got| match got.key {
        CONSUMER_HEARTBEAT => {
            let response = by_name(
                got,
                vec![("ErrorCode", 0.into()), ("MemberEpoch", 1.into())],
            );
            Reaction::Later(Duration::from_secs(2), Box::new(response))
        }
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    client.start_heartbeats(plan(consumer(1)));
    pass(4).await; // the first was sent at 3
    assert!(!client.old_heartbeat_is_in_flight());
    client.start_heartbeats(plan(consumer(1)));
    assert!(client.old_heartbeat_is_in_flight());
    let before = client.reentries();
    pass(2).await;
    assert!(!client.old_heartbeat_is_in_flight());
    assert!(client.reentries() > before, "a poll that waits looks again");
    pass(10).await;
    assert!(!client.old_heartbeat_is_in_flight(), "these are in force");
    assert!(client.take_notable_heartbeats().is_empty());
}
