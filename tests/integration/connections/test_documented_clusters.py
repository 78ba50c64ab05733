"""The options that docs/security.md gives for each kind of cluster, on a real Kafka."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.integration.support.clients import read
from tests.support.brokers import Brokers
from tests.support.kafka.certificates import PASSWORD
from tests.support.kafka.cluster import USERS, RealKafka
from tests.support.paths import ROOT
from tests.support.scram import add_user
from thalweg import KafkaConsumer, KafkaProducer, TopicPartition

DOCUMENT = ROOT / "docs" / "security.md"
SECTION = "## Options for your cluster"
USER = "documented-user"
SECRET = "documented-secret"
# Where the examples get their passwords.
VARIABLES = {
    "CONFLUENT_API_SECRET": USERS["alice"],
    "EVENT_HUBS_CONNECTION_STRING": USERS["alice"],
    "MSK_PASSWORD": SECRET,
    "AIVEN_PASSWORD": SECRET,
    "REDPANDA_PASSWORD": SECRET,
}
# The files of the examples, and the harness's own.
FILES = {
    "ca.pem": "ca.pem",
    "ca.crt": "ca.pem",
    "service.cert": "client.pem",
    "service.key": "client.key",
    "user.p12": "client.p12",
}


def examples() -> dict[str, dict[str, Any]]:
    """Returns the options of each example by the name of its variable."""
    section = DOCUMENT.read_text(encoding="utf-8").split(SECTION + "\n")[1].split("\n## ")[0]
    names: dict[str, Any] = {}
    for code in re.findall(r"```python\n(.*?)\n```", section, re.DOTALL):
        exec(code, names)
    return {
        name: value
        for name, value in names.items()
        if isinstance(value, dict) and "bootstrap_servers" in value
    }


# Those of Kerberos need a realm: kerberos/test_logins.py.
EXAMPLES = {
    name: options
    for name, options in examples().items()
    if options.get("sasl_mechanism") != "GSSAPI"
}


@pytest.fixture(scope="module")
def kafka(brokers: Brokers) -> RealKafka:
    """Has a user of each SCRAM mechanism. PLAIN has `USERS`."""
    running = brokers.secure_kafka()
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        add_user(running, USER, SECRET, mechanism)
    return running


def listener(options: dict[str, Any]) -> str:
    """Returns the listener of the harness for an example: mutual TLS asks for a certificate."""
    return "MUTUAL_TLS" if options["security_protocol"] == "SSL" else "SASL_SSL"


def test_every_kind_of_cluster_has_an_example() -> None:
    kinds = "aiven", "confluent_cloud", "event_hubs", "msk", "redpanda", "strimzi"
    assert all(any(name.startswith(kind) for name in EXAMPLES) for kind in kinds)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_options_of_an_example_work(
    kafka: RealKafka, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file, ours in FILES.items():
        shutil.copy(kafka.certificates / ours, tmp_path / file)
    (tmp_path / "user.password").write_text(PASSWORD + "\n", encoding="utf-8")
    (tmp_path / "password").write_text(SECRET + "\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for variable, value in VARIABLES.items():
        monkeypatch.setenv(variable, value)
    # The authorities of the system.
    monkeypatch.setenv("SSL_CERT_FILE", str(kafka.certificates / "ca.pem"))
    options = dict(EXAMPLES[name])
    options["bootstrap_servers"] = kafka.bootstrap(listener(options))
    if "sasl_mechanism" in options:
        plain = options["sasl_mechanism"] == "PLAIN"
        options["sasl_plain_username"] = "alice" if plain else USER

    topic = f"documented-{name}"
    kafka.create_topic(topic)
    with KafkaProducer(**options) as producer:
        assert producer.send(topic, b"value").get(30).offset == 0
    with KafkaConsumer(**options, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [record.value for record in read(consumer, 1)] == [b"value"]
