"""The invariants of a world, checked at each event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from thalweg.coordinator.steps import Assign, Revoke
from thalweg.structs import TopicPartition

if TYPE_CHECKING:
    from tests.coordinator.classic.client import Client
    from tests.coordinator.classic.world import World


class Laws:
    """The invariants."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._owners: dict[tuple[int, TopicPartition], str] = {}
        self._shares: dict[tuple[int, str], tuple[TopicPartition, ...]] = {}
        self._latest: dict[TopicPartition, int] = {}
        self._is_stale = False

    def assigned(self, client: Client, partitions: tuple[TopicPartition, ...]) -> None:
        """Checks one owner per partition and generation.

        A static member is the same under a new ID.
        """
        generation = client.member.generation
        who = client.settings.group_instance_id or client.member.member_id
        share = self._shares.setdefault((generation, who), partitions)
        assert set(share) == set(partitions), f"{who} in {generation}: {share}, {partitions}"
        for each in partitions:
            owner = self._owners.setdefault((generation, each), who)
            assert owner == who, f"{each} in generation {generation}: {owner} and {who}"
            self._latest[each] = max(generation, self._latest.get(each, -1))

    def callbacks(self, client: Client, actions: list[Any], generation: int) -> None:
        """Checks that cooperative members give up only partitions that move."""
        if not client.cooperative or client.closing:
            return
        revoked = [p for each in actions if isinstance(each, Revoke) for p in each.partitions]
        kept = [p for each in actions if isinstance(each, Assign) for p in each.assigned]
        if kept or any(isinstance(each, Assign) for each in actions):
            assert not set(revoked) & set(kept)
        else:
            assert not any(p.topic in client.topics for p in revoked)

    def committed(self, body: dict[str, Any]) -> None:
        """Checks that no member commits a partition that moved in a later generation."""
        for each in body["partitions"]:
            assert body["GenerationId"] >= self._latest.get(each, -1), f"{each}: {body}"

    def joined_anew(
        self, instance: str | None, before: dict[str, Any], after: dict[str, Any]
    ) -> None:
        """Checks that a static member's return within its session causes no rebalance (KIP-345)."""
        held = {row["instance_id"] for row in before["members"].values()} - {None}
        if instance not in held or before["state"] != "Stable":
            return
        assert (after["state"], after["epoch"]) == ("Stable", before["epoch"]), instance
        others = [
            {key: row for key, row in view["members"].items() if row["instance_id"] != instance}
            for view in (before, after)
        ]
        assert others[0] == others[1], instance

    def changed(self) -> None:
        """Called when an assignment, generation or membership of a client changes."""
        self._is_stale = True

    def check(self) -> None:
        """Checks that no two members of the group's generation own the same partition.

        A static member that stalls for a whole rebalance stays in the group. It cannot know that
        others have got its partitions, until it has the response to its next SyncGroup.
        """
        if not self._is_stale:
            return
        self._is_stale = False
        view = self.world.broker.view
        owners: dict[TopicPartition, Client] = {}
        for client in self.world.clients:
            row = view["members"].get(client.member.member_id)
            if not client.alive or row is None or client.member.generation != row["epoch"]:
                continue
            for each in client.assignment:
                if client.settings.group_instance_id and self._has_missed(client, each):
                    continue
                other = owners.setdefault(each, client)
                assert other is client, f"{each}: {other.name} and {client.name}"

    def _has_missed(self, client: Client, partition: TopicPartition) -> bool:
        """Whether another member got the partition in a generation that this one has missed."""
        missed = range(client.assigned_in + 1, client.member.generation)
        return any((generation, partition) in self._owners for generation in missed)
