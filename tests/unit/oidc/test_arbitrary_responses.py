"""Any bytes from a token endpoint: a token or a failure, and never another exception."""

from __future__ import annotations

import contextlib
import json
import socket
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from thalweg.auth.oidc import http
from thalweg.auth.oidc.error import Failure
from thalweg.auth.oidc.http import Request, Response, exchange
from thalweg.auth.oidc.response import Kept, failure_of, token_of
from thalweg.auth.token import Token, claims, read

SECRET = "Sentinel-4711"
PIECES = st.sampled_from(
    [
        *(b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 100 Continue\r\n", b"HTTP/1.1 401 No\r\n", b"HTTP/9"),
        *(b"Content-Length: ", b"Transfer-Encoding: chunked\r\n", b"Retry-After: ", b"Location: "),
        *(b"\r\n", b"\r\n\r\n", b"0\r\n", b"ffffffffffffffff\r\n", b"-1", b"7", b"\0", b"\xff"),
        *(b'{"access_token": "a"}', b'{"error": "x"', b"}", b"[" * 2000, b"1e999", b"NaN"),
    ]
)
BODIES = st.one_of(st.binary(max_size=60), st.lists(PIECES, max_size=12).map(b"".join))
JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=9), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    ["access_token", "id_token", "expires_in", "error", "error_description", "sub", "exp"]
)


class Limits:
    connect_timeout_s = 5.0
    read_timeout_s = 5.0


def received(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> Response | Failure:
    """Returns what the client makes of these bytes."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(sent)
        theirs.shutdown(socket.SHUT_WR)
        monkeypatch.setattr(http, "_open", lambda *_: ours)
        request = Request("POST", "http://127.0.0.1:1/token", {"Authorization": SECRET}, b"x=1")
        return exchange(request, Limits(), None)


@settings(
    max_examples=300,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(sent=BODIES)
@example(sent=b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n")
@example(sent=b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n")
def test_a_response_may_be_any_bytes(monkeypatch: pytest.MonkeyPatch, sent: bytes) -> None:
    found = received(monkeypatch, sent)
    if isinstance(found, Response):
        made = token_of(found, "sub") if found.status == 200 else failure_of(found, (SECRET,))
        assert isinstance(made, Kept | Failure)


@given(st.dictionaries(FIELDS, JSON, max_size=5), st.sampled_from([200, 201, 302, 401, 429, 503]))
def test_a_document_may_have_any_fields(document: dict[str, Any], status: int) -> None:
    response = Response(status, "", None, json.dumps(document).encode())
    made = token_of(response, "sub") if status == 200 else failure_of(response, (SECRET,))
    if isinstance(made, Kept):
        assert made.value
        assert made.life_s is None or made.life_s >= 0
    else:
        assert made.text.isprintable()


@given(st.text(max_size=40), st.text(max_size=40), st.text(max_size=20), st.text(max_size=30))
@example("", "", "Sat, 01 Jan 99999 00:00:00 GMT", "http://[::1")
@example("", "", " ", "://")
@example("", "", "1e999", "http://user:Sentinel-4711@idp/x?code=Sentinel-4711")
def test_no_failure_shows_what_was_repeated(
    before: str, after: str, retry_after: str, location: str
) -> None:
    repeated = f"{before}{SECRET}{after}"
    body = json.dumps({"error": repeated, "error_description": repeated}).encode()
    for status in (302, 400, 429):
        failure = failure_of(Response(status, location, retry_after, body), (SECRET,))
        assert SECRET not in failure.text + str(failure.code)
        assert failure.pause_s is None or failure.pause_s >= 0


@given(st.one_of(st.text(max_size=40), JSON.map(json.dumps)))
@example("a..b")
@example("a.W10.b")
@example("." * 1000)
def test_a_token_may_be_any_text(text: str) -> None:
    import base64

    encoded = base64.urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("=")
    for value in (text, f"e30.{encoded}.", f"e30.{text}."):
        assert isinstance(claims(value), dict)
        with contextlib.suppress(ValueError):
            assert isinstance(read(value, "the provider"), Token)


@given(JSON)
def test_a_provider_may_return_anything(returned: Any) -> None:
    for each in (returned, [returned, returned], (returned, returned, returned, returned)):
        with contextlib.suppress(ValueError, TypeError):
            assert isinstance(read(each, "the provider"), Token)
