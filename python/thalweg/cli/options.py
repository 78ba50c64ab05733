"""Arguments that several commands have."""

import argparse
from collections.abc import Iterable
from typing import Any, Final

__all__ = ["add_client_arguments", "client_config", "pairs"]


_BOOTSTRAP: Final = "localhost:9092"


def add_client_arguments(parser: argparse.ArgumentParser, *, of_action: bool = False) -> None:
    """--bootstrap and --config.

    Args:
        parser: Of a command, or of one of its actions.
        of_action: The command's own parser takes them too, in front of the action: what is not
            given here leaves it as it is.
    """
    parser.add_argument(
        "-b",
        "--bootstrap",
        metavar="HOST:PORT",
        default=argparse.SUPPRESS if of_action else _BOOTSTRAP,
        help=f"brokers to start from (default: {_BOOTSTRAP})",
    )
    parser.add_argument(
        "-X",
        "--config",
        metavar="NAME=VALUE",
        action="append",
        # An action's list would replace the command's.
        dest="action_config" if of_action else "config",
        default=[],
        help="an option of the client, as -X linger.ms=20; may be repeated",
    )


def pairs(given: Iterable[str], what: str) -> dict[str, str]:
    """{name: value} of NAME=VALUE arguments.

    Raises:
        ValueError: If one has no "=".
    """
    found = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals or not name:
            raise ValueError(f"{what} must be NAME=VALUE, not {each!r}")
        found[name] = value
    return found


def client_config(arguments: argparse.Namespace) -> dict[str, Any]:
    """A client's options out of --bootstrap and --config."""
    given = [*arguments.config, *getattr(arguments, "action_config", ())]
    return {"bootstrap.servers": arguments.bootstrap, **pairs(given, "--config")}
