"""A program that runs transactions with another client, for tests of how this library reads them.

python -m tests.integration.consumer.transactional BOOTSTRAP TOPIC commit:3 abort:2 plain:1 open:2

It needs confluent-kafka. Each step writes that number of records to partition 0. The records are
numbered through all steps. `open` leaves its transaction open, so it must be last.
"""

from __future__ import annotations

import sys
import uuid

import confluent_kafka as ck


def main(bootstrap: str, topic: str, *steps: str) -> None:
    options = {"bootstrap.servers": bootstrap, "linger.ms": 0, "compression.type": "lz4"}
    plain = ck.Producer(options)
    writer = ck.Producer({**options, "transactional.id": uuid.uuid4().hex})
    writer.init_transactions()
    number = 0
    for step in steps:
        kind, _, count = step.partition(":")
        producer = plain if kind == "plain" else writer
        if producer is writer:
            writer.begin_transaction()
        for _ in range(int(count)):
            producer.produce(topic, value=f"{kind}-{number}", partition=0)
            number += 1
        producer.flush(30)
        if kind == "commit":
            writer.commit_transaction()
        elif kind == "abort":
            writer.abort_transaction()


if __name__ == "__main__":
    main(*sys.argv[1:])
