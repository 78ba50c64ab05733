"""Requests of clients to a classic group, step by step, and their responses.

The same script runs against a real broker and against `ClassicGroup`, see
tests/integration/groups/test_classic_group_protocol.py. Member IDs are replaced by names, in the
order in which the broker assigned them, so that responses can be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from tests.coordinator.classic.world import World
from thalweg.coordinator.classic.group import GroupSettings
from thalweg.coordinator.protocol import Subscription
from thalweg.coordinator.steps import Arrived, Reply

MAX_SIZE = 3
MIN_SESSION_MS = 1_000
SHORT_MS = 1_500
LONG_MS = 60_000
NEWEST = {"JoinGroup": 9, "SyncGroup": 5, "LeaveGroup": 5, "Heartbeat": 4, "DescribeGroups": 5}


class Side(Protocol):
    """A broker, as the script uses it."""

    def ask(self, client: int, api: str, version: int, body: dict[str, Any]) -> Any: ...
    def response(self, pending: Any) -> dict[str, Any]: ...
    def pass_ms(self, ms: float) -> None: ...


class Machines:
    """Our own side: the state machine, and the part of the broker that uses its views."""

    def __init__(self) -> None:
        self.world = World(
            1,
            GroupSettings(
                initial_rebalance_delay_ms=0,
                min_session_timeout_ms=MIN_SESSION_MS,
                max_size=MAX_SIZE,
            ),
        )

    def ask(self, client: int, api: str, version: int, body: dict[str, Any]) -> Any:
        heard: list[dict[str, Any]] = []
        broker = self.world.broker
        if api == "DescribeGroups":
            event = Arrived(0, api, version, body, f"c{client}", "/127.0.0.1")
            [reply] = broker.groups.step(event, self.world.now)
            assert isinstance(reply, Reply)
            heard.append(reply.body)
        else:
            broker.request(api, body, heard.append, version, f"c{client}")
        self.world.run(1)
        return heard

    def response(self, pending: Any) -> dict[str, Any]:
        self.world.run_until(lambda: bool(pending), 100_000)
        return pending[0]

    def pass_ms(self, ms: float) -> None:
        self.world.run(ms)


class Script:
    """Sends requests and records the responses."""

    def __init__(self, side: Side, group: str) -> None:
        self.side = side
        self.group = group
        self.heard: list[Any] = []
        self._names: dict[str, str] = {}

    # -------------------------------------------------------------- requests

    def ask(self, client: int, api: str, body: dict[str, Any], version: int | None = None) -> Any:
        number = NEWEST[api] if version is None else version
        return self.side.ask(client, api, number, {"GroupId": self.group} | body)

    def join(
        self,
        client: int,
        member: str = "",
        *,
        protocols: str = "range",
        topics: str = "t",
        version: int | None = None,
        rebalance_ms: int = LONG_MS,
        session_ms: int = LONG_MS,
        kind: str = "consumer",
        instance: str | None = None,
        **fields: Any,
    ) -> Any:
        metadata = Subscription(3, topics.split()).encode()
        body = {
            "SessionTimeoutMs": session_ms,
            "RebalanceTimeoutMs": rebalance_ms,
            "MemberId": member,
            "ProtocolType": kind,
            "Protocols": [{"Name": name, "Metadata": metadata} for name in protocols.split()],
        }
        if instance is not None:
            body["GroupInstanceId"] = instance
        return self.ask(client, "JoinGroup", body | fields, version)

    def sync(
        self, client: int, member: str, generation: int, rows: tuple[str, ...] = (), **fields: Any
    ) -> Any:
        body = {
            "GenerationId": generation,
            "MemberId": member,
            "ProtocolType": "consumer",
            "ProtocolName": "range",
            "Assignments": [
                {"MemberId": each, "Assignment": f"for {self._names[each]}".encode()}
                for each in rows
            ],
        }
        return self.ask(client, "SyncGroup", body | fields)

    def leave(self, client: int, *rows: tuple[str, str | None]) -> None:
        members = [{"MemberId": m, "GroupInstanceId": i} for m, i in rows]
        self.hears(self.ask(client, "LeaveGroup", {"Members": members}))

    def beat(self, client: int, member: str, generation: int, **fields: Any) -> int:
        body = {"MemberId": member, "GenerationId": generation}
        code: int = self.hears(self.ask(client, "Heartbeat", body | fields))["ErrorCode"]
        return code

    def describe(self) -> Any:
        """Describes the group with a separate client, without recording it."""
        body = {"Groups": [self.group]}
        return self.side.response(self.side.ask(9, "DescribeGroups", 5, body))["Groups"][0]

    def until(self, done: Callable[[dict[str, Any]], bool]) -> None:
        """Waits until the description satisfies `done`, and records it."""
        for _ in range(200):
            row = self.describe()
            if done(row):
                break
            self.side.pass_ms(50)
        self.note({k: v for k, v in row.items() if k != "AuthorizedOperations"})

    def until_state(self, state: str, members: int | None = None) -> None:
        def done(row: dict[str, Any]) -> bool:
            return row["GroupState"] == state and members in (None, len(row["Members"]))

        self.until(done)

    # -------------------------------------------------------------- responses

    def hears(self, pending: Any) -> dict[str, Any]:
        """Returns the response unchanged, and records it with names for IDs."""
        response = self.side.response(pending)
        self.note(response)
        return response

    def note(self, what: dict[str, Any]) -> None:
        self.heard.append(self._named({k: v for k, v in what.items() if k != "ThrottleTimeMs"}))

    def _named(self, value: Any) -> Any:
        if isinstance(value, dict):
            for key in ("MemberId", "Leader"):
                if value.get(key) and value[key] != "who":
                    self._names.setdefault(value[key], f"m{len(self._names) + 1}")
            # A failed JoinGroup has null or "", by version. Fields of 0 and null may be omitted.
            return {k: self._named(v) for k, v in value.items() if v not in (None, "", 0, b"", [])}
        if isinstance(value, list):
            return sorted((self._named(each) for each in value), key=str)
        return self._names.get(value, value) if isinstance(value, str) else value

    # -------------------------------------------------------------- ready-made groups

    def enter(self, client: int, **options: Any) -> tuple[str, Any]:
        """Joins like a dynamic member: returns its ID, and the pending response."""
        member = self.hears(self.join(client, **options))["MemberId"]
        return member, self.join(client, member, **options)

    def one(self, **options: Any) -> str:
        member, joined = self.enter(0, **options)
        self.hears(joined)
        self.hears(self.sync(0, member, 1, (member,)))
        return member

    def two(self, **options: Any) -> tuple[str, str]:
        """Makes a stable group of two, in generation 2. The first one leads."""
        first = self.one(**options)
        second, joining = self.enter(1, **options)
        self.until_state("PreparingRebalance", 2)
        again = self.join(0, first, **options)
        self.hears(again)
        self.hears(joining)
        follower = self.sync(1, second, 2)
        self.hears(self.sync(0, first, 2, (first, second)))
        self.hears(follower)
        return first, second

    def two_static(self) -> tuple[str, str]:
        """Makes the same group of the static members "a" and "b"."""
        first = self.hears(self.join(0, instance="a"))["MemberId"]
        self.hears(self.sync(0, first, 1, (first,), GroupInstanceId="a"))
        joining = self.join(1, instance="b")
        self.until_state("PreparingRebalance", 2)
        self.hears(self.join(0, first, instance="a"))
        second = self.hears(joining)["MemberId"]
        follower = self.sync(1, second, 2, GroupInstanceId="b")
        self.hears(self.sync(0, first, 2, (first, second), GroupInstanceId="a"))
        self.hears(follower)
        return first, second


# ---------------------------------------------------------------------- scripts


def a_member_alone(script: Script) -> None:
    member = script.one()
    script.until_state("Stable")
    assert script.beat(0, member, 1) == 0
    script.beat(0, member, 0)
    script.beat(0, "who", 1)
    script.leave(0, (member, None))
    script.until_state("Empty")
    script.beat(0, member, 1)
    script.hears(script.sync(0, member, 1))
    script.hears(script.join(0, member))


def a_second_member(script: Script) -> None:
    first, second = script.two()
    script.until_state("Stable")
    # A follower's join changes nothing, and a sync gets its response again.
    script.hears(script.join(1, second))
    script.hears(script.sync(1, second, 2))
    # The leader's join starts a rebalance.
    joining = script.join(0, first)
    script.until_state("PreparingRebalance")
    assert script.beat(1, second, 2) == 27
    script.hears(script.sync(1, second, 2))
    script.hears(script.sync(1, second, 1))
    script.hears(script.join(1, second))
    script.hears(joining)
    script.until_state("CompletingRebalance")
    assert script.beat(1, second, 3) == 0
    assert script.beat(1, second, 2) == 22
    # A member that missed its response asks again. The leader gets the members again.
    script.hears(script.join(0, first))
    script.hears(script.join(1, second))
    # Another subscription makes all members rejoin, also one that waits for an assignment.
    waits = script.sync(1, second, 3)
    changed = script.join(0, first, topics="u")
    script.hears(waits)
    script.hears(script.join(1, second))
    script.hears(changed)


def votes(script: Script) -> None:
    first, joined = script.enter(0, protocols="a range b")
    script.hears(joined)
    script.hears(script.sync(0, first, 1, (first,), ProtocolName="a"))
    script.hears(script.join(1, protocols="other"))
    script.hears(script.join(1, kind="connect"))
    script.hears(script.join(1, protocols=""))
    script.hears(script.join(1, kind=""))
    _, joining = script.enter(1, protocols="b range")
    script.until_state("PreparingRebalance", 2)
    third, third_joining = script.enter(2, protocols="range")
    script.until_state("PreparingRebalance", 3)
    script.hears(script.join(0, first, protocols="range b"))
    script.hears(joining)
    script.hears(third_joining)
    script.hears(script.sync(2, third, 2, ProtocolName="b"))
    script.hears(script.sync(2, third, 2, ProtocolType="connect"))


def refusals(script: Script) -> None:
    script.hears(script.join(0, "who"))
    script.hears(script.sync(0, "who", 1))
    script.beat(0, "who", 1)
    script.leave(0, ("who", None), ("", "nobody"))
    script.hears(script.join(0, session_ms=MIN_SESSION_MS - 1))
    script.hears(script.join(0, session_ms=1_800_001))
    script.hears(script.ask(0, "LeaveGroup", {"MemberId": "who"}, 2))


def a_full_group(script: Script) -> None:
    first, second = script.two()
    _, joining = script.enter(2)
    script.until_state("PreparingRebalance", 3)
    again = script.join(0, first), script.join(1, second)
    for pending in (*again, joining):
        script.hears(pending)
    script.hears(script.join(3))
    script.hears(script.join(3, instance="s"))
    script.until_state("CompletingRebalance", 3)


def leavers(script: Script) -> None:
    first, second = script.two()
    pending_id = script.hears(script.join(2))["MemberId"]
    script.leave(2, ("who", None), ("", "nobody"), (second, None))
    script.until_state("PreparingRebalance", 1)
    # The group waits for the ID that it assigned. After that member leaves, it waits no more.
    joining = script.join(0, first)
    script.leave(2, (pending_id, None))
    script.hears(joining)
    script.hears(script.ask(0, "LeaveGroup", {"MemberId": first}, 1))
    script.until_state("Empty")


def static_members(script: Script) -> None:
    first, second = script.two_static()
    script.until_state("Stable")
    # The follower returns: no rebalance, and its old self is fenced.
    back = script.hears(script.join(2, instance="b"))["MemberId"]
    script.hears(script.sync(2, back, 2, GroupInstanceId="b"))
    assert script.beat(1, second, 2, GroupInstanceId="b") == 82
    script.hears(script.sync(1, second, 2, GroupInstanceId="b"))
    script.hears(script.join(1, second, instance="b"))
    script.leave(1, (second, "b"))
    # The leader returns, as an old client and as a new one.
    lead = script.hears(script.join(2, instance="a", version=8))["MemberId"]
    script.hears(script.join(2, instance="a"))
    script.beat(0, first, 2, GroupInstanceId="a")
    script.beat(0, lead, 2, GroupInstanceId="a")
    script.until_state("Stable")
    # An administrator removes one member.
    script.leave(2, ("", "b"))
    script.until_state("PreparingRebalance", 1)
    script.beat(2, back, 2, GroupInstanceId="b")


def static_members_mid_rebalance(script: Script) -> None:
    first, second = script.two_static()
    script.beat(0, first, 2, GroupInstanceId="nobody")
    joining = script.join(0, first, instance="a")
    script.until_state("PreparingRebalance")
    # A member returns while its older self waits.
    back = script.join(2, instance="a")
    script.hears(joining)
    script.hears(script.join(1, second, instance="b"))
    response = script.hears(back)
    script.until_state("CompletingRebalance")
    waits = script.sync(1, second, 3, GroupInstanceId="b")
    again = script.join(3, instance="a")
    script.hears(waits)
    script.hears(script.join(1, second, instance="b"))
    script.hears(again)
    script.beat(2, response["MemberId"], 3, GroupInstanceId="a")


def a_protocol_that_changes_with_a_static_member(script: Script) -> None:
    member = script.hears(script.join(0, instance="a", protocols="range b"))["MemberId"]
    script.hears(script.sync(0, member, 1, (member,), GroupInstanceId="a"))
    script.hears(script.join(1, instance="a", protocols="b"))


def who_does_not_join_in_time(script: Script) -> None:
    first, second = script.two(rebalance_ms=SHORT_MS)
    joining = script.join(0, first, rebalance_ms=SHORT_MS)
    script.hears(joining)
    script.until_state("CompletingRebalance", 1)
    script.beat(1, second, 2)


def who_does_not_sync_in_time(script: Script) -> None:
    first, second = script.two(rebalance_ms=SHORT_MS)
    joining = script.join(0, first, rebalance_ms=SHORT_MS)
    script.until_state("PreparingRebalance")
    script.hears(script.join(1, second, rebalance_ms=SHORT_MS))
    script.hears(joining)
    waits = script.sync(1, second, 3)
    script.hears(waits)
    script.until_state("PreparingRebalance", 1)
    script.beat(0, first, 3)


def a_session_that_ends(script: Script) -> None:
    first, second = script.two()
    script.hears(script.join(1, second, session_ms=SHORT_MS))
    joining = script.join(1, second, session_ms=SHORT_MS, topics="u")
    script.until_state("PreparingRebalance")
    script.hears(script.join(0, first))
    script.hears(joining)
    script.until_state("PreparingRebalance", 1)
    script.beat(1, second, 3)


def an_id_that_is_not_used(script: Script) -> None:
    member = script.one()
    script.hears(script.join(1, session_ms=SHORT_MS))
    joining = script.join(0, member)
    script.until_state("PreparingRebalance")
    script.hears(joining)


SCRIPTS = [
    a_member_alone,
    a_second_member,
    votes,
    refusals,
    a_full_group,
    leavers,
    static_members,
    static_members_mid_rebalance,
    a_protocol_that_changes_with_a_static_member,
    who_does_not_join_in_time,
    who_does_not_sync_in_time,
    a_session_that_ends,
    an_id_that_is_not_used,
]
