"""Groups of the embedded broker with a scripted coordinator: events out, responses in."""

from __future__ import annotations

import gc
import itertools
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.integration.support.clients import Clients, within
from tests.support.paths import ROOT
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker
from thalweg.errors import IllegalStateError, KafkaError

UNKNOWN_SERVER_ERROR, NONE = -1, 0
COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR = 15, 16
ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID, REBALANCE_IN_PROGRESS = 22, 25, 27
NON_EMPTY_GROUP, GROUP_ID_NOT_FOUND, MEMBER_ID_REQUIRED = 68, 69, 79
GROUP_SUBSCRIBED_TO_TOPIC = 86
GROUP_APIS = {
    "JoinGroup": (0, 9),
    "Heartbeat": (0, 4),
    "LeaveGroup": (0, 5),
    "SyncGroup": (0, 5),
    "ConsumerGroupHeartbeat": (0, 1),
    "ConsumerGroupDescribe": (0, 1),
}
LIMIT_MS = 20_000.0


def member(epoch: int = 1, timeout_ms: int = 30_000, **fields: Any) -> dict[str, Any]:
    """Makes a member as the coordinator publishes it."""
    return {
        "instance_id": None,
        "session_timeout_ms": timeout_ms,
        "epoch": epoch,
        "heartbeat": 0,
        "watched": True,
        **fields,
    }


class Coordinator:
    """The scripted coordinator of the group `g`, and clients that talk to it."""

    def __init__(self, broker: EmbeddedBroker, clients: Clients) -> None:
        self.broker, self._clients = broker, clients
        self.native = broker._native.groups()
        self.native.serve()
        ((kind, _),) = self.native.next_events(LIMIT_MS) or ()  # type: ignore[misc]
        assert kind == "topics", "what there is already comes first"

    def client(self) -> Any:
        """Makes a client with its own connections."""
        return self._clients.admin(self.broker)._client

    def events(self, count: int = 1) -> list[Any]:
        """Returns the next `count` events."""
        found: list[Any] = []
        deadline = time.monotonic() + LIMIT_MS / 1000
        while len(found) < count and time.monotonic() < deadline:
            events = self.native.next_events(1000) or []
            found += [each for each in events if each[0] != "topics"]
        assert len(found) == count, found
        return found

    def view(self, members: dict[str, dict[str, Any]], **fields: Any) -> dict[str, Any]:
        return {
            "group_id": "g",
            "kind": "classic",
            "protocol_type": "consumer",
            "state": "Stable" if members else "Empty",
            "epoch": 1,
            "topics": [],
            "members": members,
            **fields,
        }

    def publish(self, members: dict[str, dict[str, Any]], **fields: Any) -> None:
        view: Any = self.view(members, **fields)
        self.native.publish(view, self.native.now_ms())


def ask(client: Any, api: str, **body: Any) -> dict[str, Any]:
    """Sends a request to the coordinator of `g`, which responds at once."""
    response: dict[str, Any] = submit(client, api, **body).result(LIMIT_MS)
    return response


def submit(client: Any, api: str, version: int | None = None, **body: Any) -> Any:
    body = {"GroupId": "g", **body}
    return client.submit(api, body, ("coordinator", "group", "g"), version, LIMIT_MS)


def beat(client: Any, member_id: str = "m", generation: int = 1) -> int:
    response = ask(client, "Heartbeat", MemberId=member_id, GenerationId=generation)
    return int(response["ErrorCode"])


def commit(client: Any, member_id: str, epoch: int) -> int:
    partition = {"PartitionIndex": 0, "CommittedOffset": 7, "CommittedMetadata": ""}
    response = ask(
        client,
        "OffsetCommit",
        version=9,
        MemberId=member_id,
        GenerationIdOrMemberEpoch=epoch,
        Topics=[{"Name": "t", "Partitions": [partition]}],
    )
    return int(response["Topics"][0]["Partitions"][0]["ErrorCode"])


class Unserved(EmbeddedBroker):
    """A broker whose groups have no coordinator yet."""

    def start(self) -> Unserved:
        self._native.start()
        return self


@pytest.fixture
def start_embedded(clients: Clients) -> Iterator[Callable[..., Unserved]]:
    """Like the other tests' fixture of this name, but this file serves the groups itself."""
    started: list[Unserved] = []

    def start(**options: Any) -> Unserved:
        started.append(Unserved(**options).start())
        return started[-1]

    yield start
    clients.close()
    for broker in started:
        broker.close()


