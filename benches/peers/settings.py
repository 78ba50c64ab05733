"""What a run measures: a case, the same for every client. A process gets it as an argument.

A case has its own names for sizes and settings. `equal.py` translates them for each client, so that
no client runs with other settings by accident.
"""

from __future__ import annotations

import json
import random
from dataclasses import asdict, dataclass, replace

PARTITIONS = 4
# More than the largest batch contains, so that repeated values do not help compression.
DISTINCT_PAYLOADS = 16_384
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"


@dataclass(frozen=True)
class Case:
    """One thing to measure.

    Attributes:
        role: "produce", "consume", "latency" (until a record is acknowledged), "end_to_end" (until
            it is also read) or "start".
        records: the number for a fast client. Slower ones get a share (`Entrant.factor`).
        size: the bytes of a value. There are no keys and headers.
        codec: the codec. `level` is set if the codec has a level that all clients can set.
        threads: the sending threads. Each sends its share with the same producer.
        partitions: of the topic. Records of a spread case go to each in turn.
        security: the protocol. Without encryption, `bootstrap` is the address. Otherwise it only
            serves to create topics, and to check what a client wrote.
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
    threads: int = 1
    partitions: int = PARTITIONS
    bootstrap: str = ""
    topic: str = ""
    variant: str = ""
    security: str = "PLAINTEXT"
    secure_bootstrap: str = ""
    cafile: str = ""

    @property
    def address(self) -> str:
        """What the client connects to."""
        return self.secure_bootstrap or self.bootstrap

    @property
    def name(self) -> str:
        secured = "" if self.security == "PLAINTEXT" else f"-{self.security}"
        return self._name + secured

    @property
    def _name(self) -> str:
        parts = [self.role, f"{self.size}B"] + ([self.codec] if self.codec != "none" else [])
        if self.is_spread and self.role == "produce":
            parts += [f"{self.threads}-threads"]
        if self.is_spread:
            parts += [f"{self.partitions}-partitions"]
        return self.role if self.role == "start" else "-".join(parts)

    @property
    def is_spread(self) -> bool:
        """Whether the case is about threads and partitions, which only the fast clients run."""
        if self.role not in ("produce", "consume"):
            return False
        return (self.threads, self.partitions) != (1, PARTITIONS)

    def at(self, bootstrap: str, topic: str, variant: str, records: int) -> Case:
        """Returns the case as one client must run it."""
        return replace(self, bootstrap=bootstrap, topic=topic, variant=variant, records=records)

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def from_json(text: str) -> Case:
    """Returns the case that a client's process was given."""
    return Case(**json.loads(text))


