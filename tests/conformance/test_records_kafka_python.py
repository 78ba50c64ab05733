"""The records crate and kafka-python's own code read each other's record batches."""

from __future__ import annotations

from tests.conformance.ours import dumped, peers_command, texts, written


def test_kafka_python_decodes_our_batches_and_finds_in_them_what_we_wrote() -> None:
    found = dumped(peers_command("kafka_python_batches"), written())
    assert len(found) >= 24
    assert found == texts(written(), "batch", "record")
