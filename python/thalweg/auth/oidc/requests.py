"""Gets one token: sends the request, and repeats it while that can help.

    fetch() ──> request ──> exchange ──> 200: Kept
                   ^                └──> 503, no connection: pause, again until the limit
                   └──────── pause ─────┘

The pauses double, and `sasl_login_retry_backoff_max_ms` limits all of them together, as in Kafka.
"""

import ssl
import time
from os.path import exists, isdir
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit
from urllib.request import url2pathname

from thalweg.auth.oidc.error import Failure
from thalweg.auth.oidc.files import read_text
from thalweg.auth.oidc.grant import token_request
from thalweg.auth.oidc.http import exchange, named
from thalweg.auth.oidc.response import Kept, failure_of, kept, token_of
from thalweg.auth.oidc.settings import Settings

if TYPE_CHECKING:
    from thalweg.auth.sts import StsSettings

__all__ = ["fetch"]

# librdkafka's word for the system's authorities.
PROBE: Final = "probe"
# Where systems keep their authorities.
_BUNDLES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
    "/usr/local/etc/openssl/cert.pem",
)
_URL: Final = "sasl_oauthbearer_token_endpoint_url"


def fetch(settings: Settings) -> Kept | Failure:
    """Returns a new token, or why there is none.

    Raises:
        OidcError: If a function that supplies a secret fails.
    """
    began = time.monotonic()
    until = began + settings.retry_max_s
    tries, backoff_s = 1, settings.retry_backoff_s
    while True:
        got = _once(settings)
        if isinstance(got, Kept):
            return got
        pause_s = max(backoff_s, got.pause_s or 0.0)
        if not got.retriable or time.monotonic() + pause_s > until:
            return _described(got, settings, tries, time.monotonic() - began)
        time.sleep(pause_s)
        tries, backoff_s = tries + 1, 2 * backoff_s


def _once(settings: Settings) -> Kept | Failure:
    if settings.sts is not None:
        return _from_aws(settings, settings.sts)
    if urlsplit(settings.url).scheme == "file":
        return _from_file(settings)
    is_https = urlsplit(settings.url).scheme == "https"
    context = tls_context(settings) if is_https else None
    if isinstance(context, Failure):
        return context
    built = token_request(settings)
    if isinstance(built, Failure):
        return built
    request, secrets = built
    response = exchange(request, settings, context)
    if isinstance(response, Failure):
        return response
    if response.status == 200:
        return token_of(response, settings.sub_claim)
    failure = failure_of(response, secrets)
    # Azure responds with these codes while its service is updated.
    failure.retriable |= settings.azure and response.status in (404, 410)
    return failure


def _from_aws(settings: Settings, sts: "StsSettings") -> Kept | Failure:
    from thalweg.auth.aws import reason
    from thalweg.auth.sts import web_identity

    try:
        value, life_s = web_identity(sts, settings.read_timeout_s)
    except Exception as error:
        failure = reason(error)
    else:
        return kept(value, life_s, settings.sub_claim)
    return Failure(failure)


def _from_file(settings: Settings) -> Kept | Failure:
    """Reads the token from a file, which another program replaces before the token expires."""
    text = read_text(url2pathname(urlsplit(settings.url).path), _URL)
    if isinstance(text, Failure):
        return text
    value = text.strip()
    if not value or not value.isascii():
        return Failure(f"{_URL}: the file contains no token")
    return kept(value, None, settings.sub_claim)


def _described(failure: Failure, settings: Settings, tries: int, took_s: float) -> Failure:
    has_endpoint = settings.sts is None and urlsplit(settings.url).scheme != "file"
    method = "GET" if settings.azure else "POST"
    doing = f" {method} {named(settings.url)}:" if has_endpoint else ""
    failure.text = f"OIDC:{doing} {failure.text}"
    if tries > 1:
        failure.text += f" (after {tries} requests in {took_s:.1f} s)"
    if failure.pause_s is not None:
        failure.text += f". The identity provider asks to wait {failure.pause_s:.0f} s"
    return failure


def tls_context(settings: Settings) -> ssl.SSLContext | Failure:
    """Returns the TLS settings for https. The files are read each time, because they may change."""
    # Not create_default_context, which writes TLS keys to the file in SSLKEYLOGFILE.
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    location, pem = settings.ca_location, settings.ca_pem
    if location in (None, PROBE) and pem is None:
        return _with_systems_authorities(context)
    try:
        if location is not None:
            folder = location if isdir(location) else None
            context.load_verify_locations(None if folder else location, folder)
        if pem is not None:
            context.load_verify_locations(cadata=pem.reveal())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it has no certificate in PEM format"
        name = "https_ca_location" if location is not None else "https_ca_pem"
        return Failure(f"{name} cannot be used: {reason}")
    return context


def _with_systems_authorities(context: ssl.SSLContext) -> ssl.SSLContext:
    """Adds the system's authorities, also for a Python whose OpenSSL looks in the wrong place."""
    context.load_default_certs(ssl.Purpose.SERVER_AUTH)
    # The authorities of a folder are loaded when they are needed, so they are not counted.
    known = ssl.get_default_verify_paths().capath
    if not known and context.cert_store_stats()["x509_ca"] == 0:
        place = next(filter(exists, _BUNDLES), None)
        if place is not None:
            context.load_verify_locations(place)
    return context
