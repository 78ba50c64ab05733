//! Offsets of groups with members: who may commit, fetch and delete them, and how long they are
//! kept.

use std::collections::BTreeMap;

use thalweg_protocol::messages::delete_groups::DeleteGroupsRequest;
use thalweg_protocol::messages::list_groups::ListGroupsRequest;
use thalweg_protocol::messages::offset_commit::OffsetCommitRequest;
use thalweg_protocol::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteRequestPartition, OffsetDeleteRequestTopic,
};
use thalweg_protocol::messages::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup};
use thalweg_protocol::messages::txn_offset_commit::TxnOffsetCommitRequest;
use thalweg_protocol::{ErrorCode, Str};

use super::grouped::*;
use super::*;
use crate::GroupKind;
use crate::tests::transactional::init;

const MINUTE: Duration = Duration::from_secs(60);

fn with_topic() -> Bench {
    served_with_topic(&[])
}

fn served_with_topic(options: &[(&str, &str)]) -> Bench {
    let mut bench = served_by(1, options);
    bench.create("t", 2, &[]);
    bench
}

fn commit_by(member: &str, epoch: i32) -> OffsetCommitRequest {
    OffsetCommitRequest {
        member_id: member.into(),
        generation_id_or_member_epoch: epoch,
        ..groups::commit("g", "t", 0, 7)
    }
}

fn commit(bench: &mut Bench, member: &str, epoch: i32) -> ErrorCode {
    commit_in(bench, &commit_by(member, epoch), 9)
}

fn commit_in(bench: &mut Bench, request: &OffsetCommitRequest, version: i16) -> ErrorCode {
    let response = bench.ask(request, version);
    ErrorCode(response.topics[0].partitions[0].error_code)
}

/// Returns the committed offset of partition 0.
fn committed(bench: &mut Bench) -> i64 {
    let offsets = &bench.core.offsets;
    let found = offsets.of_topic(&"g".into(), &"t".into());
    let found = found.and_then(|partitions| partitions.get(&0));
    found.map_or(-1, |found| found.committed.offset)
}

