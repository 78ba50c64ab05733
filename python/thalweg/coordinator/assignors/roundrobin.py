"""The round-robin assignor: partitions are dealt out like cards (`RoundRobinAssignor`)."""

from thalweg.coordinator.assignors._group import Assigned, BuiltInAssignor, Group, partitions_of
from thalweg.coordinator.assignors._java_order import text_order

__all__ = ["RoundRobinPartitionAssignor"]


class RoundRobinPartitionAssignor(BuiltInAssignor):
    """Deals partitions, by topic and number, to members in turn.

    A member that is not subscribed to a topic is passed over. Static members come first, so that
    a restarted one gets the same partitions again.
    """

    name = "roundrobin"

    def assign_group(self, group: Group) -> Assigned:
        """{member id: its partitions}."""
        assigned: Assigned = {each: [] for each in group.members}
        order = [(each.member_id, {*each.metadata.topics}) for each in group.sorted_members()]
        turn = 0
        for topic in sorted(group.topics, key=text_order):
            for partition in partitions_of(topic, group.topics[topic]):
                # Ends, as somebody is subscribed to every topic of the group.
                while topic not in order[turn][1]:
                    turn = (turn + 1) % len(order)
                assigned[order[turn][0]].append(partition)
                turn = (turn + 1) % len(order)
        return assigned
