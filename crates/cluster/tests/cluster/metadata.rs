//! When metadata is requested, and which parts of a response are accepted.

use std::collections::BTreeSet;
use std::time::Duration;

use thalweg_cluster::metadata::TopicLookup;
use thalweg_cluster::{ConnectionError, Event};
use thalweg_protocol::messages::metadata::{MetadataRequest, MetadataResponseTopic};
use thalweg_protocol::{ApiKey, ErrorCode, Str, Uuid};

use crate::support::{Bench, brokers, failed_topic, topic};

/// A client that knows these topics.
pub(crate) fn knowing(topics: &[MetadataResponseTopic]) -> Bench {
    let mut bench = Bench::bootstrapped(3);
    for told in topics {
        let name = told.name.as_deref().expect("the tests name their topics");
        bench
            .cluster
            .add_topic(name, bench.now)
            .expect("a good name");
    }
    bench.turn();
    connect(&mut bench);
    bench.respond_with_metadata(&brokers(3, topics));
    bench
}

/// Lets attempts succeed until a request is written.
pub(crate) fn connect(bench: &mut Bench) {
    while bench.writes.is_empty() {
        bench.accept_next();
    }
}

fn names(request: &MetadataRequest) -> Vec<String> {
    let topics = request.topics.as_ref().expect("not all topics");
    topics
        .iter()
        .map(|topic| topic.name.as_deref().unwrap_or("").to_owned())
        .collect()
}

/// Requests a full update and responds to it.
pub(crate) fn update(bench: &mut Bench, topics: &[MetadataResponseTopic]) -> MetadataRequest {
    bench.cluster.request_update();
    bench.advance(Duration::from_secs(2));
    connect(bench);
    bench.respond_with_metadata(&brokers(3, topics))
}

#[test]
fn a_new_topic_is_asked_for_at_once_and_alone() {
    let mut bench = knowing(&[topic("old", 1, &[(1, 0)])]);
    bench
        .cluster
        .add_topic("new", bench.now)
        .expect("a good name");
    bench.turn();
    let asked = bench.respond_with_metadata(&brokers(3, &[topic("new", 2, &[(2, 0), (3, 0)])]));
    assert_eq!(names(&asked), ["new"], "a partial update");
    let metadata = bench.cluster.metadata();
    assert_eq!(
        metadata.leader("old", 0),
        Some(1),
        "which leaves the others alone"
    );
    assert_eq!(metadata.leader("new", 1), Some(3));
    assert_eq!(
        metadata
            .topic_by_id(Uuid([2; 16]))
            .map(|t| t.name.to_string()),
        Some("new".into())
    );
}

#[test]
fn a_partial_update_does_not_make_the_rest_younger() {
    let mut bench = knowing(&[topic("old", 1, &[(1, 0)])]);
    let age = bench.cluster.config().metadata_max_age;
    bench.advance(age / 2);
    bench
        .cluster
        .add_topic("old", bench.now)
        .expect("a good name");
    bench
        .cluster
        .add_topic("new", bench.now)
        .expect("a good name");
    bench.turn();
    connect(&mut bench);
    bench.respond_with_metadata(&brokers(3, &[topic("new", 2, &[(2, 0)])]));
    bench.advance(age / 2);
    connect(&mut bench);
    let asked: MetadataRequest = bench.take_write(ApiKey::METADATA).decode();
    assert_eq!(names(&asked), ["new", "old"], "a full update, by age");
}

#[test]
fn an_update_that_is_asked_for_waits_its_backoff() {
    let mut bench = knowing(&[topic("t", 1, &[(1, 0)])]);
    bench.cluster.request_update();
    bench.turn();
    assert!(bench.writes.is_empty(), "the last response is too recent");
    bench.advance(Duration::from_millis(130));
    bench.respond_with_metadata(&brokers(3, &[topic("t", 1, &[(1, 0)])]));
    let mut waits = Vec::new();
    for _ in 0..6 {
        bench.cluster.request_update();
        bench.turn();
        let start = bench.now;
        while bench.writes.is_empty() {
            bench.advance_to_deadline(Duration::from_secs(2));
        }
        waits.push(bench.now - start);
        bench.respond_with_metadata(&brokers(3, &[topic("t", 1, &[(1, 0)])]));
    }
    assert!(
        waits[5] > waits[0] * 4,
        "the waits grow if the responses contain nothing new: {waits:?}"
    );
}

