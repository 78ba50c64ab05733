"""Tokens that a real Kafka accepts: without a signature, as its default validator wants them."""

from __future__ import annotations

import base64
import json
import time
from typing import Any

from tests.support.kafka.cluster import RealKafka


def token(subject: str = "alice", life_s: float = 3600, **claims: Any) -> str:
    """Returns a JWT that expires after `life_s` seconds, which may be negative."""
    now = time.time()
    given = {"sub": subject, "iat": now - 3600, "exp": now + life_s, **claims}
    return f"{_part({'alg': 'none'})}.{_part(given)}."


def _part(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).rstrip(b"=").decode()


def oauth_options(
    kafka: RealKafka, provider: Any = None, protocol: str = "SASL_PLAINTEXT"
) -> dict[str, Any]:
    """Returns the options of a client that logs in with the provider's tokens."""
    options = {
        "bootstrap_servers": kafka.bootstrap(protocol),
        "security_protocol": protocol,
        "sasl_mechanism": "OAUTHBEARER",
    }
    if provider is not None:
        options["sasl_oauth_token_provider"] = provider
    if protocol == "SASL_SSL":
        options["ssl_cafile"] = str(kafka.certificates / "ca.pem")
    return options


def provider() -> Provider:
    """Makes a provider. Options give this function by name."""
    return Provider()


class Provider:
    """A provider of kafka-python's shape."""

    def token(self) -> str:
        return token()

    def extensions(self) -> dict[str, str]:
        return {"traceId": "7"}
