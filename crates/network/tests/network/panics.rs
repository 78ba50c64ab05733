//! A panic in a client's part of the I/O thread: all waiters get the error, and other clients
//! continue.
//!
//! The tests panic in [`thalweg_network::ClientView::with_cluster`], which runs a function there.

use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use thalweg_cluster::{CoordinatorType, metadata::TopicLookup};
use thalweg_consumer::{ConsumerConfig, OffsetSpec, TopicPartition};
use thalweg_network::admin::AdminClient;
use thalweg_network::consumer::ConsumerClient;
use thalweg_network::producer::ProducerClient;
use thalweg_network::{ClientConfig, ClientError, ClientView, Operation, Request, RequestTarget};
use thalweg_producer::{Acks, AppendRefusal, Appended, ProducerConfig, ProducerError, Record};
use thalweg_protocol::messages::heartbeat::HeartbeatRequest;

use crate::broker::{Broker, Reaction};
use crate::roles::until;
use crate::support::{blocking, finished};

const SENTENCE: &str = "the client failed and cannot be used any more: a bug of ours";

fn panic_in(view: &ClientView) {
    drop(view.with_cluster(|_, _| panic!("a bug of ours")));
}

/// Responds to every request except Heartbeat, so a client waits for that one.
fn mute() -> Broker {
    Broker::start(|got| match got.key {
        thalweg_protocol::ApiKey::HEARTBEAT => Reaction::Silence,
        _ => Reaction::Usual,
    })
}

fn heartbeat() -> Request {
    let target = RequestTarget::Coordinator {
        kind: CoordinatorType::Group,
        key: "g".into(),
    };
    Request::typed(target, HeartbeatRequest::default())
}

fn assert_tells(error: &dyn std::fmt::Display) {
    let text = error.to_string();
    assert!(text.contains(SENTENCE), "{text}");
}

