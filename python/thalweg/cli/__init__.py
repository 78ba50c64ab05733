"""The command `thalweg`.

    thalweg broker    runs an embedded Kafka, for first steps and tests
    thalweg demo      sends, reads and aggregates real data, with Spark if Java is installed
    thalweg topics    lists, describes, creates and deletes topics
    thalweg produce   sends lines of standard input as records
    thalweg consume   prints records as lines

Each command is a module with `add_arguments(parser)` and `run(arguments)`. A module is imported
only when its command runs, so `thalweg --version` loads no client.
"""

import argparse
import contextlib
import importlib
import logging
import os
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from typing import NoReturn, TextIO

from thalweg._version import __version__
from thalweg.cli.options import ClosedStreamError

__all__ = ["main"]

COMMANDS = {
    "broker": "run an embedded Kafka broker until Ctrl-C",
    "demo": "produce, read and aggregate 336,776 real flights",
    "topics": "list, describe, create and delete topics",
    "produce": "send lines of standard input as records",
    "consume": "print records as lines",
}

# Lines on stderr that are compared with the error that ends a command.
_LINES_KEPT = 16


class _Parser(argparse.ArgumentParser):
    """A parser whose errors do not show values, which may be secrets."""

    def error(self, message: str) -> NoReturn:
        super().error(re.sub(r"=.*", "=...", message, flags=re.DOTALL))


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="thalweg",
        description="Kafka for Python: client, Spark data source, embedded broker.",
        epilog="Run `thalweg COMMAND --help` to see the arguments of a command.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"thalweg {__version__}")
    parser.add_argument(
        "-b",
        "--bootstrap",
        metavar="HOST:PORT",
        help="brokers to connect to first; you may also give this option after the command",
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, about in COMMANDS.items():
        commands.add_parser(name, help=about, add_help=False)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs a command.

    Args:
        argv: The arguments without the program's name. None: the arguments of this process.

    Returns:
        The exit status: 0, 1 after an error, 2 for wrong arguments or a closed standard stream, 130
        after Ctrl-C.
    """
    given = list(sys.argv[1:] if argv is None else argv)
    parser = _parser()
    if not given:
        parser.print_help()
        return 2
    rest = _command_at(given) + 1
    head = parser.parse_args(given[:rest])
    command = importlib.import_module(f"thalweg.cli.{head.command}")
    about = COMMANDS[head.command]
    own = _Parser(prog=f"thalweg {head.command}", description=f"{about[0].upper()}{about[1:]}.")
    command.add_arguments(own)
    shown = _Warnings(head.command)
    try:
        with shown.on_stderr():
            status: int = command.run(_own_arguments(own, given[rest:], head.bootstrap))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader of the output, such as `head`, has closed the pipe. Replace standard output, so
        # that the flush at exit does not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    # KafkaError is a RuntimeError.
    except (OSError, RuntimeError, ValueError, OverflowError) as error:
        # If standard error is closed, print() would write to standard output.
        if sys.stderr is not None and not shown.include(error):
            print(f"thalweg {head.command}: {error}", file=sys.stderr)
        return 2 if isinstance(error, ClosedStreamError) else 1
    return status


def _command_at(given: Sequence[str]) -> int:
    """Returns the index of the command, after the options and their values."""
    at = 0
    while at < len(given) and given[at].startswith("-"):
        at += 2 if given[at] in ("-b", "--bootstrap") else 1
    return at


def _own_arguments(
    own: argparse.ArgumentParser, given: Sequence[str], bootstrap: str | None
) -> argparse.Namespace:
    """Parses the arguments of a command.

    `bootstrap` is the value from before the command. A value after the command replaces it.
    """
    found = own.parse_args(given)
    if bootstrap is None:
        return found
    if not hasattr(found, "bootstrap"):
        own.error("this command does not take --bootstrap")
    own.set_defaults(bootstrap=bootstrap)
    return own.parse_args(given)


class _Warnings(logging.StreamHandler[TextIO]):
    """Shows the clients' warnings, for example that no broker has responded yet."""

    def __init__(self, command: str) -> None:
        super().__init__()
        self.setLevel(logging.WARNING)
        self.setFormatter(logging.Formatter(f"thalweg {command}: %(message)s"))
        # A tuple, because the thread of the log may add a line while `include` reads.
        self._lines: tuple[str, ...] = ()

    def format(self, record: logging.LogRecord) -> str:
        line = super().format(record)
        self._lines = (*self._lines[1 - _LINES_KEPT :], line)
        return line

    def include(self, error: Exception) -> bool:
        """Says whether a warning had the text of `error`: a refused login is logged and raised."""
        text = error.args[0] if error.args else None
        return isinstance(text, str) and any(line.endswith(f": {text}") for line in self._lines)

    @contextlib.contextmanager
    def on_stderr(self) -> Iterator[None]:
        """Shows log messages and Python's warnings until the block ends."""

        def show(message: Warning | str, *_: object, **__: object) -> None:
            # Python's own format shows a path and a line of this package.
            self.handle(logging.makeLogRecord({"levelno": logging.WARNING, "msg": str(message)}))

        logger = logging.getLogger("thalweg")
        logger.addHandler(self)
        try:
            with warnings.catch_warnings():
                setattr(warnings, "showwarning", show)  # noqa: B010 (it takes only what it needs)
                yield
        finally:
            logger.removeHandler(self)
