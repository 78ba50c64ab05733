//! Sampled windows compared with Kafka's own, and the metrics of a client's connections.

use std::time::{Duration, Instant};

use thalweg_cluster::metrics::{Metric, MetricGroup, MetricsConfig, Sampled};
use thalweg_cluster::{ConnectionError, Event, Purpose};
use thalweg_protocol::messages::metadata::MetadataRequest;

use crate::support::{Bench, brokers, config};

/// Written by `data/SampledStats.java`.
const OF_KAFKA: &str = include_str!("data/sampled_stats.txt");

fn is_close(ours: f64, kafkas: f64) -> bool {
    ours.is_nan() && kafkas.is_nan() || (ours - kafkas).abs() <= 1e-9 * kafkas.abs()
}

#[test]
fn averages_maxima_and_rates_are_those_of_kafka() {
    let start = Instant::now();
    let mut sampled = Sampled::new(MetricsConfig::default());
    let mut compared = 0;
    for (number, line) in OF_KAFKA.lines().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        let figure = |at: usize| words[at].parse::<f64>().expect("a number of Kafka's");
        if words[0] == "config" {
            sampled = Sampled::new(MetricsConfig {
                num_samples: figure(1) as usize,
                sample_window: Duration::from_millis(figure(2) as u64),
            });
            continue;
        }
        let now = start + Duration::from_millis(figure(0) as u64);
        if words[1] != "-" {
            sampled.record(figure(1), now);
        }
        let ours = [
            sampled.avg(now),
            sampled.max(now),
            sampled.rate(now),
            sampled.count_rate(now),
        ];
        for (at, ours) in ours.into_iter().enumerate() {
            let kafkas = figure(2 + at);
            // With one window Kafka divides by a time of zero.
            if kafkas.is_infinite() || kafkas.is_nan() && at > 1 {
                assert!(ours.is_finite(), "line {}", number + 1);
                continue;
            }
            assert!(
                is_close(ours, kafkas),
                "line {}, figure {at}: {ours}, Kafka's is {kafkas}",
                number + 1
            );
            compared += 1;
        }
    }
    assert!(compared > 1_800, "{compared}");
}

#[test]
fn a_clock_that_stands_still_or_an_empty_window_divides_by_nothing() {
    let now = Instant::now();
    let mut sampled = Sampled::new(MetricsConfig {
        num_samples: 0,
        sample_window: Duration::ZERO,
    });
    assert!(sampled.avg(now).is_nan() && sampled.max(now).is_nan());
    assert!(sampled.rate(now).abs() < f64::EPSILON);
    for _ in 0..10 {
        sampled.record(1.0, now);
        assert!(sampled.rate(now).is_finite());
    }
    assert_eq!(sampled.count(), 10);
}

fn value(groups: &[MetricGroup], group: &str, name: &str) -> f64 {
    let group = groups.iter().find(|known| known.name == group);
    let find = |values: &[Metric]| values.iter().find(|known| known.0 == name).copied();
    group
        .and_then(|group| find(&group.values))
        .expect("a metric of that name")
        .1
}

#[test]
fn connections_requests_and_bytes_are_counted_for_all_and_by_node() {
    let mut bench = Bench::new(config("boot:9092"));
    let boot = bench.accept_next();
    let now = bench.now;
    let groups = bench.cluster.metrics().snapshot("producer", now);
    let of = |name| value(&groups, "producer-metrics", name);
    assert!((of("connection-count") - 1.0).abs() < 1e-9);
    assert!((of("request-total") - 1.0).abs() < 1e-9);
    assert!(of("response-total").abs() < 1e-9);
    assert!(
        of("successful-authentication-total").abs() < 1e-9,
        "no SASL"
    );
    bench.respond_with_metadata(&brokers(1, &[]));
    bench.advance(Duration::from_secs(7));
    let groups = bench.cluster.metrics().snapshot("producer", bench.now);
    let of = |name| value(&groups, "producer-metrics", name);
    assert!((of("response-total") - 1.0).abs() < 1e-9);
    assert!((of("metadata-age") - 7.0).abs() < 1e-3);
    assert!(of("incoming-byte-total") > 20.0);
    let of_node = |name| {
        value(
            &groups,
            &format!("producer-node-metrics.node-{}", boot.node),
            name,
        )
    };
    assert!((of_node("request-total") - 1.0).abs() < 1e-9);
    assert!((of_node("outgoing-byte-total") - of("outgoing-byte-total")).abs() < 1e-9);
    assert!(of_node("request-latency-avg").is_nan(), "not the role's");
    bench.event(Event::Disconnected {
        conn: boot.conn,
        error: ConnectionError::ClosedByPeer,
    });
    let groups = bench.cluster.metrics().snapshot("producer", bench.now);
    let of = |name| value(&groups, "producer-metrics", name);
    assert!(of("connection-count").abs() < 1e-9);
    assert!((of("connection-close-total") - 1.0).abs() < 1e-9);
}

#[test]
fn latency_is_that_of_the_roles_requests() {
    let mut bench = Bench::bootstrapped(1);
    let produce = bench.ready(1, Purpose::Produce);
    let outgoing =
        thalweg_cluster::Outgoing::new(&MetadataRequest::default(), 9, Duration::from_secs(30));
    let outgoing = outgoing.expect("a request of ours");
    bench
        .cluster
        .send(produce.node, Purpose::Produce, outgoing, bench.now);
    bench.turn();
    let asked = bench.take_write(thalweg_protocol::ApiKey::METADATA);
    bench.advance(Duration::from_millis(250));
    bench.respond::<MetadataRequest>(&asked, &brokers(1, &[]));
    let groups = bench.cluster.metrics().snapshot("consumer", bench.now);
    let latency = value(
        &groups,
        "consumer-node-metrics.node-1",
        "request-latency-avg",
    );
    assert!((latency - 250.0).abs() < 1e-6, "{latency}");
}
