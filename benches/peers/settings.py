"""What a run measures: one case, the same for every client, as a process's argument.

A case names sizes and settings in words of its own; `equal.py` spells them for each client, so
that no client is run with other settings by accident.
"""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass, replace

PARTITIONS = 4
# More than the largest batch holds, so that no batch compresses by repeats.
DISTINCT_PAYLOADS = 16_384
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


@dataclass(frozen=True)
class Case:
    """One thing to measure.

    Attributes:
        role: "produce", "consume", "latency" or "start".
        records: how many a fast client handles; slower ones get a share (`Entrant.factor`).
        size: bytes of a value; there are no keys and headers.
        codec: and `level` where the codec has one that all clients can set.
    """

    role: str
    records: int
    size: int = 100
    codec: str = "none"
    level: int | None = None
    linger_ms: int = 5
    batch_bytes: int = 131_072
    acks: str = "all"
    idempotence: bool = True
    check_crcs: bool = True
    isolation: str = "read_uncommitted"
    bootstrap: str = ""
    topic: str = ""
    variant: str = ""

    @property
    def name(self) -> str:
        parts = [self.role, f"{self.size}B"] + ([self.codec] if self.codec != "none" else [])
        return self.role if self.role == "start" else "-".join(parts)

    def at(self, bootstrap: str, topic: str, variant: str, records: int) -> Case:
        """The case as one client is to run it."""
        return replace(self, bootstrap=bootstrap, topic=topic, variant=variant, records=records)

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def from_json(text: str) -> Case:
    """The case that a client's process was given."""
    return Case(**json.loads(text))


def payloads(size: int) -> list[bytes]:
    """Distinct values, half of each random text and half constant, so half-compressible.

    Printable and without line ends, as Java's tool takes its payloads from a file of lines.
    """
    rng = random.Random(size)
    noise = size // 2
    constant = (b"the deepest water runs fastest, " * (size // 32 + 1))[: size - noise]
    printable = _ALPHABET * 4
    return [rng.randbytes(noise).translate(printable) + constant for _ in range(DISTINCT_PAYLOADS)]


@dataclass(frozen=True)
class Entrant:
    """A client in one of its ways of working."""

    client: str
    variant: str
    factor: float = 1.0

    @property
    def name(self) -> str:
        return f"{self.client} {self.variant}".strip()


BASELINE = Entrant("confluent-kafka", "")
ENTRANTS = {
    "produce": [
        Entrant("ceiling", ""),
        BASELINE,
        Entrant("thalweg", "send"),
        Entrant("thalweg", "send_many"),
        Entrant("thalweg", "send_arrow"),
        Entrant("java", ""),
        Entrant("thalweg-aio", "send", 0.5),
        Entrant("aiokafka", "", 0.15),
        Entrant("kafka-python", "", 0.05),
    ],
    "consume": [
        Entrant("ceiling", ""),
        BASELINE,
        Entrant("confluent-kafka", "defaults", 0.2),
        Entrant("thalweg", "poll"),
        Entrant("thalweg", "iterate"),
        Entrant("thalweg", "poll_arrow"),
        Entrant("java", ""),
        Entrant("aiokafka", "", 0.5),
        Entrant("kafka-python", "", 0.15),
    ],
    "latency": [
        BASELINE,
        Entrant("thalweg", "send"),
        Entrant("thalweg-aio", ""),
        Entrant("aiokafka", ""),
        Entrant("kafka-python", ""),
    ],
    "start": [
        BASELINE,
        Entrant("thalweg", ""),
        Entrant("aiokafka", ""),
        Entrant("kafka-python", ""),
    ],
}

# The settings of performance figures: linger 5 ms, batches of 128 KiB, acks=all, idempotent.
CASES = [
    Case("produce", 2_000_000, 100),
    Case("produce", 2_000_000, 100, "lz4"),
    Case("produce", 2_000_000, 100, "zstd", 3),
    Case("produce", 400_000, 1000),
    Case("produce", 400_000, 1000, "lz4"),
    Case("produce", 400_000, 1000, "zstd", 3),
    Case("consume", 4_000_000, 100),
    Case("consume", 4_000_000, 100, "lz4"),
    Case("consume", 4_000_000, 100, "zstd", 3),
    Case("consume", 800_000, 1000),
    Case("latency", 20_000, 100, linger_ms=0),
    Case("start", 1, 100, linger_ms=0),
]
