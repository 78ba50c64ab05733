"""Record batches of librdkafka (confluent-kafka), for the conformance tests of the records crate.

    python -m tests.conformance.records.librdkafka_batches write DIR      captures what it sends
    python -m tests.conformance.records.librdkafka_batches dump FILE...   prints what it reads

It needs confluent-kafka and kafka-python. A listener on loopback implements the part of the
protocol with which one producer sends one batch, or one consumer reads files as the partitions of a
topic. kafka-python's decoder prints a captured batch, after a check that it has the records that
were sent. What a consumer reads is printed record by record, because librdkafka shows no batches.
"""

from __future__ import annotations

import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from tests.conformance.records.kafka_python_batches import CODECS, dump, entries, text

TOPIC = "golden"
PRODUCE, FETCH, METADATA, FIND_COORDINATOR, API_VERSIONS, INIT_PRODUCER_ID = 0, 1, 3, 10, 18, 22
# The highest versions, by the magic that librdkafka writes with them.
VERSIONS = {
    2: {PRODUCE: 7, FETCH: 11, METADATA: 4, FIND_COORDINATOR: 2, API_VERSIONS: 3},
    1: {PRODUCE: 2, FETCH: 2, METADATA: 2, FIND_COORDINATOR: 0, API_VERSIONS: 3},
    0: {PRODUCE: 1, FETCH: 1, METADATA: 1, FIND_COORDINATOR: 0, API_VERSIONS: 3},
}
FETCH_PAUSE_SECONDS = 0.02
READ_SECONDS_MAX = 60


def string(text: str) -> bytes:
    """Encodes a length of two bytes, and the text as UTF-8."""
    data = text.encode()
    return struct.pack(">h", len(data)) + data