#[test]
fn members_commit_with_their_generation_and_nobody_else_does() {
    let mut bench = with_topic();
    let mut group = classic("Stable", 3, &["m", "s"]);
    make_static(&mut group, "s", "instance");
    bench.publish(group);
    assert_eq!(commit(&mut bench, "", -1), ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(commit(&mut bench, "x", 3), ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(commit(&mut bench, "m", 2), ErrorCode::ILLEGAL_GENERATION);
    assert_eq!(commit(&mut bench, "m", -1), ErrorCode::ILLEGAL_GENERATION);
    let mut of_static = commit_by("m", 3);
    of_static.group_instance_id = Some("instance".into());
    let fenced = ErrorCode::FENCED_INSTANCE_ID;
    assert_eq!(commit_in(&mut bench, &of_static, 8), fenced);
    assert_eq!(committed(&mut bench), -1);
    of_static.member_id = "s".into();
    assert_eq!(commit_in(&mut bench, &of_static, 8), ErrorCode::NONE);
    assert_eq!(commit(&mut bench, "m", 3), ErrorCode::NONE);
    assert_eq!(committed(&mut bench), 7);
}

#[test]
fn anyone_commits_to_a_group_without_members() {
    let mut bench = with_topic();
    for kind in [GroupKind::Classic, GroupKind::Consumer] {
        bench.publish(view(kind, "Empty", 3, &[]));
        assert_eq!(commit(&mut bench, "", -1), ErrorCode::NONE);
        assert_eq!(commit(&mut bench, "m", 3), ErrorCode::UNKNOWN_MEMBER_ID);
    }
}

#[test]
fn a_commit_between_join_and_sync_hears_of_the_rebalance() {
    let mut bench = with_topic();
    bench.publish(classic("CompletingRebalance", 3, &["m"]));
    let rebalance = ErrorCode::REBALANCE_IN_PROGRESS;
    assert_eq!(commit(&mut bench, "m", 3), rebalance);
    bench.publish(classic("PreparingRebalance", 3, &["m"]));
    assert_eq!(commit(&mut bench, "m", 3), ErrorCode::NONE);
    bench.publish(classic("Dead", 3, &["m"]));
    let not_available = ErrorCode::COORDINATOR_NOT_AVAILABLE;
    assert_eq!(commit(&mut bench, "m", 3), not_available);
}

#[test]
fn a_classic_members_commit_keeps_its_session_alive() {
    let mut bench = with_topic();
    bench.publish(classic("Stable", 3, &["m"]));
    bench.publish_at("h", consumers("Stable", 3, &["m"]), 0.0);
    bench.pass(SESSION / 2);
    assert_eq!(commit(&mut bench, "m", 3), ErrorCode::NONE);
    let mut to_h = commit_by("m", 3);
    to_h.group_id = "h".into();
    assert_eq!(commit_in(&mut bench, &to_h, 9), ErrorCode::NONE);
    bench.tick_after(SESSION / 2);
    assert_eq!(bench.expired(), [("h".to_owned(), "m".to_owned())]);
}

#[test]
fn members_of_the_consumer_protocol_commit_with_their_epoch() {
    let mut bench = with_topic();
    let mut group = consumers("Reconciling", 9, &["m", "behind"]);
    group.members.get_mut("behind").unwrap().epoch = 8;
    bench.publish(group);
    assert_eq!(commit(&mut bench, "", -1), ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(commit(&mut bench, "m", 8), ErrorCode::STALE_MEMBER_EPOCH);
    assert_eq!(commit(&mut bench, "m", 10), ErrorCode::STALE_MEMBER_EPOCH);
    assert_eq!(commit(&mut bench, "m", 9), ErrorCode::NONE);
    assert_eq!(commit(&mut bench, "behind", 8), ErrorCode::NONE);
    let old = commit_in(&mut bench, &commit_by("m", 9), 8);
    assert_eq!(old, ErrorCode::UNSUPPORTED_VERSION);
}

#[test]
fn members_commit_with_an_older_epoch_what_they_have_had_since_then() {
    let mut bench = with_topic();
    let writer = init(&mut bench, "x");
    let mut group = consumers("Reconciling", 9, &["m"]);
    let member = group.members.get_mut("m").unwrap();
    let epochs = BTreeMap::from([(0, 7), (1, 9)]);
    member.assignment_epochs.insert("t".into(), epochs);
    bench.publish(group);
    let transactional = |bench: &mut Bench, generation_id| {
        let request = TxnOffsetCommitRequest {
            generation_id,
            member_id: "m".into(),
            ..writer.offset_request("g", "t", 5)
        };
        let response = bench.ask(&request, 5);
        ErrorCode(response.topics[0].partitions[0].error_code)
    };
    for (epoch, code, of_transaction) in [
        (
            6,
            ErrorCode::STALE_MEMBER_EPOCH,
            ErrorCode::ILLEGAL_GENERATION,
        ),
        (7, ErrorCode::NONE, ErrorCode::NONE),
        (8, ErrorCode::NONE, ErrorCode::NONE),
        (9, ErrorCode::NONE, ErrorCode::NONE),
        (
            10,
            ErrorCode::STALE_MEMBER_EPOCH,
            ErrorCode::ILLEGAL_GENERATION,
        ),
    ] {
        assert_eq!(commit(&mut bench, "m", epoch), code, "{epoch}");
        assert_eq!(transactional(&mut bench, epoch), of_transaction, "{epoch}");
    }
    // One partition that was assigned later makes the complete commit stale.
    let mut both = commit_by("m", 8);
    let mut later = both.topics[0].partitions[0].clone();
    later.partition_index = 1;
    both.topics[0].partitions.push(later);
    let response = bench.ask(&both, 9);
    let codes = response.topics[0]
        .partitions
        .iter()
        .map(|each| each.error_code);
    let stale = ErrorCode::STALE_MEMBER_EPOCH.0;
    assert_eq!(codes.collect::<Vec<_>>(), [stale, stale]);
}

#[test]
fn transactional_commits_are_held_to_the_same_rules_but_may_be_anonymous() {
    let mut bench = with_topic();
    let writer = init(&mut bench, "x");
    let commit = |bench: &mut Bench, member: &str, generation_id| {
        let request = TxnOffsetCommitRequest {
            generation_id,
            member_id: member.into(),
            ..writer.offset_request("g", "t", 5)
        };
        let response = bench.ask(&request, 5);
        ErrorCode(response.topics[0].partitions[0].error_code)
    };
    bench.publish(classic("CompletingRebalance", 3, &["m"]));
    assert_eq!(commit(&mut bench, "m", 2), ErrorCode::ILLEGAL_GENERATION);
    assert_eq!(commit(&mut bench, "x", 3), ErrorCode::UNKNOWN_MEMBER_ID);
    assert_eq!(commit(&mut bench, "m", 3), ErrorCode::NONE);
    assert_eq!(commit(&mut bench, "", -1), ErrorCode::NONE);
    bench.publish(consumers("Stable", 3, &["m"]));
    assert_eq!(commit(&mut bench, "m", 2), ErrorCode::ILLEGAL_GENERATION);
    assert_eq!(commit(&mut bench, "m", 3), ErrorCode::NONE);
    assert_eq!(commit(&mut bench, "", -1), ErrorCode::NONE);
}

#[test]
fn who_fetches_offsets_with_an_epoch_must_have_it() {
    let mut bench = with_topic();
    let fetch = |bench: &mut Bench, member: Option<&str>, member_epoch| {
        let request = OffsetFetchRequest {
            groups: vec![OffsetFetchRequestGroup {
                group_id: "g".into(),
                member_id: member.map(Str::from),
                member_epoch,
                topics: None,
            }],
            ..OffsetFetchRequest::default()
        };
        ErrorCode(bench.ask(&request, 9).groups[0].error_code)
    };
    bench.publish(consumers("Stable", 3, &["m"]));
    assert_eq!(fetch(&mut bench, None, -1), ErrorCode::NONE);
    assert_eq!(fetch(&mut bench, Some("m"), 3), ErrorCode::NONE);
    let stale = ErrorCode::STALE_MEMBER_EPOCH;
    assert_eq!(fetch(&mut bench, Some("m"), 2), stale);
    let unknown = ErrorCode::UNKNOWN_MEMBER_ID;
    assert_eq!(fetch(&mut bench, Some("x"), 3), unknown);
    assert_eq!(fetch(&mut bench, None, 3), unknown);
    bench.publish(classic("Stable", 3, &["m"]));
    assert_eq!(fetch(&mut bench, Some("x"), 7), ErrorCode::NONE);
}

fn delete_offset(bench: &mut Bench) -> (ErrorCode, Option<ErrorCode>) {
    let request = OffsetDeleteRequest {
        group_id: "g".into(),
        topics: vec![OffsetDeleteRequestTopic {
            name: "t".into(),
            partitions: vec![OffsetDeleteRequestPartition { partition_index: 0 }],
        }],
    };
    let response = bench.ask(&request, 0);
    let partition = response.topics.first().map(|topic| &topic.partitions[0]);
    let code = partition.map(|partition| ErrorCode(partition.error_code));
    (ErrorCode(response.error_code), code)
}

#[test]
fn offsets_of_a_subscribed_topic_stay() {
    let mut bench = with_topic();
    let unknown = (ErrorCode::GROUP_ID_NOT_FOUND, None);
    assert_eq!(delete_offset(&mut bench), unknown);
    commit(&mut bench, "", -1);
    let subscribed = Some(ErrorCode::GROUP_SUBSCRIBED_TO_TOPIC);
    for kind in [GroupKind::Classic, GroupKind::Consumer] {
        let mut group = view(kind, "Stable", 3, &["m"]);
        group.topics = ["t".into()].into();
        bench.publish(group);
        assert_eq!(delete_offset(&mut bench), (ErrorCode::NONE, subscribed));
        assert_eq!(committed(&mut bench), 7);
    }
    let mut other = classic("Stable", 3, &["m"]);
    other.protocol_type = "connect".into();
    bench.publish(other);
    assert_eq!(
        delete_offset(&mut bench),
        (ErrorCode::NON_EMPTY_GROUP, None)
    );
    bench.publish(classic("Stable", 3, &["m"]));
    let deleted = (ErrorCode::NONE, Some(ErrorCode::NONE));
    assert_eq!(delete_offset(&mut bench), deleted);
    assert_eq!(committed(&mut bench), -1);
}

fn delete_group(bench: &mut Bench) -> ErrorCode {
    let request = DeleteGroupsRequest {
        groups_names: vec!["g".into()],
    };
    ErrorCode(bench.ask(&request, 2).results[0].error_code)
}

#[test]
fn only_groups_without_members_are_deleted_and_the_coordinator_hears_of_it() {
    let mut bench = with_topic();
    assert_eq!(delete_group(&mut bench), ErrorCode::GROUP_ID_NOT_FOUND);
    for state in ["Stable", "PreparingRebalance", "CompletingRebalance"] {
        bench.publish(classic(state, 1, &["m"]));
        assert_eq!(delete_group(&mut bench), ErrorCode::NON_EMPTY_GROUP);
    }
    bench.publish(consumers("Reconciling", 1, &["m"]));
    assert_eq!(delete_group(&mut bench), ErrorCode::NON_EMPTY_GROUP);
    bench.publish(classic("Empty", 1, &[]));
    commit(&mut bench, "", -1);
    assert!(bench.events().is_empty());
    assert_eq!(delete_group(&mut bench), ErrorCode::NONE);
    assert_eq!(bench.deleted(), ["g"]);
    assert_eq!(committed(&mut bench), -1);
    assert_eq!(delete_group(&mut bench), ErrorCode::GROUP_ID_NOT_FOUND);
}

#[test]
fn a_group_that_is_about_to_have_a_member_is_not_deleted() {
    let mut bench = with_topic();
    bench.publish(classic("Empty", 1, &[]));
    let gone = wait(bench.handle(1, &join(""), 9));
    assert_eq!(delete_group(&mut bench), ErrorCode::NON_EMPTY_GROUP);
    bench.tick_after(MINUTE * 10);
    assert_eq!(bench.request().ticket, gone.group_ticket().unwrap());
    bench.core.forget_wait(&gone, bench.now);
    assert_eq!(delete_group(&mut bench), ErrorCode::NONE);
}

fn listed(bench: &mut Bench, states: &[&str], types: &[&str]) -> Vec<[String; 4]> {
    let texts = |words: &[&str]| words.iter().map(|word| Str::from(*word)).collect();
    let request = ListGroupsRequest {
        states_filter: texts(states),
        types_filter: texts(types),
    };
    let groups = bench.ask(&request, 5).groups.into_iter();
    groups
        .map(|group| {
            let fields = [
                group.group_id,
                group.protocol_type,
                group.group_state,
                group.group_type,
            ];
            fields.map(String::from)
        })
        .collect()
}

#[test]
fn groups_are_listed_with_the_state_and_kind_that_the_coordinator_published() {
    let mut bench = with_topic();
    let simple = OffsetCommitRequest {
        group_id: "simple".into(),
        ..commit_by("", -1)
    };
    assert_eq!(commit_in(&mut bench, &simple, 9), ErrorCode::NONE);
    commit(&mut bench, "", -1);
    bench.publish(classic("Stable", 1, &["m"]));
    bench.publish_at("h", consumers("Assigning", 1, &["m"]), 0.0);
    let all = listed(&mut bench, &[], &[]);
    assert_eq!(
        all,
        [
            ["g", "consumer", "Stable", "classic"],
            ["h", "consumer", "Assigning", "consumer"],
            ["simple", "", "Empty", "classic"],
        ]
    );
    assert_eq!(listed(&mut bench, &["stable"], &[]), all[..1]);
    assert_eq!(listed(&mut bench, &[], &["consumer"]), all[1..2]);
    assert_eq!(listed(&mut bench, &["Empty"], &["classic"]), all[2..]);
}

/// Returns how many minutes from now the offsets of `g` are kept.
fn minutes_kept(bench: &mut Bench) -> u32 {
    for minute in 0..100 {
        if committed(bench) == -1 {
            return minute;
        }
        bench.tick_after(MINUTE);
    }
    100
}

fn forgetful() -> Bench {
    let options = [
        ("offsets.retention.minutes", "30"),
        ("offsets.retention.check.interval.ms", "60000"),
    ];
    served_with_topic(&options)
}

#[test]
fn offsets_of_a_group_that_never_had_members_are_kept_since_their_commit() {
    let mut bench = forgetful();
    commit(&mut bench, "", -1);
    bench.tick_after(MINUTE * 20);
    commit(&mut bench, "", -1);
    assert_eq!(minutes_kept(&mut bench), 30);
    assert!(bench.events().is_empty(), "the coordinator never knew it");
}

#[test]
fn offsets_of_a_classic_group_are_kept_since_its_last_member_went() {
    let mut bench = forgetful();
    bench.publish(classic("Stable", 1, &["m"]));
    commit(&mut bench, "m", 1);
    let mut group = classic("Stable", 1, &["m"]);
    group.topics = ["t".into()].into();
    bench.publish(group);
    for _ in 0..100 {
        bench.tick_after(MINUTE);
        bench.beat("m", 1);
    }
    assert_eq!(committed(&mut bench), 7);
    bench.publish(classic("Empty", 2, &[]));
    bench.tick_after(MINUTE * 10);
    // Publishing the same state again does not extend the time.
    bench.publish(classic("Empty", 2, &[]));
    bench.events();
    assert_eq!(minutes_kept(&mut bench), 20);
    assert_eq!(bench.deleted(), ["g"]);
    assert_eq!(listed(&mut bench, &[], &[]), [[""; 4]; 0]);
}

#[test]
fn offsets_of_topics_that_are_not_subscribed_to_any_more_grow_old() {
    for kind in [GroupKind::Classic, GroupKind::Consumer] {
        let mut bench = forgetful();
        bench.publish(view(kind, "Stable", 1, &["m"]));
        commit(&mut bench, "m", 1);
        assert_eq!(minutes_kept(&mut bench), 30);
        assert!(bench.deleted().is_empty(), "it has a member");
    }
    let mut bench = forgetful();
    bench.publish(classic("PreparingRebalance", 1, &["m"]));
    commit(&mut bench, "m", 1);
    assert_eq!(minutes_kept(&mut bench), 100);
}

#[test]
fn a_commit_of_old_may_say_how_long_it_is_kept() {
    let mut bench = forgetful();
    let mut request = commit_by("", -1);
    request.retention_time_ms = 5 * 60_000;
    assert_eq!(commit_in(&mut bench, &request, 4), ErrorCode::NONE);
    assert_eq!(minutes_kept(&mut bench), 5);
}

#[test]
fn an_offset_that_a_transaction_is_about_to_change_does_not_grow_old() {
    let mut bench = forgetful();
    commit(&mut bench, "", -1);
    let writer = init(&mut bench, "x");
    bench.pass(MINUTE * 30);
    writer
        .commit_offset_in(&mut bench, 5, ("g", "t"), 5)
        .unwrap();
    bench.core.retain_offsets(bench.now, bench.now_ms);
    assert_eq!(committed(&mut bench), 7);
    writer.commit(&mut bench).unwrap();
    assert_eq!(committed(&mut bench), 5);
}

#[test]
fn a_classic_group_that_is_empty_and_has_no_offsets_goes_at_the_next_look() {
    let mut bench = forgetful();
    bench.publish(classic("Empty", 1, &[]));
    bench.tick_after(MINUTE);
    assert_eq!(bench.deleted(), ["g"]);
}
