"""Generates python/thalweg/errors/_broker.py: one class for each error code of Kafka's protocol.

    crates/protocol/src/generated/errors.rs ──> python/thalweg/errors/_broker.py

Run it without arguments after a change of the protocol's table. With `--check` it only says whether
the file is up to date. tests/unit/test_errors.py runs that check. A class has kafka-python's name,
or, if there is none, Kafka's code in CamelCase followed by `Error`.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TABLE = ROOT / "crates/protocol/src/generated/errors.rs"
TARGET = ROOT / "python/thalweg/errors/_broker.py"

# Written by hand in errors/_base.py.
BY_HAND = {-1: "UnknownError", 0: "NoError"}

# kafka-python's names that are not the code in CamelCase.
NAMES = {
    "CORRUPT_MESSAGE": "CorruptRecordError",
    "INVALID_FETCH_SIZE": "InvalidFetchRequestError",
    "INVALID_CONFIG": "InvalidConfigurationError",
    "INVALID_REPLICA_ASSIGNMENT": "InvalidReplicationAssignmentError",
    "INVALID_TOPIC_EXCEPTION": "InvalidTopicError",
    "MESSAGE_TOO_LARGE": "MessageSizeTooLargeError",
    "NOT_LEADER_OR_FOLLOWER": "NotLeaderForPartitionError",
}

# Aliases: other names in kafka-python, and Kafka's new name where kafka-python kept an old one.
ALIASES = {
    "CorruptRecordException": "CorruptRecordError",
    "NotLeaderOrFollowerError": "NotLeaderForPartitionError",
    "UnknownServerError": "UnknownError",
}

# What these errors mean for a transactional producer. The base classes are in errors/_base.py.
TRANSACTIONS = {
    "PRODUCER_FENCED": "FatalTransactionError",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED": "FatalTransactionError",
    "TRANSACTION_ABORTABLE": "AbortableTransactionError",
}

# Builtin errors that users expect when the client itself finds the same problem.
BUILTINS = {"INVALID_TOPIC_EXCEPTION": "ValueError"}

# Fields that the client fills in: class -> (field, annotation, default, meaning).
FIELDS = {
    "OffsetOutOfRangeError": [
        ("offsets", "Mapping[Any, int] | None", "None", "{TopicPartition: the requested offset}."),
    ],
    "CorruptRecordError": [
        ("topic_partition", "tuple[str, int] | None", "None", "The partition of the batch."),
        ("offset", "int | None", "None", "The batch's base offset. The position stays."),
    ],
    "SaslAuthenticationFailedError": [
        ("by_client", "bool", "False", "Whether the client refused the broker, or had no token."),
    ],
}


@dataclass(frozen=True)
class Row:
    """One error of the protocol's table."""

    code: int
    name: str
    families: frozenset[str]
    message: str

    @property
    def class_name(self) -> str:
        """The name of the class in Python."""
        if self.code in BY_HAND:
            return BY_HAND[self.code]
        camel = "".join(word.capitalize() for word in self.name.split("_"))
        return NAMES.get(self.name, camel if camel.endswith("Error") else camel + "Error")

    @property
    def bases(self) -> str:
        """The base classes, most specific first."""
        root = (
            "AuthorizationError" if "AUTHORIZATION_FAILED" in self.name else "BrokerResponseError"
        )
        if self.name in TRANSACTIONS:
            return f"{TRANSACTIONS[self.name]}, {root}"
        if "InvalidMetadata" in self.families:
            return f"InvalidMetadataError, {root}"
        if "Retriable" in self.families:
            return f"RetriableError, {root}"
        if self.name in BUILTINS:
            return f"{root}, {BUILTINS[self.name]}"
        return root


