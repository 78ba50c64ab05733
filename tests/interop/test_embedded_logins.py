"""Other clients log in to the embedded broker with each mechanism that they have."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.peers import python_of
from thalweg import EmbeddedBroker

PASSWORD, WRONG = ",=\"s3cret\\ '%", "not-the-secret-4711"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

_CONFLUENT = """
from confluent_kafka import Consumer, Producer
options = {
    "bootstrap.servers": servers, "security.protocol": protocol,
    "sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password,
}
if mechanism == "OAUTHBEARER":
    del options["sasl.username"], options["sasl.password"]
    options |= {
        "enable.sasl.oauthbearer.unsecure.jwt": True, "sasl.oauthbearer.config": "principal=alice"
    }
if ca:
    options["ssl.ca.location"] = ca
failed = []
producer = Producer(options | {"error_cb": failed.append, "message.timeout.ms": limit_ms})
producer.produce(topic, b"value", on_delivery=lambda error, _: failed.append(error))
producer.flush(2 * limit_ms / 1000)
if any(failed):
    raise SystemExit("refused: " + str([each for each in failed if each]))
consumer = Consumer(options | {"group.id": topic, "auto.offset.reset": "earliest"})
consumer.subscribe([topic])
record = consumer.poll(60)
assert record is not None and record.value() == b"value", record and record.error()
consumer.close()
"""

_KAFKA_PYTHON = """
from kafka import KafkaConsumer, KafkaProducer
from kafka.net.sasl.oauth import AbstractTokenProvider
class Provider(AbstractTokenProvider):
    def token(self):
        return token
options = dict(
    bootstrap_servers=servers, security_protocol=protocol, sasl_mechanism=mechanism, ssl_cafile=ca,
)
if mechanism == "OAUTHBEARER":
    options |= dict(sasl_oauth_token_provider=Provider())
else:
    options |= dict(sasl_plain_username=user, sasl_plain_password=password)
try:
    producer = KafkaProducer(
        **options, max_block_ms=limit_ms, bootstrap_timeout_ms=limit_ms - 1000
    )
    producer.send(topic, b"value").get(2 * limit_ms / 1000)
except Exception as error:
    raise SystemExit(f"refused: {error!r}")
producer.close()
consumer = KafkaConsumer(
    topic, **options, group_id=topic, auto_offset_reset="earliest", consumer_timeout_ms=60000
)
assert next(consumer).value == b"value"
consumer.close()
"""

_AIOKAFKA = """
import asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.abc import AbstractTokenProvider
from aiokafka.helpers import create_ssl_context
class Provider(AbstractTokenProvider):
    async def token(self):
        return token
options = dict(
    bootstrap_servers=servers, security_protocol=protocol, sasl_mechanism=mechanism,
    ssl_context=create_ssl_context(cafile=ca) if ca else None,
)
async def main():
    if mechanism == "OAUTHBEARER":
        options.update(sasl_oauth_token_provider=Provider())
    else:
        options.update(sasl_plain_username=user, sasl_plain_password=password)
    producer = AIOKafkaProducer(**options)
    try:
        await producer.start()
        await producer.send_and_wait(topic, b"value")
    except Exception as error:
        raise SystemExit(f"refused: {error!r}")
    finally:
        await producer.stop()
    consumer = AIOKafkaConsumer(
        topic, **options, group_id=topic, auto_offset_reset="earliest"
    )
    await consumer.start()
    record = await asyncio.wait_for(consumer.getone(), 60)
    assert record.value == b"value"
    await consumer.stop()
