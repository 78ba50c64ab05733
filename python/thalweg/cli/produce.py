"""`thalweg produce`: lines of standard input as records."""

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

from thalweg.cli.options import add_client_arguments, client_config, pairs

__all__ = ["add_arguments", "read_records", "run"]

_AT_ONCE = 10_000  # futures looked at together


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to send, and where to."""
    add_client_arguments(parser)
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "-p", "--partition", type=int, metavar="N", help="default: by key, else the client chooses"
    )
    parser.add_argument(
        "-K", "--key-separator", metavar="TEXT", help="each line is a key, this text, a value"
    )
    parser.add_argument(
        "-H",
        "--header",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="a header of every record; may be repeated",
    )
    parser.add_argument(
        "-Z", "--null", action="store_true", help="an empty value is a null (with -K)"
    )


def read_records(
    lines: BinaryIO, separator: bytes | None, null: bool
) -> Iterator[tuple[bytes | None, bytes | None]]:
    """(key, value) of each line, without its end."""
    for line in lines:
        key: bytes | None = None
        value: bytes | None = line.rstrip(b"\r\n")
        if separator is not None and value is not None:
            first, found, rest = value.partition(separator)
            if found:
                key, value = first, rest
        if null and not value and key is not None:
            value = None
        yield key, value


def run(arguments: argparse.Namespace) -> int:
    """Sends until the input ends; returns 1 if a record was not written."""
    from thalweg.producer import KafkaProducer

    separator = arguments.key_separator.encode() if arguments.key_separator else None
    headers = [(name, text.encode()) for name, text in pairs(arguments.header, "--header").items()]
    failed = 0
    with KafkaProducer.from_config(client_config(arguments)) as producer:
        waiting = []
        for key, value in read_records(sys.stdin.buffer, separator, arguments.null):
            waiting.append(
                producer.send(
                    arguments.topic,
                    value,
                    key=key,
                    headers=headers or None,
                    partition=arguments.partition,
                )
            )
            if len(waiting) == _AT_ONCE:
                failed += _failures(producer, waiting)
                waiting = []
        failed += _failures(producer, waiting)
    return 1 if failed else 0


def _failures(producer: Any, futures: Sequence[Any]) -> int:
    """Waits for the futures; prints the first error and counts all."""
    producer.flush()
    errors = [each.exception for each in futures if each.failed()]
    if errors:
        print(f"{len(errors)} records were not written: {errors[0]}", file=sys.stderr)
    return len(errors)
