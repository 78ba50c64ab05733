"""Requests to an identity provider: what they contain, when they are repeated, and who shares."""

import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.utils import formatdate

import pytest

from tests.support.identity import Handler, IdentityProvider, document, jwt, raw, status
from tests.support.waiting import wait_until
from tests.unit.oidc.support import SECRET, Clock, answer, lives_for, settings, tokens
from thalweg import Secret
from thalweg.auth import Token
from thalweg.auth.oidc import OidcError, OidcTokens, requests, sharing


@pytest.fixture
def idp() -> Iterator[IdentityProvider]:
    with IdentityProvider() as started:
        yield started


def test_the_client_credentials_grant(idp):
    began = time.time()
    with_scope = tokens(idp.token_url + "?tenant=7", scope="kafka read&write")
    token = with_scope.token()
    (request,) = idp.requests
    assert (request.method, request.path) == ("POST", "/token?tenant=7")
    assert request.basic == f"our-client:{SECRET}"
    assert request.form == {"grant_type": "client_credentials", "scope": "kafka read&write"}
    assert request.headers["content-type"] == "application/x-www-form-urlencoded"
    assert request.headers["accept"] == "application/json"
    assert request.headers["accept-encoding"] == "identity"
    assert token.principal == "alice"
    assert lives_for(3600, token.expires_at, began)


def test_the_header_can_be_url_encoded(idp):
    given = settings(idp.token_url, client_id="a b:c", header_urlencode=True)
    OidcTokens(given, {}).token()
    assert idp.requests[0].basic == "a+b%3Ac:hunter2%2F%2B%26%25"


def test_a_function_supplies_the_secret_of_each_request(idp):
    secrets = iter(["first", Secret("second")])
    provider = tokens(idp.token_url, client_secret=lambda: next(secrets))
    for secret in ("first", "second"):
        provider.token()
        assert idp.requests[-1].basic == f"our-client:{secret}"


@pytest.mark.parametrize(
    "function, words",
    [
        (lambda: 5, "must return a str, not int"),
        (lambda: None, "must return a str, not NoneType"),
        (lambda: int("hunter2"), "raised ValueError"),
        (lambda: "hunter2\udc80", "must be encodable as UTF-8"),
    ],
)
def test_a_function_that_supplies_no_secret_is_named(idp, function, words):
    reason, error = answer(tokens(idp.token_url, client_secret=function))
    assert "sasl_oauthbearer_client_credentials_client_secret" in reason
    assert words in reason
    assert "hunter2" not in reason + repr(error)
    assert not idp.requests


def test_the_broker_gets_the_extensions(idp):
    provider = OidcTokens(settings(idp.token_url), {"traceId": "7"})
    assert provider.token().extensions == {"traceId": "7"}


# ---------------------------------------------------------------- tokens


@pytest.mark.parametrize(
    "body, life_s",
    [
        ({"access_token": "opaque", "expires_in": 60}, 60),
        ({"access_token": "opaque", "expires_in": "60"}, 60),
        ({"access_token": "opaque"}, None),
        ({"access_token": "opaque", "expires_in": "soon"}, None),
        ({"access_token": "opaque", "expires_in": True}, None),
        ({"access_token": "opaque", "expires_in": -5}, 0),
        ({"access_token": "opaque", "expires_in": 1e300}, 315_360_000),
        (b'{"access_token": "opaque", "expires_in": Infinity}', None),
        ({"id_token": "opaque", "expires_in": 60}, 60),
        ({"access_token": "", "id_token": "opaque", "expires_in": 60}, 60),
    ],
)
def test_expires_in_says_how_long_a_token_lives(idp, body, life_s):
    idp.respond(document(body))
    began = time.time()
    token = tokens(idp.token_url).token()
    assert token.value == "opaque"
    if life_s is None:
        assert token.expires_at is None
    else:
        assert lives_for(life_s, token.expires_at, began)


def test_a_jwt_says_it_without_expires_in(idp):
    exp = time.time() + 600
    value = jwt(exp=exp, upn="bob", sub=5)
    idp.respond(document({"access_token": value}))
    token = tokens(idp.token_url, sub_claim="upn").token()
    assert token == Token(value, token.expires_at, "bob", {})
    assert token.expires_at == pytest.approx(exp, abs=5)


def test_a_jump_of_the_wall_clock_changes_no_life(idp, monkeypatch):
    first, second = tokens(idp.token_url), tokens(idp.token_url)
    began = time.time()
    first.token()
    now = time.time
    monkeypatch.setattr(time, "time", lambda: now() + 86_400)
    assert lives_for(3600, second.token().expires_at, began + 86_400)
    assert len(idp.requests) == 1


# ---------------------------------------------------------------- repeated requests


def test_scenario_60_requests_are_repeated_after_failures_that_pass(idp):
    idp.respond(status(429, {"Retry-After": "0.2"}), status(500), status(500))
    began = time.monotonic()
    token = tokens(idp.token_url, retry_max_s=60.0).token()
    assert len(idp.requests) == 4
    assert time.monotonic() - began > 0.2, "the client waits as long as the provider wants"
    assert token.principal == "alice"


