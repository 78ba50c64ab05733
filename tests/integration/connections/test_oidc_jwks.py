"""OAUTHBEARER on a real Kafka 4.3 that verifies the signatures of tokens (JWKS)."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.support.clients import read, within
from tests.support.identity import Handler, IdentityProvider, document, jwt, signed
from tests.support.identity.broker import AUDIENCE, ISSUER, verifying_kafka
from tests.support.identity.keys import EC, RSA, EcKey, RsaKey
from tests.support.kafka.cluster import RealKafka
from tests.support.oauth import oauth_options
from thalweg import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from thalweg.errors import NoCredentialsError, SaslAuthenticationFailedError

ASSERTION = "sasl_oauthbearer_assertion_"


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider() as started:
        started.published = [RSA, EC]
        yield started


@pytest.fixture(scope="module")
def kafka(provider: IdentityProvider) -> Iterator[RealKafka]:
    with verifying_kafka(provider) as started:
        yield started


@pytest.fixture
def idp(provider: IdentityProvider) -> IdentityProvider:
    """The provider as it is at first."""
    provider.requests.clear()
    provider.key, provider.life_s = RSA, 3600.0
    provider.claims = {"sub": "svc-orders", "iss": ISSUER, "aud": AUDIENCE}
    return provider


def options(
    kafka: RealKafka, idp: IdentityProvider, protocol: str = "SASL_PLAINTEXT", **more: Any
) -> dict[str, Any]:
    """Returns the options of a client. Its ID is new, so that it shares no token."""
    return {
        **oauth_options(kafka, protocol=protocol),
        "sasl_oauthbearer_token_endpoint_url": idp.token_url,
        "sasl_oauthbearer_client_credentials_client_id": f"client-{time.monotonic_ns()}",
        "sasl_oauthbearer_client_credentials_client_secret": "hunter2",
        **more,
    }


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("key", [RSA, EC], ids=["RS256", "ES256"])
def test_records_go_through_all_clients(
    kafka: RealKafka, idp: IdentityProvider, protocol: str, key: RsaKey | EcKey
) -> None:
    idp.key = key
    topic = f"jwks-{protocol.lower()}-{key.kid}"
    given = options(kafka, idp, protocol)
    values = [b"%d" % number for number in range(100)]
    with (
        KafkaAdminClient(**given) as admin,
        KafkaProducer(**given) as producer,
        KafkaConsumer(**given, auto_offset_reset="earliest") as consumer,
    ):
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
        admin.wait_for_topics([topic])
        assert producer.send_many(topic, values).get(30).count == 100
        consumer.assign([TopicPartition(topic, 0)])
        assert [each.value for each in read(consumer, 100)] == values
    assert len(idp.requests) == 1


def claims(idp: IdentityProvider) -> dict[str, Any]:
    return {**idp.claims, "iat": time.time() - 1, "exp": time.time() + 60}


def hs256(idp: IdentityProvider) -> str:
    """A token whose HMAC has the public key as its secret (key confusion)."""
    header = {"alg": "HS256", "kid": RSA.kid}
    message = f"{encoded(header)}.{encoded(claims(idp))}"
    secret = json.dumps(RSA.jwk()).encode()
    proof = hmac.new(secret, message.encode(), hashlib.sha256).digest()
    return f"{message}.{base64.urlsafe_b64encode(proof).rstrip(b'=').decode()}"


def changed(token: str) -> str:
    header, payload, signature = token.split(".")
    body = json.loads(base64.urlsafe_b64decode(payload + "=="))
    return f"{header}.{encoded(body | {'sub': 'admin'})}.{signature}"


def encoded(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


REFUSED = {
    "expired": lambda idp: idp.token(exp=time.time() - 100),
    "no exp": lambda idp: idp.token(exp=None),
    "another audience": lambda idp: idp.token(aud="other"),
    "another issuer": lambda idp: idp.token(iss="https://other"),
    "no subject": lambda idp: idp.token(sub=None),
    "no signature": lambda idp: jwt(**claims(idp)),
    "key confusion": hs256,
    "another key": lambda idp: signed(dataclasses.replace(EC, kid="rsa"), claims(idp)),
    "a changed claim": lambda idp: changed(signed(RSA, claims(idp))),
    "a kid of 40 KB": lambda idp: signed(RSA, claims(idp), kid="k" * 30_000),
    "opaque": lambda idp: "opaque",
}


@pytest.mark.parametrize("kind", REFUSED)
def test_a_token_that_is_not_valid_is_refused_with_what_helps(
    kafka: RealKafka, idp: IdentityProvider, kind: str
) -> None:
    """Scenario 70."""
    bad = REFUSED[kind](idp)
    idp.respond(*[document({"access_token": bad, "expires_in": 60})] * 2)
    with within(20), pytest.raises(SaslAuthenticationFailedError) as caught:
        KafkaAdminClient(**options(kafka, idp))
    assert "OAUTHBEARER: the broker refuses the token: invalid_token" in str(caught.value)
    assert bad not in str(caught.value) + repr(caught.value)
    idp.forget_responses()


def test_a_broker_needs_no_key_id(kafka: RealKafka, idp: IdentityProvider) -> None:
    """Kafka tries all keys that fit the algorithm."""
    value = signed(RSA, claims(idp), kid=None)
    idp.respond(document({"access_token": value, "expires_in": 60}))
    with KafkaAdminClient(**options(kafka, idp)) as admin:
        assert admin.bootstrap_connected()


def test_new_keys_of_the_provider_work_after_a_while(
    kafka: RealKafka, idp: IdentityProvider
) -> None:
    """Kafka asks for the keys again when it gets a token with a key that it does not know."""
    idp.key = dataclasses.replace(EC, kid=f"new-{time.monotonic_ns()}")
    idp.published = [RSA, EC, idp.key]
    deadline = time.monotonic() + 60
    while True:
        try:
            KafkaAdminClient(**options(kafka, idp)).close()
        except SaslAuthenticationFailedError:
            assert time.monotonic() < deadline, "the broker never gets the new key"
        else:
            return


def test_tokens_of_five_seconds_under_load(kafka: RealKafka, idp: IdentityProvider) -> None:
    """Scenario 71. The sessions end with the tokens, so connections authenticate again."""
    kafka.create_topic("jwks-short")
    idp.life_s = 5.0
    given = options(kafka, idp)
    sent = 0
    with (
        KafkaProducer(**given) as producer,
        KafkaConsumer(**given, auto_offset_reset="earliest") as consumer,
    ):
        consumer.assign([TopicPartition("jwks-short", 0)])
        seen: list[bytes | None] = []
        until = time.monotonic() + 16
        # It takes longer if the machine pauses.
        while time.monotonic() < (until if len(idp.requests) >= 4 else until + 60):
            futures = [producer.send("jwks-short", b"%d" % (sent + each)) for each in range(20)]
            sent += 20
            assert [each.get(60).offset for each in futures] == list(range(sent - 20, sent))
            for records in consumer.poll(100).values():
                seen += [record.value for record in records]
        while len(seen) < sent:
            seen += [record.value for records in consumer.poll(1000).values() for record in records]
        assert seen == [b"%d" % number for number in range(sent)]
    assert len(idp.requests) >= 4


# ---------------------------------------------------------------- assertions


def checked(key: RsaKey | EcKey, form_name: str) -> Any:
    """A response of a provider that knows the client's public key, and checks its assertion."""

    def respond(handler: Handler) -> None:
        idp = handler.provider
        message, _, signature = idp.requests[-1].form.get(form_name, "..").rpartition(".")
        claims = json.loads(base64.urlsafe_b64decode(message.partition(".")[2] + "=="))
        right = key.verifies(message.encode(), base64.urlsafe_b64decode(signature + "=="))
        if right and claims["aud"] == ISSUER and claims["exp"] > time.time():
            document({"access_token": idp.token(), "expires_in": idp.life_s})(handler)
        else:
            document({"error": "invalid_client"}, 401)(handler)

    return respond


