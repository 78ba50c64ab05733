"""A real Kafka 4.3 that accepts the tokens of an identity provider, and no others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tests.support import java
from tests.support.identity import IdentityProvider
from tests.support.kafka.cluster import RealKafka

ISSUER, AUDIENCE = "https://idp.test", "kafka"
_VALIDATOR = "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler"


@contextmanager
def verifying_kafka(provider: IdentityProvider) -> Iterator[RealKafka]:
    """Starts a node whose SASL listeners verify signatures by the provider's keys (JWKS)."""
    options = {
        "sasl.server.callback.handler.class": _VALIDATOR,
        "sasl.oauthbearer.jwks.endpoint.url": provider.jwks_url,
        "sasl.oauthbearer.expected.audience": AUDIENCE,
        "sasl.oauthbearer.expected.issuer": ISSUER,
    }
    configs = {
        f"listener.name.{listener}.oauthbearer.{name}": value
        for listener in ("sasl_plaintext", "sasl_ssl")
        for name, value in options.items()
    }
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={provider.jwks_url}"
    jvm = [*java.quick_start("4.3"), allowed]
    with RealKafka("4.3", secure=True, configs=configs, jvm_options=jvm, heap="512m") as started:
        yield started