#[tokio::test(start_paused = true)]
async fn everyone_who_waits_for_a_producer_hears_of_its_panic() {
    let broker = mute();
    let options = ProducerConfig {
        enable_idempotence: false,
        acks: Acks::All,
        batch_size: 1_000,
        buffer_memory: 10_000,
        linger: Duration::ZERO,
        ..ProducerConfig::default()
    };
    let producer = ProducerClient::start_here(broker.parts(&broker.config()), options, None);
    let (view, accumulator) = (producer.view().clone(), Arc::clone(producer.accumulator()));
    view.metadata().request_topic("t").expect("a good name");
    until(|| matches!(view.metadata().lookup("t"), TopicLookup::Known(_))).await;
    let topic = accumulator.topic("t");
    let mut sent: Vec<Appended> = Vec::new();
    let mut for_memory = loop {
        let record = Record {
            value: Some(&[7; 600]),
            timestamp_ms: 1,
            ..Record::default()
        };
        // The client's own clock, which stands still while this machine pauses.
        let now = || tokio::time::Instant::now().into_std();
        match accumulator.append(&topic, &record, now) {
            Ok(appended) => sent.push(appended),
            Err(AppendRefusal::BufferExhausted(wait)) => break wait,
            Err(refusal) => panic!("{refusal:?}"),
        }
    };
    // Some are in flight, some are not sent yet.
    tokio::time::sleep(Duration::from_millis(5)).await;
    let noop = Waker::noop();
    assert!(for_memory.poll_reservation(noop).is_pending());
    let mut flush = accumulator.flush();
    assert!(flush.poll_done(noop).is_pending());
    let asked = view.request(heartbeat());
    let begun = tokio::time::Instant::now();

    panic_in(&view);

    until(|| sent.iter().all(|one| one.completion.is_done())).await;
    for one in &sent {
        let outcome = one.completion.outcome(one.index).expect("it is done");
        let error = outcome.expect_err("nothing was acknowledged");
        assert!(
            matches!(error, ProducerError::ClientFailed { .. }),
            "{error}"
        );
        assert_tells(&error);
    }
    let possibly = |one: &Appended| {
        let outcome = one.completion.outcome(one.index).expect("it is done");
        outcome.is_err_and(|error| error.possibly_written())
    };
    assert!(possibly(&sent[0]), "it was sent");
    assert!(for_memory.poll_reservation(noop).is_ready());
    assert_eq!(flush.poll_done(noop), Poll::Ready(()));
    assert_tells(&asked.await.expect_err("no response comes"));
    assert_tells(
        &accumulator
            .check_open()
            .expect_err("nothing is sent any more"),
    );
    assert_tells(&view.check().expect_err("it has failed"));
    assert_tells(&view.request(heartbeat()).await.expect_err("it has failed"));
    let minute = Duration::from_secs(60);
    let commit = producer.commit_transaction(minute).poll(noop);
    assert_tells(&commit.expect("at once").expect_err("it has failed"));
    let closed = finished(view.close(Some(minute))).await;
    closed.expect("what has failed is closed at once");
    assert!(begun.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn everyone_who_waits_for_a_consumer_hears_of_its_panic_and_other_clients_continue() {
    let broker = mute();
    let client = || {
        let parts = broker.parts(&broker.config());
        ConsumerClient::start_here(parts, ConsumerConfig::default())
    };
    let (broken, whole) = (client(), client());
    let view = broken.view().clone();
    until(|| view.metadata().version() > 0).await;
    let target = (TopicPartition::new("t", 0), OffsetSpec::Latest);
    let deadline = tokio::time::Instant::now().into_std() + Duration::from_secs(600);
    let lookup = broken.consumer().list_offsets(vec![target], deadline);
    let asked = view.request(heartbeat());
    let woken = Arc::new(Woken::default());
    broken.consumer().register(&Waker::from(Arc::clone(&woken)));
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert!(lookup.poll(Waker::noop()).is_pending());

    panic_in(&view);

    assert_tells(&asked.await.expect_err("no response comes"));
    until(|| view.check().is_err()).await;
    assert_tells(&view.check().expect_err("it has failed"));
    assert_tells(&view.failure().expect("it has failed"));
    assert!(
        !view.is_closed(),
        "an iteration raises, and does not just end"
    );
    assert!(
        woken.0.load(std::sync::atomic::Ordering::SeqCst),
        "a poll looks"
    );
    assert!(matches!(lookup.poll(Waker::noop()), Poll::Ready(Err(_))));
    let closed = finished(view.close(Some(Duration::from_secs(600)))).await;
    closed.expect("what has failed is closed at once");

    let alive = whole
        .view()
        .with_cluster(|cluster, _| cluster.is_connected());
    assert_eq!(alive.await, Ok(true));
}

#[derive(Default)]
struct Woken(std::sync::atomic::AtomicBool);

impl std::task::Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, std::sync::atomic::Ordering::SeqCst);
    }
}

/// Runs with the real threads.
#[test]
fn a_client_that_failed_is_closed_at_once_and_new_clients_work() {
    let broker = thalweg_broker::EmbeddedBroker::start(thalweg_broker::BrokerConfig::default())
        .expect("free ports");
    let config = ClientConfig::plaintext(&broker.bootstrap_servers()).expect("its own addresses");
    let client = AdminClient::start(&config).expect("a good config");
    let view = client.view().clone();
    blocking(view.bootstrap(Duration::from_secs(30))).expect("the broker is there");
    panic_in(&view);
    let far = std::time::Instant::now() + Duration::from_secs(60);
    let error = blocking(view.request(heartbeat())).expect_err("the client has failed");
    assert!(matches!(error, ClientError::Failed(_)), "{error}");
    assert_tells(&error);
    blocking(view.close(Some(Duration::from_secs(60)))).expect("at once");
    let another = AdminClient::start(&config).expect("a good config");
    let bootstrap = another.view().bootstrap(Duration::from_secs(30));
    blocking(bootstrap).expect("the I/O thread is alive");
    assert!(std::time::Instant::now() < far);
}
