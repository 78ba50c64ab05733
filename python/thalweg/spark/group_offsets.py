"""The committed offsets of a consumer group, which a query reads and writes without being a member.

A stream continues from its checkpoint, and never from these offsets. They are for others: monitors
of lag see how far the query is (``commitGroupId``), and a query without a checkpoint starts where
another consumer has stopped (``startingOffsets=group``).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from typing import Any

from thalweg.errors import KafkaError, NoError
from thalweg.spark.client_config import ClientConfig
from thalweg.spark.offsets import Offsets, Partition
from thalweg.structs import OffsetAndMetadata, TopicPartition

log = logging.getLogger("thalweg.spark")

# Brokers delete the offsets of a group without members (`offsets.retention.minutes`, 7 days). So a
# query commits again, although it reads nothing.
_AGAIN_S = 3_600
# A coordinator that does not respond costs a trigger its `default.api.timeout.ms`.
_PAUSE_S = 60


class GroupOffsets:
    """Reads and commits the offsets of one group. It runs on the driver."""

    def __init__(self, config: ClientConfig, group: str) -> None:
        """Opens no connection yet.

        Args:
            config: The options of the query's consumers.
            group: The group.
        """
        self._config, self._group = config, group
        self._admin: Any = None
        self._is_refused = False
        self._last: Offsets | None = None
        self._again_at = self._paused_until = 0.0

    def committed(self, partitions: Iterable[Partition]) -> Offsets:
        """Returns the committed offset of each partition that has one.

        Raises:
            KafkaError: If the brokers refuse, or do not respond.
        """
        asked = [TopicPartition(*tp) for tp in sorted(partitions)]
        if not asked:
            return {}
        found = self._open().list_group_offsets({self._group: asked})[self._group]
        return {(tp.topic, tp.partition): at.offset for tp, at in found.items()}

    def commit(self, offsets: Offsets) -> None:
        """Commits offsets, unless it has committed the same ones in the last hour.

        A failure is logged: it must not fail the query that has read them.
        """
        now = time.monotonic()
        is_known = offsets == self._last and now < self._again_at
        if not offsets or is_known or now < self._paused_until:
            return
        given = {TopicPartition(*tp): OffsetAndMetadata(at) for tp, at in offsets.items()}
        try:
            result = self._open().alter_group_offsets(self._group, given)
        except KafkaError as error:
            topics = ", ".join(sorted({topic for topic, _ in offsets}))
            self._report(f"{topics}: {error}")
            self._paused_until = time.monotonic() + _PAUSE_S
            self.close()
            return
        refused = {tp: kind for tp, kind in result.items() if kind is not NoError}
        if refused:
            where = min(refused)
            more = f" and {len(refused) - 1} more" if len(refused) > 1 else ""
            self._report(f"{where.topic}-{where.partition}{more}: {refused[where].__name__}")
        else:
            self._is_refused, self._last, self._again_at = False, offsets, now + _AGAIN_S

    def close(self) -> None:
        """Closes the connection. The next request opens another one."""
        admin, self._admin = self._admin, None
        if admin is not None:
            admin.close()

    def _report(self, why: str) -> None:
        """Warns once until a commit succeeds. The next micro-batch commits all offsets again."""
        level = logging.DEBUG if self._is_refused else logging.WARNING
        self._is_refused = True
        log.log(
            level,
            "could not commit the offsets of the query to group %r (commitGroupId): %s. The query"
            " continues. A group with members takes offsets only from them: choose a group that"
            " only this query uses",
            self._group,
            why,
        )

    def _open(self) -> Any:
        if self._admin is None:
            from thalweg.admin import KafkaAdminClient

            self._admin = KafkaAdminClient.from_config(self._config.of_admin())
        return self._admin
