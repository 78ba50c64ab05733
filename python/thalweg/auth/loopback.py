"""Whether a host is this machine, in which case the network cannot read what it gets."""

__all__ = ["is_loopback"]


def is_loopback(host: str, *, link_local: bool = False) -> bool:
    """Whether a host name or an address is a loopback one.

    Args:
        host: A name, or an address without brackets.
        link_local: Whether link-local addresses count, too. Cloud machines have services there.
    """
    from ipaddress import ip_address

    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or (link_local and address.is_link_local)
