"""`thalweg broker` runs an embedded Kafka until Ctrl-C or SIGTERM."""

import argparse
import signal
import sys
import threading
from typing import Any

from thalweg.cli.options import pairs

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds --host, --port, --nodes and --config."""
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


def run(arguments: argparse.Namespace) -> int:
    """Runs the broker until a signal arrives."""
    from thalweg.broker import EmbeddedBroker

    stop = threading.Event()

    def on_signal(number: int, frame: Any) -> None:
        stop.set()

    broker = EmbeddedBroker(
        arguments.nodes,
        arguments.port,
        arguments.host,
        configs=pairs(arguments.config, "--config"),
    )
    try:
        broker.start()
    except OSError as error:
        print(f"thalweg broker: {error.strerror or error}", file=sys.stderr)
        return 1
    with broker:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, on_signal)
        print(f"Kafka is ready: bootstrap_servers={broker.bootstrap_servers}", flush=True)
        stop.wait()
    return 0
