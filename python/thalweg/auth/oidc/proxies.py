"""The proxy for a URL, by HTTPS_PROXY, HTTP_PROXY and NO_PROXY as the standard library reads them.

No request to a link-local address goes through a proxy: such addresses belong to the machine, and
their responses are its credentials. Nor does a request without TLS to a loopback address: it
contains the client's secret, which never leaves the machine.
"""

import base64
from typing import NamedTuple
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from thalweg.auth.loopback import is_loopback
from thalweg.auth.oidc.error import Failure

__all__ = ["Proxy", "proxy_of"]


class Proxy(NamedTuple):
    """An HTTP proxy, and the headers that log in at it."""

    address: tuple[str, int]
    headers: dict[str, str]

    def __repr__(self) -> str:
        return f"<Proxy {self.address[0]}:{self.address[1]}>"


def proxy_of(scheme: str, host: str, port: int) -> Proxy | Failure | None:
    """Returns the proxy for requests to a host, or None."""
    is_near = is_loopback(host, link_local=True) and (scheme == "http" or not is_loopback(host))
    url = None if is_near else getproxies().get(scheme)
    if not url or proxy_bypass(f"{host}:{port}"):
        return None
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        found = parts.hostname, parts.port or 80
    except ValueError:
        return Failure(f"the environment variable {scheme.upper()}_PROXY is not a valid URL")
    if parts.scheme != "http" or found[0] is None:
        return Failure(
            f"the environment variable {scheme.upper()}_PROXY is not the URL of an HTTP proxy."
            " It must begin with http://"
        )
    headers = {}
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Proxy-Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    return Proxy((found[0], found[1]), headers)
