"""Programs in the form of kafka-python's and aiokafka's documentation, with the import changed.

Each program runs with its own client and with thalweg, against the same listeners of a real Kafka.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kafka.cluster import USERS, RealKafka
from tests.support.oauth import token
from tests.support.paths import PEERS_PYTHON, ROOT, made
from tests.support.runs.selection import only_other_clients
from tests.support.scram import add_user

# The lines that a user changes.
IMPORTS = {
    ("asyncio", "aiokafka"): """
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.abc import AbstractTokenProvider
from aiokafka.helpers import create_ssl_context
""",
    ("asyncio", "thalweg"): """
from thalweg import TopicPartition
from thalweg.aio import AIOKafkaConsumer, AIOKafkaProducer
from thalweg.aio.abc import AbstractTokenProvider
from thalweg.helpers import create_ssl_context
""",
    ("threads", "kafka-python"): """
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.net.sasl.oauth import AbstractTokenProvider
""",
    ("threads", "thalweg"): """
from thalweg import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from thalweg.auth import AbstractTokenProvider
""",
}
HEAD = """
import asyncio, json, ssl, sys
given = json.loads(sys.argv[1])
"""
ASYNCIO = """
def context(**client):
    return create_ssl_context(cafile=given["ca"], **client)


class Provider(AbstractTokenProvider):
    async def token(self):
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(None, self._token)

    def _token(self):
        return given["token"]

    def extensions(self):
        return {"traceId": "7"}


async def produce_and_consume(**options):
    producer = AIOKafkaProducer(**options)
    await producer.start()
    try:
        sent = await producer.send_and_wait(given["topic"], b"Super Message", partition=0)
    finally:
        await producer.stop()
    consumer = AIOKafkaConsumer(given["topic"], **options)
    await consumer.start()
    try:
        consumer.seek(TopicPartition(given["topic"], 0), sent.offset)
        record = await consumer.getone()
    finally:
        await consumer.stop()
    print(sent.topic, sent.partition, record.value == b"Super Message")


async def main():
    certificate = {"certfile": given["certificate"], "keyfile": given["key"], "password": "123123"}
    await produce_and_consume(
        bootstrap_servers=given["MUTUAL_TLS"], security_protocol="SSL",
        ssl_context=context(**certificate),
    )
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        await produce_and_consume(
            bootstrap_servers=given["SASL_SSL"], security_protocol="SASL_SSL",
            ssl_context=context(), sasl_mechanism=mechanism,
            sasl_plain_username="alice", sasl_plain_password=given["password"],
        )
    await produce_and_consume(
        bootstrap_servers=given["SASL_SSL"], security_protocol="SASL_SSL",
        ssl_context=context(), sasl_mechanism="OAUTHBEARER",
        sasl_oauth_token_provider=Provider(),
    )


asyncio.run(main())
"""
THREADS = """
class Provider(AbstractTokenProvider):
    def token(self):
        return given["token"]

    def extensions(self):
        return {"traceId": "7"}


def produce_and_consume(**options):
    producer = KafkaProducer(**options)
    sent = producer.send(given["topic"], b"Super Message", partition=0).get(timeout=30)
    producer.close()
    consumer = KafkaConsumer(consumer_timeout_ms=30000, **options)
    partition = TopicPartition(sent.topic, sent.partition)
    consumer.assign([partition])
    consumer.seek(partition, sent.offset)
    record = next(iter(consumer))
    consumer.close()
    admin = KafkaAdminClient(**options)
    print(sent.topic, record.value == b"Super Message", given["topic"] in admin.list_topics())
    admin.close()


files = {"ssl_cafile": given["ca"], "ssl_check_hostname": True}
produce_and_consume(
    bootstrap_servers=given["MUTUAL_TLS"], security_protocol="SSL", **files,
    ssl_certfile=given["certificate"], ssl_keyfile=given["key"], ssl_password="123123",
)
context = ssl.create_default_context(cafile=given["ca"])
produce_and_consume(
    bootstrap_servers=given["SSL"], security_protocol="SSL", ssl_context=context,
)
for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
    produce_and_consume(
        bootstrap_servers=given["SASL_SSL"], security_protocol="SASL_SSL", **files,
        sasl_mechanism=mechanism, sasl_plain_username="alice",
        sasl_plain_password=given["password"],
    )
produce_and_consume(
    bootstrap_servers=given["SASL_SSL"], security_protocol="SASL_SSL", **files,
    sasl_mechanism="OAUTHBEARER", sasl_oauth_token_provider=Provider(),
)
"""
PROGRAMS = {"asyncio": (ASYNCIO, 5), "threads": (THREADS, 6)}


@only_other_clients
@pytest.mark.parametrize("style, client", IMPORTS)
def test_a_program_of_the_documentation_runs_with_another_import(
    secure_kafka: RealKafka, style: str, client: str, tmp_path: Path
) -> None:
    kafka, topic = secure_kafka, f"security-program-{style}-{client}"
    kafka.create_topic(topic)
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        add_user(kafka, "alice", USERS["alice"], mechanism)
    given = {
        "topic": topic,
        "password": USERS["alice"],
        "token": token("alice"),
        "ca": str(kafka.certificates / "ca.pem"),
        "certificate": str(kafka.certificates / "client.pem"),
        "key": str(kafka.certificates / "client.key"),
        **{name: kafka.bootstrap(name) for name in ("SSL", "MUTUAL_TLS", "SASL_SSL")},
    }
    body, count = PROGRAMS[style]
    file = tmp_path / "program.py"
    file.write_text(IMPORTS[style, client] + HEAD + body, encoding="utf-8")
    python = sys.executable if client == "thalweg" else str(made(PEERS_PYTHON, "peers"))
    ran = subprocess.run(
        [python, str(file), json.dumps(given)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert len(lines) == count
    assert all(line.startswith(topic) and "True" in line and "False" not in line for line in lines)
