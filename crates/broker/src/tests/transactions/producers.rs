//! Producer ids and epochs, and producers that are fenced.

use thalweg_protocol::ErrorCode;
use thalweg_records::ControlRecord;

use super::*;

#[test]
fn each_init_has_the_next_epoch_and_fences_the_producer_before() {
    let mut bench = bench();
    let first = init(&mut bench, "x");
    assert_eq!(first.epoch, 0);
    let second = init(&mut bench, "x");
    assert_eq!((second.id, second.epoch), (first.id, 1));
    assert_ne!(init(&mut bench, "y").id, first.id);
    let fenced = Err(ErrorCode::INVALID_PRODUCER_EPOCH);
    assert_eq!(first.produce(&mut bench, "t", 0), fenced);
    assert_eq!(first.add(&mut bench, "t"), Err(ErrorCode::PRODUCER_FENCED));
    assert_eq!(
        first.add_offsets(&mut bench, "g"),
        Err(ErrorCode::PRODUCER_FENCED)
    );
    let offset = first.commit_offset_in(&mut bench, 5, ("g", "t"), 1);
    assert_eq!(offset, Err(ErrorCode::INVALID_PRODUCER_EPOCH));
    assert_eq!(second.produce(&mut bench, "t", 0), Ok(0));
    assert_eq!(first.commit(&mut bench), FENCED);
}

#[test]
fn old_clients_know_a_fenced_producer_by_its_epoch_only() {
    let mut bench = bench();
    let first = init(&mut bench, "x");
    init(&mut bench, "x");
    init(&mut bench, "x");
    let ended = |version, bench: &mut Bench| first.end_in(bench, version, true).err();
    assert_eq!(
        ended(1, &mut bench),
        Some(ErrorCode::INVALID_PRODUCER_EPOCH)
    );
    assert_eq!(ended(2, &mut bench), Some(ErrorCode::PRODUCER_FENCED));
    let request = init_request("x", Some((first.id, first.epoch)));
    for (version, code) in [
        (3, ErrorCode::INVALID_PRODUCER_EPOCH),
        (4, ErrorCode::PRODUCER_FENCED),
    ] {
        let response = bench.ask(&request, version);
        assert_eq!(ErrorCode(response.error_code), code);
        assert_eq!((response.producer_id, response.producer_epoch), (-1, -1));
    }
}

#[test]
fn a_new_producer_rolls_the_open_transaction_of_the_old_one_back() {
    let mut bench = bench();
    let old = init(&mut bench, "x");
    old.produce(&mut bench, "t", 0).unwrap();
    assert_eq!(last_stable_offset(&mut bench, "t"), 0);
    let new = init(&mut bench, "x");
    // One epoch for the abort, one for the new producer.
    assert_eq!((new.id, new.epoch), (old.id, 2));
    let abort = ControlRecord::Abort {
        coordinator_epoch: 0,
    };
    assert_eq!(markers(&mut bench, "t"), [(1, 1, abort)]);
    let fetched = fetch_committed(&mut bench, "t", 0);
    assert_eq!(
        (fetched.last_stable_offset, aborted(&fetched)),
        (2, vec![(old.id, 0)])
    );
    let late = Err(ErrorCode::INVALID_PRODUCER_EPOCH);
    assert_eq!(old.produce(&mut bench, "t", 1), late);
    assert_eq!(old.commit(&mut bench), FENCED);
    assert_eq!(new.produce(&mut bench, "t", 0), Ok(2));
}

