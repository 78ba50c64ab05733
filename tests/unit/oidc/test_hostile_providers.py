"""Identity providers that misbehave: each ends in an error that names it, and none costs a secret.

Scenario 18: redirects, endless bodies, compressed bodies, bodies that are not JSON.
"""

import base64
import contextlib
import socket
import threading
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote_plus

import pytest

from tests.support.identity import IdentityProvider, document, endless, raw, status
from tests.unit.oidc.support import SECRET, answer, tokens
from thalweg.auth.oidc import OidcError

HEAD = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture
def idp() -> Iterator[IdentityProvider]:
    with IdentityProvider() as started:
        yield started


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirect_is_refused(idp, code):
    target = f"{idp.token_url}/elsewhere?code=hunter3"
    idp.respond(status(code, {"Location": target}))
    with pytest.raises(OidcError, match=f": {code} redirects to http.*/elsewhere. The client"):
        tokens(idp.token_url).token()
    assert len(idp.requests) == 1


@pytest.mark.parametrize(
    "location, words",
    [
        ("", "another address"),
        ("/elsewhere", "another address"),
        ("http://[", "an address that is not valid"),
        ("http://" + "x" * 5000, r"xxx\.\.\."),
    ],
)
def test_a_redirect_to_nonsense_is_refused_too(idp, location, words):
    idp.respond(status(302, {"Location": location}))
    with pytest.raises(OidcError, match=f": 302 redirects to .*{words}. The client"):
        tokens(idp.token_url).token()


@pytest.mark.parametrize("code", [201, 202, 206])
def test_another_success_is_refused_without_its_body(idp, code):
    idp.respond(document({"access_token": "marker", "error": "marker"}, code))
    with pytest.raises(OidcError, match=f"/token: status {code} instead of 200$") as caught:
        tokens(idp.token_url).token()
    assert "marker" not in str(caught.value)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"eyJ.marker.x",
        b'"eyJ.marker.x"',
        b'["eyJ.marker.x"]',
        b'{"access_token": "eyJ.marker.x',
        b'{"access_token": 5, "marker": 1}',
        b'{"token": "marker"}',
        '{"access_token": "marker\u00e9"}'.encode(),
        b"\xff\xfe{marker",
        b"[" * 200_000,
        b'{"expires_in": ' + b"9" * 5000 + b', "access_token": null}',
    ],
)
def test_a_success_without_a_token_shows_nothing_of_its_body(idp, body):
    idp.respond(document(body))
    with pytest.raises(OidcError, match=r"/token: status 200, but the ") as caught:
        tokens(idp.token_url).token()
    assert "marker" not in str(caught.value)


@pytest.mark.parametrize(
    "response",
    [
        HEAD + b"Content-Length: 10485760\r\n\r\n",
        HEAD + b"Content-Length: 2147483647\r\n\r\n{",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n7fffffff\r\n",
        HEAD + b"\r\n",
        HEAD + b"X: ",
        b"HTTP/1.1 ",
    ],
    ids=["10 MiB", "2 GiB", "a chunk of 2 GiB", "until the end", "a header", "a status line"],
)
def test_an_endless_response_ends_at_the_limit(idp, response):
    idp.respond(endless(response, b"x" * 65536))
    tracemalloc.start()
    try:
        with pytest.raises(OidcError, match=r"larger than 1048576 bytes|not valid HTTP"):
            tokens(idp.token_url, retry_max_s=0.0).token()
        assert tracemalloc.get_traced_memory()[1] < 6 << 20
    finally:
        tracemalloc.stop()


def test_headers_without_end_are_refused(idp):
    idp.respond(endless(HEAD, b"A: b\r\n"))
    with pytest.raises(OidcError, match="not valid HTTP"):
        tokens(idp.token_url, retry_max_s=0.0).token()


