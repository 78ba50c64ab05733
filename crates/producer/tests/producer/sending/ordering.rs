//! The order within a partition, with one and with five requests in flight, whatever goes wrong.

use thalweg_producer::{Acks, Appended, ProducerConfig, ProducerError};
use thalweg_protocol::ErrorCode;

use crate::world::broker::Reaction;
use crate::world::{World, config, error, is_pending, offset};

/// Returns a world whose broker already knows the producer, as the first batch is sent alone.
fn warm(config: ProducerConfig, nodes: i32, partitions: i32) -> (World, Vec<Appended>) {
    let mut world = World::ready(config, nodes, partitions);
    let first = world.send_alone(0, "0");
    assert_eq!(offset(&first), 0);
    (world, vec![first])
}

/// Sends more records, each in its own batch.
fn send_more(world: &mut World, sent: &mut Vec<Appended>, count: usize) {
    for _ in 0..count {
        sent.push(world.send_alone(0, &sent.len().to_string()));
    }
}

fn expected(count: usize) -> Vec<String> {
    (0..count).map(|n| n.to_string()).collect()
}

/// Checks that every record is acknowledged at its offset, and is in the log once.
fn check(world: &mut World, sent: &[Appended]) {
    assert_eq!(world.values(0), expected(sent.len()));
    for (at, appended) in sent.iter().enumerate() {
        assert_eq!(offset(appended), at as i64);
    }
    assert_eq!(world.accumulator.incomplete_batches(), 0);
    let pool = world.accumulator.pool();
    assert_eq!(
        pool.available_bytes(),
        pool.total_bytes(),
        "all memory is back"
    );
}

#[test]
fn five_requests_are_in_flight_and_no_more() {
    let (mut world, mut sent) = warm(config(), 1, 1);
    world.script(vec![Reaction::Hold; 5]);
    send_more(&mut world, &mut sent, 7);
    assert_eq!(world.brokers.held(), 5);
    assert!(sent[1..].iter().all(is_pending));
    for _ in 0..5 {
        world.brokers.release();
    }
    world.run();
    check(&mut world, &sent);
}

/// Scenario 1.
#[test]
fn a_connection_that_breaks_under_five_batches_loses_doubles_and_reorders_none() {
    for written in 0..=5 {
        let (mut world, mut sent) = warm(config(), 1, 1);
        world.script(vec![Reaction::Hold; 5]);
        send_more(&mut world, &mut sent, 8);
        assert_eq!(world.brokers.held(), 5);
        // Some are written, but their responses are lost with the connection.
        for _ in 0..written {
            world.brokers.release_without_response();
        }
        world.brokers.disconnect(1);
        world.advance_ms(5_000);
        check(&mut world, &sent);
        let mut next = 0;
        for header in &world.brokers.log("t", 0).headers {
            let number = (header.producer_epoch, header.base_sequence);
            assert_eq!(number, (0, next), "no batch was renumbered");
            next += header.records_count;
        }
    }
}

#[test]
fn a_refused_batch_is_overtaken_by_none_that_was_sent_behind_it() {
    // Retriable errors for the first of five batches in flight: the later ones are out of order
    // until it is in the log.
    for code in [
        ErrorCode::NOT_ENOUGH_REPLICAS,
        ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode::NOT_LEADER_OR_FOLLOWER,
        ErrorCode::KAFKA_STORAGE_ERROR,
        ErrorCode::CORRUPT_MESSAGE,
        ErrorCode::REQUEST_TIMED_OUT,
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION,
    ] {
        let (mut world, mut sent) = warm(config(), 1, 1);
        world.script(vec![Reaction::Hold; 5]);
        send_more(&mut world, &mut sent, 7);
        world.brokers.release_with(&Reaction::Refuse(code));
        for _ in 0..4 {
            world.brokers.release();
        }
        world.advance_ms(5_000);
        check(&mut world, &sent);
    }
}

#[test]
fn the_first_batch_of_all_goes_alone() {
    // A broker that does not know the producer would accept the second batch as the first.
    let mut world = World::ready(config(), 1, 1);
    world.script([Reaction::Hold]);
    let mut sent = Vec::new();
    send_more(&mut world, &mut sent, 3);
    assert_eq!(world.brokers.held(), 1);
    world
        .brokers
        .release_with(&Reaction::Refuse(ErrorCode::NOT_ENOUGH_REPLICAS));
    world.advance_ms(1_000);
    check(&mut world, &sent);
    // So is the first batch after a long pause.
    world.advance_ms(120_000);
    world.brokers.log("t", 0).forget_producers();
    world.script([Reaction::Hold]);
    send_more(&mut world, &mut sent, 3);
    assert_eq!(world.brokers.held(), 1);
    world
        .brokers
        .release_with(&Reaction::Refuse(ErrorCode::NOT_ENOUGH_REPLICAS));
    world.advance_ms(1_000);
    check(&mut world, &sent);
}

