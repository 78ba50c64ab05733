use thalweg_protocol::messages::fetch::ForgottenTopic;
use thalweg_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use thalweg_protocol::messages::offset_commit::OffsetCommitRequest;
use thalweg_protocol::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use thalweg_protocol::{ApiKey, ErrorCode};

use super::transactional::{Writer, committed_offset, init};
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
    let response = bench.ask(&both, 12);
    let codes: Vec<i16> = response
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
    let response = bench.ask(&fetch_request("t", &[(0, 0)]), 12);
    assert_eq!(
        ErrorCode(response.error_code),
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
fn silence_applies_nothing_and_a_delay_holds_the_response_only() {
    let mut bench = Bench::new(1);
    bench.create("t", 1, &[]);
    let request = produce_request("t", 0, batch(&[NOW_MS]));
    add(&mut bench, ApiKey::PRODUCE, None, FaultAction::Silence);
    assert!(matches!(bench.handle(1, &request, 12), Outcome::Mute));
    assert_eq!(bench.fetch("t", 0, 0).high_watermark, 0);
    let delay = Duration::from_millis(700);
    add(&mut bench, ApiKey::PRODUCE, None, FaultAction::Delay(delay));
    let Outcome::Response(response) = bench.handle(1, &request, 12) else {
        panic!("no response")
    };
    assert_eq!(response.not_before, Some(bench.now + delay));
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
    let Some(Outcome::Response(response)) = bench.poll(&mut waiting) else {
        panic!("no response")
    };
    assert_eq!(response.not_before, Some(bench.now + delay));
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

/// Fails one topic of the next request.
fn fail_topic(bench: &mut Bench, api: ApiKey, topic: &str, code: ErrorCode) {
    add(bench, api, Some(topic), FaultAction::Fail(code));
}

fn with_topics() -> Bench {
    let mut bench = Bench::new(1);
    bench.create("a", 1, &[]);
    bench.create("b", 1, &[]);
    bench
}

#[test]
fn a_failed_topic_leaves_the_groups_and_the_other_topics_offsets_alone() {
    let mut bench = with_topics();
    for topic in ["a", "b"] {
        bench.ask(&groups::commit("g", topic, 0, 7), 8);
    }
    let code = ErrorCode::UNSTABLE_OFFSET_COMMIT;
    fail_topic(&mut bench, ApiKey::OFFSET_FETCH, "a", code);
    assert_eq!(committed_offset(&mut bench, "g", "b", false), Ok(7));
    assert_eq!(committed_offset(&mut bench, "g", "a", false), Err(code));
    assert_eq!(committed_offset(&mut bench, "g", "a", false), Ok(7));

    let of_topic = |topic: &str| OffsetDeleteRequestTopic {
        name: topic.into(),
        partitions: vec![OffsetDeleteRequestPartition { partition_index: 0 }],
    };
    let request = OffsetDeleteRequest {
        group_id: "g".into(),
        topics: vec![of_topic("a"), of_topic("b")],
    };
    let code = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
    fail_topic(&mut bench, ApiKey::OFFSET_DELETE, "a", code);
    let response = bench.ask(&request, 0);
    let codes = response
        .topics
        .iter()
        .map(|topic| topic.partitions[0].error_code);
    assert_eq!(
        (response.error_code, codes.collect::<Vec<_>>()),
        (0, vec![code.0, 0])
    );
    assert_eq!(committed_offset(&mut bench, "g", "a", false), Ok(7));
    assert_eq!(committed_offset(&mut bench, "g", "b", false), Ok(-1));
}

#[test]
fn a_topic_that_cannot_be_added_keeps_the_others_out_of_the_transaction() {
    let mut bench = with_topics();
    let writer = init(&mut bench, "x");
    let mut request = writer.add_request("a");
    request
        .v3_and_below_topics
        .extend(writer.add_request("b").v3_and_below_topics);
    let code = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
    fail_topic(&mut bench, ApiKey::ADD_PARTITIONS_TO_TXN, "a", code);
    let response = bench.ask(&request, 3);
    let topics = response.results_by_topic_v3_and_below.iter();
    let codes = topics.map(|topic| topic.results_by_partition[0].partition_error_code);
    let not_attempted = ErrorCode::OPERATION_NOT_ATTEMPTED.0;
    assert_eq!(codes.collect::<Vec<_>>(), [code.0, not_attempted]);
    assert!(writer.describe(&mut bench).topics.is_empty());
}

#[test]
fn a_request_that_is_about_no_topic_does_not_use_up_its_failure() {
    let mut bench = with_topics();
    let code = ErrorCode::LEADER_NOT_AVAILABLE;
    let asking = |topics| MetadataRequest {
        topics: Some(topics),
        ..MetadataRequest::default()
    };
    let none = asking(Vec::new());
    let of_a = asking(vec![MetadataRequestTopic {
        name: Some("a".into()),
        ..MetadataRequestTopic::default()
    }]);
    for topic in [None, Some("a")] {
        add(&mut bench, ApiKey::METADATA, topic, FaultAction::Fail(code));
        bench.ask(&none, 12);
        let response = bench.ask(&of_a, 12);
        assert_eq!(response.topics[0].error_code, code.0, "{topic:?}");
    }
}

#[test]
fn a_fetch_that_forgets_a_topic_does_not_use_up_its_failure() {
    let mut bench = with_topics();
    let mut request = fetch_request("a", &[(0, 0)]);
    request.topics.extend(fetch_request("b", &[(0, 0)]).topics);
    request.session_epoch = 0;
    let session_id = bench.ask(&request, 12).session_id;
    let code = ErrorCode::KAFKA_STORAGE_ERROR;
    fail_topic(&mut bench, ApiKey::FETCH, "a", code);
    let forgets = FetchRequest {
        session_id,
        session_epoch: 1,
        topics: Vec::new(),
        forgotten_topics_data: vec![ForgottenTopic {
            topic: "a".into(),
            partitions: vec![0],
            ..ForgottenTopic::default()
        }],
        ..request
    };
    bench.ask(&forgets, 12);
    assert_eq!(
        codes(&bench.ask(&fetch_request("a", &[(0, 0)]), 12)),
        [code]
    );
}

#[test]
fn a_failed_topic_does_not_let_another_ones_offsets_in_unchecked() {
    let mut bench = with_topics();
    let writer = init(&mut bench, "x");
    let commit = |bench: &mut Bench, writer: &Writer| {
        let mut request = writer.offset_request("g", "a", 7);
        let of_b = writer.offset_request("g", "b", 7).topics;
        request.topics.extend(of_b);
        let code = ErrorCode::GROUP_AUTHORIZATION_FAILED;
        fail_topic(bench, ApiKey::TXN_OFFSET_COMMIT, "a", code);
        let response = bench.ask(&request, 5);
        let codes = response
            .topics
            .iter()
            .map(|topic| topic.partitions[0].error_code);
        let codes: Vec<i16> = codes.collect();
        assert_eq!(codes[0], code.0);
        ErrorCode(codes[1])
    };
    assert_eq!(commit(&mut bench, &writer), ErrorCode::NONE);
    assert_eq!(writer.describe(&mut bench).topics.len(), 1);
    let writer = writer.abort(&mut bench).unwrap();
    assert_eq!(committed_offset(&mut bench, "g", "b", true), Ok(-1));
    let fenced = commit(&mut bench, &writer.at(writer.epoch - 1));
    assert_eq!(fenced, ErrorCode::INVALID_PRODUCER_EPOCH);
    // The next transaction commits nothing of what was refused or aborted.
    let next = commit(&mut bench, &writer);
    assert_eq!(next, ErrorCode::NONE);
    writer.commit(&mut bench).unwrap();
    assert_eq!(committed_offset(&mut bench, "g", "a", true), Ok(-1));
    assert_eq!(committed_offset(&mut bench, "g", "b", true), Ok(7));
}

#[test]
fn the_wrong_node_takes_no_offsets_although_a_topic_fails() {
    let mut bench = Bench::new(2);
    bench.create("a", 1, &[]);
    bench.create("b", 1, &[]);
    let wrong = 3 - groups::coordinator(&mut bench, "g");
    let code = ErrorCode::GROUP_AUTHORIZATION_FAILED;
    fail_topic(&mut bench, ApiKey::OFFSET_COMMIT, "a", code);
    let mut request = groups::commit("g", "b", 0, 7);
    request.topics.extend(groups::commit("g", "a", 0, 7).topics);
    let refused = groups::commit_code(&mut bench, wrong, &request);
    assert_eq!(refused, ErrorCode::NOT_COORDINATOR);
}