@pytest.fixture
def coordinator(start_embedded: Any, clients: Clients) -> Coordinator:
    broker = start_embedded()
    broker.create_topic("t")
    return Coordinator(broker, clients)


def test_group_apis_are_announced_when_groups_are_served(
    start_embedded: Any, clients: Clients
) -> None:
    broker = start_embedded()
    before = clients.admin(broker)._client.api_versions()
    assert not GROUP_APIS.keys() & before.keys()
    with pytest.raises(IllegalStateError):
        broker._native.groups().next_events(0)
    coordinator = Coordinator(broker, clients)
    after = coordinator.client().api_versions()
    assert {api: after[api] for api in GROUP_APIS} == GROUP_APIS
    assert broker._native.groups().options()["group.min.session.timeout.ms"] == "6000"
    broker._native.groups().serve()  # a second call does nothing
    assert coordinator.native.next_events(0) == []


def test_a_member_joins_syncs_and_lives(coordinator: Coordinator) -> None:
    native, client = coordinator.native, coordinator.client()
    assert beat(client) == UNKNOWN_MEMBER_ID
    before_ms = native.now_ms()
    protocols = [{"Name": "range", "Metadata": b"\x00\x01"}]
    joining = submit(client, "JoinGroup", SessionTimeoutMs=30_000, Protocols=protocols)
    (event,) = coordinator.events()
    kind, token, api, version, client_id, host, user, at_ms, group, body, draft = event
    assert (kind, api, version, group, draft) == ("request", "JoinGroup", 9, "g", None)
    assert (client_id[:14], host, user) == ("thalweg-admin-", "/127.0.0.1", "User:ANONYMOUS")
    assert before_ms <= at_ms <= native.now_ms()
    assert (body["MemberId"], body["Protocols"]) == ("", protocols)
    assert body["GroupInstanceId"] is None
    coordinator.publish({"m": member(watched=False)}, state="CompletingRebalance")
    joined = {"MemberId": "m", "Leader": "m", "GenerationId": 1, "ProtocolName": "range"}
    assert native.respond(token, joined)
    assert joining.result(LIMIT_MS)["Leader"] == "m"
    assert commit(client, "m", 1) == REBALANCE_IN_PROGRESS
    assignments = [{"MemberId": "m", "Assignment": b"all"}]
    syncing = submit(client, "SyncGroup", MemberId="m", GenerationId=1, Assignments=assignments)
    (event,) = coordinator.events()
    assert event[9]["Assignments"] == assignments
    coordinator.publish({"m": member()}, topics=["t"])
    native.respond(event[1], {"Assignment": b"all"})
    assert syncing.result(LIMIT_MS)["Assignment"] == b"all"
    assert beat(client) == NONE
    assert beat(client, generation=2) == ILLEGAL_GENERATION
    assert commit(client, "m", 1) == NONE
    assert commit(client, "", -1) == UNKNOWN_MEMBER_ID
    coordinator.publish({"m": member(heartbeat=REBALANCE_IN_PROGRESS)}, state="PreparingRebalance")
    assert beat(client) == REBALANCE_IN_PROGRESS
    native.forget("g")
    assert beat(client) == UNKNOWN_MEMBER_ID
    assert native.next_events(0) == []


def test_later_requests_of_a_connection_wait_for_the_response(coordinator: Coordinator) -> None:
    client = coordinator.client()
    coordinator.publish({"m": member()})
    leaving = submit(client, "LeaveGroup", version=0, MemberId="m")
    (event,) = coordinator.events()
    behind = submit(client, "Heartbeat", MemberId="m", GenerationId=1)
    assert beat(coordinator.client()) == NONE, "another connection is not held up"
    assert not behind.is_done
    coordinator.native.respond(event[1], {})
    assert behind.result(LIMIT_MS)["ErrorCode"] == NONE
    assert leaving.is_done


def test_a_member_that_falls_silent_is_expired(coordinator: Coordinator) -> None:
    client = coordinator.client()
    with within(15, at_least_s=0.25):
        coordinator.publish({"m": member(timeout_ms=300), "lively": member()})
        (event,) = coordinator.events()
    kind, at_ms, group, who = event
    assert (kind, group, who) == ("expired", "g", "m")
    assert at_ms <= coordinator.native.now_ms()
    assert beat(client) == UNKNOWN_MEMBER_ID
    assert beat(client, "lively") == NONE


