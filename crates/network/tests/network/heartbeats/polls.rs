//! What happens to a member whose application does not poll.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thalweg_network::HeartbeatPlan;
use thalweg_protocol::ApiKey;

use crate::broker::{Broker, Reaction};
use crate::heartbeats::{classic, client, coordinator, pass, plan};

#[tokio::test(start_paused = true)]
async fn who_does_not_poll_leaves_once_and_falls_silent() {
    let broker = Broker::usual();
    let client = client(&broker);
    client.start_heartbeats(plan(classic(5)));
    pass(200).await;
    drop(client.poll_watch().enter());
    pass(299).await;
    assert!(!client.take_poll_expired());
    let before = client.reentries();
    pass(2).await;
    assert!(client.take_poll_expired());
    assert!(!client.take_poll_expired());
    assert_eq!(
        client.reentries(),
        before + 1,
        "a waiting poll would hear of it"
    );
    let beats = broker.got(ApiKey::HEARTBEAT).len();
    assert!((160..=167).contains(&beats), "{beats}");
    pass(1_000).await;
    assert_eq!(broker.got(ApiKey::LEAVE_GROUP).len(), 1);
    assert_eq!(broker.got(ApiKey::HEARTBEAT).len(), beats);
    assert!(!client.take_poll_expired());
}

#[tokio::test(start_paused = true)]
async fn who_has_nothing_to_leave_by_only_falls_silent() {
    let broker = Broker::usual();
    let client = client(&broker);
    let silent = HeartbeatPlan {
        leave: None,
        ..plan(classic(5))
    };
    client.start_heartbeats(silent);
    pass(400).await;
    assert!(client.take_poll_expired());
    assert!(broker.got(ApiKey::LEAVE_GROUP).is_empty());
    assert_eq!(broker.got(ApiKey::HEARTBEAT).len(), 99);
}

#[tokio::test(start_paused = true)]
async fn a_long_poll_counts_as_polling_as_long_as_it_lasts() {
    let broker = Broker::usual();
    let client = client(&broker);
    client.start_heartbeats(plan(classic(5)));
    let polling = client.poll_watch().enter();
    pass(1_000).await;
    drop(polling);
    pass(299).await;
    assert!(!client.take_poll_expired());
    pass(2).await;
    assert!(client.take_poll_expired());
}

#[tokio::test(start_paused = true)]
async fn who_rejoined_is_not_made_to_leave_by_what_could_not_be_sent_before() {
    let found = Arc::new(AtomicBool::new(false));
    let is_found = Arc::clone(&found);
    let broker = Broker::start(move |got| match got.key {
        ApiKey::FIND_COORDINATOR if !is_found.load(Ordering::SeqCst) => {
            coordinator(got, 2, "nowhere")
        }
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    client.start_heartbeats(plan(classic(5)));
    pass(301).await;
    assert!(client.take_poll_expired());
    client.start_heartbeats(plan(classic(6)));
    found.store(true, Ordering::SeqCst);
    pass(20).await;
    assert!(!broker.got(ApiKey::HEARTBEAT).is_empty());
    assert!(broker.got(ApiKey::LEAVE_GROUP).is_empty());
}
