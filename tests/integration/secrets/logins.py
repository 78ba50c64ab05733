"""Logins with a secret that must never be shown, and what each client does with them."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support import java
from tests.support.canary import SENTINEL, Observer, Outputs
from tests.support.identity import IdentityProvider
from tests.support.identity.tls import certificates
from tests.support.kafka.certificates import PASSWORD
from tests.support.oauth import token
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker, KafkaAdminClient, KafkaConsumer, KafkaProducer, Secret
from thalweg.aio import AIOKafkaConsumer, AIOKafkaProducer
from thalweg.auth import Token

TOPIC = "secrets"
JAAS = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


@dataclass
class Login:
    """Options with secrets, and the broker that accepts them.

    Attributes:
        broker: The arguments of an embedded broker.
        options: The options of a client. Functions of the broker make them.
        wrong: What makes the broker refuse the client.
        secrets: What must not be shown.
    """

    broker: dict[str, Any]
    options: Callable[[EmbeddedBroker], dict[str, Any]]
    wrong: dict[str, Any]
    secrets: list[str] = field(default_factory=lambda: [SENTINEL])


def _password(mechanism: str, given: dict[str, Any], protocol: str = "SASL_PLAINTEXT") -> Login:
    refused = {name: _changed(value) for name, value in given.items() if "password" in name}
    refused |= {name: _changed(value) for name, value in given.items() if "jaas" in name}
    return Login(
        {
            "security_protocol": protocol,
            "users": {"alice": SENTINEL, "admin": "admin"},
            "sasl_mechanisms": [mechanism],
        },
        lambda broker: {
            "security_protocol": protocol,
            "sasl_mechanism": mechanism,
            **({"ssl_cafile": broker.ca_pem} if protocol.endswith("SSL") else {}),
            **given,
        },
        refused,
        [SENTINEL, _changed(SENTINEL)],
    )


def _changed(value: Any) -> Any:
    """Returns a wrong secret of the same shape, which must not be shown either."""
    if callable(value):
        return lambda: _changed(value())
    if isinstance(value, Secret):
        return Secret(_changed(value.reveal()))
    text: str = value
    return text.replace(SENTINEL, "Wr0ng/" + SENTINEL) if SENTINEL in text else text


class Tokens:
    """A provider whose tokens contain the sentinel."""

    def __init__(self, life_s: float = 3600) -> None:
        self.life_s = life_s

    def token(self) -> str:
        """Makes a token, as kafka-python's providers do."""
        return token("alice", self.life_s, note=SENTINEL)

    def extensions(self) -> dict[str, str]:
        """Returns an extension, which is sent beside the token."""
        return {"ticket": SENTINEL}

    def __repr__(self) -> str:
        return "<Tokens>"


