"""The ceiling of every client: the broker's limit with a bare socket and no client.

Producing sends batches that were encoded before the measurement, with five requests in flight.
Consuming fetches as fast as responses arrive and reads only batch headers.
"""

from __future__ import annotations

import ssl
import struct
from typing import Any

from kafka.record.default_records import DefaultRecordBatchBuilder

from benches.peers.clients.program import Stopwatch, main
from benches.peers.equal import CODEC_IDS
from benches.peers.settings import Case, payloads
from tests.support.wire import (
    PRODUCE,
    Connection,
    Wire,
    Writer,
    batch_headers,
    parse_fetch,
    send_fetch,
)

PRODUCE_VERSION = 7  # the first that accepts zstd
BATCH_BYTES = 950_000
IN_FLIGHT = 5
PARTITION_FETCH_BYTES = 16 << 20
EQUAL_FETCH_BYTES = 1 << 20  # max.partition.fetch.bytes: all clients keep the default
FETCH_BYTES = 64 << 20


def batch_of(case: Case) -> tuple[bytes, int]:
    """Returns the largest batch of the broker, or of the clients, and its number of records."""
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=CODEC_IDS[case.codec],
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=case.batch_bytes if case.variant == "equal" else BATCH_BYTES,
    )
    values = payloads(case.size)
    count = 0
    while builder.append(count, None, None, values[count % len(values)], []) is not None:
        count += 1
    return bytes(builder.build()), count


def connect(case: Case) -> Connection:
    """Connects to the only broker. With TLS, OpenSSL encrypts."""
    host, port = Wire(case.address).addresses[0]
    encrypted = case.security == "SSL"
    tls = ssl.create_default_context(cafile=case.cafile) if encrypted else None
    return Connection(host, port, tls=tls)


def produce(case: Case) -> dict[str, Any]:
    batch, per_batch = batch_of(case)
    bodies = []
    for partition in range(case.partitions):
        body = Writer().string(None).int("hi", -1, 30_000).int("i", 1).string(case.topic)
        bodies.append(bytes(body.int("ii", 1, partition).bytes(batch).out))
    requests = -(-case.records // per_batch)
    with connect(case) as connection:
        connection.send(PRODUCE, PRODUCE_VERSION, bodies[0])
        check(connection.receive())
        with Stopwatch() as watch:
            for number in range(requests):
                if number >= IN_FLIGHT:
                    check(connection.receive())
                connection.send(PRODUCE, PRODUCE_VERSION, bodies[number % case.partitions])
            for _ in range(min(requests, IN_FLIGHT)):
                check(connection.receive())
    return watch.result(requests * per_batch, sent=(requests + 1) * per_batch)


def check(response: memoryview) -> None:
    """Raises unless a Produce response of one partition has no error."""
    (topic_length,) = struct.unpack_from(">h", response, 4)
    (code,) = struct.unpack_from(">h", response, 4 + 2 + topic_length + 4 + 4)
    if code:
        raise SystemExit(f"Produce: error {code}")


def consume(case: Case) -> dict[str, Any]:
    offsets = dict.fromkeys(range(case.partitions), 0)
    partition_bytes = EQUAL_FETCH_BYTES if case.variant == "equal" else PARTITION_FETCH_BYTES
    count = 0
    with connect(case) as connection, Stopwatch() as watch:
        while count < case.records:
            send_fetch(connection, case.topic, offsets, partition_bytes, FETCH_BYTES)
            for partition, data in parse_fetch(connection.receive()).items():
                for header in batch_headers(data):
                    offsets[partition] = header.base_offset + header.last_offset_delta + 1
                    count += header.records
    return watch.result(count)


if __name__ == "__main__":
    main(produce=produce, consume=consume)
