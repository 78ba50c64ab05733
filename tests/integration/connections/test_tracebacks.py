"""No frame of a failing constructor shows a secret."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from tests.integration.support.aio import run
from tests.support.canary import SENTINEL, forms, frames, shown_by
from tests.support.kafka.certificates import OPENSSL_CLIENTS
from tests.support.ports import free_port
from thalweg import KafkaAdminClient, KafkaConsumer, KafkaProducer, Secret
from thalweg._config.options import ROWS
from thalweg.aio import AIOKafkaConsumer, AIOKafkaProducer
from thalweg.auth.aws import Credentials
from thalweg.errors import KafkaError
from thalweg.range_reader import RangeReader

FORMS = forms(SENTINEL)
PLAIN = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "alice",
}
LINE = f'PlainLoginModule required username="alice" password="{SENTINEL}";'
KEY = f"-----BEGIN PRIVATE KEY-----\n{SENTINEL}\n-----END PRIVATE KEY-----\n"
OAUTH = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
STORES = OPENSSL_CLIENTS.parent
ENCRYPTED = {
    "security_protocol": "SSL",
    "ssl_certfile": str(STORES / "chain.pem"),
    "ssl_keyfile": str(STORES.parent / "keys" / "scrypt.key"),
}
CASES: dict[str, dict[str, Any]] = {
    "every secret option": {row.name: SENTINEL for row in ROWS if row.secret},
    "every secret option in a list": {row.name: [SENTINEL] for row in ROWS if row.secret},
    "every other option from a config provider": {
        row.name: Secret(SENTINEL) for row in ROWS if not row.secret
    },
    "no broker, other options from a config provider": {
        **PLAIN,
        "sasl_plain_username": Secret(SENTINEL),
        "sasl_plain_password": SENTINEL,
    },
    "misspelled": {**PLAIN, "sasl_plain_pasword": SENTINEL},
    "a broken login line": {**PLAIN, "sasl.jaas.config": LINE.replace('";', "")},
    "a key that is not valid": {
        "security_protocol": "SSL",
        "ssl_certfile": KEY,
        "ssl_keyfile": KEY,
    },
    "a key with another password": {**ENCRYPTED, "ssl_password": SENTINEL},
    "a key with another password in bytes": {**ENCRYPTED, "ssl_password": SENTINEL.encode()},
    "a key with another password from a function": {**ENCRYPTED, "ssl_password": lambda: SENTINEL},
    "a function that returns no password": {**ENCRYPTED, "ssl_password": lambda: [SENTINEL]},
    "stores with other passwords": {
        "security_protocol": "SSL",
        "ssl_keystore_location": str(STORES / "openssl3.p12"),
        "ssl_keystore_password": SENTINEL,
        "ssl_truststore_location": str(STORES / "truststore.p12"),
        "ssl_truststore_password": SENTINEL.encode(),
    },
    "no broker, password": {**PLAIN, "sasl_plain_password": SENTINEL},
    "no broker, librdkafka's name": {**PLAIN, "sasl.password": SENTINEL},
    "no broker, login line": {**PLAIN, "sasl_jaas_config": LINE},
    "no broker, tokens": {
        **OAUTH,
        "enable_sasl_oauthbearer_unsecure_jwt": True,
        "sasl_oauthbearer_config": f"principal={SENTINEL}",
    },
    "no broker, identity provider": {
        **OAUTH,
        "sasl_oauthbearer_token_endpoint_url": "http://127.0.0.1:1/token",
        "sasl_oauthbearer_client_credentials_client_id": "alice",
        "sasl_oauthbearer_client_credentials_client_secret": SENTINEL,
    },
    "identity provider, login line": {
        **OAUTH,
        "sasl_oauthbearer_token_endpoint_url": "ftp://idp",
        "sasl_jaas_config": f'OAuthBearerLoginModule required clientSecret="{SENTINEL}";',
    },
    "a password in the token endpoint": {
        **OAUTH,
        "sasl_oauthbearer_token_endpoint_url": f"https://me:{SENTINEL}@idp/token",
    },
    "a signing key that is not valid": {
        **OAUTH,
        "sasl_oauthbearer_token_endpoint_url": "http://127.0.0.1:1/token",
        "sasl_oauthbearer_assertion_claim_iss": "alice",
        "sasl_oauthbearer_assertion_private_key_file": KEY,
        "sasl_oauthbearer_assertion_private_key_passphrase": SENTINEL,
    },
    "no broker, AWS": {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "AWS_MSK_IAM",
        "sasl_aws_credentials": Credentials("AKID", SENTINEL, SENTINEL),
    },
    "tokens that are not valid": {
        **OAUTH,
        "enable_sasl_oauthbearer_unsecure_jwt": True,
        "sasl_oauthbearer_config": f"{SENTINEL}=1",
    },
}


def assert_nothing_is_shown(error: BaseException) -> None:
    assert frames(error)
    for where, text in shown_by(error):
        assert not [form for form in FORMS if form in text], where


def start(client: Any, options: dict[str, Any]) -> None:
    if client is RangeReader:
        RangeReader(options)
        return
    made = client(**options)
    if client in (AIOKafkaConsumer, AIOKafkaProducer):
        run(made.start())


def start_from_config(client: Any, options: dict[str, Any]) -> None:
    made = client.from_config(options)
    if client in (AIOKafkaConsumer, AIOKafkaProducer):
        run(made.start())


CLIENTS = [KafkaProducer, KafkaConsumer, KafkaAdminClient, AIOKafkaProducer, AIOKafkaConsumer]


def failure(opens: Any, client: Any, case: str) -> BaseException:
    options = {
        "bootstrap_servers": f"127.0.0.1:{free_port()}",
        "bootstrap_timeout_ms": 100,
        **CASES[case],
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(KafkaError) as caught:
            opens(client, options)
    return caught.value


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("client", [*CLIENTS, RangeReader])
def test_no_frame_of_a_failing_constructor_shows_a_secret(client: Any, case: str) -> None:
    assert_nothing_is_shown(failure(start, client, case))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("client", CLIENTS)
def test_no_frame_of_from_config_shows_a_secret(client: Any, case: str) -> None:
    assert_nothing_is_shown(failure(start_from_config, client, case))


@pytest.mark.parametrize("client", CLIENTS)
def test_options_in_the_wrong_place_are_not_shown(client: Any) -> None:
    with pytest.raises(TypeError, match="from_config") as caught:
        client({**PLAIN, "sasl.password": SENTINEL})
    assert_nothing_is_shown(caught.value)


@pytest.mark.parametrize("client", [AIOKafkaProducer, AIOKafkaConsumer])
def test_credentials_that_are_refused_are_not_shown(client: Any) -> None:
    async def program() -> None:
        made = client(**PLAIN, sasl_plain_password="old", bootstrap_servers="127.0.0.1:1")
        made.set_sasl_credentials("bob", SENTINEL + "\0")

    with pytest.raises(ValueError, match="NUL") as caught:
        run(program())
    assert_nothing_is_shown(caught.value)