/// Scenario 40.
#[test]
fn a_batch_written_though_refused_is_not_written_twice() {
    for code in [
        ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode::NOT_LEADER_OR_FOLLOWER,
        ErrorCode::REQUEST_TIMED_OUT,
    ] {
        let (mut world, mut sent) = warm(config(), 1, 1);
        world.script([Reaction::RefuseAfterWriting(code)]);
        send_more(&mut world, &mut sent, 3);
        world.advance_ms(5_000);
        check(&mut world, &sent);
    }
}

#[test]
fn every_script_of_lost_requests_and_responses_keeps_the_order() {
    // All combinations of five reactions to the first four requests.
    let reactions = [
        Reaction::Usual,
        Reaction::LoseRequest,
        Reaction::LoseResponse,
        Reaction::Refuse(ErrorCode::NOT_ENOUGH_REPLICAS),
        Reaction::RefuseAfterWriting(ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND),
    ];
    for case in 0..5_usize.pow(4) {
        let script = (0..4).map(|at| reactions[case / 5_usize.pow(at) % 5].clone());
        let mut world = World::ready(config(), 1, 1);
        world.script(script);
        let mut sent = Vec::new();
        for n in 0..6 {
            // Now and then a batch gets two records.
            sent.push(world.send(0, &n.to_string()));
            if n % 3 != 1 {
                world.turn();
            }
        }
        world.advance_ms(10_000);
        check(&mut world, &sent);
    }
}

#[test]
fn one_in_flight_without_idempotence_mutes_the_partition() {
    let one = ProducerConfig {
        max_in_flight_requests_per_connection: 1,
        enable_idempotence: false,
        acks: Acks::Leader,
        ..config()
    };
    let (mut world, mut sent) = warm(one, 2, 1);
    world.script([Reaction::Hold]);
    send_more(&mut world, &mut sent, 3);
    assert_eq!(world.brokers.requests.len(), 2, "the partition is muted");
    // Even a new leader does not get the next batch before the first one's outcome is known.
    world.brokers.move_leader("t", 0, 2);
    world.cluster.request_update();
    world.advance_ms(1_000);
    assert_eq!(world.brokers.requests.len(), 2);
    world.brokers.release();
    world.advance_ms(1_000);
    send_more(&mut world, &mut sent, 2);
    world.advance_ms(1_000);
    check(&mut world, &sent);
}

#[test]
fn bug_6_one_in_flight_keeps_the_order_under_refusals() {
    let one = ProducerConfig {
        max_in_flight_requests_per_connection: 1,
        enable_idempotence: false,
        acks: Acks::Leader,
        ..config()
    };
    let (mut world, mut sent) = warm(one, 1, 1);
    let refuse = Reaction::Refuse(ErrorCode::NOT_ENOUGH_REPLICAS);
    world.script([refuse.clone(), refuse.clone(), Reaction::Usual, refuse]);
    send_more(&mut world, &mut sent, 5);
    world.advance_ms(5_000);
    check(&mut world, &sent);
}

#[test]
fn muting_one_partition_leaves_the_others_alone() {
    let one = ProducerConfig {
        max_in_flight_requests_per_connection: 1,
        ..config()
    };
    let mut world = World::ready(one, 2, 2);
    world.script([Reaction::Hold]);
    let held = world.send_alone(0, "a");
    let other = world.send_alone(1, "b");
    assert!(is_pending(&held));
    assert_eq!(offset(&other), 0);
}

#[test]
fn a_node_stopped_and_started_again_gets_everything_once() {
    let (mut world, mut sent) = warm(config(), 1, 1);
    world.script(vec![Reaction::Hold; 4]);
    send_more(&mut world, &mut sent, 4);
    world.brokers.release();
    world.brokers.release_without_response();
    world.brokers.stop(1);
    world.advance_ms(3_000);
    send_more(&mut world, &mut sent, 5);
    assert!(is_pending(&sent[2]));
    world.brokers.start(1);
    world.advance_ms(10_000);
    check(&mut world, &sent);
}

