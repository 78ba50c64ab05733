"""Token endpoints with TLS and behind proxies (scenario 62)."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.identity import IdentityProvider
from tests.support.identity.proxy import HttpProxy
from tests.support.identity.tls import certificates, server_context
from tests.support.waiting import wait_until
from tests.unit.oidc.support import tokens
from thalweg import Secret
from thalweg.auth.oidc import OidcError, requests


def ca(name: str = "ca") -> str:
    """Returns the path of an authority's certificate."""
    return str(certificates() / f"{name}.pem")


@pytest.fixture
def idp() -> Iterator[IdentityProvider]:
    with IdentityProvider(server_context()) as started:
        yield started


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


def test_a_private_authority_is_a_file_or_a_text(idp: IdentityProvider) -> None:
    text = Secret(Path(ca()).read_text())
    for more in ({"ca_location": ca()}, {"ca_pem": text}):
        assert tokens(idp.token_url, **more).token().principal == "alice"


@pytest.mark.parametrize(
    "name, authority, words",
    [
        ("server", "other-ca", "is not trusted: "),
        ("server", None, "is not trusted: "),
        ("expired", "ca", "is not trusted: certificate has expired"),
        ("wrong-host", "ca", "is not trusted: IP address mismatch"),
    ],
    ids=["another authority", "the system's", "expired", "another host"],
)
def test_a_certificate_that_is_not_trusted_costs_no_secret(
    name: str, authority: str | None, words: str
) -> None:
    """Scenario 62."""
    with IdentityProvider(server_context(name)) as idp:
        with pytest.raises(OidcError, match=words) as caught:
            tokens(idp.token_url, ca_location=authority and ca(authority)).token()
        assert not idp.requests
    assert "https_ca_location" in str(caught.value)
    assert "(after" not in str(caught.value), "it is not tried again"


def test_the_files_are_read_for_each_request(idp: IdentityProvider, tmp_path) -> None:
    place = tmp_path / "ca.pem"
    place.write_text("nothing")
    provider = tokens(idp.token_url, ca_location=str(place))
    with pytest.raises(OidcError, match="https_ca_location cannot be used"):
        provider.token()
    place.write_bytes(Path(ca()).read_bytes())
    assert provider.token().principal == "alice"


@pytest.mark.parametrize("location", [None, "probe"])
def test_the_systems_authorities_are_found(idp: IdentityProvider, location, monkeypatch) -> None:
    """Also if the OpenSSL of this Python looks for them in a folder that does not exist."""
    monkeypatch.setenv("SSL_CERT_FILE", ca())
    assert tokens(idp.token_url, ca_location=location).token().principal == "alice"
    monkeypatch.setenv("SSL_CERT_FILE", "/none")
    monkeypatch.setenv("SSL_CERT_DIR", "/none")
    monkeypatch.setattr(requests, "_BUNDLES", ("/none", ca()))
    other = tokens(idp.token_url, ca_location=location, scope="other")
    assert other.token().principal == "alice"


def test_a_server_without_tls_is_named() -> None:
    with IdentityProvider() as idp:
        url = idp.token_url.replace("http:", "https:")
        with pytest.raises(OidcError, match=r"cannot connect: "):
            tokens(url, ca_location=ca()).token()
        assert not idp.requests


def test_a_handshake_that_hangs_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"https://127.0.0.1:{server.getsockname()[1]}/token"
        given = {"ca_location": ca(), "connect_timeout_s": 0.3, "retry_max_s": 0.0}
        with pytest.raises(OidcError, match=r"cannot connect within 0\.3 s"):
            tokens(url, **given).token()


def test_no_file_gets_the_keys_of_tls(idp: IdentityProvider, tmp_path, monkeypatch) -> None:
    log = tmp_path / "keys"
    monkeypatch.setenv("SSLKEYLOGFILE", str(log))
    tokens(idp.token_url, ca_location=ca()).token()
    assert not log.exists()


# ---------------------------------------------------------------- proxies


@pytest.fixture
def proxy() -> Iterator[HttpProxy]:
    with HttpProxy() as started:
        yield started


def test_https_goes_through_a_tunnel(idp: IdentityProvider, proxy: HttpProxy, monkeypatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://us%40er:pass@127.0.0.1:{proxy.port}")
    assert tokens(idp.token_url, ca_location=ca()).token().principal == "alice"
    assert proxy.requests == [f"CONNECT 127.0.0.1:{idp.port}"]
    assert proxy.logins == ["us@er:pass"]


def test_http_goes_through_the_proxy_but_not_to_this_machine(proxy: HttpProxy, monkeypatch) -> None:
    """Without TLS, the proxy could read the client's secret."""
    monkeypatch.setenv("http_proxy", f"127.0.0.1:{proxy.port}")
    elsewhere = "http://idp.invalid:8080/token"
    with suppress(OidcError):
        tokens(elsewhere, read_timeout_s=0.5, retry_max_s=0.0).token()
    wait_until(lambda: proxy.requests, what="the request to the proxy")
    assert proxy.requests[0] == f"POST {elsewhere}"
    proxy.requests.clear()
    with IdentityProvider() as idp:
        assert tokens(idp.token_url).token().principal == "alice"
    assert not proxy.requests


def test_no_proxy_names_exceptions(idp: IdentityProvider, proxy: HttpProxy, monkeypatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
    monkeypatch.setenv("NO_PROXY", "example.com,127.0.0.1")
    tokens(idp.token_url, ca_location=ca()).token()
    assert not proxy.requests


def test_link_local_addresses_have_no_proxy(proxy: HttpProxy, monkeypatch) -> None:
    """They belong to the machine. No machine of the tests has one, so the connection fails."""
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{proxy.port}")
    given = {"connect_timeout_s": 0.2, "retry_max_s": 0.0}
    with pytest.raises(OidcError):
        tokens("http://169.254.169.254:9/token", **given).token()
    assert not proxy.requests


def test_a_proxy_that_refuses_is_named(idp: IdentityProvider, proxy: HttpProxy, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", f"http://me:hunter3@127.0.0.1:{proxy.port}")
    proxy.status = 407
    words = f"the proxy 127.0.0.1:{proxy.port} refused the connection with status 407"
    with pytest.raises(OidcError, match=words) as caught:
        tokens(idp.token_url, ca_location=ca()).token()
    assert "hunter3" not in str(caught.value)


@pytest.mark.parametrize("url", ["socks5://h:1", "https://h:1", "http://", "http://h:x"])
def test_a_proxy_of_another_kind_is_refused(idp: IdentityProvider, url: str, monkeypatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", url)
    with pytest.raises(OidcError, match="the environment variable HTTPS_PROXY is not"):
        tokens(idp.token_url, ca_location=ca()).token()


def test_a_proxy_that_says_nothing_times_out(idp: IdentityProvider, monkeypatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{silent.getsockname()[1]}")
        given = {"ca_location": ca(), "connect_timeout_s": 0.3, "retry_max_s": 0.0}
        with pytest.raises(OidcError, match=r"cannot connect to the proxy .* within 0\.3 s"):
            tokens(idp.token_url, **given).token()
