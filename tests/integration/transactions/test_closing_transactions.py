"""Producers that close while their transaction fails."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from tests.support.waiting import wait_until
from thalweg import KafkaProducer, TopicPartition
from thalweg.errors import AbortableTransactionError, IllegalStateError
from thalweg.structs import OffsetAndMetadata

LIMIT_S = 60.0
SLOW_MS = 1_000


def outcome(call: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Starts a call in a thread. The list gets its result or its error."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(call())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, found


def test_offsets_that_no_request_can_contain_do_not_delay_a_close(start_embedded: Any) -> None:
    """The failure is found when no other event will come before the transaction times out."""
    embedded = start_embedded()
    embedded.create_topic("t")
    where = TopicPartition("t", 0)
    producer = KafkaProducer(
        bootstrap_servers=embedded.bootstrap_servers,
        transactional_id="closing",
        transaction_timeout_ms=10 * int(LIMIT_S * 1000),
    )
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("t", b"v").get(timeout=LIMIT_S)
    slow = embedded.faults.on("TxnOffsetCommit").then_delay(SLOW_MS)

    def offsets(metadata: str) -> Callable[[], Any]:
        given = {where: OffsetAndMetadata(1, metadata, -1)}
        return lambda: producer.send_offsets_to_transaction(given, "g")

    sent, sent_result = outcome(offsets("short"))
    wait_until(lambda: slow.hits == 1)
    failed, failed_result = outcome(offsets("x" * 40_000))
    time.sleep(0.2)
    committed, commit_result = outcome(producer.commit_transaction)
    time.sleep(0.2)
    began = time.monotonic()
    producer.close()
    assert time.monotonic() - began < LIMIT_S
    for thread in (sent, failed, committed):
        thread.join(LIMIT_S)
    assert sent_result == [None]
    for found in (*failed_result, *commit_result):
        # IllegalStateError: the machine paused, so the close came first.
        assert isinstance(found, AbortableTransactionError | IllegalStateError)
    assert embedded.requests("EndTxn")["EndTxn"] == 1
