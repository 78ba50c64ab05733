"""Nothing that a client shows contains a secret: scenarios 101 and 102."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.secrets.logins import CLIENTS, LOGINS, Login, opened, start, use_all_clients
from tests.support.canary import SENTINEL, Outputs, captured
from tests.support.identity import IdentityProvider, status
from thalweg.errors import KafkaError

EVERYTHING = {
    "client",
    "configuration",
    "error",
    "interceptor",
    "log",
    "metrics",
    "printed",
    "reporter",
    "statistics",
    "thread",
}


@pytest.fixture(scope="module")
def idp() -> Iterator[IdentityProvider]:
    with IdentityProvider() as running:
        running.claims = {"sub": "alice", "note": SENTINEL}
        yield running


@pytest.fixture(params=LOGINS)
def login(request: pytest.FixtureRequest, tmp_path: Path, idp: IdentityProvider) -> Login:
    return LOGINS[request.param](tmp_path, idp)


def test_clients_that_log_in_show_no_secret(
    login: Login, capfd: pytest.CaptureFixture[str]
) -> None:
    with Outputs() as outputs, opened(login) as (broker, options):
        secrets = [*login.secrets, *keys_in(options)]
        use_all_clients(options, outputs)
        outputs.add("client", broker, vars(broker))
    shown = capfd.readouterr()
    outputs.add("printed", captured(shown.out + shown.err))
    assert not outputs.found(*secrets)
    assert outputs.kinds >= EVERYTHING


def test_clients_that_are_refused_show_no_secret(
    login: Login, idp: IdentityProvider, capfd: pytest.CaptureFixture[str]
) -> None:
    repeats = f"the secret Wr0ng/{SENTINEL} is wrong"  # as a careless provider does
    idp.respond(*[status(401, error="invalid_client", text=repeats)] * 1000)
    with Outputs() as outputs, opened(login) as (_, options):
        secrets = [*login.secrets, *keys_in(options)]
        for client in CLIENTS:
            with pytest.raises(KafkaError) as caught:
                start(client, options | login.wrong)
            outputs.of_error(caught.value)
            outputs.of_threads()
    idp.forget_responses()
    shown = capfd.readouterr()
    outputs.add("printed", captured(shown.out + shown.err))
    assert not outputs.found(*secrets)
    assert outputs.kinds >= {"error", "log", "printed", "thread"}


def keys_in(options: dict[str, object]) -> list[str]:
    """Returns the lines of the private key in the options."""
    lines = str(options.get("ssl_keyfile", "")).splitlines()
    return [line for line in lines if len(line) > 20 and not line.startswith("-----")]


def test_the_search_finds_a_secret_in_every_form() -> None:
    """Otherwise the tests above would show nothing."""
    import base64
    import logging

    data = SENTINEL.encode()
    for text in (
        f"x{SENTINEL}x",
        base64.b64encode(b"\0alice\0" + data).decode(),
        base64.urlsafe_b64encode(b'{"note":"' + data + b'"}').decode(),
        (b"x" + data).hex(),
        repr([1, *data]),
    ):
        with Outputs() as outputs:
            logging.getLogger("thalweg.network").debug("sent %s", text)
        assert outputs.found(SENTINEL), text
