"""The committed offsets of groups: list, set, reset and delete them."""

from collections.abc import Iterable, Mapping
from typing import Any

from thalweg._client.arguments import by_partition, offsets_given, partitions_given
from thalweg.admin.offsets import OffsetSpec, OffsetTimestamp
from thalweg.admin.partitions import PartitionRequests
from thalweg.admin.requests import Codes
from thalweg.coordinator import offsets as wire
from thalweg.errors import BrokerResponseError, for_code
from thalweg.structs import ConsumerGroupMetadata, OffsetAndMetadata, TopicPartition

__all__ = ["GroupOffsetRequests"]


def _offset_codes(group_id: str) -> Codes:
    """Finds the group's error code in an OffsetFetch response about one group."""
    about = f"committed offsets of group {group_id!r}"
    return lambda response: [
        ((response.get("Groups") or [response])[0].get("ErrorCode", 0), None, about)
    ]


class GroupOffsetRequests(PartitionRequests):
    """Calls about the committed offsets of groups."""

    def list_group_offsets(
        self, group_specs: Any
    ) -> dict[str, dict[TopicPartition, OffsetAndMetadata]]:
        """Returns the committed offsets of groups (OffsetFetch).

        The result does not contain offsets of open transactions.

        Args:
            group_specs: {group: [TopicPartition], or None for all partitions}, [group], or a group.

        Returns:
            {group: {TopicPartition: OffsetAndMetadata}}, without partitions that have no offset.

        Raises:
            BrokerResponseError: If a group or partition fails.
            ValueError: If `group_specs` is empty.
        """
        if isinstance(group_specs, str):
            group_specs = [group_specs]
        if not isinstance(group_specs, Mapping):
            group_specs = dict.fromkeys(group_specs)
        if not group_specs:
            raise ValueError("Empty group_specs: name at least one group")
        found = {}
        for group_id, partitions in group_specs.items():
            response = self._call(
                "OffsetFetch",
                wire.fetch_bodies(
                    ConsumerGroupMetadata(group_id), partitions, require_stable=False
                ),
                self._coordinator(group_id, None),
                codes=_offset_codes(group_id),
                max_version=wire.FETCH_VERSION_MAX,
            )
            offsets, errors = wire.fetched(response)
            for where, kind in errors.items():
                about = f"the committed offset of {where.topic}-{where.partition}"
                raise kind(f"{about} in group {group_id!r}: {kind.description}")
            found[group_id] = {where: at for where, at in offsets.items() if at is not None}
        return found

    def alter_group_offsets(
        self,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        group_coordinator_id: int | None = None,
    ) -> dict[TopicPartition, type[BrokerResponseError]]:
        """Sets the committed offsets of a group without members (OffsetCommit).

        Args:
            group_id: A group without members.
            offsets: {TopicPartition: OffsetAndMetadata(next offset to read)}.
            group_coordinator_id: The node ID of the coordinator. None: the call looks it up.

        Returns:
            {TopicPartition: error class}. NoError means success.

        Raises:
            TypeError: If `offsets` is not such a mapping.
            ValueError: If an offset is negative.
        """
        offsets = offsets_given(offsets)
        if not offsets:
            return {}
        response = self._call(
            "OffsetCommit",
            wire.commit_body(ConsumerGroupMetadata(group_id), offsets),
            self._coordinator(group_id, group_coordinator_id),
            codes=lambda response: (
                (row["ErrorCode"], None, topic["Name"])
                for topic in response["Topics"]
                for row in topic["Partitions"]
            ),
            raise_errors=False,
            max_version=wire.COMMIT_VERSION_MAX,
        )
        return {
            TopicPartition(topic["Name"], row["PartitionIndex"]): for_code(row["ErrorCode"])
            for topic in response["Topics"]
            for row in topic["Partitions"]
        }

    def reset_group_offsets(
        self,
        group_id: str,
        offset_specs: Mapping[TopicPartition, OffsetSpec | OffsetTimestamp | int],
        group_coordinator_id: int | None = None,
    ) -> dict[TopicPartition, dict[str, Any]]:
        """Looks up offsets and commits them for a group without members.

        If an offset is before the start of the log, the call commits the first offset of the log.
        If it is after the end of the log, or no record has the timestamp or a later one, the call
        commits the end offset.

        Args:
            group_id: A group without members.
            offset_specs: {TopicPartition: OffsetSpec, OffsetTimestamp, or an offset}. -1 and -2 are
                not offsets: use OffsetSpec.LATEST and OffsetSpec.EARLIEST.
            group_coordinator_id: The node ID of the coordinator. None: the call looks it up.

        Returns:
            {TopicPartition: {"error": error class, "offset": the committed offset}}.

        Raises:
            TypeError: If a value of `offset_specs` has another type.
            ValueError: If an offset or a timestamp is negative.
        """
        expected = "{TopicPartition: OffsetSpec, OffsetTimestamp or int}"
        offset_specs = by_partition(offset_specs, "offset_specs", expected)
        if not offset_specs:
            return {}
        for where, spec in offset_specs.items():
            if not isinstance(spec, int):
                raise TypeError(
                    f"Unsupported reset target for {where.topic}-{where.partition}: {spec!r},"
                    " expected an OffsetSpec, OffsetTimestamp or int"
                )
            # A negative int may be Kafka's -1 or -2, which mean opposite ends of the log.
            if spec < 0 and not isinstance(spec, OffsetSpec):
                raise ValueError(
                    f"Offset {spec!r} for {where.topic}-{where.partition} is negative: use"
                    " OffsetSpec.EARLIEST for the start of the log, or LATEST for its end"
                )
        looked_up = {
            where: spec
            for where, spec in offset_specs.items()
            if isinstance(spec, OffsetSpec | OffsetTimestamp)
        }
        found = self.list_partition_offsets(looked_up) if looked_up else {}
        first = self.list_partition_offsets(dict.fromkeys(offset_specs, OffsetSpec.EARLIEST))
        last = self.list_partition_offsets(dict.fromkeys(offset_specs, OffsetSpec.LATEST))
        current = self.list_group_offsets({group_id: list(offset_specs)})[group_id]
        wanted = {}
        for where, spec in offset_specs.items():
            offset = found[where].offset if where in found else int(spec)
            if offset < 0 or offset > last[where].offset:
                offset = last[where].offset
            offset = max(offset, first[where].offset)
            metadata = current[where].metadata if where in current else ""
            wanted[where] = OffsetAndMetadata(offset, metadata)
        errors = self.alter_group_offsets(group_id, wanted, group_coordinator_id)
        return {
            where: {"error": kind, "offset": wanted[where].offset} for where, kind in errors.items()
        }

    def delete_group_offsets(
        self,
        group_id: str,
        partitions: Iterable[TopicPartition],
        group_coordinator_id: int | None = None,
    ) -> dict[TopicPartition, type[BrokerResponseError]]:
        """Deletes committed offsets (OffsetDelete, KIP-496).

        Returns:
            {TopicPartition: error class}. NoError means success. GroupSubscribedToTopicError means
            that members of the group are subscribed to the topic.

        Raises:
            BrokerResponseError: If the call fails for the group (GroupIdNotFoundError, ...).
        """
        topics: dict[str, list[dict[str, int]]] = {}
        for topic, partition in partitions_given(partitions):
            topics.setdefault(topic, []).append({"PartitionIndex": partition})
        if not topics:
            return {}
        response = self._call(
            "OffsetDelete",
            {
                "GroupId": group_id,
                "Topics": [{"Name": name, "Partitions": rows} for name, rows in topics.items()],
            },
            self._coordinator(group_id, group_coordinator_id),
            codes=lambda response: [(response["ErrorCode"], None, f"group {group_id!r}")],
        )
        return {
            TopicPartition(topic["Name"], row["PartitionIndex"]): for_code(row["ErrorCode"])
            for topic in response["Topics"]
            for row in topic["Partitions"]
        }

    # ------------------------------------------------------------------ kafka-python 2's name

    def list_consumer_group_offsets(
        self,
        group_id: str,
        group_coordinator_id: int | None = None,
        partitions: Iterable[TopicPartition] | None = None,
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        """Returns the committed offsets of one group (kafka-python 2); see `list_group_offsets`.

        If you name a partition that has no committed offset, its offset in the result is -1.
        """
        asked = None if partitions is None else list(partitions)
        found = self.list_group_offsets({group_id: asked})[group_id]
        missing = {where: OffsetAndMetadata(-1) for where in asked or () if where not in found}
        return found | missing