#[test]
fn a_lost_connection_asks_for_an_update() {
    let mut bench = knowing(&[topic("t", 1, &[(1, 0)])]);
    bench.advance(Duration::from_secs(1));
    let produce = bench.ready(1, thalweg_cluster::Purpose::Produce);
    bench.event(Event::Disconnected {
        conn: produce.conn,
        error: ConnectionError::ClosedByPeer,
    });
    assert_eq!(
        bench
            .take_write(ApiKey::METADATA)
            .decode::<MetadataRequest>()
            .topics
            .map(|t| t.len()),
        Some(1)
    );
}

/// Scenario 5; see bug 8 in the producer's tests.
#[test]
fn an_older_leader_epoch_is_ignored_and_a_newer_one_taken() {
    let mut bench = knowing(&[topic("t", 1, &[(1, 5)])]);
    update(&mut bench, &[topic("t", 1, &[(2, 4)])]);
    let known = bench
        .cluster
        .metadata()
        .partition("t", 0)
        .expect("known")
        .clone();
    assert_eq!(
        (known.leader, known.leader_epoch),
        (Some(1), 5),
        "scenario 5, bug 8"
    );
    update(&mut bench, &[topic("t", 1, &[(3, 6)])]);
    assert_eq!(bench.cluster.metadata().leader("t", 0), Some(3));
}

#[test]
fn bug_7_a_recreated_topic_starts_with_its_own_epochs() {
    let mut bench = knowing(&[topic("t", 1, &[(1, 50), (2, 50)])]);
    update(&mut bench, &[topic("t", 9, &[(3, 0)])]);
    let metadata = bench.cluster.metadata();
    let known = metadata.topic("t").expect("known");
    assert_eq!(
        (known.id, known.partitions.len()),
        (Uuid([9; 16]), 1),
        "scenario 20, bug 7"
    );
    assert_eq!(metadata.leader("t", 0), Some(3));
    assert!(
        metadata.topic_by_id(Uuid([1; 16])).is_none(),
        "the old id is nobody's"
    );
}

#[test]
fn without_topic_ids_the_epochs_decide() {
    let mut old_broker = topic("t", 0, &[(1, 5)]);
    old_broker.topic_id = Uuid::ZERO;
    let mut bench = knowing(&[old_broker.clone()]);
    old_broker.partitions[0].leader_epoch = 4;
    old_broker.partitions[0].leader_id = 2;
    update(&mut bench, &[old_broker.clone()]);
    assert_eq!(bench.cluster.metadata().leader("t", 0), Some(1));
    // Responses of brokers that report no epochs are accepted.
    old_broker.partitions[0].leader_epoch = -1;
    update(&mut bench, &[old_broker]);
    assert_eq!(bench.cluster.metadata().leader("t", 0), Some(2));
}

/// Scenario 5.
#[test]
fn a_topic_that_a_restarting_broker_omits_stays_for_some_responses() {
    let mut bench = knowing(&[topic("t", 1, &[(1, 0)])]);
    let missing = failed_topic("t", ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    for _ in 0..2 {
        update(&mut bench, std::slice::from_ref(&missing));
        assert_eq!(
            bench.cluster.metadata().leader("t", 0),
            Some(1),
            "scenario 5"
        );
    }
    update(&mut bench, &[missing]);
    assert!(
        bench.cluster.metadata().topic("t").is_none(),
        "but not for ever"
    );
    let error = bench.cluster.metadata().topic_error("t");
    assert_eq!(error, Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION));
    bench
        .cluster
        .add_topic("t", bench.now)
        .expect("a good name");
    update(&mut bench, &[topic("t", 1, &[(2, 1)])]);
    assert_eq!(bench.cluster.metadata().leader("t", 0), Some(2));
    assert_eq!(bench.cluster.metadata().topic_error("t"), None);
}

