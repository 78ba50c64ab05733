"""The command `thalweg`.

    thalweg broker    an embedded Kafka, for starting and for tests
    thalweg demo      the main job on real data, with Spark where there is Java
    thalweg topics    list, describe, create and delete topics
    thalweg produce   lines of standard input as records
    thalweg consume   records as lines

Each command is a module with `add_arguments(parser)` and `run(arguments)`; it is imported when it
is used, so `thalweg --version` loads no client.
"""

import argparse
import importlib
import sys
from collections.abc import Sequence

from thalweg._version import __version__

__all__ = ["main"]

COMMANDS = {
    "broker": "run an embedded Kafka broker until Ctrl-C",
    "demo": "produce, read and aggregate 336,776 real flights",
    "topics": "list, describe, create and delete topics",
    "produce": "send lines of standard input as records",
    "consume": "print records as lines",
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="thalweg",
        description="Kafka for Python: client, Spark data source, embedded broker.",
        epilog="`thalweg COMMAND --help` tells what a command takes.",
    )
    parser.add_argument("--version", action="version", version=f"thalweg {__version__}")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, about in COMMANDS.items():
        commands.add_parser(name, help=about, add_help=False)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command.

    Args:
        argv: The arguments without the program's name; None: those of this process.

    Returns:
        The exit status: 0, 1 after an error, 2 for wrong arguments, 130 after Ctrl-C.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    parser = _parser()
    if not given:
        parser.print_help()
        return 2
    head = parser.parse_args(given[:1])
    command = importlib.import_module(f"thalweg.cli.{head.command}")
    own = argparse.ArgumentParser(
        prog=f"thalweg {head.command}", description=COMMANDS[head.command].capitalize() + "."
    )
    command.add_arguments(own)
    try:
        status: int = command.run(own.parse_args(given[1:]))
    except KeyboardInterrupt:
        return 130
    except (OSError, RuntimeError, ValueError) as error:  # KafkaError is a RuntimeError
        print(f"thalweg {head.command}: {error}", file=sys.stderr)
        return 1
    return status
