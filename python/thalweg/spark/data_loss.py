"""Data loss: offsets that a query should read and that the topic no longer has.

With ``failOnDataLoss=true`` (the default) the query fails with :class:`DataLossError`; with
``false`` a warning is logged and reading goes on with what is left. A gap inside a range is not
data loss: compaction, transaction markers and aborted records leave gaps in every healthy topic.
"""

from __future__ import annotations

import logging

from thalweg.errors import KafkaError

log = logging.getLogger("thalweg.spark")

_ADVICE = (
    "Some data may have been lost because they are not available in Kafka any more; either the "
    "data was aged out by Kafka or the topic may have been deleted before all the data in the "
    "topic was processed. If you don't want your query to fail on such cases, set the source "
    "option 'failOnDataLoss' to 'false'."
)


class DataLossError(KafkaError):
    """Records that the query should have read are gone; the connector's KAFKA_DATA_LOSS."""


def report(*, fail: bool, kind: str, detail: str) -> None:
    """Fails or warns, as the option ``failOnDataLoss`` says.

    Args:
        fail: The option's value.
        kind: Sub-class of the connector's error class KAFKA_DATA_LOSS.
        detail: Topic, partitions and offsets concerned.

    Raises:
        DataLossError: If ``fail`` is true.
    """
    message = f"[KAFKA_DATA_LOSS.{kind}] {detail}"
    if fail:
        raise DataLossError(f"{message} {_ADVICE}")
    log.warning("%s Reading goes on, as failOnDataLoss is false.", message)
