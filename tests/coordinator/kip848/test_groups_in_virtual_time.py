"""Groups of KIP-848's protocol: many members, one broker, all faults between them."""

from __future__ import annotations

import pytest
from hypothesis import example, given, note, settings
from hypothesis import strategies as st

from tests.coordinator.kip848.broker import AWAY
from tests.coordinator.kip848.client import MAX_POLL_MS, Client
from tests.coordinator.kip848.connection import Faults
from tests.coordinator.kip848.world import HEARTBEAT_MS, SESSION_MS, World
from tests.support.codes import COORDINATOR_AWAY
from tests.support.scale import scaled
from thalweg.coordinator.steps import Assign, AutoCommit, Lose, Revoke
from thalweg.errors import StaleMemberEpochError

TOPICS = {"a": 6, "b": 3, "c": 1}


def calm(world: World) -> None:
    """Ends the faults, and lets all members learn what has happened."""
    world.faults.breaks = world.faults.stalls = world.faults.doubles = 0.0
    # A pause of the last event lasts up to 1.5 * MAX_POLL_MS. Members that poll seldom then need
    # several polls each.
    world.run(4 * MAX_POLL_MS + 3 * SESSION_MS)


def shake(world: World) -> None:
    """Makes a random event happen to a random client."""
    chance = world.chance
    living = [each for each in world.living if each.subscribed]
    client = chance.choice(living) if living else None
    what = chance.random()
    if client is None or (what < 0.3 and len(living) < 20):
        # Some of them find that another member has their instance ID, and fail.
        instance_id = chance.choice([None, None, "i1", "i2"])
        polls_every_ms = chance.choice([200.0, 500.0, 3_000.0])
        world.client(some_topics(world), polls_every_ms=polls_every_ms, instance_id=instance_id)
    elif what < 0.4:
        client.crash()
    elif what < 0.5:
        client.close(leave=chance.random() < 0.7)
    elif what < 0.6:
        client.pause(chance.uniform(0, 1.5 * MAX_POLL_MS))
    elif what < 0.7:
        client.connection.drop()
    elif what < 0.8:
        client.resubscribe(some_topics(world))
    elif what < 0.85:
        world.broker.go_away(chance.uniform(0, 5_000), chance.choice(COORDINATOR_AWAY))
    elif what < 0.9:
        topic = chance.choice(sorted(world.broker.topics))
        world.change_topics(world.broker.topics | {topic: world.broker.topics[topic] + 1})
    elif what < 0.93:
        topic = chance.choice(sorted(world.broker.topics))
        ids = world.broker.ids | {topic: f"{topic}-made-again-at-{world.clock.now}"}
        world.change_topics(world.broker.topics, ids)


def some_topics(world: World) -> set[str]:
    return {"a"} if world.chance.random() < 0.5 else set(world.chance.sample(["a", "b", "c"], 2))


def callbacks(client: Client) -> list[object]:
    """Returns the listener calls so far."""
    return [each for each in client.log if isinstance(each, Revoke | Lose | Assign)]


def a_static_member_returns(world: World) -> None:
    """KIP-345: a static member returns within its session to what it had, unnoticed by others."""
    static = [each for each in world.living if each.subscribed and each.failed is None]
    named = [
        (each, instance_id)
        for each in static
        if (instance_id := each.member.group_metadata().group_instance_id) is not None
    ]
    if not named:
        return
    (gone, instance_id), group = world.chance.choice(named), world.broker.group
    others = [each for each in world.living if each is not gone]
    heard, owned, epoch = [callbacks(each) for each in others], set(gone.owned), group.epoch
    gone.close()
    for _ in range(1_000):  # it gives up partitions, and the callbacks take time
        held = group.roster.static(instance_id)
        if held is not None and held.current.epoch == AWAY:
            break
        world.run(10)
    else:
        raise AssertionError(f"{instance_id} has not left: {held}")
    world.run(world.chance.uniform(0, SESSION_MS / 2))
    back = world.client(set(gone.topics), instance_id=instance_id)
    world.run(SESSION_MS)
    assert back.owned == owned
    assert (group.epoch, group.assignment_epoch) == (epoch, epoch)
    assert [callbacks(each) for each in others] == heard
    world.check_converged()


