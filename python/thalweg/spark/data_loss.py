"""Data loss: the topic no longer has offsets that a query should read.

With ``failOnDataLoss=true`` (the default) the query fails with :class:`DataLossError`. With
``false`` the source logs a warning and continues with the remaining records. A gap inside a range
is not data loss: compaction, transaction markers and aborted records also leave gaps.
"""

from __future__ import annotations

import logging

from thalweg.errors import KafkaError

log = logging.getLogger("thalweg.spark")

ADVICE = (
    "Some data may have been lost because they are not available in Kafka any more; either the "
    "data was aged out by Kafka or the topic may have been deleted before all the data in the "
    "topic was processed. If you don't want your query to fail on such cases, set the source "
    "option 'failOnDataLoss' to 'false'."
)


class PartitionsChangedError(KafkaError):
    """The topics of a query with ``Trigger.AvailableNow`` changed while it ran."""


class DataLossError(KafkaError):
    """The topic no longer has records that the query should read (KAFKA_DATA_LOSS)."""


def report(*, fail: bool, kind: str, detail: str) -> None:
    """Raises an error or logs a warning, depending on ``failOnDataLoss``.

    Args:
        fail: The value of the option.
        kind: The subclass of the connector's error class KAFKA_DATA_LOSS.
        detail: The topic, partitions and offsets.

    Raises:
        DataLossError: If ``fail`` is true.
    """
    message = f"[KAFKA_DATA_LOSS.{kind}] {detail}"
    if fail:
        raise DataLossError(f"{message} {ADVICE}")
    log.warning("%s The query continues, because failOnDataLoss is false.", message)
