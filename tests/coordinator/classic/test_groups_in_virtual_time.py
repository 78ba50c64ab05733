"""Members and a complete group, over a network without and with faults."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, example, given, settings

from tests.coordinator.assignors import Spread, Sticky
from tests.coordinator.classic.world import World
from tests.support.scale import scaled
from thalweg.coordinator.steps import Assign, Lose, Revoke

BOTH = pytest.mark.parametrize("assignor", [Spread, Sticky])


def group_of(count: int, assignor: type, **options: object) -> World:
    world = World(seed=1)
    for number in range(count):
        instance = f"i{number}" if options.get("static") else None
        world.join(assignor=assignor, instance=instance)
    world.run_until(world.settled, 60_000)
    return world


@BOTH
def test_members_that_start_together_are_one_generation(assignor):
    world = group_of(5, assignor)
    assert world.broker.generations == [1]
    assert sorted(len(each.assignment) for each in world.clients) == [2, 2, 2, 3, 3]


@BOTH
def test_a_group_takes_in_a_newcomer_and_survives_a_leaver_and_a_crash(assignor):
    world = group_of(3, assignor)
    newcomer = world.join(assignor=assignor)
    world.run_until(world.settled, 60_000)
    world.clients[0].close()
    world.run_until(world.settled, 60_000)
    newcomer.crash()
    world.run_until(world.settled, 60_000)
    assert len(world.live()) == 2
    assert not any(isinstance(each, Lose) for client in world.clients for each in client.log)


def test_cooperative_members_keep_what_does_not_move():
    world = group_of(3, Sticky)
    before = [set(each.assignment) for each in world.clients]
    world.join(assignor=Sticky)
    world.run_until(world.settled, 60_000)
    for client, owned in zip(world.clients, before, strict=False):
        assert set(client.assignment) < owned
        revoked = [p for each in client.log if isinstance(each, Revoke) for p in each.partitions]
        assert set(revoked) == owned - set(client.assignment)


def test_eager_members_give_everything_up_before_a_rebalance():
    world = group_of(2, Spread)
    owned = world.clients[0].assignment
    world.clients[0].log.clear()
    world.join(assignor=Spread)
    world.run_until(world.settled, 60_000)
    revoke, assign = world.clients[0].log
    assert revoke == Revoke(owned)
    assert isinstance(assign, Assign)
    assert assign.added == assign.assigned


@BOTH
def test_a_static_member_returns_without_a_rebalance(assignor):
    world = group_of(4, assignor, static=True)
    generation = world.broker.view["epoch"]
    gone = world.clients[2]
    gone.close()
    world.run(5_000)
    back = world.join(assignor=assignor, instance="i2")
    world.run_until(world.settled, 5_000)
    assert back.assignment == gone.log[0].added
    assert world.broker.view["epoch"] == generation


def test_a_static_leader_returns_without_a_rebalance_and_leads_again():
    world = group_of(3, Spread, static=True)
    leader = next(each for each in world.clients if each.sent[-1].body["Assignments"])
    leader.crash()
    world.run(3_000)
    back = world.join(assignor=Spread, instance=leader.settings.group_instance_id)
    world.run_until(world.settled, 5_000)
    assert world.broker.generations == [1]
    world.change_topic("t", 15)
    world.run_until(world.settled, 60_000)
    assert world.broker.generations == [1, 2]
    assert back.sent[-1].body["Assignments"]


def test_a_static_leader_that_returns_takes_the_topics_for_those_of_the_assignment_as_in_java():
    world = group_of(1, Spread, static=True)
    world.clients[0].crash()
    world.change_topic("t", 13)
    back = world.join(assignor=Spread, instance="i0")
    world.run_until(world.at_rest, 5_000)
    assert len(back.assignment) == 12
    world.change_topic("t", 14)
    world.run_until(world.settled, 5_000)


def test_a_second_consumer_with_the_same_instance_id_fences_the_first():
    """KIP-345: forever, so that two processes do not fence each other in turn. Scenario 36."""
    world = group_of(2, Spread, static=True)
    first = world.clients[0]
    world.join(assignor=Spread, instance="i0")
    world.run_until(lambda: not first.alive, 5_000)
    assert "FencedInstanceIdError" in str(first.errors[0])
    world.run_until(world.settled, 5_000)
    assert world.broker.generations == [1]


def test_a_static_member_that_stays_away_goes_with_its_session():
    world = group_of(3, Spread, static=True)
    world.clients[1].close()
    world.run(9_000)
    assert len(world.broker.view["members"]) == 3
    world.run_until(world.settled, 60_000)
    assert len(world.broker.view["members"]) == 2


@BOTH
def test_a_slow_application_loses_its_partitions_and_rejoins_with_its_next_poll(assignor):
    """Scenario 35."""
    world = group_of(3, assignor)
    slow = world.clients[1]
    slow.log.clear()
    owned = slow.assignment
    slow.stall(30_000)
    world.run(29_000)
    assert len(world.broker.view["members"]) == 2
    world.run_until(world.settled, 60_000)
    assert slow.log[0] == Lose(owned)
    assert len(world.broker.view["members"]) == 3


@BOTH
def test_a_moved_coordinator_leads_to_no_rebalance_within_the_session(assignor):
    """Scenario 4."""
    world = group_of(3, assignor)
    world.broker.down = True
    world.run(4_000)
    world.broker.down = False
    world.run(4_000)
    assert world.settled()
    assert world.broker.generations == [1]
    assert all(2 <= each.forgot_coordinator <= 5 for each in world.clients)
    assert all(len(each.log) == 1 for each in world.clients)


def test_joining_a_dead_coordinator_is_no_busy_loop():
    """As in kafka-python #2695. Bug 21."""
    world = World(seed=1)
    world.broker.down = True
    client = world.join(assignor=Spread)
    world.run(60_000)
    assert 50 <= len(client.sent) <= 90
    world.broker.down = False
    world.run_until(world.settled, 10_000)


