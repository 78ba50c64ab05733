"""Bootstrap servers by their canonical names (client_dns_lookup, KIP-235).

    cluster.example:9092 ── all its addresses ── the name of each ──> broker-1.example:9092, ...

For TLS and SASL, which compare names with certificates and principals, behind one alias.
"""

import socket
from collections.abc import Sequence

__all__ = ["canonical"]


def canonical(servers: Sequence[tuple[str, int]]) -> list[tuple[str, int]]:
    """Each server's addresses, by their own names; waits for the name service.

    Args:
        servers: (host, port).

    Returns:
        (name of an address, or the address where it has none; port), each once, in order. A host
        that is not known stays as it is: connecting to it says what is wrong.
    """
    found: dict[tuple[str, int], None] = {}
    for host, port in servers:
        try:
            rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            names = [socket.getnameinfo(row[4], 0)[0] for row in rows]
        except OSError:
            names = [host]
        found.update(dict.fromkeys((name, port) for name in names))
    return list(found)