def test_a_plain_heartbeat_of_the_consumer_protocol_gets_its_response_from_rust(
    coordinator: Coordinator,
) -> None:
    client = coordinator.client()
    coordinator.publish({"m": member(epoch=4)}, kind="consumer", epoch=4)
    # The schema's defaults say that nothing changed.
    response = ask(client, "ConsumerGroupHeartbeat", MemberId="m", MemberEpoch=4)
    assert (response["ErrorCode"], response["MemberEpoch"]) == (NONE, 4)
    assert (response["HeartbeatIntervalMs"], response["Assignment"]) == (5000, None)
    leaving = submit(client, "ConsumerGroupHeartbeat", MemberId="m", MemberEpoch=-1)
    (event,) = coordinator.events()
    assert (event[2], event[9]["MemberEpoch"]) == ("ConsumerGroupHeartbeat", -1)
    coordinator.native.respond(event[1], {"MemberEpoch": -1})
    assert leaving.result(LIMIT_MS)["MemberEpoch"] == -1


def test_groups_are_described_from_a_draft_listed_and_deleted(coordinator: Coordinator) -> None:
    native, client = coordinator.native, coordinator.client()
    assert commit(client, "", -1) == NONE
    node = ("coordinator", "group", "g")
    describing = client.submit("DescribeGroups", {"Groups": ["g", "h"]}, node)
    (event,) = coordinator.events()
    assert (event[2], event[8], event[9]["Groups"]) == ("DescribeGroups", "", ["g", "h"])
    rows = event[10]["Groups"]
    assert [(row["GroupState"], row["ErrorCode"]) for row in rows] == [
        ("Empty", NONE),
        ("Dead", GROUP_ID_NOT_FOUND),
    ]
    rows[0] = {"GroupId": "g", "GroupState": "Stable"}
    assert native.respond(event[1], event[10])
    response = describing.result(LIMIT_MS)
    assert [row["GroupState"] for row in response["Groups"]] == ["Stable", "Dead"]
    coordinator.publish({"m": member()}, topics=["t"])
    (listed,) = client.request("ListGroups", {}, "any")["Groups"]
    assert (listed["GroupState"], listed["GroupType"]) == ("Stable", "classic")
    deletion = {"GroupsNames": ["g"]}
    (result,) = client.request("DeleteGroups", deletion, node)["Results"]
    assert result["ErrorCode"] == NON_EMPTY_GROUP
    topics = [{"Name": "t", "Partitions": [{"PartitionIndex": 0}]}]
    kept = ask(client, "OffsetDelete", Topics=topics)["Topics"][0]["Partitions"][0]
    assert kept["ErrorCode"] == GROUP_SUBSCRIBED_TO_TOPIC
    coordinator.publish({})
    (result,) = client.request("DeleteGroups", deletion, node)["Results"]
    assert result["ErrorCode"] == NONE
    (event,) = coordinator.events()
    assert (event[0], event[2]) == ("deleted", "g")


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ({"NoSuchField": 1}, ValueError),
        ({"MemberId": 5}, TypeError),
        ({"ErrorCode": 1 << 20}, ValueError),
        ({"MemberId": None}, ValueError),
        (None, TypeError),
    ],
)
def test_a_response_that_does_not_fit_raises_and_the_client_gets_an_error(
    coordinator: Coordinator, body: Any, error: type[Exception]
) -> None:
    joining = submit(coordinator.client(), "JoinGroup")
    (event,) = coordinator.events()
    with pytest.raises(error):
        coordinator.native.respond(event[1], body)
    assert joining.result(LIMIT_MS)["ErrorCode"] == UNKNOWN_SERVER_ERROR
    assert not coordinator.native.respond(event[1], {})


@pytest.mark.parametrize("missing", ["kind", "members", "topics"])
def test_a_view_must_be_whole(coordinator: Coordinator, missing: str) -> None:
    view: Any = coordinator.view({"m": member()})
    del view[missing]
    with pytest.raises(KeyError, match=missing):
        coordinator.native.publish(view, 0.0)
    view = coordinator.view({}, kind="share")
    with pytest.raises(ValueError, match="share"):
        coordinator.native.publish(view, 0.0)


def test_responses_for_clients_that_are_gone_are_dropped(
    coordinator: Coordinator, clients: Clients
) -> None:
    submit(coordinator.client(), "LeaveGroup", Members=[{"MemberId": "m"}])
    (event,) = coordinator.events()
    clients.close()
    respond = coordinator.native.respond
    wait_until(lambda: not respond(event[1], {}), what="the connection's end")