#[test]
fn a_leader_that_moves_takes_the_batches_with_it() {
    let (mut world, mut sent) = warm(config(), 2, 1);
    world.script(vec![Reaction::Hold; 3]);
    send_more(&mut world, &mut sent, 3);
    world.brokers.release();
    world.brokers.release_without_response();
    world.brokers.move_leader("t", 0, 2);
    world.brokers.stop(1);
    send_more(&mut world, &mut sent, 3);
    world.advance_ms(10_000);
    check(&mut world, &sent);
    assert!(world.brokers.requests.iter().any(|(node, _)| *node == 2));
}

#[test]
fn bug_5_a_leader_in_transition_gets_each_batch_once() {
    // librdkafka #4953: sporadic duplicates while the leadership moves away and back.
    let reactions = [
        Reaction::Usual,
        Reaction::LoseRequest,
        Reaction::LoseResponse,
        Reaction::Refuse(ErrorCode::NOT_LEADER_OR_FOLLOWER),
        Reaction::RefuseAfterWriting(ErrorCode::NOT_LEADER_OR_FOLLOWER),
    ];
    for case in 0..5_usize.pow(4) {
        let script = (0..4).map(|at| reactions[case / 5_usize.pow(at) % 5].clone());
        let (mut world, mut sent) = warm(config(), 2, 1);
        world.script(script);
        for turn in 0..6 {
            sent.push(world.send(0, &sent.len().to_string()));
            world.turn();
            if turn % 2 == 1 {
                world.brokers.move_leader("t", 0, 2 - turn / 2 % 2);
            }
        }
        world.advance_ms(20_000);
        check(&mut world, &sent);
        let epochs = world.brokers.log("t", 0).headers.iter();
        assert!(
            epochs.map(|header| header.producer_epoch).all(|e| e == 0),
            "no batch was renumbered in case {case}"
        );
    }
}

#[test]
fn bug_8_a_leader_epoch_that_goes_backwards_makes_no_endless_loop() {
    // franz-go #119: stale metadata and refusals of a broker alternated without a pause.
    let (mut world, mut sent) = warm(config(), 2, 1);
    world.brokers.move_leader("t", 0, 2);
    send_more(&mut world, &mut sent, 1);
    world.advance_ms(2_000);
    check(&mut world, &sent);
    let newest = world.brokers.topics["t"].leaders[0];
    let stale = (1, newest.1 - 1);
    world
        .brokers
        .topics
        .get_mut("t")
        .expect("it exists")
        .leaders[0] = stale;
    let (asked, produced) = (
        world.brokers.metadata_requests,
        world.brokers.requests.len(),
    );
    send_more(&mut world, &mut sent, 1);
    world.advance_ms(5_000);
    assert!(is_pending(&sent[2]), "nobody believes the older epoch");
    assert!(
        world.brokers.metadata_requests - asked < 60,
        "100 ms between two questions"
    );
    assert!(
        world.brokers.requests.len() - produced < 30,
        "backoff between two tries"
    );
    world
        .brokers
        .topics
        .get_mut("t")
        .expect("it exists")
        .leaders[0] = newest;
    world.advance_ms(3_000);
    check(&mut world, &sent);
}

#[test]
fn bug_7_a_recreated_topics_lower_epoch_is_followed_to_its_leader() {
    // KAFKA-12257: the new topic's epoch 0 counted as stale, and the old leader was asked for ever.
    let (mut world, _) = warm(config(), 2, 1);
    for _ in 0..5 {
        world.brokers.move_leader("t", 0, 1);
    }
    world.cluster.request_update();
    world.advance_ms(1_000);
    world.brokers.recreate_topic("t");
    world
        .brokers
        .topics
        .get_mut("t")
        .expect("it exists")
        .leaders[0] = (2, 0);
    let sent = world.send_alone(0, "new");
    world.advance_ms(5_000);
    assert_eq!(offset(&sent), 0);
    assert_eq!(
        world.brokers.requests.last().map(|(node, _)| *node),
        Some(2)
    );
}

#[test]
fn scenario_42_a_response_to_another_request_leaves_the_outcome_open() {
    let (mut world, mut sent) = warm(config(), 1, 1);
    world.script([Reaction::WrongCorrelationId]);
    send_more(&mut world, &mut sent, 3);
    world.advance_ms(5_000);
    check(&mut world, &sent);
    let without = ProducerConfig {
        enable_idempotence: false,
        retries: 0,
        acks: Acks::Leader,
        ..config()
    };
    let mut world = World::ready(without, 1, 1);
    world.script([Reaction::WrongCorrelationId]);
    let sent = world.send_alone(0, "a");
    world.advance_ms(5_000);
    let error = error(&sent);
    assert!(
        matches!(
            error,
            ProducerError::Network {
                possibly_written: true,
                ..
            }
        ),
        "{error}"
    );
}
