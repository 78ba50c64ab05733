"""`thalweg consume` prints records as lines."""

import argparse
import base64
import json
import sys
from typing import Any, BinaryIO

from thalweg.cli.options import add_client_arguments, bytes_of, client_config

__all__ = ["add_arguments", "as_json", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options that choose the records and their format."""
    add_client_arguments(parser)
    parser.add_argument("topic", metavar="TOPIC")
    parser.add_argument(
        "-p",
        "--partition",
        type=int,
        metavar="N",
        action="append",
        help="read only this partition; may be repeated (default: all partitions)",
    )
    parser.add_argument(
        "-o",
        "--offset",
        type=_offset,
        help="where to start: earliest, latest, an offset, or -N for the last N records of each"
        " partition (default: the group's committed offset if you set group.id, otherwise"
        " auto.offset.reset, which is latest)",
    )
    parser.add_argument("-c", "--count", type=int, metavar="N", help="stop after N records")
    parser.add_argument("-e", "--exit", action="store_true", help="stop at the end of the topic")
    parser.add_argument(
        "-K", "--key-separator", metavar="TEXT", help="print the key and TEXT before the value"
    )
    parser.add_argument(
        "-J",
        "--json",
        action="store_true",
        help='print each record as a JSON object; bytes that are not UTF-8 as {"base64": "..."}',
    )


def _offset(text: str) -> str | int:
    name = {"beginning": "earliest", "end": "latest"}.get(text, text)
    if name in ("earliest", "latest"):
        return name
    try:
        return int(text)
    except ValueError:
        expected = f"expected earliest, latest, an offset or -N, not {text!r}"
        raise argparse.ArgumentTypeError(expected) from None


def as_json(record: Any) -> str:
    """Returns a record as one line of JSON. Bytes that are not UTF-8 become {"base64": "..."}."""

    def text(data: bytes | None) -> str | dict[str, str] | None:
        if data is None:
            return None
        try:
            return data.decode()
        except UnicodeDecodeError:
            return {"base64": base64.b64encode(data).decode()}

    return json.dumps(
        {
            "topic": record.topic,
            "partition": record.partition,
            "offset": record.offset,
            "timestamp": record.timestamp,
            "key": text(record.key),
            "value": text(record.value),
            "headers": [[name, text(value)] for name, value in record.headers],
        }
    )


def run(arguments: argparse.Namespace) -> int:
    """Prints records until Ctrl-C, the count, or the end of the topic."""
    from thalweg.consumer import KafkaConsumer
    from thalweg.structs import TopicPartition

    output = bytes_of(sys.stdout, "output")
    with KafkaConsumer.from_config(client_config(arguments)) as consumer:
        known = consumer.partitions_for_topic(arguments.topic)
        if not known:
            print(f"thalweg consume: there is no topic {arguments.topic!r}", file=sys.stderr)
            return 1
        if missing := set(arguments.partition or ()) - known:
            has = f"partitions 0 to {max(known)}" if len(known) > 1 else "only partition 0"
            numbers = ", ".join(map(str, sorted(missing)))
            print(
                f"thalweg consume: topic {arguments.topic!r} has no partition {numbers}:"
                f" it has {has}",
                file=sys.stderr,
            )
            return 1
        chosen = [TopicPartition(arguments.topic, each) for each in arguments.partition or known]
        consumer.assign(chosen)
        _seek(consumer, chosen, arguments.offset)
        ends = consumer.end_offsets(chosen) if arguments.exit else {}
        _print(consumer, arguments, ends, output)
    return 0


def _seek(consumer: Any, chosen: list[Any], offset: str | int | None) -> None:
    if offset == "earliest":
        consumer.seek_to_beginning()
    elif offset == "latest":
        consumer.seek_to_end()
    elif isinstance(offset, int):
        ends = consumer.end_offsets(chosen) if offset < 0 else {}
        starts = consumer.beginning_offsets(chosen) if offset < 0 else {}
        for each in chosen:
            wanted = offset if offset >= 0 else max(starts[each], ends[each] + offset)
            consumer.seek(each, wanted)


def _print(
    consumer: Any, arguments: argparse.Namespace, ends: dict[Any, int], output: BinaryIO
) -> None:
    left = arguments.count
    write = output.write
    separator = arguments.key_separator.encode() if arguments.key_separator else None
    while left is None or left > 0:
        if ends and all(consumer.position(each) >= end for each, end in ends.items()):
            break
        for records in consumer.poll(timeout_ms=1000, max_records=left).values():
            for record in records:
                if arguments.json:
                    write(as_json(record).encode() + b"\n")
                    continue
                if separator is not None:
                    write((record.key or b"") + separator)
                write((record.value or b"") + b"\n")
            left = None if left is None else left - len(records)
        output.flush()
