"""Builds the request for a token: which grant, and how the client authenticates.

client ID and secret ──> Authorization: Basic ..., grant_type=client_credentials
assertion            ──> client_assertion=...,     grant_type=client_credentials   (private_key_jwt)
assertion            ──> assertion=...,            grant_type=...jwt-bearer
Azure's machines     ──> GET with the header Metadata
"""

import base64
from typing import Final
from urllib.parse import quote_plus, urlencode

from thalweg.auth.oidc.assertion import assertion
from thalweg.auth.oidc.error import Failure
from thalweg.auth.oidc.http import Request
from thalweg.auth.oidc.settings import Settings, supplied

__all__ = ["token_request"]

_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_ASSERTION_TYPE: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_SECRET: Final = "sasl_oauthbearer_client_credentials_client_secret"  # the name of an option


def token_request(settings: Settings) -> tuple[Request, tuple[str, ...]] | Failure:
    """Returns a request, and what of it no message may contain.

    Raises:
        OidcError: If a function that supplies a secret fails.
    """
    if settings.azure:
        # The header proves that no redirect or form led here.
        headers = {"Accept": "application/json", "Metadata": "true"}
        return Request("GET", settings.url, headers, None), ()
    form: dict[str, str] = {}
    headers = {
        "Accept": "application/json",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    if settings.assertion is None:
        secret = supplied(settings.client_secret, _SECRET)
        form["grant_type"] = "client_credentials"
        basic = _basic(settings, secret)
        headers["Authorization"] = f"Basic {basic}"
        hidden: tuple[str, ...] = (secret, quote_plus(secret), basic)
    else:
        made = assertion(settings.assertion)
        if isinstance(made, Failure):
            return made
        form = _with_assertion(settings, made)
        hidden = made, made.rpartition(".")[2]
    if settings.scope:
        form["scope"] = settings.scope
    return Request("POST", settings.url, headers, urlencode(form).encode("ascii")), hidden


def _basic(settings: Settings, secret: str) -> str:
    pair = [settings.client_id or "", secret]
    if settings.header_urlencode:
        pair = [quote_plus(each) for each in pair]
    return base64.b64encode(":".join(pair).encode()).decode()


def _with_assertion(settings: Settings, made: str) -> dict[str, str]:
    if settings.jwt_bearer:
        return {"grant_type": _JWT_BEARER, "assertion": made}
    form = {
        "grant_type": "client_credentials",
        "client_assertion_type": _ASSERTION_TYPE,
        "client_assertion": made,
    }
    if settings.client_id:
        form["client_id"] = settings.client_id
    return form
