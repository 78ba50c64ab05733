"""Fifty members join, leave and die all the time: the group converges when they stop.

At each event the worlds check the invariants: no partition has two owners in one generation, no
member commits a partition that was assigned to another, and a cooperative member gives up only what
moves.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.coordinator.assignors import Spread, Sticky
from tests.coordinator.classic.world import World as ClassicWorld
from tests.coordinator.kip848.client import MAX_POLL_MS
from tests.coordinator.kip848.connection import Faults
from tests.coordinator.kip848.world import SESSION_MS, World
from tests.support.scale import scaled

SECONDS = 60
# Fifty members take seconds of computing, twelve a fraction of a second.
STORMS = [(50, seed) for seed in range(scaled(50))] + [(12, seed) for seed in range(6)]
SEEDS = pytest.mark.parametrize("members, seed", STORMS)


def disturb(chance: random.Random, members: int, living: list[Any], join: Any) -> None:
    """Makes one member join, leave or die. The number of members stays about the same."""
    if len(living) < members or chance.random() < 0.4:
        join()
    gone = chance.choice(living)
    if len(living) > members // 2:
        gone.crash() if chance.random() < 0.3 else gone.close()


@SEEDS
@pytest.mark.parametrize("assignor", [Spread, Sticky])
def test_a_storm_of_the_classic_protocol_ends_in_one_generation(
    assignor: type, members: int, seed: int
) -> None:
    """Scenario 34."""
    storm = ClassicWorld(seed)
    storm.topics = {"t": 2 * members}
    chance = random.Random(seed)
    for _ in range(members):
        storm.join(assignor=assignor)
    storm.faulty = True
    for _ in range(4 * SECONDS):
        storm.run(chance.uniform(0, 500))
        disturb(chance, members, storm.live(), lambda: storm.join(assignor=assignor))
    storm.faulty = False
    storm.run_until(storm.settled, 200_000)
    assert len(storm.live()) >= members // 2


@SEEDS
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_a_storm_of_the_new_protocol_ends_with_everybody_stable(
    assignor: str, members: int, seed: int
) -> None:
    """KIP-848. Scenario 34."""
    faults = Faults(breaks=0.02, stalls=0.005, doubles=0.02, delay_ms=20.0)
    storm = World(seed, {"t": 2 * members}, faults, assignor)
    chance = random.Random(seed)
    for _ in range(members):
        storm.client({"t"}, polls_every_ms=500.0)
    for _ in range(4 * SECONDS):
        storm.run(chance.uniform(0, 500))
        disturb(chance, members, storm.living, lambda: storm.client({"t"}, polls_every_ms=500.0))
    faults.breaks = faults.stalls = faults.doubles = 0.0
    storm.run(2 * MAX_POLL_MS + 3 * SESSION_MS)
    storm.check_converged()
    assert len(storm.living) >= members // 2
