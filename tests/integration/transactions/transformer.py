"""A program that copies a topic to another one, transformed, with each record exactly once.

python -m tests.integration.transactions.transformer
    BOOTSTRAP SOURCE SINK PARTITIONS TRANSACTIONAL_ID RECORDS LIFE_RECORDS

RECORDS is the maximum of a transaction. The program processes what the source has at the start, and
prints "done". It may be killed at any time and started again: its group's offsets are part of the
transactions. After LIFE_RECORDS it waits to be killed, unless it is done.
"""

from __future__ import annotations

import sys
import threading

from thalweg import KafkaConsumer, KafkaProducer, TopicPartition
from thalweg.errors import AbortableTransactionError
from thalweg.structs import OffsetAndMetadata

GROUP = "transformers"


def main(
    bootstrap: str, source: str, sink: str, partitions: str, name: str, records: str, life: str
) -> None:
    left = int(life)
    consumer = KafkaConsumer(
        bootstrap_servers=bootstrap,
        group_id=GROUP,
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
    )
    where = [TopicPartition(source, index) for index in range(int(partitions))]
    with KafkaProducer(bootstrap_servers=bootstrap, transactional_id=name) as producer:
        # Initialize first: this ends a predecessor's open transaction, with its offsets.
        producer.init_transactions()
        consumer.assign(where)
        ends = consumer.end_offsets(where)
        while any(consumer.position(each) < ends[each] for each in where):
            batches = consumer.poll(1000, max_records=int(records))
            if not batches:
                continue
            if left <= 0:
                threading.Event().wait()
            try:
                with producer.transaction():
                    transform(producer, consumer, batches, sink)
                left -= sum(map(len, batches.values()))
            except AbortableTransactionError:
                rewind(consumer, where)
    consumer.close()
    print("done", flush=True)


def transform(producer: KafkaProducer, consumer: KafkaConsumer, batches: dict, sink: str) -> None:
    """Runs one transaction with the transformed records and their offsets."""
    for at, records in batches.items():
        for record in records:
            producer.send(sink, record.value + b"!", partition=at.partition)
    reached = {at: OffsetAndMetadata(records[-1].offset + 1) for at, records in batches.items()}
    producer.send_offsets_to_transaction(reached, consumer.group_metadata())


def rewind(consumer: KafkaConsumer, where: list[TopicPartition]) -> None:
    """Seeks back to the committed offsets, because the transaction was aborted."""
    for each in where:
        committed = consumer.committed(each)
        if committed is None:
            consumer.seek_to_beginning(each)
        else:
            consumer.seek(each, committed)


if __name__ == "__main__":
    main(*sys.argv[1:])