def read_table(path: Path = TABLE) -> list[Row]:
    """Reads the rows from the generated Rust table."""
    pattern = re.compile(
        r"code:\s*(-?\d+),\s*name:\s*\"(\w+)\",\s*exception:\s*\"\w*\",\s*"
        r"families:\s*&\[([^\]]*)\],\s*message:\s*\"((?:[^\"\\]|\\.)*)\"",
        re.DOTALL,
    )
    rows = [
        Row(
            int(code),
            name,
            frozenset(part.strip().removeprefix("Family::") for part in families.split(",")) - {""},
            re.sub(r"\\\n\s*", "", message).replace('\\"', '"').replace("\\'", "'").strip(),
        )
        for code, name, families, message in pattern.findall(path.read_text())
    ]
    if not rows:
        raise SystemExit(f"no rows found in {path}")
    return rows


def wrap(prefix: str, text: str) -> list[str]:
    """Returns the lines of a string constant, with at most 100 columns each."""
    line = f"{prefix}{text!r}".replace("'", '"') if "'" not in text and '"' not in text else ""
    if line and len(line) <= 100:
        return [line]
    words, parts, current = text.split(" "), [], ""
    for word in words:
        if len(current) + len(word) > 80:
            parts.append(current)
            current = ""
        current += word + " "
    parts.append(current.rstrip())
    quoted = [part.replace("\\", "\\\\").replace('"', '\\"') for part in parts]
    if len(quoted) == 1:
        return [f'{prefix}"{quoted[0]}"']
    return [f"{prefix}(", *(f'        "{part}"' for part in quoted), "    )"]


def fields_of(name: str) -> list[str]:
    """Returns the lines of the constructor of a class that has fields."""
    fields = FIELDS.get(name, [])
    if not fields:
        return []
    signature = ", ".join(f"{field}: {kind} = {default}" for field, kind, default, _ in fields)
    lines = [
        "",
        "    def __init__(",
        f"        self, *args: object, {signature}",
        "    ) -> None:",
        '        """Takes the message and what the client knows."""',
        "        super().__init__(*args)",
    ]
    return lines + [f"        self.{field} = {field}" for field, *_ in fields]


def render(rows: list[Row]) -> str:
    """Returns the text of the file."""
    made = [row for row in rows if row.code not in BY_HAND]
    exported = sorted([row.class_name for row in made] + list(ALIASES))
    lines = [
        '"""Errors of Kafka\'s protocol. Generated by tools/generate_errors.py: do not edit."""',
        "",
        "# fmt: off",
        "# ruff: noqa: E501",
        "",
        "from collections.abc import Mapping",
        "from typing import Any",
        "",
        "from thalweg.errors._base import (",
        "    AbortableTransactionError,",
        "    AuthorizationError,",
        "    BrokerResponseError,",
        "    FatalTransactionError,",
        "    InvalidMetadataError,",
        "    NoError,",
        "    RetriableError,",
        "    UnknownError,",
        ")",
        "",
        "__all__ = [",
        *(f'    "{name}",' for name in exported),
        "]",
    ]
    for row in made:
        lines += ["", "", f"class {row.class_name}({row.bases}):"]
        summary = row.message.partition(". ")[0].removesuffix(".")
        lines += [f'    """{summary}.', "", f"    Code {row.code}, {row.name}."]
        fields = FIELDS.get(row.class_name)
        if fields:
            lines += ["", "    Attributes:"]
            lines += [f"        {field}: {text}" for field, _, _, text in fields]
        lines += ['    """']
        lines += ["", f"    errno = {row.code}", f'    message = "{row.name}"']
        lines += wrap("    description = ", row.message)
        lines += fields_of(row.class_name)
    lines += ["", ""]
    lines += [f"{alias} = {name}" for alias, name in sorted(ALIASES.items())]
    lines += ["", "kafka_errors: dict[int, type[BrokerResponseError]] = {"]
    lines += [f"    {row.code}: {row.class_name}," for row in rows]
    lines += ["}", ""]
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Writes the file, or checks it with `--check`."""
    text = render(read_table())
    if "--check" in arguments:
        if TARGET.read_text() == text:
            return 0
        print(f"{TARGET.relative_to(ROOT)} is out of date: run tools/generate_errors.py")
        return 1
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
