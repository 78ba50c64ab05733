use thalweg_protocol::{ErrorCode, Uuid};

use crate::options::BrokerOptions;
use crate::random::Random;
use crate::topology::assignment::NewReplicas;
use crate::topology::partition::NO_LEADER;
use crate::topology::{NewTopic, Node, Topology};

fn topology(nodes: i32) -> (Topology, Random) {
    let mut random = Random::new(1);
    let nodes = (1..=nodes)
        .map(|id| Node {
            id,
            host: "h".into(),
            port: 9092,
            is_live: true,
        })
        .collect();
    (Topology::new(nodes, &mut random), random)
}

fn create(
    topology: &mut Topology,
    random: &mut Random,
    name: &str,
    partitions: i32,
    replication_factor: i16,
) -> Result<Uuid, ErrorCode> {
    let wish = NewTopic {
        name: name.to_owned(),
        replicas: NewReplicas::Counts {
            partitions,
            replication_factor,
        },
        ..NewTopic::default()
    };
    let options = BrokerOptions::default();
    topology
        .create_topic(wish, false, &options, random)
        .map_err(|error| error.code)
}

fn leaders(topology: &Topology, name: &str) -> Vec<(i32, i32)> {
    let topic = topology.topic(name).unwrap();
    topic
        .partitions
        .iter()
        .map(|p| (p.leader, p.leader_epoch))
        .collect()
}

#[test]
fn leaders_are_spread_over_partitions_and_topics() {
    let (mut topology, mut random) = topology(3);
    create(&mut topology, &mut random, "a", 3, 2).unwrap();
    create(&mut topology, &mut random, "b", 1, 1).unwrap();
    assert_eq!(leaders(&topology, "a"), [(1, 0), (2, 0), (3, 0)]);
    assert_eq!(leaders(&topology, "b"), [(2, 0)]);
    assert_eq!(topology.topic("a").unwrap().partitions[2].replicas, [3, 1]);
}

#[test]
fn bad_wishes_are_refused_with_kafkas_codes() {
    let (mut topology, mut random) = topology(2);
    let mut create = |name, partitions, factor| {
        create(&mut topology, &mut random, name, partitions, factor).unwrap_err()
    };
    assert_eq!(create("a", 0, 1), ErrorCode::INVALID_PARTITIONS);
    assert_eq!(create("a", 1, 3), ErrorCode::INVALID_REPLICATION_FACTOR);
    assert_eq!(create("a b", 1, 1), ErrorCode::INVALID_TOPIC_EXCEPTION);
    assert_eq!(create("a", i32::MAX, 1), ErrorCode::POLICY_VIOLATION);
}

#[test]
fn partitions_with_given_replicas_have_the_same_limit() {
    let (mut topology, mut random) = topology(1);
    create(&mut topology, &mut random, "a", 1, 1).unwrap();
    let lists = vec![vec![1]; 200_000];
    let full = topology.create_partitions("a", 200_001, Some(lists), true);
    assert_eq!(full.unwrap_err().code, ErrorCode::POLICY_VIOLATION);
    let lists = vec![vec![1]; 199_999];
    topology
        .create_partitions("a", 200_000, Some(lists), true)
        .unwrap();
}

#[test]
fn a_name_is_taken_once_and_a_new_topic_has_a_new_id() {
    let (mut topology, mut random) = topology(1);
    let first = create(&mut topology, &mut random, "a.b", 1, 1).unwrap();
    let again = create(&mut topology, &mut random, "a.b", 1, 1).unwrap_err();
    assert_eq!(again, ErrorCode::TOPIC_ALREADY_EXISTS);
    let clash = create(&mut topology, &mut random, "a_b", 1, 1).unwrap_err();
    assert_eq!(clash, ErrorCode::INVALID_TOPIC_EXCEPTION);
    topology.delete_topic(first).unwrap();
    let second = create(&mut topology, &mut random, "a.b", 1, 1).unwrap();
    assert_ne!(first, second);
}

#[test]
fn a_stopped_nodes_partitions_move_with_the_next_epoch_and_stay() {
    let (mut topology, mut random) = topology(3);
    create(&mut topology, &mut random, "a", 3, 3).unwrap();
    create(&mut topology, &mut random, "single", 3, 1).unwrap();
    assert!(topology.stop_node(2) && !topology.stop_node(2));
    assert_eq!(leaders(&topology, "a"), [(1, 0), (3, 1), (3, 0)]);
    assert!(
        leaders(&topology, "single")
            .iter()
            .all(|(leader, _)| *leader != 2)
    );
    assert_eq!(topology.live_nodes().count(), 2);
    let partition = topology.topic("a").unwrap().partition(0).unwrap();
    assert_eq!(topology.isr(partition), [1, 3]);
    topology.stop_node(1);
    topology.stop_node(3);
    assert!(
        leaders(&topology, "a")
            .iter()
            .all(|(leader, _)| *leader == NO_LEADER)
    );
    topology.start_node(2);
    assert!(
        leaders(&topology, "a")
            .iter()
            .all(|(leader, _)| *leader == 2)
    );
}

#[test]
fn a_leader_moves_to_live_nodes_only() {
    let (mut topology, mut random) = topology(2);
    create(&mut topology, &mut random, "a", 1, 1).unwrap();
    topology.move_leader("a", 0, 2).unwrap();
    topology.move_leader("a", 0, 2).unwrap();
    assert_eq!(leaders(&topology, "a"), [(2, 1)]);
    assert_eq!(topology.topic("a").unwrap().partitions[0].replicas, [2]);
    topology.stop_node(1);
    let dead = topology.move_leader("a", 0, 1).unwrap_err();
    assert_eq!(dead.code, ErrorCode::BROKER_NOT_AVAILABLE);
    let missing = topology.move_leader("a", 1, 2).unwrap_err();
    assert_eq!(missing.code, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
}

#[test]
fn partitions_are_added_but_never_taken_away() {
    let (mut topology, mut random) = topology(1);
    create(&mut topology, &mut random, "a", 2, 1).unwrap();
    topology.create_partitions("a", 4, None, true).unwrap();
    assert_eq!(topology.topic("a").unwrap().partitions.len(), 2);
    topology.create_partitions("a", 4, None, false).unwrap();
    assert_eq!(topology.topic("a").unwrap().partitions.len(), 4);
    let fewer = topology.create_partitions("a", 3, None, false).unwrap_err();
    assert_eq!(fewer.code, ErrorCode::INVALID_PARTITIONS);
}
