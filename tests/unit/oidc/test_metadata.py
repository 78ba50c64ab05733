"""Tokens that a cloud gives to its machines: Azure's service."""

import re
from collections.abc import Iterator

import pytest

from tests.support.identity import IdentityProvider, document, jwt, status
from tests.unit.oidc.support import tokens
from thalweg.auth.oidc import OidcError

QUERY = "api-version=2025-04-07&resource=api://app"


@pytest.fixture
def idp() -> Iterator[IdentityProvider]:
    with IdentityProvider() as started:
        yield started


def test_azure_is_asked_with_its_header_and_no_credentials(idp):
    body = {"access_token": jwt(sub="vm"), "expires_in": "86399", "token_type": "Bearer"}
    idp.respond(document(body))
    token = tokens(f"{idp.token_url}?{QUERY}", azure=True, client_secret=None).token()
    (request,) = idp.requests
    assert (request.method, request.path) == ("GET", f"/token?{QUERY}")
    assert request.headers["metadata"] == "true"
    assert "authorization" not in request.headers
    assert not request.form
    assert token.principal == "vm"


@pytest.mark.parametrize("code", [404, 410, 429, 500])
def test_azure_is_asked_again_while_its_service_starts(idp, code):
    idp.respond(status(code), status(code))
    found = tokens(idp.token_url, azure=True, retry_max_s=60.0).token()
    assert found.principal == "alice"
    assert len(idp.requests) == 3


def test_a_refusal_of_azure_has_its_words(idp):
    idp.respond(status(400, error="invalid_request", text="Identity not found"))
    url = idp.token_url
    expected = re.escape(f"OIDC: GET {url}: 400 invalid_request: Identity not found")
    with pytest.raises(OidcError, match=expected):
        tokens(f"{url}?client_id=1", azure=True).token()
