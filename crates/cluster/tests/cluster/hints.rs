//! New leaders that Produce and Fetch responses name (KIP-951).

use thalweg_cluster::metadata::LeaderHint;
use thalweg_cluster::{Node, Purpose};
use thalweg_protocol::Str;

use crate::metadata::{knowing, update};
use crate::support::{Bench, topic};

fn hint(topic: &str, partition: i32, leader: i32, leader_epoch: i32) -> LeaderHint {
    LeaderHint {
        topic: Str::from(topic),
        partition,
        leader,
        leader_epoch,
    }
}

fn endpoint(id: i32) -> Node {
    Node {
        id,
        host: Str::from(format!("n{id}")),
        port: 1,
        rack: None,
    }
}

fn epoch(bench: &Bench, topic: &str, partition: i32) -> Option<i32> {
    let partition = bench.cluster.metadata().partition(topic, partition);
    partition.map(|p| p.leader_epoch)
}

#[test]
fn a_leader_hint_is_taken_if_it_is_newer() {
    let mut bench = knowing(&[topic("t", 1, &[(1, 5)])]);
    let before = bench.cluster.metadata().version;
    let take = |bench: &mut Bench, hint: LeaderHint| bench.cluster.update_leaders(&[hint], &[]);
    assert_eq!(take(&mut bench, hint("t", 0, 2, 5)), 0, "not newer");
    assert_eq!(take(&mut bench, hint("t", 0, 44, 6)), 0, "unknown address");
    assert_eq!(take(&mut bench, hint("t", 1, 2, 6)), 0, "unknown partition");
    assert_eq!(take(&mut bench, hint("u", 0, 2, 6)), 0, "unknown topic");
    assert_eq!(bench.cluster.metadata().version, before);
    assert_eq!(take(&mut bench, hint("t", 0, 2, 6)), 1, "KIP-951");
    assert_eq!(bench.cluster.metadata().leader("t", 0), Some(2));
    let moved = [hint("t", 0, 44, 7)];
    assert_eq!(bench.cluster.update_leaders(&moved, &[endpoint(44)]), 1);
    assert_eq!(bench.cluster.metadata().leader("t", 0), Some(44));
    assert_eq!(bench.cluster.metadata().version, before + 2);
    assert_eq!(bench.ready(44, Purpose::Produce).to, "n44:1");
    // A response that is older than the hint does not undo it.
    update(&mut bench, &[topic("t", 1, &[(1, 6)])]);
    assert_eq!(epoch(&bench, "t", 0), Some(7));
}

#[test]
fn all_hints_of_a_response_make_one_snapshot() {
    let partitions = vec![(1, 5); 4];
    let mut bench = knowing(&[topic("t", 1, &partitions), topic("u", 2, &partitions)]);
    let before = bench.cluster.metadata().version;
    let hints = [
        hint("t", 0, 2, 6),
        hint("u", 3, 3, 6),
        hint("t", 1, 2, 4),
        hint("t", 2, 44, 9),
        hint("t", 3, 45, 9),
        // A damaged response names a partition twice. The newest epoch counts.
        hint("u", 3, 2, 5),
        hint("t", 0, 3, 7),
    ];
    assert_eq!(bench.cluster.update_leaders(&hints, &[endpoint(44)]), 4);
    let after = bench.cluster.metadata();
    assert_eq!(after.version, before + 1);
    let leaders = |topic| [0, 1, 2, 3].map(|index| after.leader(topic, index));
    assert_eq!(leaders("t"), [Some(3), Some(1), Some(44), Some(1)]);
    assert_eq!(leaders("u"), [Some(1), Some(1), Some(1), Some(3)]);
    assert_eq!(epoch(&bench, "t", 0), Some(7));
    assert!(after.node(44).is_some() && after.node(45).is_none());
}