@BOTH
def test_more_partitions_make_the_leader_rebalance(assignor):
    world = group_of(3, assignor)
    world.change_topic("t", 15)
    world.run_until(world.settled, 60_000)
    assert sorted(len(each.assignment) for each in world.clients) == [5, 5, 5]


@BOTH
def test_the_leader_learns_of_topics_that_only_others_subscribe_to(assignor):
    world = World(seed=1)
    world.topics = {"t": 4, "u": 4}
    world.join(assignor=assignor, topics=("t",))
    world.join(assignor=assignor, topics=("u",))
    world.run_until(world.settled, 60_000)
    world.change_topic("u", 6)
    world.run_until(world.settled, 60_000)


@BOTH
def test_a_changed_subscription_rebalances(assignor):
    world = group_of(2, assignor)
    world.topics["u"] = 3
    world.clients[0].subscribe("u")
    world.run_until(world.settled, 60_000)
    assert {each.topic for each in world.clients[0].assignment} == {"u"}
    assert len(world.clients[1].assignment) == 12


def test_commits_of_a_member_that_was_removed_are_refused():
    world = group_of(2, Spread)
    zombie = world.clients[0]
    zombie.stall(60_000)
    world.run(25_000)
    accepted = list(world.broker.accepted)
    zombie._send_commit()
    world.run(100)
    assert world.broker.accepted == accepted


# ---------------------------------------------------------------------- faults

ACTIONS = st.sampled_from(
    ["join", "join", "join static", "crash", "leave", "stall", "commit", "topic", "return", "down"]
)
SCRIPTS = st.lists(st.tuples(st.integers(10, 6000), ACTIONS, st.integers(0, 19)), max_size=25)
MEMBERS_MAX = 20
# Most faults show with few members. About every fifth group is much larger.
SIZES = st.sampled_from([*range(7)] * 3 + [*range(15, MEMBERS_MAX + 1)])
STATIC = st.sampled_from([0, 0, 0, 3])
AWAY_MS_MAX = 5_000  # half a session


