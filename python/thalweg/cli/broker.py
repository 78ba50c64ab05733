"""`thalweg broker` runs an embedded Kafka until Ctrl-C or SIGTERM."""

import argparse
import signal
import sys
import threading
from typing import Any

from thalweg.cli.options import pairs

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the broker."""
    parser.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: %(default)s)"
    )
    parser.add_argument(
        "--port",
        type=int,
        default=9092,
        help="port of the first node; each further node uses the next port; 0 picks free ports"
        " (default: %(default)s)",
    )
    parser.add_argument(
        "--nodes", type=int, default=1, help="number of brokers (default: %(default)s)"
    )
    parser.add_argument(
        "--config",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="set a broker option, for example num.partitions=3; may be repeated",
    )
    parser.add_argument(
        "--security-protocol",
        choices=["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"],
        default="PLAINTEXT",
        help="how clients connect (default: %(default)s)",
    )
    parser.add_argument(
        "--sasl-mechanism",
        metavar="NAME",
        action="append",
        help="how clients may log in; may be repeated (default: PLAIN and SCRAM)",
    )
    parser.add_argument(
        "--users", metavar="FILE", help="file with the users, one per line, as name:password"
    )
    parser.add_argument(
        "--super-user",
        metavar="NAME",
        action="append",
        default=[],
        help="require ACLs for all users except this one; may be repeated",
    )
    parser.add_argument("--ssl-certfile", metavar="FILE", help="certificate of the broker, as PEM")
    parser.add_argument("--ssl-keyfile", metavar="FILE", help="key of the certificate, as PEM")
    parser.add_argument(
        "--ssl-cafile", metavar="FILE", help="authorities of client certificates, as PEM"
    )
    parser.add_argument(
        "--write-ca",
        metavar="FILE",
        help="write the certificate of the broker's own authority to this file, for clients",
    )


def _users(path: str) -> dict[str, str]:
    """Reads users from a file, so that passwords are not in the list of processes."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = file.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8 text"
        raise ValueError(f"--users cannot read {path}: {reason}") from None
    users = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("#"):
            continue
        name, separator, password = line.partition(":")
        if not (name and separator and password):
            raise ValueError(f"--users: line {number} of {path} is not name:password")
        users[name] = password
    return users


def _check_users(arguments: argparse.Namespace) -> None:
    """Checks that users can log in. A token of OAUTHBEARER needs no user in the file."""
    has_sasl = arguments.security_protocol.startswith("SASL_")
    if (
        has_sasl
        and arguments.users is None
        and "OAUTHBEARER" not in (arguments.sasl_mechanism or ())
    ):
        raise ValueError(
            f"--security-protocol {arguments.security_protocol} needs --users FILE, because"
            " no client could log in without users"
        )


def _write_ca(path: str, pem: str | None) -> None:
    if pem is None:
        raise ValueError(
            "--write-ca needs --security-protocol SSL or SASL_SSL, without --ssl-certfile"
        )
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(pem)
    except OSError as error:
        raise ValueError(f"--write-ca cannot write {path}: {error.strerror}") from None


def run(arguments: argparse.Namespace) -> int:
    """Runs the broker until a signal arrives."""
    from thalweg.broker import EmbeddedBroker

    _check_users(arguments)
    stop = threading.Event()

    def on_signal(number: int, frame: Any) -> None:
        stop.set()

    broker = EmbeddedBroker(
        arguments.nodes,
        arguments.port,
        arguments.host,
        configs=pairs(arguments.config, "--config"),
        security_protocol=arguments.security_protocol,
        sasl_mechanisms=arguments.sasl_mechanism,
        users=None if arguments.users is None else _users(arguments.users),
        ssl_certfile=arguments.ssl_certfile,
        ssl_keyfile=arguments.ssl_keyfile,
        ssl_cafile=arguments.ssl_cafile,
        authorizer=bool(arguments.super_user),
        super_users=arguments.super_user,
    )
    try:
        broker.start()
    except OSError as error:
        print(f"thalweg broker: {error.strerror or error}", file=sys.stderr)
        return 1
    with broker:
        if arguments.write_ca is not None:
            _write_ca(arguments.write_ca, broker.ca_pem)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, on_signal)
        print(f"Kafka is ready: bootstrap_servers={broker.bootstrap_servers}", flush=True)
        stop.wait()
    return 0
