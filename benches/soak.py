"""Resident memory of a producer and a consumer over a long time: `python -m benches.soak`.

    producer (20,000 records/s, lz4) ──> a real Kafka ──> poll() and poll_arrow() in turn

Each minute it prints a line: records, resident size (MB), and its growth since the first tenth of
the lines, when pools and caches have filled. It exits with 1 if the mean of the last quarter is
more than 10% above that of the second quarter, which means that memory grows with time and not with
load.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import threading
import time
from pathlib import Path

from benches.broker import bench_broker
from thalweg import KafkaConsumer, KafkaProducer, TopicPartition

PARTITIONS = 4
GROWTH_MAX = 1.10
PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 1e6
# The broker keeps only the newest records, so that a long run needs no more space than a short one.
KEPT = {"retention.bytes": "100000000", "segment.bytes": "25000000", "retention.ms": "600000"}


def resident_mb(process: int | str = "self") -> float:
    """Returns the resident size of a process, as the kernel counts it."""
    return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE_MB


def produce(producer: KafkaProducer, rate: int, stop: threading.Event) -> None:
    """Sends at a steady rate, in slices of a tenth of a second."""
    payload, sent, start = b"x" * 50, 0, time.monotonic()
    while not stop.wait(0.1):
        due = int((time.monotonic() - start) * rate)
        for number in range(sent, due):
            value = b"%020d%s" % (number * 2654435761, payload)
            producer.send("soak", value, key=b"%d" % (number % 10_007))
        sent = due


def main() -> int:
    """Runs the soak and prints its lines."""
    parser = argparse.ArgumentParser(prog="python -m benches.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=int, default=20_000, help="records a second")
    options = parser.parse_args()
    with bench_broker() as broker:
        broker.create_topic("soak", PARTITIONS, configs=KEPT)
        address = broker.bootstrap_servers
        with (
            KafkaProducer(bootstrap_servers=address, compression_type="lz4") as producer,
            KafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest") as consumer,
        ):
            consumer.assign([TopicPartition("soak", each) for each in range(PARTITIONS)])
            stop = threading.Event()
            sending = threading.Thread(target=produce, args=(producer, options.rate, stop))
            sending.start()
            try:
                sizes = watch(consumer, options.minutes)
            finally:
                stop.set()
                sending.join()
    return verdict(sizes)


def watch(consumer: KafkaConsumer, minutes: float) -> list[float]:
    """Reads until the time is over, and returns resident sizes: one a minute, ten at least."""
    every = min(60.0, minutes * 6)
    start = time.monotonic()
    end, next_line = start + minutes * 60, start + every
    sizes: list[float] = []
    read, columns = 0, False
    while (now := time.monotonic()) < end:
        if columns:
            read += consumer.poll_arrow(timeout_ms=200).num_rows
        else:
            read += sum(map(len, consumer.poll(timeout_ms=200, max_records=5_000).values()))
        columns = not columns
        if now >= next_line:
            next_line += every
            sizes.append(resident_mb())
            first = sizes[len(sizes) // 10]
            print(
                f"{(now - start) / 60:6.1f} min  {read:>12,} records  {sizes[-1]:7.1f} MB"
                f"  {sizes[-1] / first - 1:+.1%}",
                flush=True,
            )
    return sizes


def growth(sizes: list[float]) -> float:
    """Returns the mean of the last quarter divided by that of the second quarter."""
    quarter = max(1, len(sizes) // 4)
    before = statistics.mean(sizes[quarter : 2 * quarter] or sizes)
    return statistics.mean(sizes[-quarter:]) / before


def conclude(wrong: list[str]) -> int:
    """Prints what went wrong in a soak, and returns its exit status."""
    for each in wrong:
        print(f"WRONG: {each}", file=sys.stderr)
    print("failed" if wrong else "no error")
    return int(bool(wrong))


def verdict(sizes: list[float]) -> int:
    """Returns 0 if memory did not grow."""
    grown = growth(sizes)
    print(f"the last quarter compared with the second quarter: {grown - 1:+.1%}")
    return int(grown > GROWTH_MAX)


if __name__ == "__main__":
    sys.exit(main())
