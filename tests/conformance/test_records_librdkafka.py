"""The records crate and librdkafka read each other's record batches."""

from __future__ import annotations

from tests.conformance.ours import dumped, peers_command, texts, written


def test_librdkafka_reads_our_batches_and_finds_in_them_what_we_wrote() -> None:
    found = dumped(peers_command("librdkafka_batches"), written())
    expected = texts(written(), "record")
    # librdkafka reads control records and never shows them.
    expected["markers.bin"] = []
    assert len(found) >= 24
    assert found == expected