class Reader:
    """Reads fields one after another."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def unpack(self, form: str) -> int:
        """Reads one number."""
        (value,) = struct.unpack_from(">" + form, self.data, self.at)
        self.at += struct.calcsize(">" + form)
        return int(value)

    def take(self, length: int) -> bytes:
        """Reads `length` bytes, or none for a negative length."""
        start, self.at = self.at, self.at + max(0, length)
        return self.data[start : self.at]


class Listener:
    """A broker that responds with success, keeps what is produced and serves what it was given."""

    def __init__(self, magic: int, logs: list[bytes]) -> None:
        self.versions = VERSIONS[magic] | ({INIT_PRODUCER_ID: 1} if magic == 2 else {})
        self.logs = logs
        self.batches: list[bytes] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            connection, _ = self.socket.accept()
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        stream = connection.makefile("rb")
        handlers: dict[int, Callable[[Reader, int], bytes]] = {
            API_VERSIONS: self._api_versions,
            METADATA: self._metadata,
            PRODUCE: self._produce,
            FETCH: self._fetch,
            FIND_COORDINATOR: self._find_coordinator,
            INIT_PRODUCER_ID: lambda *_: struct.pack(">ihqh", 0, 0, 4711, 3),
        }
        while length := stream.read(4):
            reader = Reader(stream.read(struct.unpack(">i", length)[0]))
            key, version, correlation = (reader.unpack(form) for form in "hhi")
            reader.take(reader.unpack("h"))
            body = struct.pack(">i", correlation) + handlers[key](reader, version)
            connection.sendall(struct.pack(">i", len(body)) + body)

    def _api_versions(self, _: Reader, version: int) -> bytes:
        rows = [struct.pack(">hhh", key, 0, most) for key, most in sorted(self.versions.items())]
        if version < 3:
            throttle = b"\0\0\0\0" if version else b""
            return struct.pack(">hi", 0, len(rows)) + b"".join(rows) + throttle
        compact = bytes([len(rows) + 1]) + b"".join(row + b"\0" for row in rows)
        return b"\0\0" + compact + b"\0\0\0\0" + b"\0"

    def _metadata(self, _: Reader, version: int) -> bytes:
        broker = struct.pack(">i", 1) + string("127.0.0.1") + struct.pack(">i", self.port)
        out = b"\0\0\0\0" if version >= 3 else b""
        out += struct.pack(">i", 1) + broker + struct.pack(">h", -1)
        out += string("cluster") if version >= 2 else b""
        out += struct.pack(">i", 1) + struct.pack(">ih", 1, 0) + string(TOPIC) + b"\0"
        count = max(1, len(self.logs))
        partitions = (struct.pack(">hiiiiii", 0, i, 1, 1, 1, 1, 1) for i in range(count))
        return out + struct.pack(">i", count) + b"".join(partitions)

    def _produce(self, reader: Reader, version: int) -> bytes:
        if version >= 3:
            reader.take(reader.unpack("h"))
        for form in "hii":
            reader.unpack(form)
        reader.take(reader.unpack("h"))
        for form in "ii":
            reader.unpack(form)
        self.batches.append(reader.take(reader.unpack("i")))
        out = struct.pack(">i", 1) + string(TOPIC) + struct.pack(">iihq", 1, 0, 0, 0)
        out += struct.pack(">q", -1) if version >= 2 else b""
        out += struct.pack(">q", 0) if version >= 5 else b""
        return out + (struct.pack(">i", 0) if version >= 1 else b"")

    def _find_coordinator(self, _: Reader, version: int) -> bytes:
        head = struct.pack(">ihh", 0, 0, -1) if version else b"\0\0"
        address = string("127.0.0.1") + struct.pack(">i", self.port)
        return head + struct.pack(">i", 1) + address

    def _fetch(self, reader: Reader, _: int) -> bytes:
        for form in "iiiibii":
            reader.unpack(form)
        handlers = []
        for _topic in range(reader.unpack("i")):
            reader.take(reader.unpack("h"))
            for _partition in range(reader.unpack("i")):
                partition, _, offset, _, _ = (reader.unpack(form) for form in "iiqqi")
                log = self.logs[partition]
                end = end_offset(log)
                data = log if offset < end else b""
                head = struct.pack(">ihqqqiii", partition, 0, end, end, 0, -1, -1, len(data))
                handlers.append(head + data)
        if not any(len(part) > struct.calcsize(">ihqqqiii") for part in handlers):
            time.sleep(FETCH_PAUSE_SECONDS)
        topic = struct.pack(">i", 1) + string(TOPIC) + struct.pack(">i", len(handlers))
        return struct.pack(">ihi", 0, 0, 0) + topic + b"".join(handlers)


def end_offset(log: bytes) -> int:
    """Returns the offset after the last batch of a log."""
    at = end = 0
    while at < len(log):
        base, length = struct.unpack_from(">qi", log, at)
        end = base + struct.unpack_from(">i", log, at + 23)[0] + 1
        at += 12 + length
    return end


def capture(magic: int, codec: str, **options: object) -> bytes:
    """Returns the one batch that a producer with these options sends."""
    listener = Listener(magic, [])
    failures: list[object] = []
    producer = Producer(
        {
            "bootstrap.servers": f"127.0.0.1:{listener.port}",
            "compression.codec": codec,
            "linger.ms": 300,
            **options,
        }
    )
    for timestamp, key, value, headers in entries(magic, large=codec != "none"):
        producer.produce(
            TOPIC,
            value,
            key,
            timestamp=timestamp,
            headers=headers or None,
            on_delivery=lambda error, _: failures.append(error) if error else None,
        )
    if left := producer.flush(20):
        raise RuntimeError(f"{left} records of magic {magic}, {codec} were not sent")
    if failures:
        raise RuntimeError(f"magic {magic}, {codec}: {failures[0]}")
    return b"".join(listener.batches)


def check(batches: bytes, magic: int, *, large: bool) -> list[str]:
    """Returns the text of the batches, if their magic and number of records are correct."""
    lines = list(dump(batches))
    records = [line for line in lines if line.startswith("record")]
    expected = list(entries(magic, large=large))
    if len(records) != len(expected) or not lines[0].startswith(f"batch magic={magic} "):
        raise RuntimeError(f"{len(records)} records instead of {len(expected)}: {lines[0]}")
    return lines


def write(folder: Path) -> None:
    """Captures every codec in every magic."""
    folder.mkdir(parents=True, exist_ok=True)
    cases: list[tuple[str, int, str, dict[str, object]]] = []
    for magic in (0, 1, 2):
        codecs = CODECS if magic == 2 else CODECS[:-1]
        cases += [(f"v{magic}-{codec}", magic, codec, {}) for codec in codecs]
    cases.append(("v2-lz4-level-12", 2, "lz4", {"compression.level": 12}))
    cases.append(("v2-zstd-level-12", 2, "zstd", {"compression.level": 12}))
    cases.append(("v2-idempotent", 2, "zstd", {"enable.idempotence": True}))
    for name, magic, codec, options in cases:
        batches = capture(magic, codec, **options)
        lines = check(batches, magic, large=codec != "none")
        (folder / f"{name}.bin").write_bytes(batches)
        (folder / f"{name}.txt").write_text("".join(lines))


def read(files: list[Path]) -> dict[Path, list[str]]:
    """Returns the records of each file that a consumer with checksums reads."""
    logs = [path.read_bytes() for path in files]
    listener = Listener(2, logs)
    consumer = Consumer(
        {
            "bootstrap.servers": f"127.0.0.1:{listener.port}",
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "isolation.level": "read_uncommitted",
        }
    )
    starts = [struct.unpack_from(">q", log)[0] for log in logs]
    consumer.assign([TopicPartition(TOPIC, i, start) for i, start in enumerate(starts)])
    found: dict[Path, list[str]] = {path: [] for path in files}
    unread, deadline = set(range(len(files))), time.monotonic() + READ_SECONDS_MAX
    while unread and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            found[files[message.partition()]].append(told(message))
        elif error.code() == KafkaError._PARTITION_EOF:
            unread.discard(message.partition())
        else:
            raise RuntimeError(f"partition {message.partition()}: {error}")
    if unread:
        raise RuntimeError(f"not read to the end: {[files[i].name for i in unread]}")
    consumer.close()
    return found


def told(message: Message) -> str:
    """Returns the line for a record."""
    _, timestamp = message.timestamp()
    words = [message.offset(), timestamp, text(message.key()), text(message.value())]
    headers = message.headers() or []
    words += [f"{text(key.encode())}:{text(value)}" for key, value in headers]
    return " ".join(["record", *map(str, words)])


def main(arguments: list[str]) -> None:
    """Runs one of the two commands."""
    command, *paths = arguments or ["help"]
    if command == "write" and len(paths) == 1:
        write(Path(paths[0]))
    elif command == "dump" and paths:
        for path, lines in read([Path(path) for path in paths]).items():
            print("\n".join([f"file {path.name}", *lines]))
    else:
        raise SystemExit("usage: librdkafka_batches write DIR | dump FILE...")


if __name__ == "__main__":
    main(sys.argv[1:])
