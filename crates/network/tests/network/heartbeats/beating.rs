//! When heartbeats begin, how often they go out, and when they end.

use std::time::Duration;

use thalweg_network::{HeartbeatPlan, Request};
use thalweg_protocol::dynamic::Value;
use thalweg_protocol::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use thalweg_protocol::messages::join_group::JoinGroupResponse;
use thalweg_protocol::messages::leave_group::LeaveGroupRequest;
use thalweg_protocol::{ApiKey, ErrorCode, Str};
use tokio::time::Instant;

use crate::broker::{Broker, Got, Reaction};
use crate::heartbeats::{classic, client, codes, group, named, pass, plan, refused};
use crate::support::finished;

#[tokio::test(start_paused = true)]
async fn one_goes_out_every_interval_and_plain_responses_are_swallowed() {
    let broker = Broker::usual();
    let client = client(&broker);
    let bootstrap = client.view().bootstrap(Duration::from_secs(60));
    finished(bootstrap).await.expect("the broker responds");
    client.start_heartbeats(plan(classic(5)));
    let before = client.reentries();
    pass(31).await;
    let got = broker.got(ApiKey::HEARTBEAT);
    assert_eq!(got.len(), 10);
    assert_eq!(got[0].decode::<HeartbeatRequest>().generation_id, 5);
    assert_eq!(client.reentries(), before);
    assert!(client.take_notable_heartbeats().is_empty());
    assert_eq!(broker.got(ApiKey::FIND_COORDINATOR).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn they_do_not_wait_behind_a_join_nor_behind_fetches() {
    let broker = Broker::usual(); // never responds to a JoinGroup
    let client = client(&broker);
    let _joining = client.view().request(join());
    client.start_heartbeats(plan(classic(5)));
    pass(10).await;
    let joined = broker.got(ApiKey::JOIN_GROUP)[0].connection;
    let beats = broker.got(ApiKey::HEARTBEAT);
    assert_eq!(beats.len(), 3);
    assert!(beats.iter().all(|beat| beat.connection != joined));
}

fn join() -> Request {
    let fields = vec![("GroupId", "g".into()), ("ProtocolType", "consumer".into())];
    named(ApiKey::JOIN_GROUP, fields).into_request(group())
}

/// Responds to a `JoinGroup` with this code, after this time.
fn admits(got: &Got, code: ErrorCode, after: Duration) -> Reaction {
    let response = got.respond(&JoinGroupResponse {
        error_code: code.0,
        generation_id: 8,
        member_id: Str::from("m8"),
        ..JoinGroupResponse::default()
    });
    Reaction::Later(after, Box::new(response))
}

#[tokio::test(start_paused = true)]
async fn they_begin_with_the_response_to_a_join_though_nobody_has_read_it() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::JOIN_GROUP => admits(got, ErrorCode::NONE, Duration::from_secs(20)),
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    client.start_heartbeats(plan(classic(5)));
    pass(4).await;
    assert_eq!(broker.got(ApiKey::HEARTBEAT).len(), 1);
    let row = vec![("MemberId", "".into()), ("Reason", "no poll".into())];
    let members = Value::Array(vec![Value::Struct(row)]);
    let fields = vec![("GroupId", "g".into()), ("Members", members)];
    let leave = Some(named(ApiKey::LEAVE_GROUP, fields));
    let new = plan(classic(-1));
    let joining = client.join(join(), HeartbeatPlan { leave, ..new });
    pass(19).await;
    assert_eq!(broker.got(ApiKey::HEARTBEAT).len(), 1, "the join is enough");
    pass(11).await;
    let beats = broker.got(ApiKey::HEARTBEAT);
    assert_eq!(beats.len(), 4, "at 27, 30, 33");
    let last = beats[3].decode::<HeartbeatRequest>();
    assert_eq!((last.generation_id, &*last.member_id), (8, "m8"));
    assert!(joining.is_done());
    // A member whose application does not poll leaves, as any member does.
    pass(300).await;
    let left = broker.got(ApiKey::LEAVE_GROUP);
    assert_eq!(left.len(), 1);
    let leave = left[0].decode::<LeaveGroupRequest>();
    assert_eq!(leave.members[0].member_id, "m8");
    assert!(client.take_poll_expired());
}

#[tokio::test(start_paused = true)]
async fn none_begin_after_a_join_that_was_refused() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::JOIN_GROUP => admits(got, ErrorCode::MEMBER_ID_REQUIRED, Duration::ZERO),
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    let joining = client.join(join(), plan(classic(-1)));
    pass(30).await;
    assert!(joining.is_done());
    assert!(broker.got(ApiKey::HEARTBEAT).is_empty());
}

