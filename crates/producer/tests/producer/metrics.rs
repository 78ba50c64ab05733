//! The metrics of a producer, under Kafka's names.

use std::time::Duration;

use thalweg_cluster::metrics::MetricsConfig;
use thalweg_producer::ProducerConfig;
use thalweg_protocol::ErrorCode;
use thalweg_records::Compression;

use crate::world::broker::Reaction;
use crate::world::{TOPIC, World, config};

const OF_TOPIC: &str = "producer-topic-metrics.t";

fn is(ours: f64, expected: f64) -> bool {
    (ours - expected).abs() < 1e-6
}

#[test]
fn records_batches_and_bytes_are_counted_for_all_and_by_topic() {
    let mut world = World::ready(config(), 1, 2);
    for _ in 0..3 {
        world.send(0, &"x".repeat(100));
    }
    world.send(1, "y");
    world.run();
    assert!(is(world.metric("record-send-total"), 4.0));
    assert!(
        is(world.metric("records-per-request-avg"), 4.0),
        "one request"
    );
    assert!(is(world.metric_of(OF_TOPIC, "record-send-total"), 4.0));
    let bytes: usize = world.brokers.request_bytes.iter().sum();
    assert!(is(world.metric_of(OF_TOPIC, "byte-total"), bytes as f64));
    assert!(is(world.metric("batch-size-avg"), bytes as f64 / 2.0));
    assert!(world.metric("record-size-max") > 100.0);
    assert!(world.metric("record-size-max") < 200.0);
    assert!(is(world.metric("compression-rate-avg"), 1.0));
    assert!(is(world.metric("requests-in-flight"), 0.0));
    // Kafka's rule: at most one and a half windows have passed, so it counts one whole window.
    assert!(is(world.metric("record-send-rate"), 4.0 / 30.0));
}

#[test]
fn rates_and_averages_forget_what_is_older_than_their_windows() {
    let short = ProducerConfig {
        metrics: MetricsConfig {
            num_samples: 2,
            sample_window: Duration::from_secs(1),
        },
        ..config()
    };
    let mut world = World::ready(short, 1, 1);
    world.send_alone(0, "a");
    assert!(world.metric("record-send-rate") > 0.9);
    world.advance_ms(2_000);
    assert!(is(world.metric("record-send-rate"), 0.0));
    assert!(world.metric("batch-size-avg").is_nan());
    assert!(is(world.metric("record-send-total"), 1.0), "totals stay");
}

#[test]
fn retries_errors_latency_and_splits_are_counted() {
    let mut world = World::ready(config(), 1, 1);
    world.script([Reaction::Refuse(ErrorCode::NOT_ENOUGH_REPLICAS)]);
    world.send_alone(0, "a");
    world.advance_ms(1_000);
    assert!(is(world.metric("record-retry-total"), 1.0));
    assert!(is(world.metric_of(OF_TOPIC, "record-retry-total"), 1.0));
    world.script([Reaction::Hold]);
    world.send_alone(0, "b");
    assert!(is(world.metric("requests-in-flight"), 1.0));
    world.advance_ms(40);
    world.brokers.release();
    world.run();
    assert!(is(world.metric("request-latency-max"), 40.0));
    assert!(is(world.metric("requests-in-flight"), 0.0));
    world.script([Reaction::Refuse(ErrorCode::TOPIC_AUTHORIZATION_FAILED)]);
    world.send_alone(0, "c");
    assert!(is(world.metric("record-error-total"), 1.0));
    assert!(is(world.metric_of(OF_TOPIC, "record-error-total"), 1.0));
    assert_eq!(world.accumulator.metrics().record_errors(), 1);
}

#[test]
fn queue_time_is_from_the_first_record_to_the_request() {
    let lingering = ProducerConfig {
        linger: Duration::from_millis(25),
        ..config()
    };
    let mut world = World::ready(lingering, 1, 1);
    world.send(0, "a");
    world.advance_ms(100);
    assert!(is(world.metric("record-queue-time-max"), 25.0));
}

#[test]
fn the_compression_rate_is_of_what_was_sent() {
    let lz4 = ProducerConfig {
        compression: Compression::Lz4,
        ..config()
    };
    let mut world = World::ready(lz4, 1, 1);
    world.send_alone(0, &"abc".repeat(1000));
    let rate = world.metric("compression-rate-avg");
    assert!(rate > 0.0 && rate < 0.1, "{rate}");
    assert!(is(world.metric_of(OF_TOPIC, "compression-rate"), rate));
}

#[test]
fn waits_for_memory_and_records_given_up_are_told_apart() {
    let world = World::ready(config(), 1, 1);
    let metrics = world.accumulator.metrics();
    let later = world.now + Duration::from_millis(300);
    metrics.waited_for_memory(world.now, later, false);
    assert!(is(world.metric("buffer-exhausted-total"), 0.0));
    metrics.waited_for_memory(world.now, later, true);
    assert!(is(world.metric("buffer-exhausted-total"), 1.0));
    assert!(is(world.metric("bufferpool-wait-time-ns-total"), 6e8));
    assert!(is(world.metric("bufferpool-wait-ratio"), 0.6 / 30.0));
    assert_eq!(TOPIC, "t");
}