/// Scenario 10.
#[test]
fn a_topic_with_an_index_beyond_its_partitions_is_not_believed() {
    let good = topic("t", 1, &[(1, 5), (2, 5)]);
    let mut bench = knowing(std::slice::from_ref(&good));
    for index in [i32::MAX, 60_000_000, 2, -1] {
        let mut known = good.clone();
        known.partitions[1].partition_index = index;
        let mut fresh = topic("fresh", 2, &[(1, 0)]);
        fresh.partitions[0].partition_index = index;
        update(&mut bench, &[known, fresh]);
        let metadata = bench.cluster.metadata();
        let kept = metadata.topic("t").expect("what was known stays");
        assert_eq!(kept.partitions.len(), 2, "{index}");
        assert_eq!(metadata.leader("t", 1), Some(2), "{index}");
        assert!(metadata.topic("fresh").is_none(), "{index}");
    }
    update(&mut bench, &[topic("t", 1, &[(3, 6), (3, 6)])]);
    let leader = bench.cluster.metadata().leader("t", 1);
    assert_eq!(leader, Some(3), "a sound response is taken again");
}

#[test]
fn a_topic_without_partitions_is_not_believed() {
    let good = topic("t", 1, &[(1, 5), (2, 5)]);
    let mut bench = knowing(std::slice::from_ref(&good));
    update(&mut bench, &[topic("t", 1, &[]), topic("fresh", 2, &[])]);
    let metadata = bench.cluster.metadata();
    let kept = metadata.topic("t").expect("what was known stays");
    assert_eq!(kept.partitions.len(), 2);
    assert!(metadata.topic("fresh").is_none());
}

#[test]
fn a_partition_without_a_leader_has_none() {
    let mut bench = knowing(&[topic("t", 1, &[(-1, 3)])]);
    assert_eq!(bench.cluster.metadata().leader("t", 0), None);
    update(&mut bench, &[topic("t", 1, &[(2, 4)])]);
    assert_eq!(bench.cluster.metadata().leader("t", 0), Some(2));
}

#[test]
fn a_leader_whose_address_is_unknown_is_none() {
    let bench = knowing(&[topic("t", 1, &[(77, 3)])]);
    assert_eq!(bench.cluster.metadata().leader("t", 0), None);
}

#[test]
fn bad_names_fail_at_once() {
    let mut bench = Bench::bootstrapped(1);
    for bad in ["", ".", "..", "a b", "ä", "x/y", &"n".repeat(250)] {
        assert!(bench.cluster.add_topic(bad, bench.now).is_err(), "{bad:?}");
        let shared = bench.cluster.shared_metadata();
        assert!(matches!(shared.lookup(bad), TopicLookup::Invalid(_)));
        assert!(shared.request_topic(bad).is_err());
    }
    bench.turn();
    assert!(bench.writes.is_empty(), "nobody is asked");
    assert!(bench.cluster.add_topic(&"n".repeat(249), bench.now).is_ok());
}

#[test]
fn a_refused_topic_is_told_and_an_unknown_one_asked_for_again() {
    let mut bench = Bench::bootstrapped(1);
    for name in ["secret", "later"] {
        bench
            .cluster
            .add_topic(name, bench.now)
            .expect("a good name");
    }
    bench.turn();
    connect(&mut bench);
    let response = [
        failed_topic("secret", ErrorCode::TOPIC_AUTHORIZATION_FAILED),
        failed_topic("later", ErrorCode::LEADER_NOT_AVAILABLE),
    ];
    bench.respond_with_metadata(&brokers(1, &response));
    let shared = std::sync::Arc::clone(bench.cluster.shared_metadata());
    let refused = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
    assert!(matches!(shared.lookup("secret"), TopicLookup::Refused(code) if code == refused));
    assert!(matches!(
        shared.lookup("later"),
        TopicLookup::Unknown(Some(_))
    ));
    shared.request_topic("later").expect("a good name");
    bench.turn();
    assert!(bench.writes.is_empty(), "not before the backoff");
    bench.advance_to_deadline(Duration::from_millis(130));
    let asked = bench.respond_with_metadata(&brokers(1, &[topic("later", 1, &[(1, 0)])]));
    assert_eq!(names(&asked), ["later"]);
    assert!(matches!(shared.lookup("later"), TopicLookup::Known(_)));
}

