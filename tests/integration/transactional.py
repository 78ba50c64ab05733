"""A program: transactions by another client, for the tests of what this library reads of them.

python -m tests.integration.transactional BOOTSTRAP TOPIC commit:3 abort:2 plain:1 open:2

Runs where confluent-kafka is installed. Each step writes so many records, numbered through all
steps, to partition 0; `open` leaves its transaction open, so it comes last.
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