def test_the_response_of_a_proxy_is_limited(monkeypatch):
    def respond() -> None:
        client, _ = listening.accept()
        with client, contextlib.suppress(OSError):
            client.sendall(b"HTTP/1.1 200 OK\r\n")
            while True:
                client.sendall(b"A: " + b"b" * 60_000 + b"\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(60)
        thread = threading.Thread(target=respond, daemon=True)
        thread.start()
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{listening.getsockname()[1]}")
        with pytest.raises(OidcError, match="its response is too large"):
            tokens("https://idp.example/token", retry_max_s=0.0).token()
        thread.join(10)


@pytest.mark.parametrize("first", [b"", HEAD, HEAD + b"Content-Length: 100\r\n\r\n"])
def test_one_byte_at_a_time_does_not_get_around_the_limit(idp, first):
    idp.respond(endless(first, b"x", every_s=0.1))
    began = time.monotonic()
    with pytest.raises(OidcError, match=r"did not arrive within 0\.5 s"):
        tokens(idp.token_url, read_timeout_s=0.5, retry_max_s=0.0).token()
    assert time.monotonic() - began < 30, "the limit is for all bytes together"


def test_an_endpoint_that_says_nothing_times_out(idp):
    end = threading.Event()
    idp.respond(raw(end=end))
    with pytest.raises(OidcError, match=r"did not arrive within 0\.5 s .*read_timeout_ms"):
        tokens(idp.token_url, read_timeout_s=0.5, retry_max_s=0.0).token()
    end.set()


def test_a_compressed_response_is_refused(idp):
    idp.respond(document(b"\x1f\x8b", headers={"Content-Encoding": "gzip"}))
    with pytest.raises(OidcError, match="compressed"):
        tokens(idp.token_url).token()


@pytest.mark.parametrize("response", [b"\x16\x03\x01\x00", b"SSH-2.0-x\r\n", b"HTTP/9\r\n\r\n"])
def test_other_protocols_are_named(idp, response):
    idp.respond(raw(response))
    with pytest.raises(OidcError, match="not valid HTTP") as caught:
        tokens(idp.token_url, retry_max_s=0.0).token()
    assert "SSH" not in str(caught.value)


@pytest.mark.parametrize("kind", ["error", "description", "Location"])
def test_what_a_provider_repeats_of_the_request_is_hidden(idp, kind):
    basic = base64.b64encode(f"our-client:{SECRET}".encode()).decode()
    for secret in (SECRET, quote_plus(SECRET), basic):
        told: dict[str, Any] = {"error": "x"}
        headers = {}
        if kind == "Location":
            headers["Location"] = f"http://h/{secret}"
        else:
            told["error" if kind == "error" else "text"] = f"got {secret}"
        idp.respond(status(302 if headers else 401, headers, **told))
        more = {"scope": secret}  # settings of their own: others are refused for ten seconds
        reason, error = answer(tokens(idp.token_url, **more))
        for text in (reason, str(error), repr(error)):
            assert secret not in text
        assert "<hidden>" in reason


def test_no_frame_of_an_error_has_a_secret(idp):
    """Not the frames of the standard library either: they have the request."""
    sentinel = base64.b64encode(f"our-client:{SECRET}".encode()).decode()
    token = "eyJ.marker.x"
    idp.respond(
        status(401),
        document({"access": token}),
        raw(HEAD + b"\r\n" + token.encode() * 3),
        raw(),
        raw(b"junk " + token.encode()),
        endless(HEAD, b"A: " + token.encode() + b"\r\n"),
        endless(HEAD + b"\r\n", token.encode() * 9999),
    )
    for number in range(7):
        _, error = answer(tokens(idp.token_url, retry_max_s=0.0, scope=str(number)))
        assert isinstance(error, OidcError)
        assert error.__cause__ is None
        assert error.__context__ is None
        found = [repr(error), str(error)]
        entry = error.__traceback__
        while entry is not None:
            found.append(repr(entry.tb_frame.f_locals))
            entry = entry.tb_next
        for text in found:
            assert SECRET not in text
            assert sentinel not in text
            assert token not in text
    assert len(idp.requests) == 7
