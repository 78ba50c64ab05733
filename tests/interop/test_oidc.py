"""One configuration for Java, librdkafka and thalweg: identity providers get equal requests."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import java
from tests.support.identity import IdentityProvider, Received
from tests.support.identity.broker import AUDIENCE, ISSUER, verifying_kafka
from tests.support.identity.keys import EC, RSA, EcKey, RsaKey
from tests.support.kafka.cluster import RealKafka
from tests.support.paths import PEERS_PYTHON, made
from thalweg import KafkaAdminClient

PACKAGE = "org.apache.kafka.common.security.oauthbearer"
LIBRDKAFKA = """
import json, sys
from confluent_kafka.admin import AdminClient
admin = AdminClient(json.load(sys.stdin))
admin.poll(0)
print(sorted(admin.list_topics(timeout=30).topics))
"""


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    with IdentityProvider() as started:
        started.published, started.key = [RSA, EC], RSA
        # Java's clients insist on a scope.
        started.claims = {"sub": "svc", "iss": ISSUER, "aud": AUDIENCE, "scope": "kafka"}
        yield started


@pytest.fixture(scope="module")
def kafka(provider: IdentityProvider) -> Iterator[RealKafka]:
    with verifying_kafka(provider) as started:
        yield started


@pytest.fixture
def idp(provider: IdentityProvider) -> IdentityProvider:
    provider.requests.clear()
    return provider


def common(kafka: RealKafka, idp: IdentityProvider) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": idp.token_url,
        "sasl.oauthbearer.scope": "kafka",
    }


def by_java(kafka: RealKafka, idp: IdentityProvider, options: dict[str, str], tmp_path: Path):
    """Lists the topics with Kafka's own tool."""
    file = tmp_path / "client.properties"
    login = f"{PACKAGE}.OAuthBearerLoginModule required;"
    given = {
        **options,
        "sasl.login.callback.handler.class": f"{PACKAGE}.OAuthBearerLoginCallbackHandler",
        "sasl.jaas.config": options.get("sasl.jaas.config", login),
    }
    file.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    files = ",".join(value for name, value in options.items() if name.endswith("file"))
    allowed = {"urls": idp.token_url, "files": files}
    jvm = [
        *java.quick_start("4.3"),
        *(f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.{k}={v}" for k, v in allowed.items() if v),
    ]
    command = java.command(
        "org.apache.kafka.tools.TopicCommand",
        *("--bootstrap-server", kafka.bootstrap("SASL_PLAINTEXT")),
        *("--command-config", str(file), "--list"),
        jvm_options=jvm,
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return given


def by_librdkafka(kafka: RealKafka, options: dict[str, str]) -> None:
    servers = {"bootstrap.servers": kafka.bootstrap("SASL_PLAINTEXT")}
    done = subprocess.run(
        [made(PEERS_PYTHON, "peers"), "-c", LIBRDKAFKA],
        input=json.dumps(options | servers),
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def by_us(kafka: RealKafka, options: dict[str, str]) -> None:
    servers = {"bootstrap.servers": kafka.bootstrap("SASL_PLAINTEXT")}
    with KafkaAdminClient.from_config({**options, **servers}) as admin:
        admin.list_topics()


def shape(request: Received) -> dict[str, Any]:
    """Returns what clients must agree on."""
    return {
        "method": request.method,
        "path": request.path,
        "form": {name: each for name, each in request.form.items() if "assertion" not in name},
        "type": request.form.get("client_assertion_type"),
        "authorization": request.headers.get("authorization"),
        "content": request.headers["content-type"].partition(";")[0].lower(),
    }


@pytest.mark.parametrize("urlencode", ["false", "true"])
def test_the_secret_is_sent_as_java_sends_it(
    kafka: RealKafka, idp: IdentityProvider, tmp_path: Path, urlencode: str
) -> None:
    given = {
        **common(kafka, idp),
        "sasl.oauthbearer.client.credentials.client.id": f"java-{urlencode} x",
        "sasl.oauthbearer.client.credentials.client.secret": "s3cret/+&%:",
        "sasl.oauthbearer.header.urlencode": urlencode,
    }
    given = by_java(kafka, idp, given, tmp_path)
    by_us(kafka, given)
    javas, ours = idp.requests
    assert shape(ours) == shape(javas)


def test_the_login_line_is_read_as_java_reads_it(
    kafka: RealKafka, idp: IdentityProvider, tmp_path: Path
) -> None:
    line = (
        f'{PACKAGE}.OAuthBearerLoginModule required clientId="line" clientSecret="a\\\\"b"'
        ' scope="one two" extension_traceId="7";'
    )
    given = common(kafka, idp) | {"sasl.jaas.config": line}
    del given["sasl.oauthbearer.scope"]
    by_java(kafka, idp, given, tmp_path)
    by_us(kafka, {**given, "sasl.jaas.config": line.replace("\\\\", "\\")})
    javas, ours = idp.requests
    assert ours.form["scope"] == "one two"
    assert shape(ours) == shape(javas)


def test_the_secret_is_sent_as_librdkafka_sends_it(kafka: RealKafka, idp: IdentityProvider) -> None:
    given = {
        **common(kafka, idp),
        "sasl.oauthbearer.method": "oidc",
        "sasl.oauthbearer.client.id": "librdkafka",
        "sasl.oauthbearer.client.secret": "s3cret/+&%:",
        "sasl.oauthbearer.extensions": "traceId=7,other=8",
    }
    by_librdkafka(kafka, given)
    by_us(kafka, given)
    theirs, ours = idp.requests
    assert shape(ours) == shape(theirs)


def claims_of(request: Received, key: RsaKey | EcKey) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns header and claims of an assertion, whose signature must be right."""
    made_for = request.form.get("assertion") or request.form["client_assertion"]
    message, _, signature = made_for.rpartition(".")
    assert key.verifies(message.encode(), base64.urlsafe_b64decode(signature + "=="))
    header, claims = (
        json.loads(base64.urlsafe_b64decode(each + "==")) for each in message.split(".")
    )
    assert claims["exp"] - claims["iat"] == 120
    assert claims["iat"] - claims["nbf"] == 30
    for name in ("exp", "iat", "nbf"):
        del claims[name]
    assert claims.pop("jti")
    return header, claims


@pytest.mark.parametrize("grant", ["client credentials", "jwt-bearer"])
@pytest.mark.parametrize("key", [RSA, EC], ids=["RS256", "ES256"])
def test_assertions_are_javas(
    kafka: RealKafka, idp: IdentityProvider, tmp_path: Path, key: RsaKey | EcKey, grant: str
) -> None:
    (tmp_path / "key.pem").write_text(key.pem())
    template = {"header": {"kid": "k1"}, "payload": {"target_audience": "x"}}
    (tmp_path / "template.json").write_text(json.dumps(template))
    assertion = {
        "algorithm": key.algorithm,
        "private.key.file": str(tmp_path / "key.pem"),
        "template.file": str(tmp_path / "template.json"),
        "claim.aud": "https://idp",
        "claim.iss": "me",
        "claim.sub": f"sub-{grant}",
        "claim.exp.seconds": "120",
        "claim.nbf.seconds": "30",
        "claim.jti.include": "true",
    }
    given = common(kafka, idp) | {
        f"sasl.oauthbearer.assertion.{name}": value for name, value in assertion.items()
    }
    if grant == "jwt-bearer":
        given["sasl.oauthbearer.jwt.retriever.class"] = f"{PACKAGE}.JwtBearerJwtRetriever"
    else:
        given["sasl.oauthbearer.client.credentials.client.id"] = "assertions"
    given = by_java(kafka, idp, given, tmp_path)
    by_us(kafka, given)
    javas, ours = idp.requests
    assert shape(ours) == shape(javas)
    assert claims_of(ours, key) == claims_of(javas, key)
