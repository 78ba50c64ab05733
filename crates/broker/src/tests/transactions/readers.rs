//! What a reader of committed records sees.

use super::*;

#[test]
fn records_are_stable_up_to_the_first_that_belongs_to_an_open_transaction() {
    let mut bench = bench();
    let (one, two) = (init(&mut bench, "one"), init(&mut bench, "two"));
    bench.produce("t", 0, batch(&[NOW_MS]));
    one.produce(&mut bench, "t", 0).unwrap();
    two.produce(&mut bench, "t", 0).unwrap();
    bench.produce("t", 0, batch(&[NOW_MS]));
    let fetched = fetch_committed(&mut bench, "t", 0);
    assert_eq!((fetched.last_stable_offset, fetched.high_watermark), (1, 4));
    assert_eq!(base_offsets(&fetched), [0]);
    assert!(base_offsets(&fetch_committed(&mut bench, "t", 1)).is_empty());
    assert_eq!(base_offsets(&bench.fetch("t", 0, 0)), [0, 1, 2, 3]);
    assert_eq!(bench.fetch("t", 0, 0).aborted_transactions, None);
    one.abort(&mut bench).unwrap();
    let fetched = fetch_committed(&mut bench, "t", 0);
    assert_eq!(fetched.last_stable_offset, 2);
    assert_eq!(aborted(&fetched), [(one.id, 1)]);
    two.commit(&mut bench).unwrap();
    let fetched = fetch_committed(&mut bench, "t", 0);
    assert_eq!(base_offsets(&fetched), [0, 1, 2, 3, 4, 5]);
    assert_eq!(aborted(&fetched), [(one.id, 1)]);
    assert!(aborted(&fetch_committed(&mut bench, "t", 5)).is_empty());
    assert_eq!(last_stable_offset(&mut bench, "t"), 6);
}

#[test]
fn aborted_transactions_are_told_in_every_version_of_fetch() {
    let mut bench = bench();
    let writer = init(&mut bench, "x");
    writer.produce(&mut bench, "t", 0).unwrap();
    writer.abort(&mut bench).unwrap();
    let id = bench.core.topology.topic("t").unwrap().id;
    for version in 4..=18 {
        let mut request = fetch_request("t", &[(0, 0)]);
        request.isolation_level = 1;
        if version >= 13 {
            request.topics[0].topic_id = id;
        }
        let response = bench.ask(&request, version);
        let partition = &response.responses[0].partitions[0];
        assert_eq!(aborted(partition), [(writer.id, 0)], "version {version}");
    }
}

#[test]
fn a_reader_of_committed_records_is_woken_by_the_marker() {
    let mut bench = bench();
    let writer = init(&mut bench, "x");
    writer.produce(&mut bench, "t", 0).unwrap();
    let request = FetchRequest {
        isolation_level: 1,
        max_wait_ms: 10_000,
        ..fetch_request("t", &[(0, 0)])
    };
    let mut waiting = wait(bench.handle(1, &request, 12));
    assert!(bench.poll(&mut waiting).is_none());
    // Another record of the same transaction does not end the wait.
    writer.produce(&mut bench, "t", 1).unwrap();
    assert!(bench.poll(&mut waiting).is_none());
    bench.was_woken();
    writer.commit(&mut bench).unwrap();
    assert!(bench.was_woken());
    let response = decode::<FetchRequest>(bench.poll(&mut waiting).unwrap(), 12);
    assert_eq!(
        base_offsets(&response.responses[0].partitions[0]),
        [0, 1, 2]
    );
}

#[test]
fn many_producers_at_once_do_not_disturb_each_other() {
    let mut bench = bench();
    let mut writers: Vec<Writer> = (0..40)
        .map(|index| init(&mut bench, &format!("id-{index}")))
        .collect();
    let mut committed = 0;
    for round in 0..5 {
        for sequence in 0..3 {
            for writer in &writers {
                writer.produce(&mut bench, "t", sequence).unwrap();
            }
        }
        for (index, writer) in writers.iter_mut().enumerate() {
            let commit = (index + round) % 3 != 0;
            committed += i64::from(commit) * 3;
            *writer = writer.end_in(&mut bench, 5, commit).unwrap();
        }
    }
    assert_eq!(last_stable_offset(&mut bench, "t"), 5 * 40 * 4);
    assert_eq!(count_committed(&mut bench), committed);
}

/// Counts committed records like a client, by markers and aborted transactions.
fn count_committed(bench: &mut Bench) -> i64 {
    let fetched = fetch_committed(bench, "t", 0);
    let mut left = aborted(&fetched);
    left.sort_by_key(|(_, first)| *first);
    let mut rolled_back = std::collections::BTreeSet::new();
    let mut count = 0;
    for batch in thalweg_records::batches(fetched.records.unwrap()) {
        let header = batch.unwrap().header;
        while left
            .first()
            .is_some_and(|(_, first)| *first <= header.base_offset)
        {
            rolled_back.insert(left.remove(0).0);
        }
        if header.attributes.is_control() {
            rolled_back.remove(&header.producer_id);
        } else if !rolled_back.contains(&header.producer_id) {
            count += i64::from(header.records_count);
        }
    }
    count
}
