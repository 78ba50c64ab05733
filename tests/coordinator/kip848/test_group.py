"""One group of KIP-848's protocol, on the broker's side.

Its responses are compared with recorded responses of a real Kafka.
tests/integration/groups/test_consumer_group_protocol.py compares the records with its responses
today.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.coordinator.kip848.broker import filled
from tests.coordinator.kip848.script import (
    SCRIPTS,
    Machines,
    Script,
    kafkas_responses,
    plain,
)
from thalweg.coordinator.kip848.group import ConsumerGroup, ConsumerGroupSettings
from thalweg.coordinator.states import ConsumerGroupState
from thalweg.coordinator.steps import (
    Arrived,
    Deleted,
    Forget,
    GroupAction,
    GroupEvent,
    Publish,
    Reply,
    SessionExpired,
    Ticked,
    TopicsChanged,
)

_S = ConsumerGroupState
TOPICS = {"t": 4, "u": 3}


def topics(**partitions: int) -> TopicsChanged:
    found = TOPICS | partitions
    return TopicsChanged(found, {}, {name: name.upper() for name in found})


class Talk:
    """A group, and its last responses."""

    def __init__(self, **settings: Any) -> None:
        settings = {"assignment_interval_ms": 0} | settings
        self.group = ConsumerGroup("g", ConsumerGroupSettings(**settings), lambda: "made", topics())
        self.now = 0.0
        self.view: dict[str, Any] = {}
        self.actions: list[GroupAction] = []

    def step(self, event: GroupEvent) -> list[GroupAction]:
        self.actions = self.group.step(event, self.now)
        for action in self.actions:
            if isinstance(action, Publish):
                self.view = action.view
        return self.actions

    def says(self, member: str, epoch: int, *, version: int = 1, **fields: Any) -> dict[str, Any]:
        body = filled({"GroupId": "g", "MemberId": member, "MemberEpoch": epoch} | fields)
        self.step(Arrived(1, "ConsumerGroupHeartbeat", version, body, "client", "/host"))
        (reply,) = (each.body for each in self.actions if isinstance(each, Reply))
        return reply

    def joins(self, member: str, names: str = "t", **fields: Any) -> dict[str, Any]:
        full: dict[str, Any] = {
            "RebalanceTimeoutMs": 1_000,
            "SubscribedTopicNames": list(names),
            "TopicPartitions": [],
        }
        return self.says(member, 0, **(full | fields))

    def is_in(self, state: ConsumerGroupState) -> bool:
        return self.group.state is state

    def codes(self) -> dict[str, int]:
        return {key: each["heartbeat"] for key, each in self.view["members"].items()}


def given(reply: dict[str, Any]) -> str | None:
    told = reply["Assignment"]
    if told is None:
        return None
    return " ".join(
        f"{row['TopicId']}{each}" for row in told["TopicPartitions"] for each in row["Partitions"]
    )


def own(text: str) -> list[dict[str, Any]]:
    return [{"TopicId": each[0], "Partitions": [int(each[1:])]} for each in text.split()]


def own_partitions(text: str | None) -> list[int]:
    return [int(each[1:]) for each in (text or "").split()]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda each: each.__name__)
def test_it_responds_as_a_real_kafka_did(script):
    ours = Script(Machines(), script.__name__)
    script(ours)
    recorded = kafkas_responses(script)
    for number, (our, their) in enumerate(zip(plain(ours.heard), recorded, strict=True)):
        assert our == their, f"step {number}"


def test_a_partition_keeps_the_epoch_at_which_it_was_assigned():
    talk = Talk()

    def epochs(member: str) -> dict[int, int]:
        found: dict[int, int] = talk.view["members"][member]["assignment_epochs"].get("t", {})
        return found

    talk.joins("a")
    assert epochs("a") == dict.fromkeys(range(4), 2)
    talk.joins("b")
    kept = set(own_partitions(given(talk.says("a", 2))))
    # The partitions that it has to give up are still its own.
    assert epochs("a") == dict.fromkeys(range(4), 2)
    assert epochs("b") == {}
    talk.says("a", 2, TopicPartitions=own(" ".join(f"T{each}" for each in kept)))
    assert talk.view["members"]["a"]["epoch"] == 3
    assert epochs("a") == dict.fromkeys(kept, 2)
    talk.says("b", 3)
    assert epochs("b") == dict.fromkeys(set(range(4)) - kept, 3)
    # A returned partition has another epoch than one that stayed.
    talk.says("b", -1)
    talk.says("a", 3)
    assert epochs("a") == {each: 2 if each in kept else 4 for each in range(4)}


def test_views_tell_who_has_news_and_come_before_the_reply():
    talk = Talk()
    talk.joins("a")
    assert [type(each) for each in talk.actions] == [Publish, Reply]
    assert talk.view == {
        "group_id": "g",
        "kind": "consumer",
        "protocol_type": "consumer",
        "state": "Stable",
        "epoch": 2,
        "topics": ["t"],
        "members": {
            "a": {
                "instance_id": None,
                "session_timeout_ms": 45_000,
                "epoch": 2,
                "assignment_epochs": {"t": dict.fromkeys(range(4), 2)},
                "heartbeat": 0,
                "watched": True,
            }
        },
    }
    talk.says("a", 2)
    assert [type(each) for each in talk.actions] == [Reply], "nothing new"
    talk.joins("b")
    assert talk.codes() == {"a": 27, "b": 0}, "a must hear that it has less"
    talk.says("a", 2)
    assert talk.codes() == {"a": 0, "b": 0}, "both wait for a to give up"
    talk.says("a", 2, TopicPartitions=own("T0 T1"))
    assert talk.codes() == {"a": 0, "b": 27}
    assert given(talk.says("b", 3)) == "T2 T3"
    assert talk.codes() == {"a": 0, "b": 0}
    assert talk.view["state"] == "Stable"


def test_an_assignment_waits_for_more_who_come():
    talk = Talk(assignment_interval_ms=1_000)
    assert given(talk.joins("a")) == "T0 T1 T2 T3"
    talk.now = 500
    assert given(talk.joins("b")) == ""
    talk.now = 999
    assert given(talk.joins("c")) == ""
    assert talk.is_in(_S.ASSIGNING)
    assert talk.codes() == {"a": 27, "b": 27, "c": 27}
    talk.now = 1_000
    assert given(talk.says("a", 2)) == "T0 T1"
    assert talk.is_in(_S.RECONCILING)
    assert talk.group.assignment_epoch == talk.group.epoch == 4


def test_a_member_that_is_silent_goes_and_the_others_get_its_part():
    talk = Talk()
    talk.joins("a")
    talk.joins("b")
    talk.step(SessionExpired("a"))
    assert list(talk.view["members"]) == ["b"]
    assert talk.codes() == {"b": 27}
    assert given(talk.says("b", 3)) == "T0 T1 T2 T3"
    assert talk.step(SessionExpired("a")) == [], "it is gone already"
    talk.step(SessionExpired("b"))
    assert talk.is_in(_S.EMPTY)
    assert talk.view["members"] == {}


def test_a_member_that_does_not_give_up_in_time_is_out():
    talk = Talk()
    talk.joins("a")
    talk.joins("b")
    assert talk.group.next_deadline() is None
    talk.says("a", 2)
    assert talk.group.next_deadline() == 1_000
    talk.now = 999
    talk.step(Ticked())
    assert set(talk.view["members"]) == {"a", "b"}
    talk.now = 1_000
    talk.step(Ticked())
    assert set(talk.view["members"]) == {"b"}
    assert talk.group.next_deadline() is None


def test_who_gave_up_in_time_has_no_deadline():
    talk = Talk()
    talk.joins("a")
    talk.joins("b")
    talk.says("a", 2)
    talk.says("a", 2, TopicPartitions=[])
    assert talk.group.next_deadline() is None


def test_new_partitions_are_assigned_and_other_topics_are_none_of_its_business():
    talk = Talk()
    talk.joins("a")
    assert talk.step(topics(u=9)) == []
    talk.step(topics(t=6))
    assert talk.codes() == {"a": 27}
    assert given(talk.says("a", 2)) == "T0 T1 T2 T3 T4 T5"


def test_a_deleted_topic_is_given_up_and_a_new_one_of_that_name_is_another_one():
    talk = Talk()
    talk.joins("a")
    talk.step(TopicsChanged({"t": 2}, {}, {"t": "N"}))
    assert given(talk.says("a", 2)) == ""
    assert given(talk.says("a", 2, TopicPartitions=[])) == "N0 N1"


def test_a_pattern_is_resolved_at_once_and_again_when_topics_change():
    talk = Talk()
    reply = talk.joins("a", "", SubscribedTopicRegex="[tx]+")
    assert given(reply) == "T0 T1 T2 T3"
    assert talk.view["topics"] == ["t"]
    talk.step(topics(xx=1, txu=1))
    assert given(talk.says("a", 2)) == "T0 T1 T2 T3 XX0"
    reply = talk.says("a", 3, SubscribedTopicRegex="", SubscribedTopicNames=["u"])
    assert given(reply) == ""
    assert given(talk.says("a", 3, TopicPartitions=[])) == "U0 U1 U2"


def test_a_pattern_matches_only_topics_that_the_member_may_see():
    hidden = {"User:alice": {"secret"}, "User:bob": set()}
    asked: list[tuple[str, str]] = []

    def visible(principal: str, host: str, names: list[str]) -> list[str]:
        asked.append((principal, host))
        return [name for name in names if name not in hidden[principal]]

    group = ConsumerGroup(
        "g",
        ConsumerGroupSettings(assignment_interval_ms=0),
        lambda: "made",
        topics(secret=1),
        visible,
    )

    def says(principal: str, epoch: int, **fields: Any) -> None:
        body = {"GroupId": "g", "MemberId": principal, "MemberEpoch": epoch, **fields}
        group.step(
            Arrived(
                1, "ConsumerGroupHeartbeat", 1, filled(body), "client", "/host", None, principal
            ),
            0.0,
        )

    def matching(principal: str) -> set[str]:
        return set(group.roster.members[principal].matching)

    for principal in hidden:
        joining = {"RebalanceTimeoutMs": 1000, "TopicPartitions": []}
        says(principal, 0, SubscribedTopicNames=[], SubscribedTopicRegex=".*", **joining)
    assert matching("User:alice") == {"t", "u"}
    assert matching("User:bob") == {"t", "u", "secret"}
    assert asked[0] == ("User:alice", "/host")
    # The same when topics change.
    hidden["User:alice"].add("later")
    group.step(topics(secret=1, later=1), 0.0)
    assert matching("User:alice") == {"t", "u"}
    assert matching("User:bob") == {"t", "u", "secret", "later"}


@pytest.mark.parametrize("regex", ["(", "[", "*", "(?P<a", "x{99999999999}"])
def test_a_bad_pattern_is_refused_and_changes_nothing(regex):
    talk = Talk()
    talk.joins("a")
    reply = talk.says("a", 2, SubscribedTopicRegex=regex)
    assert reply["ErrorCode"] == 128
    assert reply["ErrorMessage"].startswith(f"SubscribedTopicRegex `{regex}` is not a valid")
    assert [type(each) for each in talk.actions] == [Reply]
    assert talk.group.roster.members["a"].regex == ""


def test_version_0_lets_the_broker_name_the_member():
    talk = Talk()
    reply = talk.says(
        "",
        0,
        version=0,
        RebalanceTimeoutMs=5,
        SubscribedTopicNames=["t"],
        TopicPartitions=[],
    )
    assert (reply["ErrorCode"], reply["MemberId"]) == (0, "made")


def test_a_member_that_takes_another_instance_id_frees_its_first_one():
    talk = Talk()
    talk.joins("a", InstanceId="one")
    assert talk.joins("a", InstanceId="two")["ErrorCode"] == 0
    assert talk.joins("b", InstanceId="one")["ErrorCode"] == 0
    talk.says("a", -1, InstanceId="two")
    assert list(talk.view["members"]) == ["b"]
    talk.says("b", -1, InstanceId="one")
    assert talk.joins("c", InstanceId="two")["ErrorCode"] == 0


def test_a_group_that_nobody_joined_does_not_exist():
    talk = Talk()
    assert talk.says("a", 3)["ErrorCode"] == 69
    assert talk.actions[-1] == Forget()
    talk.joins("a", TopicPartitions=None)
    assert talk.actions[-1] == Forget()


def test_only_an_empty_group_is_deleted():
    talk = Talk()
    talk.joins("a")
    assert talk.step(Deleted()) == []
    talk.says("a", -1)
    assert talk.view["state"] == "Empty"
    assert talk.step(Deleted()) == [Forget()]
    assert talk.is_in(_S.DEAD)


def test_the_place_of_a_static_member_is_kept_for_a_session():
    talk = Talk()
    talk.joins("a", InstanceId="i")
    talk.joins("b")
    talk.says("a", -2, InstanceId="i")
    assert talk.view["members"]["a"]["watched"]
    assert talk.view["members"]["a"]["epoch"] == -2
    talk.step(SessionExpired("a"))
    assert given(talk.says("b", 3)) == "T0 T1 T2 T3"


def test_a_static_member_that_cannot_come_back_leaves_its_place_as_it_was():
    talk = Talk()
    talk.joins("a", InstanceId="i")
    talk.says("a", -2, InstanceId="i")
    reply = talk.joins("a2", InstanceId="i", SubscribedTopicRegex="(")
    assert reply["ErrorCode"] == 128
    assert list(talk.group.roster.members) == ["a"]
    assert given(talk.joins("a3", InstanceId="i")) == "T0 T1 T2 T3"
    assert list(talk.group.roster.members) == ["a3"]


def test_members_ask_for_an_assignor_and_the_majority_has_it():
    talk = Talk()
    talk.joins("a", ServerAssignor="range")
    assert talk.group.describe()["AssignorName"] == "range"
    talk.joins("b", ServerAssignor="uniform")
    assert talk.group.describe()["AssignorName"] == "uniform", "the first of the broker's list"
    talk.joins("c", ServerAssignor="range")
    assert talk.group.describe()["AssignorName"] == "range"
