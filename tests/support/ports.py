"""Free loopback ports that stay free while a broker is down.

The kernel hands out ports from its ephemeral range (32768 and up on Linux) to outgoing
connections, so a broker that is killed and started again may find such a port taken.
These come from below it.
"""

from __future__ import annotations

import os
import random
import socket

_random = random.Random(os.getpid())
_given: set[int] = set()


def free_port() -> int:
    """A port on 127.0.0.1 that nothing listens on and that was not given out before."""
    for _ in range(2000):
        port = _random.randrange(20_000, 32_000)
        if port in _given:
            continue
        with socket.socket() as probe:
            # As brokers do: a port whose old connections wait in TIME_WAIT counts as free.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        _given.add(port)
        return port
    raise RuntimeError("no free port between 20000 and 32000")
