"""Builds the request for a token: which grant, and how the client authenticates.

client ID and secret ──> Authorization: Basic ..., grant_type=client_credentials
"""

import base64
from typing import Any
from urllib.parse import quote_plus, urlencode

from thalweg.auth.oidc.error import OidcError
from thalweg.auth.oidc.http import Request
from thalweg.auth.oidc.settings import Settings

__all__ = ["token_request"]


def token_request(settings: Settings) -> tuple[Request, tuple[str, ...]]:
    """Returns a request, and what of it no message may contain.

    Raises:
        OidcError: If a function that supplies the secret raises, or does not return a str.
    """
    secret = _client_secret(settings)
    form = {"grant_type": "client_credentials"}
    if settings.scope:
        form["scope"] = settings.scope
    pair = [settings.client_id or "", secret]
    if settings.header_urlencode:
        pair = [quote_plus(each) for each in pair]
    basic = base64.b64encode(":".join(pair).encode()).decode()
    headers = {
        "Accept": "application/json",
        "Authorization": f"Basic {basic}",
        "Content-Type": "application/x-www-form-urlencoded",
    }
    request = Request("POST", settings.url, headers, urlencode(form).encode("ascii"))
    return request, (secret, quote_plus(secret), basic)


def _client_secret(settings: Settings) -> str:
    given = settings.client_secret
    name = "sasl_oauthbearer_client_credentials_client_secret"
    text: Any
    try:
        text = given() if callable(given) else given
    except Exception as error:
        # Without its text, which may contain the secret.
        raise OidcError(f"the function in {name} raised {type(error).__name__}") from error
    if hasattr(text, "reveal"):
        text = text.reveal()
    if not isinstance(text, str):
        raise OidcError(f"the function in {name} must return a str, not {type(text).__name__}")
    return text
