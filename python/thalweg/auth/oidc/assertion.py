"""The assertion with which a client proves who it is, instead of a secret (RFC 7521, RFC 7523).

    template ──┐
    claims   ──┴──> header.payload ── private key ──> header.payload.signature
    or a file that has the complete assertion

Every file is read for each assertion, so that keys can be replaced while a client runs.
"""

import base64
import json
import time
import uuid
from dataclasses import dataclass
from typing import Any, Final

from thalweg.auth.oidc.error import Failure
from thalweg.auth.oidc.files import read_text
from thalweg.auth.oidc.settings import AssertionSettings, supplied

__all__ = ["assertion"]

_KEY: Final = "sasl_oauthbearer_assertion_private_key_file"
_PASSPHRASE: Final = "sasl_oauthbearer_assertion_private_key_passphrase"
_FILE: Final = "sasl_oauthbearer_assertion_file"
_TEMPLATE: Final = "sasl_oauthbearer_assertion_template_file"


@dataclass(slots=True)
class _Template:
    header: dict[str, Any]
    payload: dict[str, Any]


def assertion(settings: AssertionSettings) -> str | Failure:
    """Returns an assertion, or why there is none.

    Raises:
        OidcError: If a function that supplies the passphrase fails.
    """
    if settings.file is not None:
        text = read_text(settings.file, _FILE)
        if isinstance(text, str) and not text.strip():
            return Failure(f"{_FILE}: {settings.file} is empty")
        return text if isinstance(text, Failure) else text.strip()
    template = _template(settings)
    if isinstance(template, Failure):
        return template
    header = {"typ": "JWT", **template.header, "alg": settings.algorithm}
    payload = {**template.payload, **_claims(settings)}
    return _signed(header, payload, settings)


def _template(settings: AssertionSettings) -> _Template | Failure:
    if settings.template_file is None:
        return _Template({}, {})
    text = read_text(settings.template_file, _TEMPLATE)
    if isinstance(text, Failure):
        return text
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return Failure(f"{_TEMPLATE}: {settings.template_file} is not a JSON object")
    header, payload = found.get("header", {}), found.get("payload", {})
    if not isinstance(header, dict) or not isinstance(payload, dict):
        return Failure(f"{_TEMPLATE}: header and payload must be JSON objects")
    return _Template(header, payload)


def _claims(settings: AssertionSettings) -> dict[str, Any]:
    """Returns the claims of the options, which are stronger than those of the template."""
    now = int(time.time())
    claims: dict[str, Any] = {
        "iat": now,
        "exp": now + settings.exp_seconds,
        "nbf": now - settings.nbf_seconds,
    }
    if settings.jti_include:
        claims["jti"] = str(uuid.uuid4())
    named = {"aud": settings.aud, "iss": settings.iss, "sub": settings.sub}
    return claims | {name: value for name, value in named.items() if value is not None}


def _signed(
    header: dict[str, Any], payload: dict[str, Any], settings: AssertionSettings
) -> str | Failure:
    from thalweg._core import sign_jwt

    key = settings.private_key
    if key is None:
        return Failure(f"{_KEY} is not set")
    pem = key.reveal() if not isinstance(key, str) else read_text(key, _KEY)
    if isinstance(pem, Failure):
        return pem
    passphrase = None
    if settings.passphrase is not None:
        passphrase = supplied(settings.passphrase, _PASSPHRASE)
    message = f"{_encoded(header)}.{_encoded(payload)}"
    try:
        signature = sign_jwt(settings.algorithm, pem, passphrase, message.encode())
    except ValueError as error:
        hint = f"For an encrypted key, set {_PASSPHRASE} to its passphrase"
        return Failure(f"{_KEY}: {error}. {hint}")
    return f"{message}.{_base64(signature)}"


def _encoded(part: dict[str, Any]) -> str:
    return _base64(json.dumps(part, separators=(",", ":")).encode())


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
