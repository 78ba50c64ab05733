"""Replaces bootstrap servers by their canonical names (client_dns_lookup, KIP-235).

    cluster.example:9092 ── all its addresses ── the name of each ──> broker-1.example:9092, ...

TLS and SASL need it if one alias stands for several brokers: they compare the broker's name with a
certificate or principal.
"""

import socket
from collections.abc import Sequence

__all__ = ["canonical"]


def canonical(servers: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Returns the names of all addresses of the servers. It waits for the name service.

    Args:
        servers: Pairs of (host, port).

    Returns:
        Pairs of (name, port) in order, without duplicates. An address without a name stays an
        address. An unknown host stays as it is: the attempt to connect then reports the error.
    """
    found: dict[tuple[str, int], None] = {}
    for host, port in servers:
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            names = [socket.getnameinfo(row[4], 0)[0] for row in rows]
        except (OSError, UnicodeError):  # UnicodeError: an empty label, as in "a..b"
            names = [host]
        found.update(dict.fromkeys((name, port) for name in names))
    return list(found)
