"""`thalweg produce` sends lines of standard input as records."""

import argparse
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO, Final

from thalweg.cli.options import add_client_arguments, bytes_of, client_config, pairs

if TYPE_CHECKING:
    from thalweg.producer import FutureRecordMetadata

__all__ = ["add_arguments", "read_records", "run"]

_CALLBACKS_LIMIT_S: Final = 5.0  # reached only if a second Ctrl-C has interrupted close()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options that choose the topic and the form of the records."""
    add_client_arguments(parser)
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "-p",
        "--partition",
        type=int,
        metavar="N",
        help="partition for all records (default: the client chooses, by key if there is one)",
    )
    parser.add_argument(
        "-K",
        "--key-separator",
        metavar="TEXT",
        help="split each line at the first TEXT into key and value",
    )
    parser.add_argument(
        "-H",
        "--header",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="add a header to every record; may be repeated",
    )
    parser.add_argument(
        "-Z", "--null", action="store_true", help="send an empty value as null (only with -K)"
    )


def read_records(
    lines: BinaryIO, separator: bytes | None, null: bool
) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Yields (key, value) of each line, without the line end."""
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

    lines = bytes_of(sys.stdin, "input")
    separator = arguments.key_separator.encode() if arguments.key_separator else None
    headers = [(name, text.encode()) for name, text in pairs(arguments.header, "--header").items()]
    failures = _Failures()
    future: FutureRecordMetadata | None = None
    try:
        with KafkaProducer.from_config(client_config(arguments)) as producer:
            for key, value in read_records(lines, separator, arguments.null):
                future = producer.send(
                    arguments.topic,
                    value,
                    key=key,
                    headers=headers or None,
                    partition=arguments.partition,
                )
                future.add_errback(failures.add)
    finally:
        # Also after Ctrl-C or an error of send(): the close of the producer has sent the rest.
        failures.report(future)
    return 1 if failures.count else 0


class _Failures:
    """Prints the first failed record at once, and at the end the number of failed records."""

    def __init__(self) -> None:
        self.count = 0

    def add(self, error: BaseException) -> None:
        """Counts a failure. The producer's callback thread calls it, for one record at a time."""
        self.count += 1
        if self.count == 1:
            print(f"thalweg produce: a record was not written: {error}", file=sys.stderr)

    def report(self, last: "FutureRecordMetadata | None") -> None:
        """Prints the number of failures; `last` is the future of the last record."""
        if last is not None:
            # Its callback runs after all earlier callbacks.
            are_called = threading.Event()
            last.add_both(lambda _: are_called.set())
            are_called.wait(_CALLBACKS_LIMIT_S)
        if self.count > 1:
            print(
                f"thalweg produce: {self.count} records were not written. The first error is above",
                file=sys.stderr,
            )