#[test]
fn a_producer_that_recovers_names_its_epoch_and_may_ask_twice() {
    let mut bench = bench();
    let first = init(&mut bench, "x");
    let (id, epoch) = (first.id, first.epoch);
    assert_eq!(
        try_init(&mut bench, "x", Some((id, epoch))),
        Ok(first.at(1))
    );
    assert_eq!(
        try_init(&mut bench, "x", Some((id, epoch))),
        Ok(first.at(1))
    );
    assert_eq!(try_init(&mut bench, "x", Some((id, 1))), Ok(first.at(2)));
    for wrong in [(id, 0), (id, 3), (id + 100, 2)] {
        assert_eq!(try_init(&mut bench, "x", Some(wrong)), FENCED, "{wrong:?}");
    }
    let half = try_init(&mut bench, "x", Some((id, -1)));
    assert_eq!(half, Err(ErrorCode::INVALID_REQUEST));
    // For an id that is no longer known (it expired), any producer id and epoch are accepted.
    assert_eq!(try_init(&mut bench, "new", Some((id, 7))).unwrap().epoch, 0);
}

#[test]
fn timeouts_and_ids_out_of_range_are_refused() {
    let mut bench = bench();
    for timeout_ms in [0, -1, 900_001] {
        let mut request = init_request("x", None);
        request.transaction_timeout_ms = timeout_ms;
        let response = bench.ask(&request, 4);
        assert_eq!(
            ErrorCode(response.error_code),
            ErrorCode::INVALID_TRANSACTION_TIMEOUT
        );
    }
    let empty = try_init(&mut bench, "", None);
    assert_eq!(empty, Err(ErrorCode::INVALID_REQUEST));
    let mut nobody = init(&mut bench, "x");
    nobody.transactional_id = "unknown".to_owned();
    let unknown = ErrorCode::INVALID_PRODUCER_ID_MAPPING;
    assert_eq!(nobody.add(&mut bench, "t"), Err(unknown));
    assert_eq!(nobody.commit(&mut bench), Err(unknown));
    assert_eq!(nobody.produce(&mut bench, "t", 0), Err(unknown));
    assert_eq!(nobody.produce_in(&mut bench, 9, ("t", 0), 0), Err(unknown));
}

#[test]
fn ends_of_other_producers_are_refused() {
    let mut bench = bench();
    let writer = init(&mut bench, "x");
    writer.produce(&mut bench, "t", 0).unwrap();
    assert_eq!(writer.at(1).commit(&mut bench), FENCED);
    assert_eq!(writer.at(-1).commit(&mut bench), FENCED);
    assert_eq!(writer.at(i16::MAX).abort(&mut bench), FENCED);
    let mut stranger = writer.clone();
    stranger.id += 1000;
    let unknown = Err(ErrorCode::INVALID_PRODUCER_ID_MAPPING);
    assert_eq!(stranger.commit(&mut bench), unknown);
    assert!(markers(&mut bench, "t").is_empty());
}

#[test]
fn an_exhausted_epoch_brings_another_producer_id() {
    let mut bench = bench();
    let mut writer = init(&mut bench, "x");
    while writer.epoch < i16::MAX - 1 {
        writer = writer.abort(&mut bench).unwrap();
    }
    writer.produce(&mut bench, "t", 0).unwrap();
    let next = writer.commit(&mut bench).unwrap();
    assert_ne!(next.id, writer.id);
    assert_eq!(next.epoch, 0);
    assert_eq!(markers(&mut bench, "t")[0].1, i16::MAX);
    assert_eq!(writer.commit(&mut bench), Ok(next.clone()));
    let late = ErrorCode::INVALID_PRODUCER_EPOCH;
    assert_eq!(writer.produce(&mut bench, "t", 1), Err(late));
    assert_eq!(next.produce(&mut bench, "t", 0), Ok(2));
}

#[test]
fn an_exhausted_epoch_is_replaced_by_init_too() {
    let mut bench = bench();
    let mut writer = init(&mut bench, "x");
    while writer.epoch < i16::MAX - 1 {
        writer = init(&mut bench, "x");
    }
    let (id, epoch) = (writer.id, writer.epoch);
    let next = try_init(&mut bench, "x", Some((id, epoch))).unwrap();
    assert_eq!((next.id != id, next.epoch), (true, 0));
    // The same request may come again after a lost response, but not one with an older epoch.
    assert_eq!(try_init(&mut bench, "x", Some((id, epoch))), Ok(next));
    assert_eq!(try_init(&mut bench, "x", Some((id, 5))), FENCED);
}