@pytest.mark.parametrize("grant", ["client_credentials", "jwt-bearer"])
@pytest.mark.parametrize("key", [RSA, EC], ids=["RS256", "ES256"])
def test_a_client_logs_in_with_a_key(
    kafka: RealKafka, idp: IdentityProvider, tmp_path, key: RsaKey | EcKey, grant: str
) -> None:
    place = tmp_path / "key.pem"
    place.write_text(key.pem())
    given = options(
        kafka,
        idp,
        sasl_oauthbearer_client_credentials_client_secret=None,
        sasl_oauthbearer_grant_type=grant,
        **{
            f"{ASSERTION}algorithm": key.algorithm,
            f"{ASSERTION}private_key_file": str(place),
            f"{ASSERTION}claim_iss": "me",
            f"{ASSERTION}claim_aud": ISSUER,
        },
    )
    form_name = "assertion" if grant == "jwt-bearer" else "client_assertion"
    idp.respond(checked(key, form_name))
    with KafkaAdminClient(**given) as admin:
        assert admin.bootstrap_connected()
    other = RSA if key is EC else EC
    idp.respond(checked(key, form_name))
    place.write_text(other.pem())
    given |= {f"{ASSERTION}algorithm": other.algorithm}
    with pytest.raises(NoCredentialsError, match="401 invalid_client"):
        KafkaAdminClient(**given)