@pytest.mark.parametrize("code", [408, 425, 429, 500, 502, 503, 504])
def test_the_limit_of_all_requests_ends_them(idp, code, monkeypatch):
    monkeypatch.setattr(requests, "time", Clock())
    idp.respond(*[status(code)] * 50)
    with pytest.raises(OidcError) as caught:
        tokens(idp.token_url).token()
    assert len(idp.requests) == 4, "the pauses double from 10 ms to 100 ms in total"
    assert f"/token: {code} (after 4 requests in 0.1 s)" in str(caught.value)
    assert caught.value.status == code


@pytest.mark.parametrize("is_date", [False, True])
def test_a_pause_beyond_the_limit_is_reported(idp, is_date):
    after = formatdate(time.time() + 60, usegmt=True) if is_date else "30"
    idp.respond(status(503, {"Retry-After": after}))
    with pytest.raises(OidcError, match=r"503\. The identity provider asks to wait \d\d s"):
        tokens(idp.token_url).token()
    assert len(idp.requests) == 1


def test_a_nonsensical_pause_is_ignored(idp):
    idp.respond(status(503, {"Retry-After": "soon"}), status(503, {"Retry-After": "-5"}))
    tokens(idp.token_url, retry_max_s=60.0).token()
    assert len(idp.requests) == 3


@pytest.mark.parametrize("code", [400, 401, 403, 404, 501])
def test_scenario_60_a_refusal_is_not_repeated_and_is_told_in_the_providers_words(
    idp, code, monkeypatch
):
    monkeypatch.setattr(sharing, "_REFUSED_S", 10 * sharing._REFUSED_S)  # longer than any pause
    idp.respond(status(code, error="invalid_client", text="no such\nclient: " + "x" * 300))
    first, second = tokens(idp.token_url), tokens(idp.token_url)
    reason, error = answer(first)
    expected = f"OIDC: POST {idp.token_url}: {code} invalid_client: no such\\nclient: xxx"
    assert reason.startswith(expected)
    assert reason.endswith("x...")
    assert (error.status, error.error) == (code, "invalid_client")
    assert answer(second)[0] == reason, "for ten seconds, no client asks again"
    assert len(idp.requests) == 1


def test_a_connection_that_breaks_is_tried_again(idp):
    idp.respond(raw(), raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"))
    tokens(idp.token_url, retry_max_s=60.0).token()
    assert len(idp.requests) == 3


def test_an_endpoint_that_is_down_is_named(monkeypatch):
    monkeypatch.setattr(requests, "time", Clock())
    with socket.socket() as taken:  # it does not listen, and no other process gets its port
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/token"
        with pytest.raises(OidcError) as caught:
            tokens(url).token()
    assert f"OIDC: POST {url}: cannot connect: Connection refused (after" in str(caught.value)
    assert caught.value.status is None


# ---------------------------------------------------------------- shared tokens


def test_scenario_60_ten_clients_with_equal_settings_send_one_request(idp, monkeypatch):
    join = sharing.SharedTokens._join
    joined: list[object] = []

    def joins(shared: sharing.SharedTokens, flight: sharing._Flight) -> object:
        joined.append(flight)
        return join(shared, flight)

    def late(handler: Handler) -> None:
        wait_until(lambda: len(joined) == 9, what="the other clients")
        document({"id_token": "t"})(handler)

    monkeypatch.setattr(sharing.SharedTokens, "_join", joins)
    idp.respond(late)
    providers = [tokens(idp.token_url, read_timeout_s=60.0) for _ in range(10)]
    with ThreadPoolExecutor(10) as pool:
        values = {token.value for token in pool.map(OidcTokens.token, providers)}
    assert values == {"t"}
    assert len(idp.requests) == 1


def test_clients_with_other_settings_share_nothing(idp):
    for more in ({}, {"scope": "a"}, {"client_id": "b"}, {"client_secret": Secret("c")}):
        tokens(idp.token_url, **more).token()
    assert len(idp.requests) == 4


def test_a_client_that_asks_again_gets_another_token(idp):
    first, second = tokens(idp.token_url), tokens(idp.token_url)
    old = first.token()
    assert second.token().value == old.value
    new = first.token()
    assert new.value != old.value, "it refreshes, or a broker refused the token"
    assert second.token().value == new.value, "what another client got meanwhile will do"
    assert len(idp.requests) == 2


def test_a_token_near_its_end_is_given_to_nobody_else(idp, monkeypatch):
    tokens_of_first = tokens(idp.token_url)
    tokens_of_first.token()
    now = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: now() + 0.81 * 3600)
    tokens(idp.token_url).token()
    assert len(idp.requests) == 2


def test_a_token_of_unknown_life_is_not_kept(idp):
    idp.respond(document({"access_token": "a"}), document({"access_token": "b"}))
    assert tokens(idp.token_url).token().value == "a"
    assert tokens(idp.token_url).token().value == "b"
