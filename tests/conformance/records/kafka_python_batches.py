"""Record batches of kafka-python's own code, for the conformance tests of the records crate.

    python -m tests.conformance.records.kafka_python_batches write DIR      writes golden batches
    python -m tests.conformance.records.kafka_python_batches dump FILE...   prints their contents

It needs kafka-python and its codecs. The README next to this file describes the text form of a
batch.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kafka.record import MemoryRecords, MemoryRecordsBuilder
from kafka.record.util import calc_crc32c

T0 = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
HEX_BYTES_MAX = 64

Headers = list[tuple[str, bytes | None]]
Entry = tuple[int, bytes | None, bytes | None, Headers]


def entries(magic: int, *, large: bool) -> Iterator[Entry]:
    """Yields timestamp, key, value and headers of records that use every part of the format."""
    yield T0, None, b"", []
    yield T0 + 1, b"key-1", None, []
    headers: Headers = [("a", b"1"), ("a", b"2"), ("", b""), ("ключ", b"\xff\x00")]
    yield T0 + 64, b"", b"value-2", headers if magic == 2 else []
    yield T0 - 5_000, b"\xff\xfe\x00", bytes(range(256)), []
    yield T0 + (1 << 33), None, None, []
    yield T0 + 2, b"k" * 70, b"nine thousand " * 9, []
    if large:
        text, size = [], 0
        while size < 100_000:
            line = f"the river bed where the water runs deepest, line {size % 31}\n"
            text.append(line)
            size += len(line)
        yield T0 + 3, b"large", "".join(text).encode(), []
        for index in range(20):
            yield T0 + index, b"k%d" % (index % 10), b"small value %d" % index, []


def build(magic: int, codec: str, offset: int, **producer: Any) -> bytes:
    """Builds one batch (magic 2) or message set."""
    builder = MemoryRecordsBuilder(magic, CODECS.index(codec), 1 << 20, offset, **producer)
    for timestamp, key, value, headers in entries(magic, large=codec != "none"):
        if builder.append(timestamp, key, value, headers) is None:
            raise RuntimeError("the batch has no room for a record")
    builder.close()
    return bytes(builder.buffer())


def write(folder: Path) -> None:
    """Writes all golden files."""
    folder.mkdir(parents=True, exist_ok=True)
    files = {f"v2-{codec}": build(2, codec, 100) for codec in CODECS}
    files["v2-transactional"] = build(
        2, "lz4", 100, transactional=True, producer_id=4711, producer_epoch=3, base_sequence=9
    )
    for magic in (0, 1):
        for codec in CODECS[:-1]:
            files[f"v{magic}-{codec}"] = build(magic, codec, 0)
    for name, batches in files.items():
        (folder / f"{name}.bin").write_bytes(batches)
        (folder / f"{name}.txt").write_text("".join(dump(batches)))


def dump(data: bytes) -> Iterator[str]:
    """Decodes all batches and yields their contents, line by line."""
    records = MemoryRecords(data)
    if records.valid_bytes() != len(data):
        raise ValueError("bytes are left after the last batch")
    for batch in records:
        if not batch.validate_crc():
            raise ValueError(f"the checksum of the batch at {batch.base_offset} does not hold")
        yield from dump_batch(batch)


def dump_batch(batch: Any) -> Iterator[str]:
    """Yields a line for the batch, and one for each record."""
    if batch.magic == 2:
        is_append_time = batch.timestamp_type == 1
        head = {
            "base": batch.base_offset,
            "last": batch.base_offset + batch.last_offset_delta,
            "codec": CODECS[batch.compression_type],
            "timestamps": "LogAppendTime" if is_append_time else "CreateTime",
            "producer": f"{batch.producer_id}/{batch.producer_epoch}/{batch.base_sequence}",
            "transactional": int(batch.is_transactional),
            "control": int(batch.is_control_batch),
            "leader_epoch": batch.leader_epoch,
            "max_timestamp": batch.max_timestamp,
        }
        records = list(batch)
    else:
        records = list(batch)
        timestamps = {None: "NoTimestampType", 0: "CreateTime", 1: "LogAppendTime"}
        head = {
            "base": records[0].offset,
            "last": records[-1].offset,
            "codec": CODECS[batch.compression_type],
            "timestamps": timestamps[batch.timestamp_type],
            "producer": "-1/-1/-1",
            "transactional": 0,
            "control": 0,
            "leader_epoch": -1,
            # The timestamp of the message itself: kafka-python leaves that of a wrapper at 0.
            "max_timestamp": -1 if batch._timestamp is None else batch._timestamp,
        }
    fields = " ".join(f"{name}={value}" for name, value in head.items())
    yield f"batch magic={batch.magic} {fields}\n"
    for record in records:
        timestamp = -1 if record.timestamp is None else record.timestamp
        words = [record.offset, timestamp, text(record.key), text(record.value)]
        words += [f"{text(key.encode())}:{text(value)}" for key, value in record.headers]
        yield " ".join(["record", *map(str, words)]) + "\n"


def text(data: bytes | None) -> str:
    """Returns null, hexadecimal digits, or length and checksum."""
    if data is None:
        return "-"
    if len(data) <= HEX_BYTES_MAX:
        return "=" + data.hex()
    return f"#{len(data)}/{calc_crc32c(data):08x}"


def main(arguments: list[str]) -> None:
    """Runs one of the two commands."""
    command, *paths = arguments or ["help"]
    if command == "write" and len(paths) == 1:
        write(Path(paths[0]))
    elif command == "dump" and paths:
        print_all(Path(path) for path in paths)
    else:
        raise SystemExit("usage: kafka_python_batches write DIR | dump FILE...")


def print_all(paths: Iterable[Path]) -> None:
    """Prints the contents of each file."""
    for path in paths:
        sys.stdout.write(f"file {path.name}\n")
        sys.stdout.writelines(dump(path.read_bytes()))


if __name__ == "__main__":
    main(sys.argv[1:])
