"""Arguments that several commands have."""

import argparse
from collections.abc import Iterable
from typing import Any

__all__ = ["add_client_arguments", "client_config", "pairs"]


def add_client_arguments(parser: argparse.ArgumentParser) -> None:
    """--bootstrap and --config."""
    parser.add_argument(
        "-b",
        "--bootstrap",
        metavar="HOST:PORT",
        default="localhost:9092",
        help="brokers to start from (default: %(default)s)",
    )
    parser.add_argument(
        "-X",
        "--config",
        metavar="NAME=VALUE",
        action="append",
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
    return {"bootstrap.servers": arguments.bootstrap, **pairs(arguments.config, "--config")}
