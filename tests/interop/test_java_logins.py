"""The Java client logs in to the embedded broker with each mechanism that the broker has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support import java
from tests.support.identity import IdentityProvider
from tests.support.identity.keys import EC, jwks
from tests.support.paths import CACHE, made
from thalweg import EmbeddedBroker

PASSWORD, WRONG = "s3cret 4711", "not-the-secret"
KEY, SECRET_KEY = "AKIDEXAMPLE", "s3cret/+"
# Where Amazon's library finds the keys.
AWS = {"AWS_ACCESS_KEY_ID": KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "AWS_REGION": "eu-west-1"}
KAFKAS, AMAZONS = "org.apache.kafka.common.security", "software.amazon.msk.auth.iam"
OAUTH = f"{KAFKAS}.oauthbearer.OAuthBearerLoginModule required"


def _user(mechanism: str, password: str) -> dict[str, str]:
    module = "plain.PlainLoginModule" if mechanism == "PLAIN" else "scram.ScramLoginModule"
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{KAFKAS}.{module} required username="alice" password="{password}";',
    }


LOGINS = {
    **{each: _user(each, PASSWORD) for each in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")},
    "OAUTHBEARER": {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{OAUTH} unsecuredLoginStringClaim_sub="alice";',
    },
    "AWS_MSK_IAM": {
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": f"{AMAZONS}.IAMLoginModule required;",
        "sasl.client.callback.handler.class": f"{AMAZONS}.IAMClientCallbackHandler",
    },
}


class Files:
    """Files with the options of clients. The name of a file is that of its topic."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._authority = folder / "files", folder / "authority.pem"
        self._folder.mkdir()

    def write(self, broker: EmbeddedBroker, name: str, login: Mapping[str, str]) -> None:
        """Writes a file, and creates the topic."""
        broker.create_topic(name)
        given = {"bootstrap.servers": broker.bootstrap_servers, **login}
        given["security.protocol"] = "SASL_PLAINTEXT"
        if broker.ca_pem is not None:
            self._authority.write_text(broker.ca_pem)
            given["security.protocol"] = "SASL_SSL"
            given["ssl.truststore.type"] = "PEM"
            given["ssl.truststore.location"] = str(self._authority)
        lines = [f"{option}={value}\n" for option, value in given.items()]
        (self._folder / name).write_text("".join(lines))

    def log_in(self, *options: str) -> dict[str, str]:
        """Runs a client for each file, in one JVM. Returns {topic: result}."""
        files = sorted(self._folder.iterdir())
        printed = java.run(
            "LogIn",
            *map(str, files),
            classes=java.compiled("LogIn"),
            jars=made(CACHE / "msk" / "libs", "msk").glob("*.jar"),
            environment={**AWS, "JAVA_TOOL_OPTIONS": " ".join(options)},
        )
        # Kafka's log is between them.
        lines = (line.partition(" ") for line in printed.splitlines())
        results = {topic: result for topic, _, result in lines}
        return {each.name: results[each.name] for each in files}


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


@pytest.fixture
def encrypted() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(
        security_protocol="SASL_SSL",
        sasl_mechanisms=list(LOGINS),
        users={"alice": PASSWORD, KEY: SECRET_KEY},
    ) as broker:
        yield broker


def test_java_logs_in_with_each_mechanism(encrypted: EmbeddedBroker, files: Files) -> None:
    for mechanism, login in LOGINS.items():
        files.write(encrypted, mechanism, login)
    for mechanism in ("PLAIN", "SCRAM-SHA-512"):
        files.write(encrypted, f"wrong-{mechanism}", _user(mechanism, WRONG))
    results = files.log_in()
    for wrong in ("wrong-PLAIN", "wrong-SCRAM-SHA-512"):
        assert "SaslAuthenticationException" in results.pop(wrong)
    assert results == dict.fromkeys(LOGINS, "ok")
    encrypted.remove_user(KEY)
    assert "SaslAuthenticationException" in files.log_in()["AWS_MSK_IAM"]


def test_java_logs_in_with_signed_tokens(files: Files) -> None:
    with (
        IdentityProvider() as idp,
        EmbeddedBroker(
            security_protocol="SASL_PLAINTEXT", sasl_mechanisms=["OAUTHBEARER"], jwks=jwks(EC)
        ) as broker,
    ):
        idp.key, idp.claims = EC, {"sub": "svc-orders"}
        login = {
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.jaas.config": f'{OAUTH} clientId="java" clientSecret="hunter2";',
            "sasl.oauthbearer.token.endpoint.url": idp.token_url,
            "sasl.login.callback.handler.class": (
                f"{KAFKAS}.oauthbearer.OAuthBearerLoginCallbackHandler"
            ),
        }
        files.write(broker, "signed", login)
        allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={idp.token_url}"
        assert files.log_in(allowed) == {"signed": "ok"}
