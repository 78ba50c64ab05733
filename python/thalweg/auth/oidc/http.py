"""One HTTP exchange with limits on its time and its size, and without redirects.

    Request ──> connect (proxy, TLS) ──> send ──> receive ──> Response or Failure

The limits apply to the exchange as a whole, so an endpoint that sends a byte per second does not
get around them. Nothing here raises what the network does: a traceback would contain the request.
"""

import io
import socket
import ssl
from http.client import HTTPConnection, HTTPException, HTTPResponse
from time import monotonic
from typing import Final, NamedTuple, Protocol, cast
from urllib.parse import urlsplit

from thalweg.auth.oidc.error import Failure
from thalweg.auth.oidc.proxies import Proxy, proxy_of

__all__ = ["Limits", "Request", "Response", "exchange", "named"]

BODY_MAX: Final = 1024 * 1024
# Status line and headers, and the frames of a body in chunks.
_HEAD_MAX: Final = 128 * 1024
_PORTS: Final = {"http": 80, "https": 443}


class Request(NamedTuple):
    """A request, whose headers and body may contain secrets."""

    method: str
    url: str
    headers: dict[str, str]
    body: bytes | None

    def __repr__(self) -> str:
        return f"<Request {self.method} {named(self.url)}>"


class Response(NamedTuple):
    """A response. The body of a success contains the token."""

    status: int
    location: str
    retry_after: str | None
    body: bytes

    def __repr__(self) -> str:
        return f"<Response {self.status}>"


class Limits(Protocol):
    """The settings that an exchange depends on: `Settings`."""

    @property
    def connect_timeout_s(self) -> float:
        """The limit on the setup of a connection, with TLS."""
        ...

    @property
    def read_timeout_s(self) -> float:
        """The limit on one request and its response."""
        ...