def test_a_node_that_stops_takes_its_waiting_requests_along(
    start_embedded: Any, clients: Clients
) -> None:
    broker = start_embedded(nodes=2)
    coordinator = Coordinator(broker, clients)
    broker.move_coordinator("g", 1)
    joining = submit(coordinator.client(), "JoinGroup")
    (event,) = coordinator.events()
    broker.stop_node(1)
    assert not coordinator.native.respond(event[1], {})
    with pytest.raises(KafkaError):
        joining.result(LIMIT_MS)


def test_closing_the_broker_ends_the_wait_for_events(start_embedded: Any, clients: Clients) -> None:
    broker = start_embedded()
    coordinator = Coordinator(broker, clients)
    heard: list[Any] = []
    waiting = threading.Thread(target=lambda: heard.append(coordinator.native.next_events()))
    waiting.start()
    joining = submit(coordinator.client(), "JoinGroup")
    waiting.join(LIMIT_MS / 1000)
    token = heard[0][0][1]
    waiting = threading.Thread(target=lambda: heard.append(coordinator.native.next_events()))
    waiting.start()
    with within(15):
        broker.close()
        waiting.join(LIMIT_MS / 1000)
    assert not waiting.is_alive()
    assert heard[1] is None
    assert coordinator.native.next_events() is None
    # The thread that serves the groups may still finish a step.
    assert not coordinator.native.respond(token, {})
    coordinator.publish({"m": member()})
    coordinator.native.forget("g")
    with pytest.raises(KafkaError):
        joining.result(LIMIT_MS)


HEARTBEATS = """
import select, sys, time
from tests.support.wire import Connection, Writer
body = Writer().string("g").int("i", 1).string("m").out
codes, longest, last = set(), 0.0, time.monotonic()
with Connection(sys.argv[1], int(sys.argv[2])) as connection:
    while True:
        codes.add(connection.call(12, 0, body).int("h"))
        longest, last = max(longest, time.monotonic() - last), time.monotonic()
        if len(codes) == 1:
            print("beating", flush=True)
        if select.select([sys.stdin], [], [], 0.1)[0]:  # its end
            break
print(longest)
print(sorted(codes), flush=True)
"""


@pytest.mark.skipif(
    not getattr(sys, "_is_gil_enabled", lambda: True)(), reason="there is no such lock"
)
def test_an_application_that_holds_the_gil_evicts_nobody(coordinator: Coordinator) -> None:
    # Another try only if the machine pauses until the session has ended.
    wait_until(lambda: keeps_the_member(coordinator, session_s=2.0), 100)


def keeps_the_member(coordinator: Coordinator, session_s: float) -> bool:
    """Holds the GIL while another process sends heartbeats. Returns False if that one paused."""
    native = coordinator.native
    coordinator.publish({"m": member()})
    arguments = ["127.0.0.1", str(coordinator.broker.ports[0])]
    events: list[Any] = []

    def work() -> None:
        events.extend(each for each in native.next_events(0) or [] if each[0] != "topics")

    with subprocess.Popen(
        [sys.executable, "-c", HEARTBEATS, *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "beating\n"
        # The session is short from here on: the other process took time to start.
        coordinator.publish({"m": member(timeout_ms=int(session_s * 1000))})
        held_s = hold_gil(work, session_s * 2)
        held_until_ms = native.now_ms()
        said = other.communicate(timeout=60)[0].splitlines()
    # The broker watched the silent member all the time, so it has expired.
    [event] = events or coordinator.events()
    assert event[0] == "expired"
    if float(said[-2]) > session_s / 2:
        return False
    assert (other.returncode, said[-1]) == (0, "[0]")
    assert held_s > session_s * 1.1, "the interpreter's lock was let go"
    assert event[1] > held_until_ms
    return True


def hold_gil(work: Callable[[], Any], seconds: float) -> float:
    """Holds the GIL, and returns the longest time in which another thread could do no work.

    A thread that asked for the GIL before the switch interval was raised may still get it a few
    times.
    """
    done: list[float] = []
    stop = threading.Event()

    def go_on() -> None:
        while not stop.is_set():
            work()
            done.append(time.monotonic())

    thread = threading.Thread(target=go_on)
    thread.start()
    wait_until(lambda: done, what="the other thread's work")
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1000)
    gc.disable()
    try:
        begin = time.monotonic()
        end = begin + seconds
        while time.monotonic() < end:
            pass
        at = [begin, *(each for each in done if each > begin), end]
        return max(after - before for before, after in itertools.pairwise(at))
    finally:
        sys.setswitchinterval(interval)
        gc.enable()
        stop.set()
        thread.join()
