"""How soon the only member of a new group gets a record: `python -m benches.group_start`.

    constructor ──> joined ──> first record of the topic      each time with a new group

thalweg, aiokafka, confluent-kafka and kafka-python run in turn on one real broker, which has no
initial rebalance delay and has its __consumer_offsets topic already. Each round is a new process
that measures several times. The result is the median of the medians of the processes.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import time
import uuid
from typing import Any

from benches.broker import bench_broker
from tests.support.peers import run_module

TOPIC = "group-start"
CLIENTS = (
    "thalweg",
    "thalweg-consumer-protocol",
    "thalweg-aio",
    "aiokafka",
    "confluent-kafka",
    "kafka-python",
)


def group() -> str:
    return f"start-{uuid.uuid4().hex}"


def kafka_python(consumer_class: Any, bootstrap: str, **more: Any) -> float:
    began = time.perf_counter()
    consumer = consumer_class(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id=group(),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **more,
    )
    while not consumer.poll(1000):
        pass
    took = time.perf_counter() - began
    consumer.close()
    return took


async def aiokafka(consumer_class: Any, bootstrap: str) -> float:
    began = time.perf_counter()
    consumer = consumer_class(
        TOPIC,
        bootstrap_servers=bootstrap,
        group_id=group(),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    await consumer.start()
    await consumer.getone()
    took = time.perf_counter() - began
    await consumer.stop()
    return took


def confluent(bootstrap: str) -> float:
    import confluent_kafka as ck

    began = time.perf_counter()
    consumer = ck.Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group(),
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe([TOPIC])
    while True:
        message = consumer.poll(1.0)
        if message is not None and not message.error():
            break
    took = time.perf_counter() - began
    consumer.close()
    return took


def once(client: str, bootstrap: str) -> float:
    """Returns the seconds from the constructor to the first record."""
    match client:
        case "thalweg":
            from thalweg import KafkaConsumer

            return kafka_python(KafkaConsumer, bootstrap)
        case "thalweg-consumer-protocol":
            from thalweg import KafkaConsumer

            return kafka_python(KafkaConsumer, bootstrap, group_protocol="consumer")
        case "kafka-python":
            from kafka import KafkaConsumer as Theirs

            return kafka_python(Theirs, bootstrap)
        case "thalweg-aio":
            from thalweg.aio import AIOKafkaConsumer

            return asyncio.run(aiokafka(AIOKafkaConsumer, bootstrap))
        case "aiokafka":
            import aiokafka as theirs

            return asyncio.run(aiokafka(theirs.AIOKafkaConsumer, bootstrap))
        case _:
            return confluent(bootstrap)


def measured(client: str, bootstrap: str, times: int) -> float:
    """Measures in a separate process, and returns the median in ms."""
    installed_as = "thalweg" if client.startswith("thalweg") else client
    arguments = ["--client", client, "--bootstrap", bootstrap, "--times", str(times)]
    printed = run_module(installed_as, "benches.group_start", *arguments, timeout=300)
    return float(json.loads(printed.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.group_start", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--times", type=int, default=9, help="in each process")
    parser.add_argument("--client", choices=CLIENTS, help=argparse.SUPPRESS)
    parser.add_argument("--bootstrap", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.client:
        taken = [once(options.client, options.bootstrap) for _ in range(options.times)]
        print(json.dumps(statistics.median(taken) * 1000))
        return
    from thalweg import KafkaProducer  # imported here, as other clients' environments lack it

    with bench_broker() as broker:
        broker.create_topic(TOPIC, 4)
        with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send_many(TOPIC, [b"x" * 100] * 1000).get(30)
        once("thalweg", broker.bootstrap_servers)  # creates __consumer_offsets
        found: dict[str, list[float]] = {client: [] for client in CLIENTS}
        for number in range(1, options.rounds + 1):
            for client in CLIENTS:
                ms = measured(client, broker.bootstrap_servers, options.times)
                found[client].append(ms)
                print(f"  round {number}: {client:28}{ms:8.1f} ms", flush=True)
    print(f"{'':28}{'ms':>10}{'of aiokafka':>14}")
    for client, taken in found.items():
        pairs = zip(taken, found["aiokafka"], strict=True)
        ratio = statistics.median(ours / theirs for ours, theirs in pairs)
        print(f"{client:28}{statistics.median(taken):>10.1f}{ratio:>14.2f}")


if __name__ == "__main__":
    main()
