use thalweg_protocol::messages::metadata::MetadataRequest;
use thalweg_protocol::messages::offset_commit::OffsetCommitRequest;
use thalweg_protocol::{ApiKey, ErrorCode};

use super::*;
use crate::{FaultAction, FaultMatch};

fn add(bench: &mut Bench, api: ApiKey, topic: Option<&str>, action: FaultAction) {
    let matches = FaultMatch {
        api: Some(api),
        topic: topic.map(Into::into),
        node: None,
    };
    bench.core.faults.add(matches, action, Some(1));
}

#[test]
fn a_failed_produce_is_not_applied_and_only_the_topic_meant_fails() {
    let mut bench = Bench::new(1);
    bench.create("a", 1, &[]);
    bench.create("b", 1, &[]);
    let fail = FaultAction::Fail(ErrorCode::NOT_ENOUGH_REPLICAS);
    add(&mut bench, ApiKey::PRODUCE, Some("b"), fail);
    assert_eq!(bench.produce("a", 0, batch(&[NOW_MS])).error_code, 0);
    let mut both = produce_request("a", 0, batch(&[NOW_MS]));
    both.topic_data
        .extend(produce_request("b", 0, batch(&[NOW_MS])).topic_data);
    let answer = bench.ask(&both, 12);
    let codes: Vec<i16> = answer
        .responses
        .iter()
        .map(|topic| topic.partition_responses[0].error_code)
        .collect();
    assert_eq!(codes, [0, ErrorCode::NOT_ENOUGH_REPLICAS.0]);
    assert_eq!(bench.fetch("b", 0, 0).high_watermark, 0);
    assert_eq!(bench.fetch("a", 0, 0).high_watermark, 2);
    assert_eq!(bench.produce("b", 0, batch(&[NOW_MS])).error_code, 0);
}

#[test]
fn topics_by_id_and_topics_of_a_session_are_found_by_name() {
    let mut bench = Bench::new(1);
    let id = bench.create("t", 1, &[]);
    let mut request = fetch_request("", &[(0, 0)]);
    request.topics[0].topic_id = id;
    request.session_epoch = 0;
    let session_id = bench.ask(&request, 15).session_id;
    let fail = FaultAction::Fail(ErrorCode::KAFKA_STORAGE_ERROR);
    add(&mut bench, ApiKey::FETCH, Some("t"), fail);
    let mut next = fetch_request("", &[]);
    next.topics.clear();
    (next.session_id, next.session_epoch) = (session_id, 1);
    assert_eq!(
        codes(&bench.ask(&next, 15)),
        [ErrorCode::KAFKA_STORAGE_ERROR]
    );
    next.session_epoch = 2;
    assert_eq!(codes(&bench.ask(&next, 15)), [ErrorCode::NONE]);
}

#[test]
fn a_session_error_is_told_for_the_whole_fetch() {
    let mut bench = Bench::new(1);
    bench.create("t", 1, &[]);
    let fail = FaultAction::Fail(ErrorCode::FETCH_SESSION_ID_NOT_FOUND);
    add(&mut bench, ApiKey::FETCH, None, fail);
    let answer = bench.ask(&fetch_request("t", &[(0, 0)]), 12);
    assert_eq!(
        ErrorCode(answer.error_code),
        ErrorCode::FETCH_SESSION_ID_NOT_FOUND
    );
}

#[test]
fn connections_are_closed_before_or_after_applying() {
    let mut bench = Bench::new(1);
    bench.create("t", 1, &[]);
    let request = produce_request("t", 0, batch(&[NOW_MS]));
    add(&mut bench, ApiKey::PRODUCE, None, FaultAction::Disconnect);
    assert!(matches!(bench.handle(1, &request, 12), Outcome::Close));
    assert_eq!(bench.fetch("t", 0, 0).high_watermark, 0);
    add(
        &mut bench,
        ApiKey::PRODUCE,
        None,
        FaultAction::ApplyThenDisconnect,
    );
    assert!(matches!(bench.handle(1, &request, 12), Outcome::Close));
    assert_eq!(bench.fetch("t", 0, 0).high_watermark, 1);
}

#[test]
fn silence_applies_nothing_and_a_delay_holds_the_answer_only() {
    let mut bench = Bench::new(1);
    bench.create("t", 1, &[]);
    let request = produce_request("t", 0, batch(&[NOW_MS]));
    add(&mut bench, ApiKey::PRODUCE, None, FaultAction::Silence);
    assert!(matches!(bench.handle(1, &request, 12), Outcome::Mute));
    assert_eq!(bench.fetch("t", 0, 0).high_watermark, 0);
    let delay = Duration::from_millis(700);
    add(&mut bench, ApiKey::PRODUCE, None, FaultAction::Delay(delay));
    let Outcome::Answer(answer) = bench.handle(1, &request, 12) else {
        panic!("no answer")
    };
    assert_eq!(answer.not_before, Some(bench.now + delay));
    assert_eq!(bench.fetch("t", 0, 0).high_watermark, 1);
}

#[test]
fn a_long_poll_is_delayed_from_when_it_is_answered() {
    let mut bench = Bench::new(1);
    bench.create("t", 1, &[]);
    let delay = Duration::from_millis(700);
    add(&mut bench, ApiKey::FETCH, None, FaultAction::Delay(delay));
    let mut request = fetch_request("t", &[(0, 0)]);
    request.max_wait_ms = 500;
    let mut waiting = wait(bench.handle(1, &request, 12));
    bench.pass(Duration::from_millis(500));
    let Some(Outcome::Answer(answer)) = bench.poll(&mut waiting) else {
        panic!("no answer")
    };
    assert_eq!(answer.not_before, Some(bench.now + delay));
}

#[test]
fn every_request_is_counted_and_any_api_may_be_meant() {
    let mut bench = Bench::new(2);
    bench.create("t", 1, &[]);
    bench
        .core
        .faults
        .add(FaultMatch::default(), FaultAction::Disconnect, None);
    assert!(matches!(
        bench.handle(1, &MetadataRequest::default(), 12),
        Outcome::Close
    ));
    let commit = OffsetCommitRequest::default();
    assert!(matches!(bench.handle(2, &commit, 8), Outcome::Close));
    bench.core.faults.clear();
    bench.ask_node(2, &MetadataRequest::default(), 12);
    let seen = bench.core.faults.seen(None);
    assert_eq!(seen[&ApiKey::METADATA], 2);
    assert_eq!(seen[&ApiKey::OFFSET_COMMIT], 1);
}