def named(url: str) -> str:
    """Returns a URL for messages: without its query, which may contain secrets."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{parts.path}"


def exchange(
    request: Request, limits: Limits, context: ssl.SSLContext | None
) -> Response | Failure:
    """Sends a request and returns the response, whatever its status.

    Args:
        request: The request.
        limits: The timeouts.
        context: The authorities for https, or None for http.
    """
    parts = urlsplit(request.url)
    address = parts.hostname or "", parts.port or _PORTS[parts.scheme]
    proxy = proxy_of(parts.scheme, *address)
    if isinstance(proxy, Failure):
        return proxy
    opened = _open(address, limits.connect_timeout_s, proxy, context)
    if isinstance(opened, Failure):
        return opened
    try:
        with opened:
            return _converse(request, opened, limits.read_timeout_s, proxy)
    except _TooLarge:
        return Failure(f"the response is larger than {BODY_MAX} bytes, so it is not a token")
    except TimeoutError:
        return Failure(
            f"the response did not arrive within {limits.read_timeout_s:g} s"
            " (sasl_login_read_timeout_ms)",
            retriable=True,
        )
    except HTTPException as error:
        # Its text may quote what the endpoint sent, which may be a token.
        kind = type(error).__name__
        return Failure(f"the response is not valid HTTP ({kind})", retriable=True)
    except (OSError, ValueError) as error:
        return Failure(f"the connection failed: {_words(error)}", retriable=True)


def _open(
    address: tuple[str, int],
    timeout_s: float,
    proxy: Proxy | None,
    context: ssl.SSLContext | None,
) -> socket.socket | Failure:
    """Connects, through a proxy if there is one, and does the TLS handshake."""
    until = monotonic() + timeout_s
    where = proxy.address if proxy is not None else address
    over = f" to the proxy {where[0]}:{where[1]}" if proxy is not None else ""
    connected = None
    try:
        connected = _connect(where, until)
        if context is None:
            return connected
        if proxy is not None:
            refusal = _tunnel(connected, address, proxy, until)
            if refusal is not None:
                connected.close()
                return refusal
        connected.settimeout(_left(until))
        return context.wrap_socket(connected, server_hostname=address[0])
    except ssl.SSLCertVerificationError as error:
        text = (
            f"the certificate is not trusted: {error.verify_message}. Check the host name, and set"
            " https_ca_location to the authorities that signed it"
        )
        failure = Failure(text)
    except TimeoutError:
        failure = Failure(
            f"cannot connect{over} within {timeout_s:g} s (sasl_login_connect_timeout_ms)",
            retriable=True,
        )
    except _TooLarge:
        failure = Failure(f"cannot connect{over}: its response is too large")
    except (OSError, ValueError, HTTPException) as error:
        failure = Failure(f"cannot connect{over}: {_words(error)}", retriable=True)
    if connected is not None:
        connected.close()
    return failure


def _connect(address: tuple[str, int], until: float) -> socket.socket:
    last: OSError | None = None
    for family, kind, protocol, _, place in socket.getaddrinfo(*address, type=socket.SOCK_STREAM):
        opened = socket.socket(family, kind, protocol)
        try:
            opened.settimeout(_left(until))
            opened.connect(place)
        except OSError as error:
            opened.close()
            last = error
        else:
            return opened
    raise last or OSError("the host has no address")


def _tunnel(
    opened: socket.socket, address: tuple[str, int], proxy: Proxy, until: float
) -> Failure | None:
    """Asks a proxy for a connection. Returns why it refuses."""
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    lines = [f"CONNECT {host}:{address[1]} HTTP/1.1", f"Host: {host}:{address[1]}"]
    lines += [f"{name}: {value}" for name, value in proxy.headers.items()]
    wire = _Timed(opened, until)
    wire.sendall(("\r\n".join(lines) + "\r\n\r\n").encode("ascii"))
    response = HTTPResponse(cast("socket.socket", wire), method="CONNECT")
    response.begin()
    if response.status != 200:
        return Failure(
            f"the proxy {proxy.address[0]}:{proxy.address[1]} refused the connection with status"
            f" {response.status}. Check its address, user name and password in HTTPS_PROXY"
        )
    return None


def _converse(
    request: Request, opened: socket.socket, timeout_s: float, proxy: Proxy | None
) -> Response | Failure:
    parts = urlsplit(request.url)
    connection = HTTPConnection(parts.hostname or "", parts.port)
    wire = _Timed(opened, monotonic() + timeout_s)
    connection.sock = cast("socket.socket", wire)
    headers = {**request.headers, "Host": parts.netloc, "Connection": "close"}
    target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    if proxy is not None and parts.scheme == "http":
        headers |= proxy.headers
        target = f"http://{parts.netloc}{target}"
    connection.request(request.method, target, request.body, headers)
    response = connection.getresponse()
    if response.headers.get("Content-Encoding", "identity").lower() != "identity":
        return Failure(
            "the response is compressed, which the client does not accept. Switch compression off"
            " at the token endpoint or the proxy"
        )
    if response.length is not None and response.length > BODY_MAX:
        raise _TooLarge
    body = response.read(BODY_MAX + 1)
    if len(body) > BODY_MAX:
        raise _TooLarge
    if response.length:
        return Failure("the connection was closed within the response", retriable=True)
    return Response(
        response.status,
        response.headers.get("Location", ""),
        response.headers.get("Retry-After"),
        body,
    )


class _TooLarge(Exception):
    """The endpoint sends more bytes than a response may have."""


class _Timed:
    """What http.client needs of a socket. The response has one time limit, and one size limit."""

    def __init__(self, opened: socket.socket, until: float) -> None:
        self._opened, self._until = opened, until

    def sendall(self, data: bytes) -> None:
        """Sends all bytes within the time that is left."""
        self._opened.settimeout(_left(self._until))
        self._opened.sendall(data)

    def makefile(self, mode: str) -> io.BufferedReader:
        """Returns the incoming bytes."""
        return io.BufferedReader(_Incoming(self._opened, self._until))

    def close(self) -> None:
        """Does nothing: `exchange` closes the socket."""


class _Incoming(io.RawIOBase):
    """The incoming bytes of a socket."""

    def __init__(self, opened: socket.socket, until: float) -> None:
        self._opened, self._until = opened, until
        self._bytes_left = BODY_MAX + _HEAD_MAX

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        self._opened.settimeout(_left(self._until))
        count = self._opened.recv_into(buffer)
        self._bytes_left -= count
        if self._bytes_left < 0:
            raise _TooLarge
        return count


def _left(until: float) -> float:
    left = until - monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _words(error: Exception) -> str:
    """Returns the system's words of an error, which contain nothing of the request."""
    if isinstance(error, ssl.SSLError):
        return str(error.reason or "TLS failed")
    if isinstance(error, OSError):
        return str(error.strerror or error)
    return type(error).__name__
