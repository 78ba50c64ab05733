"""The records crate and Kafka's own client code read each other's record batches."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.conformance.ours import RECORDS, dumped, java_command, texts, written


def test_java_decodes_our_batches_and_finds_in_them_what_we_wrote() -> None:
    found = dumped(java_command(), written())
    assert len(found) >= 24
    assert found == texts(written())


def test_the_golden_batches_are_what_java_writes_today(tmp_path: Path) -> None:
    subprocess.run([*java_command(), "write", str(tmp_path)], check=True, capture_output=True)
    assert texts(tmp_path) == texts(RECORDS / "golden" / "java")
    # Compressed bytes depend on the native libraries of the machine. These files do not.
    for name in ("v2-none.bin", "v2-idempotent.bin", "v2-markers.bin", "v2-empty.bin"):
        assert (tmp_path / name).read_bytes() == (RECORDS / "golden" / "java" / name).read_bytes()
