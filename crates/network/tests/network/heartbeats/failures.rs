//! Heartbeats after errors, lost connections, and coordinators that move, hang or die.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use thalweg_cluster::{ConnectionError, RequestError};
use thalweg_network::{ClientError, HeartbeatPlan};
use thalweg_protocol::{ApiKey, ErrorCode};

use crate::broker::{Broker, Reaction};
use crate::heartbeats::{classic, client, codes, coordinator, outcomes, pass, plan, refused};

#[tokio::test(start_paused = true)]
async fn a_rebalance_is_told_and_does_not_end_heartbeats() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::HEARTBEAT => refused(got, ErrorCode::REBALANCE_IN_PROGRESS),
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    client.start_heartbeats(plan(classic(5)));
    pass(10).await;
    assert_eq!(broker.got(ApiKey::HEARTBEAT).len(), 3);
    assert_eq!(codes(&client), [Some(27); 3]);
}

#[tokio::test(start_paused = true)]
async fn a_coordinator_that_moved_is_looked_up_again_and_found() {
    let moved = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&moved);
    let broker = Broker::start(move |got| match got.key {
        ApiKey::HEARTBEAT if !seen.load(Ordering::SeqCst) => {
            refused(got, ErrorCode::NOT_COORDINATOR)
        }
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    client.start_heartbeats(plan(classic(5)));
    pass(33).await;
    let tries = broker.got(ApiKey::HEARTBEAT).len();
    // Backoffs of 0.1, 0.2, 0.4, 0.8 and then 1 s, each up to 20% shorter or longer.
    assert!((25..=45).contains(&tries), "{tries}");
    let lookups = broker.got(ApiKey::FIND_COORDINATOR).len();
    assert!((tries - 1..=tries + 1).contains(&lookups), "{lookups}");
    moved.store(true, Ordering::SeqCst);
    pass(2).await;
    client.take_notable_heartbeats();
    pass(30).await;
    let after = broker.got(ApiKey::HEARTBEAT).len() - tries;
    assert!((10..=14).contains(&after), "at the interval again: {after}");
    assert!(codes(&client).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_dead_coordinator_makes_no_busy_loop() {
    let dead = Arc::new(AtomicBool::new(true));
    let is_dead = Arc::clone(&dead);
    let broker = Broker::start(move |got| match got.key {
        ApiKey::FIND_COORDINATOR if is_dead.load(Ordering::SeqCst) => {
            coordinator(got, 2, "nowhere")
        }
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    client.start_heartbeats(plan(classic(5)));
    pass(120).await;
    assert!(broker.got(ApiKey::HEARTBEAT).is_empty());
    let all = broker.got.lock().expect("never poisoned").len();
    assert!(all < 600, "{all} requests in two minutes");
    let told = outcomes(&client);
    let timed_out = |it: &Result<_, _>| matches!(it, Err(ClientError::TimedOut(_)));
    assert!(!told.is_empty() && told.iter().all(timed_out), "{told:?}");
    dead.store(false, Ordering::SeqCst);
    pass(10).await;
    assert!(broker.got(ApiKey::HEARTBEAT).len() >= 2);
}

#[tokio::test(start_paused = true)]
async fn lost_connections_are_told_and_heartbeats_go_on() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::HEARTBEAT => Reaction::BytesThenClose(Vec::new()),
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    client.start_heartbeats(plan(classic(5)));
    pass(63).await;
    let tries = broker.got(ApiKey::HEARTBEAT).len();
    assert!((20..=90).contains(&tries), "{tries}");
    let lost = |it: &Result<_, _>| {
        matches!(
            it,
            Err(ClientError::Request(RequestError::Disconnected { .. }))
        )
    };
    let told = outcomes(&client);
    assert!(told.len() == 16 && told.iter().all(lost), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn silence_is_a_timeout_and_heartbeats_go_on_by_a_new_connection() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::HEARTBEAT if got.connection == 2 => Reaction::Silence,
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    client.start_heartbeats(plan(classic(5)));
    pass(32).await;
    assert_eq!(broker.got(ApiKey::HEARTBEAT).len(), 1);
    pass(5).await;
    let told = outcomes(&client);
    assert!(
        matches!(
            &told[..],
            [Err(ClientError::Request(RequestError::Disconnected { cause, .. }))]
                if matches!(**cause, ConnectionError::RequestTimedOut { .. })
        ),
        "{told:?}"
    );
    assert!(broker.got(ApiKey::HEARTBEAT).len() >= 2);
}

/// As in Java, the limit is the session timeout, which mostly comes before the request timeout.
#[tokio::test(start_paused = true)]
async fn a_coordinator_that_hangs_is_given_up_while_the_session_lasts() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::HEARTBEAT if got.connection == 2 => Reaction::Silence,
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    let within = HeartbeatPlan {
        response_timeout: Some(Duration::from_secs(10)),
        ..plan(classic(5))
    };
    client.start_heartbeats(within);
    pass(12).await;
    assert_eq!(broker.got(ApiKey::HEARTBEAT).len(), 1);
    pass(3).await;
    assert!(broker.got(ApiKey::HEARTBEAT).len() >= 2);
}