def _oauth(given: dict[str, Any], wrong: dict[str, Any], *secrets: str) -> Login:
    return Login(
        {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanisms": ["OAUTHBEARER"]},
        lambda broker: {
            "security_protocol": "SASL_PLAINTEXT",
            "sasl_mechanism": "OAUTHBEARER",
            **given,
        },
        wrong,
        [SENTINEL, *secrets],
    )


def _token_function(_config: str) -> Token:
    return Token(token("alice", note=SENTINEL), extensions={"ticket": SENTINEL})


def _raises(_config: str) -> Token:
    raise ValueError("the provider is out of order")


def _key(broker: EmbeddedBroker) -> dict[str, Any]:
    certificate = broker.client_certificate("alice")
    return {
        "security_protocol": "SSL",
        "ssl_cafile": broker.ca_pem,
        "ssl_certfile": certificate.certificate,
        "ssl_keyfile": certificate.key,
    }


def _store(folder: Path) -> Login:
    """Returns a login with a key store whose password is the sentinel."""
    store = folder / "client.p12"
    run = [str(java.java_home() / "bin/keytool"), "-importkeystore", "-noprompt"]
    run += ["-srckeystore", str(certificates() / "client.p12"), "-srcstorepass", PASSWORD]
    run += ["-destkeystore", str(store), "-deststoretype", "PKCS12", "-deststorepass", SENTINEL]
    subprocess.run(run, check=True, capture_output=True)
    return Login(
        {
            "security_protocol": "SSL",
        },
        lambda broker: {
            "security_protocol": "SSL",
            "ssl_cafile": broker.ca_pem,
            "ssl_certfile": str(store),
            "ssl_password": lambda: SENTINEL,
        },
        {"ssl_password": _changed(SENTINEL)},
        [SENTINEL, _changed(SENTINEL)],
    )


LOGINS: dict[str, Callable[[Path, IdentityProvider], Login]] = {
    "PLAIN, str": lambda folder, idp: _password(
        "PLAIN", {"sasl_plain_username": "alice", "sasl_plain_password": SENTINEL}
    ),
    "PLAIN over TLS, function": lambda folder, idp: _password(
        "PLAIN",
        {"sasl_plain_username": "alice", "sasl_plain_password": lambda: SENTINEL},
        "SASL_SSL",
    ),
    "PLAIN, login line": lambda folder, idp: _password(
        "PLAIN",
        {"sasl_jaas_config": f'{JAAS["PLAIN"]} required username="alice" password="{SENTINEL}";'},
    ),
    "SCRAM-SHA-256, Secret": lambda folder, idp: _password(
        "SCRAM-SHA-256", {"sasl_plain_username": "alice", "sasl_plain_password": Secret(SENTINEL)}
    ),
    "SCRAM-SHA-512 over TLS, librdkafka's names": lambda folder, idp: _password(
        "SCRAM-SHA-512", {"sasl.username": "alice", "sasl.password": SENTINEL}, "SASL_SSL"
    ),
    "SCRAM-SHA-512, login line": lambda folder, idp: _password(
        "SCRAM-SHA-512",
        {
            "sasl.jaas.config": (
                f'{JAAS["SCRAM-SHA-512"]} required username="alice" password="{SENTINEL}";'
            )
        },
    ),
    "OAUTHBEARER, provider": lambda folder, idp: _oauth(
        {"sasl_oauth_token_provider": Tokens()}, {"sasl_oauth_token_provider": Tokens(-5)}
    ),
    "OAUTHBEARER, function": lambda folder, idp: _oauth(
        {"sasl_oauth_token_provider": _token_function, "sasl_oauthbearer_config": SENTINEL},
        {"sasl_oauth_token_provider": _raises},
    ),
    "OAUTHBEARER, identity provider": lambda folder, idp: _oauth(
        {
            "sasl_oauthbearer_token_endpoint_url": idp.token_url,
            "sasl_oauthbearer_client_credentials_client_id": "alice",
            "sasl_oauthbearer_client_credentials_client_secret": SENTINEL,
        },
        {"sasl_oauthbearer_client_credentials_client_secret": _changed(SENTINEL)},
        _changed(SENTINEL),
    ),
    "TLS, key as text": lambda folder, idp: Login(
        {"security_protocol": "SSL", "configs": {"ssl.client.auth": "required"}},
        _key,
        {"ssl_keyfile": f"-----BEGIN PRIVATE KEY-----\n{SENTINEL}\n-----END PRIVATE KEY-----\n"},
    ),
    "TLS, store": lambda folder, idp: _store(folder),
}


@contextmanager
def opened(login: Login) -> Iterator[tuple[EmbeddedBroker, dict[str, Any]]]:
    """Starts the broker of a login, and yields it with the options of clients."""
    with EmbeddedBroker(**login.broker) as broker:
        broker.create_topic(TOPIC)
        options = {"bootstrap_servers": broker.bootstrap_servers, **login.options(broker)}
        yield broker, options


def use_all_clients(options: dict[str, Any], outputs: Outputs) -> None:
    """Opens each client, sends and reads a record, and collects what the clients show."""
    observer = Observer(outputs)
    hooks: dict[str, Any] = {
        "interceptor_classes": [observer],
        "metric_reporters": [observer],
        "stats_cb": observer,
        "statistics_interval_ms": 20,
    }
    with KafkaProducer(**options, **hooks) as producer:
        producer.send(TOPIC, b"value").get(30)
        wait_until(lambda: "statistics" in outputs.kinds)
        outputs.of_client(producer)
    with KafkaConsumer(
        TOPIC, **options, **hooks, group_id="readers", auto_offset_reset="earliest"
    ) as consumer:
        assert next(consumer).value == b"value"
        consumer.commit()
        outputs.of_client(consumer)
    with KafkaAdminClient(**options) as admin:
        assert TOPIC in admin.list_topics()
        outputs.of_client(admin)
    asyncio.run(_asyncio_clients(options, outputs))


async def _asyncio_clients(options: dict[str, Any], outputs: Outputs) -> None:
    async with AIOKafkaProducer(**options) as producer:
        await producer.send_and_wait(TOPIC, b"value")
        outputs.add("client", producer, vars(producer))
    async with AIOKafkaConsumer(
        TOPIC, **options, group_id="asyncio", auto_offset_reset="earliest"
    ) as consumer:
        assert (await consumer.getone()).value == b"value"
        outputs.add("client", consumer, vars(consumer))


CLIENTS = (KafkaProducer, KafkaConsumer, KafkaAdminClient, AIOKafkaProducer, AIOKafkaConsumer)


def start(client: Any, options: dict[str, Any]) -> None:
    """Opens a client that the broker refuses."""
    made = client(**options)
    if client in (AIOKafkaProducer, AIOKafkaConsumer):
        asyncio.run(made.start())
