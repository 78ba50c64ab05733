"""The round-robin assignor: gives partitions to members in turn (`RoundRobinAssignor`)."""

from thalweg.coordinator.assignors._group import Assigned, BuiltInAssignor, Group, partitions_of
from thalweg.coordinator.assignors._java_order import text_order

__all__ = ["RoundRobinPartitionAssignor"]


class RoundRobinPartitionAssignor(BuiltInAssignor):
    """Gives partitions, sorted by topic and number, to members in turn.

    It skips members that are not subscribed to the topic. Static members come first, so that a
    restarted member gets the same partitions again.
    """

    name = "roundrobin"

    def assign_group(self, group: Group) -> Assigned:
        """Returns {member id: its partitions}."""
        assigned: Assigned = {each: [] for each in group.members}
        order = [(each.member_id, {*each.metadata.topics}) for each in group.sorted_members()]
        turn = 0
        for topic in sorted(group.topics, key=text_order):
            for partition in partitions_of(topic, group.topics[topic]):
                # It ends, because every topic of the group has a subscribed member.
                while topic not in order[turn][1]:
                    turn = (turn + 1) % len(order)
                assigned[order[turn][0]].append(partition)
                turn = (turn + 1) % len(order)
        return assigned