# A copy of a JoinGroup is delayed until its member has synced.
COPY_AFTER_SYNC = [
    (3005, "join", 0),
    (1000, "join static", 0),
    (10, "stall", 0),
    (3393, "join", 0),
    (1192, "join", 11),
    (72, "commit", 0),
    (1912, "return", 12),
    (195, "join", 0),
    (379, "leave", 0),
    (429, "commit", 0),
    (448, "leave", 4),
    (682, "join", 0),
    (362, "join", 0),
    (15, "join", 0),
    (624, "return", 3),
    (999, "join", 0),
]
# A static member stalls for a whole rebalance, and joins the next one.
STALLED_TOO_LONG = [(10, "join static", 0), (3002, "join", 0), (10, "stall", 10)]


def play(world: World, assignor: type, script: list[tuple[int, str, int]]) -> None:
    """Plays events of a group while the network has faults."""
    world.faulty = True
    for delay, action, number in script:
        world.run(delay)
        live = world.live()
        chosen = live[number % len(live)] if live else None
        if action == "join" and len(live) < MEMBERS_MAX:
            world.join(assignor=assignor)
        elif action == "join static" and len(live) < MEMBERS_MAX:
            world.join(assignor=assignor, instance=f"i{number}")
        elif action == "topic":
            world.change_topic("t", max(world.topics["t"], 5 + number))
        elif action == "down":
            world.broker.down = not world.broker.down
        elif chosen is not None:
            disturb(world, action, chosen, number)
    world.broker.down = False
    world.faulty = False


def disturb(world: World, action: str, client, number: int) -> None:
    if action == "crash":
        client.crash()
    elif action == "leave":
        client.close()
    elif action == "stall":
        client.stall(number * 2_000)
    elif action == "commit":
        client.commit()
    elif action == "return" and client.settings.group_instance_id is not None:
        client.crash()
        world.join(**client.options)


def static_members_return(world: World) -> None:
    """KIP-345: a static member returns within its session to what it had, unnoticed by others."""
    world.run(3_100)  # everything that the network delayed has arrived by now
    world.run_until(world.settled, 100_000)
    for gone in [each for each in world.live() if each.settings.group_instance_id][:2]:
        others = [each for each in world.live() if each is not gone]
        logs, generation = [list(each.log) for each in others], world.broker.view["epoch"]
        gone.crash()
        world.run(world.random.uniform(0, AWAY_MS_MAX))
        back = world.join(**gone.options)
        world.run_until(world.settled, 2_000)
        assert set(back.assignment) == set(gone.assignment)
        assert world.broker.view["epoch"] == generation
        assert [each.log for each in others] == logs


@settings(
    max_examples=scaled(35_000),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
@given(st.integers(0, 2**32), st.sampled_from([Spread, Sticky]), SIZES, STATIC, SCRIPTS)
@example(0, Spread, 0, 0, [(10, "join static", 0), (3005, "stall", 10)])  # stalls after the script
@example(13349, Sticky, 1, 0, COPY_AFTER_SYNC)
@example(0, Sticky, 0, 0, STALLED_TOO_LONG)
def test_a_group_keeps_its_laws_under_faults_and_settles_once_they_stop(
    seed, assignor, members, static, script
):
    # With many members each polls less often, because most polls find nothing to do.
    world = World(seed, polls_every_ms=500 if members > 6 else 200)
    for number in range(members):
        world.join(assignor=assignor, instance=f"s{number}" if number < static else None)
    play(world, assignor, script)
    world.run_until(world.at_rest, 400_000)
    # If topics changed while a static leader was away, it notices only at the next change.
    world.change_topic("t", world.topics["t"] + 1)
    world.run_until(world.settled, 100_000)
    if static:
        static_members_return(world)
