"""A slow application with a small memory limit, many partitions and large batches."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.support.clients import Clients
from tests.integration.support.scripts import run
from tests.support.scale import scaled
from thalweg import EmbeddedBroker

PARTITIONS = 64
VALUE_BYTES, PER_BATCH = 10_000, 50
BATCHES = scaled(20, minimum=3)  # per partition: 96 MB in all at the smallest scale
FETCH_BUFFER = 4_000_000
# In addition to `fetch_buffer_memory`: the records that one poll returns (1 MB), the batches that
# are being decompressed, and what the allocator keeps.
BESIDES_BYTES = 8_000_000
# glibc keeps freed memory for each thread: up to 5 MB here, which say nothing about the client.
ONE_ARENA = {"MALLOC_ARENA_MAX": "1"}
SESSION_MS = 6000  # longer than a machine may pause
GROUPS = {
    "group.min.session.timeout.ms": "500",
    "group.consumer.min.session.timeout.ms": "500",
    "group.consumer.session.timeout.ms": str(SESSION_MS),
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",
}
APPLICATION = """
import json

servers, topic, protocol, count, options = sys.argv[1:]

def resident():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

consumer = KafkaConsumer(
    topic,
    bootstrap_servers=servers,
    group_id=topic,
    group_protocol=protocol,
    auto_offset_reset="earliest",
    max_poll_records=100,
    **json.loads(options),
)
next_offsets, found, polls = {}, 0, 0

def poll(timeout_ms):
    global found, most
    for where, records in consumer.poll(timeout_ms).items():
        for record in records:
            assert record.offset == next_offsets.get(where.partition, 0), (where, record.offset)
            next_offsets[where.partition] = record.offset + 1
            assert len(record.value) == 10_000
        found += len(records)
    most = max(most, resident())

before = most = resident()
while not consumer.assignment():
    poll(20)
generation = consumer.group_metadata().generation_id
while found < int(count):
    polls += 1
    # Once for longer than the session, else long enough for the fetches to be ahead.
    time.sleep(7.5 if polls == 10 else 0.005)
    poll(20_000)
before_end = found
poll(300)
assert found == before_end
assert consumer.group_metadata().generation_id == generation, "it lost its place in the group"
consumer.close()
print(most - before)
"""


@pytest.mark.parametrize("protocol, codec", [("classic", None), ("consumer", "zstd")])
def test_a_slow_application_stays_within_its_memory_and_its_group(
    start_embedded: Callable[..., EmbeddedBroker],
    clients: Clients,
    protocol: str,
    codec: str | None,
) -> None:
    """Fetched data stays within `fetch_buffer_memory`, and heartbeats continue."""
    broker = start_embedded(configs=GROUPS)
    broker.create_topic("large", PARTITIONS)
    producer = clients.producer(broker, batch_size=1_000_000, compression_type=codec)
    # Half of it cannot be compressed.
    value = random.Random(1).randbytes(VALUE_BYTES // 2) + bytes(VALUE_BYTES // 2)
    for _, partition in itertools.product(range(BATCHES), range(PARTITIONS)):
        producer.send_many("large", [value] * PER_BATCH, partition=partition)
    producer.flush(60)
    options: dict[str, Any] = {"fetch_buffer_memory": FETCH_BUFFER}
    if protocol == "classic":
        options |= {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": 100}
    count = BATCHES * PARTITIONS * PER_BATCH
    ended = run(
        APPLICATION,
        broker.bootstrap_servers,
        "large",
        protocol,
        count,
        json.dumps(options),
        limit_s=60 + count / 500,
        environment=ONE_ARENA,
    )
    grown = int(ended.lines[-1])
    print(f"grown by {grown}")
    assert grown <= FETCH_BUFFER + BESIDES_BYTES