def payloads(size: int) -> list[bytes]:
    """Returns distinct values, half random text and half constant, so half-compressible.

    They are printable and have no line ends, because Java's tool reads its payloads from a file of
    lines.
    """
    rng = random.Random(size)
    noise = size // 2
    constant = (b"the deepest water runs fastest, " * (size // 32 + 1))[: size - noise]
    printable = _ALPHABET * 4
    return [rng.randbytes(noise).translate(printable) + constant for _ in range(DISTINCT_PAYLOADS)]


@dataclass(frozen=True)
class Entrant:
    """A client with one of its variants.

    Attributes:
        python: the interpreter of an environment with another thalweg, or empty for this one.
    """

    client: str
    variant: str
    factor: float = 1.0
    python: str = ""

    @property
    def name(self) -> str:
        return f"{'other ' * bool(self.python)}{self.client} {self.variant}".strip()


BASELINE = Entrant("confluent-kafka", "")
# Not a client: the limit of the broker with a bare socket.
CEILING = Entrant("ceiling", "")
# Its batches, and its shares of a partition in a response, are no larger than the clients'. The
# size that a broker appends or reads at once decides its rate.
EQUAL_CEILING = Entrant("ceiling", "equal")
# It sends without a callback for each record, so it never gets the results of records.
QUIET = "quiet"
# It uses its call for many records at once, also without callbacks.
PRODUCE_BATCH = "produce_batch"
ENTRANTS = {
    "produce": [
        CEILING,
        EQUAL_CEILING,
        BASELINE,
        Entrant("confluent-kafka", QUIET),
        Entrant("confluent-kafka", PRODUCE_BATCH),
        Entrant("thalweg", "send"),
        Entrant("thalweg", "send_many"),
        Entrant("thalweg", "send_arrow"),
        Entrant("java", ""),
        Entrant("franz-go", ""),
        Entrant("thalweg-aio", "send", 0.5),
        Entrant("aiokafka", "", 0.15),
        Entrant("kafka-python", "", 0.05),
    ],
    "consume": [
        CEILING,
        EQUAL_CEILING,
        BASELINE,
        Entrant("confluent-kafka", "defaults", 0.2),
        Entrant("thalweg", "poll"),
        Entrant("thalweg", "iterate"),
        Entrant("thalweg", "poll_arrow"),
        Entrant("java", ""),
        Entrant("franz-go", ""),
        Entrant("thalweg-aio", "getmany"),
        Entrant("thalweg-aio", "iterate", 0.5),
        Entrant("aiokafka", "getmany", 0.5),
        Entrant("aiokafka", "iterate", 0.1),
        Entrant("kafka-python", "", 0.15),
    ],
    "latency": [
        BASELINE,
        Entrant("franz-go", ""),
        Entrant("thalweg", "send"),
        Entrant("thalweg-aio", ""),
        Entrant("aiokafka", ""),
        Entrant("kafka-python", ""),
    ],
    "end_to_end": [
        BASELINE,
        Entrant("franz-go", ""),
        Entrant("thalweg", ""),
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

SPREAD_ENTRANTS = {
    "produce": [
        BASELINE,
        Entrant("thalweg", "send"),
        Entrant("thalweg", "send_many"),
        Entrant("thalweg", "send_arrow"),
    ],
    "consume": [
        BASELINE,
        Entrant("thalweg", "poll"),
        Entrant("thalweg", "iterate"),
        Entrant("thalweg", "poll_arrow"),
        Entrant("franz-go", ""),
    ],
}


# With `--against`, each of these runs with this thalweg and with another one.
AGAINST_ENTRANTS = {
    **ENTRANTS,
    "consume": [
        *ENTRANTS["consume"],
        Entrant("thalweg", "iterate-group"),
        Entrant("thalweg", "iterate-deserializer", 0.5),
        Entrant("thalweg", "iterate-interceptor", 0.5),
    ],
}

# The bare socket has no login, and our program for franz-go has no options for TLS.
WITHOUT = {"SSL": ("franz-go",), "SASL_SSL": ("ceiling", "franz-go")}

# With more partitions, its large batches would reach only a few of them.
CEILING_PARTITIONS_MAX = {"produce": 10, "consume": 1000}


def entrants_of(case: Case, against: str = "") -> list[Entrant]:
    """Returns the entrants of a case.

    Args:
        case: What is measured.
        against: The interpreter of an environment with another thalweg. Then only the two take
            part.
    """
    if against:
        ours = [each for each in AGAINST_ENTRANTS[case.role] if each.client.startswith("thalweg")]
        return [each for one in ours for each in (replace(one, python=against), one)]
    if not case.is_spread:
        return [each for each in ENTRANTS[case.role] if _takes_part(each, case)]
    ceilings = [each for each in ENTRANTS[case.role] if each.client == CEILING.client]
    has_ceiling = case.threads == 1 and case.partitions <= CEILING_PARTITIONS_MAX[case.role]
    return ceilings * has_ceiling + SPREAD_ENTRANTS[case.role]


def _takes_part(entrant: Entrant, case: Case) -> bool:
    return entrant.client not in WITHOUT.get(case.security, ())


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
    Case("consume", 800_000, 1000, "lz4"),
    Case("consume", 800_000, 1000, "zstd", 3),
    Case("latency", 20_000, 100, linger_ms=0),
    Case("end_to_end", 10_000, 100, linger_ms=0, partitions=1),
    Case("start", 1, 100, linger_ms=0),
]

SPREAD_RECORDS_MAX = 1_000_000
# `--whole`: every size and codec by sending threads and partitions. Consumers: by partitions.
WHOLE_SPREAD = [
    replace(
        case,
        records=min(case.records, SPREAD_RECORDS_MAX),
        threads=threads,
        partitions=partitions,
    )
    for case in CASES
    if case.role == "produce"
    for partitions in (1, PARTITIONS, 100, 10_000)
    for threads in (1, 4, 16)
    if (threads, partitions) != (1, PARTITIONS)  # one of CASES
] + [
    replace(case, partitions=partitions, records=case.records // 2)
    for case in CASES
    if case.role == "consume"
    for partitions in (1, 10, 1_000)
]


def _is_plain(case: Case) -> bool:
    return case.size == 100 and case.codec == "none"


# `--spread`: cases with a codec or 1 KB have only the usual number of partitions, plain cases only
# the others.
SPREAD_CASES = [
    case
    for case in WHOLE_SPREAD
    if case.role == "consume" or _is_plain(case) != (case.partitions == PARTITIONS)
]
