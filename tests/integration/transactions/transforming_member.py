"""A program that runs one member of a group, which transforms a topic exactly once.

python -m tests.integration.transactions.transforming_member
    BOOTSTRAP SOURCE SINK GROUP ID RECORDS PROTOCOL

ID is its transactional ID. RECORDS is the maximum of a transaction. It runs until its input ends,
and may be killed at any time.
"""

from __future__ import annotations

import sys
import threading

from tests.integration.transactions.transformer import rewind, transform
from thalweg import KafkaConsumer, KafkaProducer
from thalweg.errors import AbortableTransactionError

SESSION_MS, HEARTBEAT_MS = 6000, 300


def main(
    bootstrap: str, source: str, sink: str, group: str, name: str, records: str, protocol: str
) -> None:
    ended = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        ended.set()

    threading.Thread(target=wait, daemon=True).start()
    config = {
        "bootstrap_servers": bootstrap,
        "group_id": group,
        "group_protocol": protocol,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "isolation_level": "read_committed",
    }
    if protocol == "classic":
        config |= {"session_timeout_ms": SESSION_MS, "heartbeat_interval_ms": HEARTBEAT_MS}
    consumer = KafkaConsumer.from_config(config, source)
    with KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name) as producer:
        producer.init_transactions()
        while not ended.is_set():
            batches = consumer.poll(200, max_records=int(records))
            if not batches:
                continue
            try:
                with producer.transaction():
                    transform(producer, consumer, batches, sink)
            except AbortableTransactionError:
                # The group has rebalanced, or a broker failed: read again what is still assigned.
                rewind(consumer, sorted(consumer.assignment()))
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