#[tokio::test(start_paused = true)]
async fn none_begin_after_a_join_that_was_given_up() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::JOIN_GROUP => admits(got, ErrorCode::NONE, Duration::from_secs(2)),
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    let joining = client.join(join(), plan(classic(-1)));
    pass(1).await;
    client.stop_heartbeats();
    pass(30).await;
    assert!(joining.is_done());
    assert!(broker.got(ApiKey::HEARTBEAT).is_empty());
}

#[tokio::test(start_paused = true)]
async fn the_next_one_waits_for_the_response_of_the_last() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::HEARTBEAT => {
            let response = got.respond(&HeartbeatResponse::default());
            Reaction::Later(Duration::from_secs(10), Box::new(response))
        }
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    client.start_heartbeats(plan(classic(5)));
    pass(34).await;
    assert_eq!(broker.got(ApiKey::HEARTBEAT).len(), 4, "at 3, 13, 23, 33");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_no_more_falls_silent_until_it_starts_anew() {
    let broker = Broker::start(|got| match got.key {
        ApiKey::HEARTBEAT => match got.decode::<HeartbeatRequest>().generation_id {
            5 => refused(got, ErrorCode::ILLEGAL_GENERATION),
            _ => Reaction::Usual,
        },
        _ => Reaction::Usual,
    });
    let client = client(&broker);
    client.start_heartbeats(plan(classic(5)));
    let before = client.reentries();
    pass(60).await;
    assert_eq!(broker.got(ApiKey::HEARTBEAT).len(), 1);
    assert_eq!(client.reentries(), before + 1);
    assert_eq!(codes(&client), [Some(22)]);
    client.start_heartbeats(plan(classic(6)));
    pass(10).await;
    assert!(broker.got(ApiKey::HEARTBEAT).len() >= 4);
    assert!(codes(&client).is_empty());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_once_stopped_or_closed() {
    let broker = Broker::usual();
    for closes in [false, true] {
        let client = client(&broker);
        client.start_heartbeats(plan(classic(5)));
        pass(10).await;
        let beats = broker.got(ApiKey::HEARTBEAT).len();
        assert!(beats >= 3);
        if closes {
            let close = client.view().close(Some(Duration::from_secs(5)));
            finished(close).await.expect("nothing is left to do");
        } else {
            client.stop_heartbeats();
        }
        pass(1_000).await;
        assert_eq!(broker.got(ApiKey::HEARTBEAT).len(), beats);
        assert!(broker.got(ApiKey::LEAVE_GROUP).is_empty());
        assert!(!client.take_poll_expired());
    }
}

#[tokio::test(start_paused = true)]
async fn heartbeats_are_counted() {
    let broker = Broker::usual();
    let client = client(&broker);
    client.start_heartbeats(plan(classic(5)));
    pass(10).await;
    let groups = client.metrics(Instant::now().into_std());
    let name = "consumer-coordinator-metrics";
    let group = groups.iter().find(|group| group.name == name);
    let values = &group.expect("a consumer of a group has them").values;
    let value = |name| {
        values
            .iter()
            .find(|(known, _)| *known == name)
            .map(|it| it.1)
    };
    assert_eq!(value("heartbeat-total"), Some(3.0));
    let ago = value("last-heartbeat-seconds-ago").expect("one was sent");
    assert!((0.9..1.1).contains(&ago), "{ago}");
}
