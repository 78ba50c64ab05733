"""An embedded broker that verifies the signatures of tokens, as a real Kafka does (JWKS)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.connections.test_oidc_jwks import REFUSED
from tests.integration.support.clients import within
from tests.support.identity import IdentityProvider
from tests.support.identity.broker import AUDIENCE, ISSUER
from tests.support.identity.keys import EC, RSA, EcKey, RsaKey, jwks
from thalweg import EmbeddedBroker, KafkaAdminClient, KafkaProducer
from thalweg.auth import Token
from thalweg.errors import (
    IllegalStateError,
    KafkaConfigurationError,
    SaslAuthenticationFailedError,
)

KEYS = jwks(RSA, EC)
EXPECTED = {
    "sasl.oauthbearer.expected.audience": f"third,{AUDIENCE}",
    "sasl.oauthbearer.expected.issuer": ISSUER,
}


def verifying(keys: Any, **options: Any) -> EmbeddedBroker:
    return EmbeddedBroker(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanisms=["OAUTHBEARER"],
        jwks=keys,
        configs=EXPECTED,
        **options,
    )


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with verifying(KEYS) as running:
        yield running


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider() as started:
        yield started


@pytest.fixture
def idp(provider: IdentityProvider) -> IdentityProvider:
    """The provider as it is at first."""
    provider.key, provider.life_s = RSA, 3600.0
    provider.claims = {"sub": "svc-orders", "iss": ISSUER, "aud": AUDIENCE}
    return provider


def options(broker: EmbeddedBroker, token: str) -> dict[str, Any]:
    # The client must not notice by itself that it has expired.
    given = Token(token, time.time() + 60)
    return broker.client_config() | {"sasl_oauth_token_provider": lambda _: given}


@pytest.mark.parametrize("key", [RSA, EC], ids=["RS256", "ES256"])
def test_tokens_of_the_provider_log_in(
    broker: EmbeddedBroker, idp: IdentityProvider, key: RsaKey | EcKey
) -> None:
    idp.key = key
    with KafkaProducer(
        **broker.client_config(),
        sasl_oauthbearer_token_endpoint_url=idp.token_url,
        sasl_oauthbearer_client_credentials_client_id=f"client-{time.monotonic_ns()}",
        sasl_oauthbearer_client_credentials_client_secret="hunter2",
    ) as producer:
        assert producer.send("jwks", b"value").get(30).offset >= 0
    KafkaAdminClient(**options(broker, idp.token())).close()


@pytest.mark.parametrize("case", REFUSED)
def test_what_a_real_kafka_refuses_is_refused(
    broker: EmbeddedBroker, idp: IdentityProvider, case: str
) -> None:
    token = REFUSED[case](idp)
    with within(20), pytest.raises(SaslAuthenticationFailedError, match="invalid_token") as caught:
        KafkaAdminClient(**options(broker, token))
    assert token not in str(caught.value)


def test_the_session_ends_with_the_token(broker: EmbeddedBroker, idp: IdentityProvider) -> None:
    with EmbeddedBroker(
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanisms=["OAUTHBEARER"],
        jwks=KEYS,
        configs={"sasl.oauthbearer.clock.skew.seconds": "0"},
    ) as strict:
        assert strict.client_config()["sasl_mechanism"] == "OAUTHBEARER"
        KafkaAdminClient(**options(strict, idp.token(aud=None, iss=None))).close()
        with pytest.raises(SaslAuthenticationFailedError):
            KafkaAdminClient(**options(strict, idp.token(exp=time.time() - 1)))


def test_keys_are_read_from_files_and_checked(tmp_path: Path, idp: IdentityProvider) -> None:
    file = tmp_path / "jwks.json"
    file.write_text(json.dumps(KEYS))
    for given in (file, str(file), f"file:{file}", json.dumps(KEYS)):
        with verifying(given) as broker:
            KafkaAdminClient(**options(broker, idp.token())).close()
    with pytest.raises(ValueError, match=r"jwks .*missing"):
        verifying(tmp_path / "missing.json")
    with pytest.raises(ValueError, match="jwks has no public key"):
        verifying({"keys": []})
    with pytest.raises(ValueError, match="jwks is not JSON"):
        verifying("{")
    with pytest.raises(TypeError, match="jwks must be"):
        verifying(7)
    with pytest.raises(ValueError, match="no effect without OAUTHBEARER"):
        EmbeddedBroker(security_protocol="SASL_PLAINTEXT", users={"a": "b"}, jwks=KEYS)


def test_keys_are_replaced_while_clients_are_connected(idp: IdentityProvider) -> None:
    with verifying(jwks(RSA)) as broker:
        with KafkaProducer(**options(broker, idp.token())) as producer:
            producer.send("rotated", b"before").get(30)
            broker.set_jwks(jwks(EC))
            producer.send("rotated", b"after").get(30)
        with within(20), pytest.raises(SaslAuthenticationFailedError, match="invalid_token"):
            KafkaAdminClient(**options(broker, idp.token()))
        idp.key = EC
        KafkaAdminClient(**options(broker, idp.token())).close()
        with pytest.raises(ValueError, match="jwks has no public key"):
            broker.set_jwks({"keys": []})
        KafkaAdminClient(**options(broker, idp.token())).close()
    with pytest.raises(IllegalStateError):
        broker.set_jwks(jwks(RSA))
    with EmbeddedBroker() as plain, pytest.raises(KafkaConfigurationError, match="with jwks="):
        plain.set_jwks(jwks(RSA))


def test_the_broker_signs_no_tokens(broker: EmbeddedBroker) -> None:
    with pytest.raises(KafkaConfigurationError, match="signed tokens"):
        broker.token("alice")
