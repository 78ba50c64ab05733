"""Finds free loopback ports that stay free while a broker is down.

The kernel gives ports of its ephemeral range (32768 and up on Linux) to outgoing connections. So
when a broker is killed and started again, its port may be taken if it is in that range. The ports
here are below it.
"""

from __future__ import annotations

import os
import random
import socket

_LOWEST, _PER_PROCESS, _PROCESSES_MAX = 20_000, 1_500, 8
# Each of the processes that run tests at the same time (gw0, gw1, ...) has its own ports.
_process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw")) % _PROCESSES_MAX
_ports = range(_LOWEST + _process * _PER_PROCESS, _LOWEST + (_process + 1) * _PER_PROCESS)
_random = random.Random(os.getpid())
_given: set[int] = set()


def free_port() -> int:
    """Returns a port on 127.0.0.1 that is free and that was not returned before."""
    for _ in range(2000):
        port = _random.choice(_ports)
        if port in _given:
            continue
        with socket.socket() as probe:
            # Like brokers: a port whose old connections are in TIME_WAIT counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        return port
    raise RuntimeError(f"no free port from {_ports.start} to {_ports.stop - 1}")