#[test]
fn a_new_topic_does_not_wait_for_the_backoff_of_a_missing_one() {
    let mut bench = Bench::bootstrapped(1);
    let missing = [failed_topic(
        "mistyped",
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
    )];
    let add = |bench: &mut Bench, name| {
        let added = bench.cluster.add_topic(name, bench.now);
        added.expect("a good name");
        bench.turn();
    };
    add(&mut bench, "mistyped");
    connect(&mut bench);
    bench.respond_with_metadata(&brokers(1, &missing));
    for _ in 0..5 {
        add(&mut bench, "mistyped");
        assert!(bench.writes.is_empty(), "not before the backoff");
        while bench.writes.is_empty() {
            bench.advance_to_deadline(Duration::from_secs(2));
        }
        bench.respond_with_metadata(&brokers(1, &missing));
    }
    add(&mut bench, "new");
    let asked = bench.respond_with_metadata(&brokers(1, &[topic("new", 1, &[(1, 0)])]));
    assert_eq!(names(&asked), ["new"]);
}

#[test]
fn topics_that_nobody_uses_are_dropped_and_pinned_ones_stay() {
    let pinned = BTreeSet::from([Str::from("pinned")]);
    let mut bench = knowing(&[topic("idle", 1, &[(1, 0)]), topic("pinned", 2, &[(1, 0)])]);
    bench
        .cluster
        .pin_topics(&pinned, bench.now)
        .expect("good names");
    bench.now += bench.cluster.config().metadata_max_idle + Duration::from_secs(1);
    let asked = update(&mut bench, &[topic("pinned", 2, &[(1, 0)])]);
    assert_eq!(names(&asked), ["pinned"]);
    assert!(bench.cluster.metadata().topic("idle").is_none());
    assert!(bench.cluster.metadata().topic("pinned").is_some());
}

#[test]
fn a_failed_request_is_repeated_with_all_that_it_asked_for() {
    let mut bench = knowing(&[topic("t", 1, &[(1, 0)])]);
    bench
        .cluster
        .add_topic("new", bench.now)
        .expect("a good name");
    bench.turn();
    let lost = bench.take_write(ApiKey::METADATA);
    bench.event(Event::Disconnected {
        conn: lost.conn,
        error: ConnectionError::ClosedByPeer,
    });
    bench.advance(Duration::from_millis(200));
    connect(&mut bench);
    let asked: MetadataRequest = bench.take_write(ApiKey::METADATA).decode();
    assert!(names(&asked).contains(&"new".to_owned()));
}

#[test]
fn all_topics_are_asked_for_by_a_pattern_subscription() {
    let mut bench = Bench::bootstrapped(1);
    bench.cluster.set_all_topics(true);
    bench.turn();
    connect(&mut bench);
    let asked = bench.respond_with_metadata(&brokers(1, &[topic("a", 1, &[(1, 0)])]));
    assert_eq!(asked.topics, None);
    assert_eq!(bench.cluster.metadata().topics().len(), 1);
}

#[test]
fn waiters_hear_of_each_publication_once() {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::task::{Wake, Waker};

    struct Count(AtomicUsize);
    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let mut bench = Bench::bootstrapped(1);
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&count));
    let shared = Arc::clone(bench.cluster.shared_metadata());
    let seen = shared.changes();
    assert!(shared.wait_for_change(seen, &waker));
    assert!(
        shared.wait_for_change(seen, &waker),
        "a waker is queued only once"
    );
    bench
        .cluster
        .add_topic("t", bench.now)
        .expect("a good name");
    bench.turn();
    connect(&mut bench);
    bench.respond_with_metadata(&brokers(1, &[topic("t", 1, &[(1, 0)])]));
    assert_eq!(count.0.load(Ordering::Relaxed), 1);
    assert!(
        !shared.wait_for_change(seen, &waker),
        "news that was missed is not waited for"
    );
    assert_eq!(shared.version(), shared.snapshot().version);
}

#[test]
fn what_was_in_flight_is_no_response_to_a_refresh_that_was_asked_for_later() {
    let mut bench = Bench::bootstrapped(1);
    let shared = std::sync::Arc::clone(bench.cluster.shared_metadata());
    bench.advance(Duration::from_secs(1));
    bench.cluster.request_update();
    bench.turn();
    if bench.writes.is_empty() {
        bench.accept_next();
    }
    let number = shared.request_update();
    bench.respond_with_metadata(&brokers(1, &[]));
    assert!(!shared.is_answered(number));
    bench.advance(Duration::from_secs(2));
    bench.respond_with_metadata(&brokers(1, &[]));
    assert!(shared.is_answered(number));
}
