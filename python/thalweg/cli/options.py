"""Arguments that several commands share."""

import argparse
import string
from collections.abc import Iterable
from typing import Any, BinaryIO, Final, TextIO

__all__ = ["ClosedStreamError", "add_client_arguments", "bytes_of", "client_config", "pairs"]


_BOOTSTRAP: Final = "localhost:9092"
_IN_NAMES: Final = string.ascii_letters + string.digits + "._-"


class ClosedStreamError(ValueError):
    """A standard stream that the command needs is closed, as after `<&-` or `>&-` in a shell."""


def bytes_of(stream: TextIO | None, name: str) -> BinaryIO:
    """Returns the binary stream of a standard stream.

    Args:
        stream: sys.stdin or sys.stdout, which is None if it is closed.
        name: The name of the stream: "input" or "output".

    Raises:
        ClosedStreamError: If the stream is closed.
    """
    if stream is None:
        raise ClosedStreamError(
            f"standard {name} is closed: open it, or redirect it to a file such as /dev/null"
        )
    return stream.buffer


def add_client_arguments(parser: argparse.ArgumentParser, *, of_action: bool = False) -> None:
    """Adds --bootstrap and --config.

    Args:
        parser: The parser of a command, or of one of its actions.
        of_action: True for the parser of an action. The command also accepts these options before
            the action, and an option that is not given after the action keeps that value.
    """
    parser.add_argument(
        "-b",
        "--bootstrap",
        metavar="HOST:PORT",
        default=argparse.SUPPRESS if of_action else _BOOTSTRAP,
        help=f"brokers to connect to first (default: {_BOOTSTRAP})",
    )
    parser.add_argument(
        "-X",
        "--config",
        metavar="NAME=VALUE",
        action="append",
        # With the same dest, the list of the action would replace the list of the command.
        dest="action_config" if of_action else "config",
        default=[],
        help="set a client option, for example -X linger.ms=20; may be repeated",
    )


def pairs(given: Iterable[str], what: str) -> dict[str, str]:
    """Converts NAME=VALUE arguments to {name: value}.

    Raises:
        ValueError: If an argument has no name or no "=".
    """
    found = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise ValueError(_malformed(each, what))
        found[name] = value
    return found


def _malformed(given: str, what: str) -> str:
    # The value may be a password, so the message shows only the name.
    name = given[: len(given) - len(given.lstrip(_IN_NAMES))]
    problem = f"there is no '=' after {name!r}" if name else "there is no name"
    return f"{what} must be NAME=VALUE, but {problem}"


def client_config(arguments: argparse.Namespace) -> dict[str, Any]:
    """Returns the client's options from --bootstrap and --config."""
    given = [*arguments.config, *getattr(arguments, "action_config", ())]
    return {"bootstrap.servers": arguments.bootstrap, **pairs(given, "-X (--config)")}