@settings(max_examples=scaled(2_000, 25), deadline=None)
@given(
    seed=st.integers(0, 2**32),
    members=st.integers(1, 20),
    shakes=st.integers(0, 40),
    breaks=st.sampled_from([0.0, 0.02, 0.2]),
    delay_ms=st.sampled_from([5.0, 300.0]),
    assignor=st.sampled_from([None, "range"]),
    assignment_interval_ms=st.sampled_from([0, 1_000]),
)
# The response to a repeated report is lost. It had the assignment. The report has its response.
@example(
    seed=10176,
    members=12,
    shakes=0,
    breaks=0.2,
    delay_ms=300.0,
    assignor="range",
    assignment_interval_ms=1_000,
)
# A member joins again late, after a pause.
@example(
    seed=7112210,
    members=12,
    shakes=31,
    breaks=0.02,
    delay_ms=5.0,
    assignor="range",
    assignment_interval_ms=0,
)
# A member subscribes to a topic again while its listener gives up the topic's partition.
@example(
    seed=33,
    members=5,
    shakes=16,
    breaks=0.0,
    delay_ms=300.0,
    assignor="range",
    assignment_interval_ms=1_000,
)
def test_no_partition_has_two_owners_and_the_group_converges(
    seed, members, shakes, breaks, delay_ms, assignor, assignment_interval_ms
):
    faults = Faults(breaks=breaks, stalls=breaks / 4, doubles=breaks, delay_ms=delay_ms)
    world = World(seed, TOPICS, faults, assignor, assignment_interval_ms)
    for _ in range(members):
        world.client(some_topics(world), polls_every_ms=world.chance.choice([200.0, 1_000.0]))
        world.run(world.chance.choice([0.0, 100.0, 3_000.0]))
    for _ in range(shakes):
        shake(world)
        world.run(world.chance.uniform(0, 4_000))
    calm(world)
    note(f"commits by code: {world.commits}")
    world.check_converged()
    a_static_member_returns(world)


def test_a_calm_group_settles_and_then_says_nothing_new():
    world = World(1, TOPICS)
    for _ in range(5):
        world.client({"a", "b", "c"})
        world.run(200)
    world.run(10_000)
    world.check_converged()
    asked = world.broker.asked
    world.run(60_000)
    assert world.broker.asked == asked, "plain heartbeats do not reach the group"
    assert set(world.commits) <= {0, StaleMemberEpochError.errno}, world.commits
    assert not any(each.lost for each in world.clients)


def test_what_a_member_unsubscribes_from_is_committed_and_revoked():
    world = World(2, TOPICS)
    client = world.client({"a", "b"})
    world.run(10_000)
    for topics in ({"b"}, {"c"}):
        before, gone = len(client.log), {each for each in client.owned if each.topic not in topics}
        client.resubscribe(topics)
        world.run(10_000)
        world.check_converged()
        given_up = [each for each in client.log[before:] if isinstance(each, AutoCommit | Revoke)]
        assert given_up == [AutoCommit(), Revoke(tuple(sorted(gone)))]
    assert not client.lost


def test_an_application_that_rarely_polls_keeps_its_membership():
    """Responses wait for it longer than a session lasts, and heartbeats continue."""
    world = World(3, TOPICS)
    slow = world.client({"a"})
    for _ in range(5):
        slow.pause(1.2 * SESSION_MS)
        world.client({"a"})
        world.run(1.3 * SESSION_MS)
    assert not slow.lost
    world.run(30_000)
    world.check_converged()


@pytest.mark.parametrize("delay_ms", [5.0, 900.0])
def test_polls_that_never_wait_finish_every_rebalance(delay_ms: float):
    """The application has a backlog, or uses poll(0) and sleeps: heartbeats go between polls."""
    world = World(5, TOPICS, Faults(delay_ms=delay_ms))
    slow = world.client({"a"}, polls_every_ms=3 * HEARTBEAT_MS, waits=False)
    world.run(60_000)
    world.check_converged()
    other = world.client({"a"})
    world.run(60_000)
    world.check_converged()
    assert len(slow.owned) == len(other.owned) == TOPICS["a"] / 2
    other.close()
    world.run(60_000)
    world.check_converged()
    assert not slow.lost


@pytest.mark.parametrize("after_ms", [0.0, 10.0, 200.0])
def test_an_application_that_stops_polling_amid_a_report_keeps_its_membership(after_ms):
    world = World(4, TOPICS)
    first = world.client({"a"})
    world.run(5_000)
    world.client({"a"})
    while not any("Acknowledging" in str(each.member.state) for each in world.clients):
        world.run(1)
    world.run(after_ms)
    first.pause(1.4 * SESSION_MS)
    world.run(1.5 * SESSION_MS)
    assert not first.lost
    world.run(30_000)
    world.check_converged()