asyncio.run(main())
"""

PROGRAMS = {"confluent-kafka": _CONFLUENT, "kafka-python": _KAFKA_PYTHON, "aiokafka": _AIOKAFKA}


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    users = {"alice": PASSWORD}
    with EmbeddedBroker(security_protocol="SASL_PLAINTEXT", users=users) as running:
        yield running


def log_in(
    client: str,
    broker: EmbeddedBroker,
    mechanism: str,
    topic: str,
    password: str = PASSWORD,
    ca: Path | None = None,
    limit_ms: int = 60_000,
) -> subprocess.CompletedProcess[str]:
    """Sends a record and reads it again, in a process with the other client.

    Some clients report a refusal only after `limit_ms`.
    """
    given = {
        "servers": broker.bootstrap_servers,
        "mechanism": mechanism,
        "user": "alice",
        "password": password,
        "token": password,
        "topic": topic,
        "protocol": "SASL_SSL" if ca else "SASL_PLAINTEXT",
        "ca": str(ca) if ca else None,
        "limit_ms": limit_ms,
    }
    program = f"import json\nglobals().update(json.loads({json.dumps(json.dumps(given))}))\n"
    return subprocess.run(
        [str(python_of(client)), "-c", program + PROGRAMS[client]],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.mark.parametrize("mechanism", MECHANISMS)
@pytest.mark.parametrize("client", PROGRAMS)
def test_other_clients_log_in(broker: EmbeddedBroker, client: str, mechanism: str) -> None:
    topic = f"{client}-{mechanism.lower()}"
    broker.create_topic(topic)
    done = log_in(client, broker, mechanism, topic)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize("client", PROGRAMS)
def test_other_clients_are_refused_with_a_wrong_password(
    broker: EmbeddedBroker, client: str
) -> None:
    before = broker.requests("Produce").get("Produce", 0)
    done = log_in(client, broker, "SCRAM-SHA-512", "refused", WRONG, limit_ms=5000)
    assert done.returncode != 0
    assert "refused" in done.stderr
    assert broker.requests("Produce").get("Produce", 0) == before


@pytest.mark.parametrize("client", PROGRAMS)
def test_other_clients_log_in_with_tokens(client: str) -> None:
    with EmbeddedBroker(
        security_protocol="SASL_PLAINTEXT", sasl_mechanisms=["OAUTHBEARER"], authorizer=True
    ) as running:
        running.create_topic("tokens")
        running.allow("alice", "ALL", topic="tokens")
        running.allow("alice", "ALL", group="tokens")
        done = log_in(client, running, "OAUTHBEARER", "tokens", running.token("alice").value)
        assert done.returncode == 0, done.stderr[-2000:]


@pytest.fixture(scope="module")
def encrypted() -> Iterator[EmbeddedBroker]:
    users = {"alice": PASSWORD}
    with EmbeddedBroker(security_protocol="SASL_SSL", users=users) as running:
        yield running


@pytest.mark.parametrize("client", PROGRAMS)
def test_other_clients_log_in_within_tls(
    encrypted: EmbeddedBroker, client: str, tmp_path: Path
) -> None:
    encrypted.create_topic(client)
    (tmp_path / "ca.pem").write_text(encrypted.ca_pem or "")
    done = log_in(client, encrypted, "SCRAM-SHA-512", client, ca=tmp_path / "ca.pem")
    assert done.returncode == 0, done.stderr[-2000:]


def test_kafka_python_logs_in_with_aws_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the other Python clients, only this one has it. botocore reads its environment."""
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    with EmbeddedBroker(
        security_protocol="SASL_SSL",
        sasl_mechanisms=["AWS_MSK_IAM"],
        users={"AKIDEXAMPLE": "s3cret/+"},
    ) as running:
        running.create_topic("aws")
        ca = tmp_path / "ca.pem"
        ca.write_text(running.ca_pem or "")
        for secret_key, is_right in (("s3cret/+", True), ("other", False)):
            monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", secret_key)
            limit_ms = 60_000 if is_right else 5000
            done = log_in("kafka-python", running, "AWS_MSK_IAM", "aws", ca=ca, limit_ms=limit_ms)
            assert (done.returncode == 0) == is_right, done.stderr[-2000:]
            assert ("refused" in done.stderr) != is_right
