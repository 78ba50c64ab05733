"""Equal settings, checked in code.

Before a run: every client's options come only from the tables below, and a table that lacks a
setting is an error. After a run: the batches that the client wrote are read back from the broker,
and codec, idempotence and record count must match the case.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import Any

from benches.peers.settings import Case
from tests.support.wire import Wire

PRODUCER_SETTINGS = ("linger_ms", "batch_bytes", "acks", "idempotence", "codec", "level")
CONSUMER_SETTINGS = ("check_crcs", "isolation")
CODEC_IDS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
SAMPLE_BATCHES = 200
SAMPLE_PARTITIONS = 100
OTHER_CODEC_SHARE_MAX = 0.02
# A client sends a batch uncompressed if compression does not shrink it. Small batches often do not.
SMALL_BATCH_RECORDS = 4


@dataclass(frozen=True)
class Spelling:
    """A client's name for a setting. `fixed` says why it has no option for it."""

    key: str = ""
    values: dict[Any, Any] | None = None
    fixed: str = ""

    def of(self, value: Any) -> Any:
        return value if self.values is None else self.values[value]


_NO_CODEC = {"none": None, "gzip": "gzip", "snappy": "snappy", "lz4": "lz4", "zstd": "zstd"}
_PYTHON = {
    "linger_ms": Spelling("linger_ms"),
    "batch_bytes": Spelling("batch_size"),
    "acks": Spelling("acks"),
    "idempotence": Spelling("enable_idempotence"),
    "codec": Spelling("compression_type", _NO_CODEC),
    "level": Spelling(fixed="no option; its default for zstd is 3"),
    "check_crcs": Spelling("check_crcs"),
    "isolation": Spelling("isolation_level"),
}
_JAVA = {
    "linger_ms": Spelling("linger.ms"),
    "batch_bytes": Spelling("batch.size"),
    "acks": Spelling("acks"),
    "idempotence": Spelling("enable.idempotence", {True: "true", False: "false"}),
    "codec": Spelling("compression.type"),
    "level": Spelling("compression.zstd.level"),
    "check_crcs": Spelling("check.crcs", {True: "true", False: "false"}),
    "isolation": Spelling("isolation.level"),
}
SPELLINGS: dict[str, dict[str, Spelling]] = {
    "confluent-kafka": {
        **_JAVA,
        "idempotence": Spelling("enable.idempotence"),
        "level": Spelling("compression.level"),
        "check_crcs": Spelling("check.crcs"),
    },
    "java": _JAVA,
    # The names that its program reads. The program refuses settings of idempotence, acks, isolation
    # and checks that no case has.
    "franz-go": {
        "linger_ms": Spelling("ProducerLinger"),
        "batch_bytes": Spelling("ProducerBatchMaxBytes"),
        "acks": Spelling("RequiredAcks"),
        "idempotence": Spelling("idempotent"),
        "codec": Spelling("ProducerBatchCompression"),
        "level": Spelling("level"),
        "check_crcs": Spelling("checkCRCs"),
        "isolation": Spelling("FetchIsolationLevel"),
    },
    "kafka-python": _PYTHON,
    "aiokafka": {**_PYTHON, "batch_bytes": Spelling("max_batch_size")},
    "thalweg": {**_PYTHON, "level": Spelling("compression_level")},
    "thalweg-aio": {
        **_PYTHON,
        "batch_bytes": Spelling("max_batch_size"),
        "level": Spelling("compression_level"),
    },
}


def producer_options(client: str, case: Case) -> dict[str, Any]:
    """Returns the case's producer settings with the client's own names."""
    return _options(client, case, PRODUCER_SETTINGS)


def consumer_options(client: str, case: Case) -> dict[str, Any]:
    """Returns the case's consumer settings with the client's own names."""
    return _options(client, case, CONSUMER_SETTINGS)


def _options(client: str, case: Case, settings: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for setting in settings:
        spelling = SPELLINGS[client][setting]
        value = getattr(case, setting)
        if spelling.key and value is not None:
            found[spelling.key] = spelling.of(value)
    return found


@dataclass(frozen=True)
class Written:
    """What a producer wrote to the broker."""

    records: int
    bytes_per_record: float
    records_per_batch: float


def check_written(case: Case, *, idempotent: bool) -> Written:
    """Reads back what a producer wrote.

    Raises:
        ValueError: it does not match the case.
    """
    wire = Wire(case.bootstrap)
    ends = wire.end_offsets(case.topic)
    if sum(ends.values()) != case.records:
        raise ValueError(f"{case.name}: {sum(ends.values())} records written, {case.records} sent")
    size = records = batches = other = in_codec = 0
    for partition in islice(ends, SAMPLE_PARTITIONS):
        for number, header in enumerate(wire.batches(case.topic, partition)):
            if number == SAMPLE_BATCHES:
                break
            left = header.codec == CODEC_IDS["none"] and header.records <= SMALL_BATCH_RECORDS
            if header.codec == CODEC_IDS[case.codec]:
                in_codec += 1
            elif not left:
                other += header.records
            if idempotent and (header.producer_id >= 0) != case.idempotence:
                raise ValueError(f"{case.name}: a batch has producer id {header.producer_id}")
            size, records, batches = size + header.length, records + header.records, batches + 1
    if other > records * OTHER_CODEC_SHARE_MAX:
        raise ValueError(f"{case.name}: {other} of {records} records are not in {case.codec}")
    # Single small batches may be uncompressed. If all are, the client did not compress at all.
    if not in_codec:
        raise ValueError(f"{case.name}: none of {batches} batches is in {case.codec}")
    return Written(sum(ends.values()), size / records, records / batches)
