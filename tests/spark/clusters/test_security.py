"""The security options of a query reach each of its clients, on the driver and in the tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.clusters.round_trips import TOPICS, round_trips
from tests.spark.conftest import Source
from tests.support.kafka.cluster import RealKafka
from tests.support.scram import add_user
from thalweg import EmbeddedBroker

EVERYWHERE = dict.fromkeys(TOPICS, 20)
# Kafka's names of the options, and the files that a test ships or gives as text.
SHIPPED = {
    "kafka.ssl.truststore.location": "of-spark-ca.pem",
    "kafka.ssl.certificate.location": "./of-spark-certificate.pem",
    "kafka.ssl.key.location": "of-spark-key.pem",
}


@pytest.fixture(scope="module")
def mutual() -> Iterator[EmbeddedBroker]:
    """A broker that only talks to clients with a certificate of its authority."""
    configs = {"ssl.client.auth": "required"}
    with EmbeddedBroker(security_protocol="SSL", configs=configs) as broker:
        for prefix in ("shipped-", "text-"):
            for name in TOPICS:
                broker.create_topic(f"{prefix}{name}", 2)
        yield broker


def pem_of(broker: EmbeddedBroker) -> list[str]:
    """Returns the texts of the authority, and of the certificate and the key of a client."""
    assert broker.ca_pem is not None
    client = broker.client_certificate("spark")
    return [broker.ca_pem, client.certificate, client.key.reveal()]


def test_certificates_that_spark_ships(
    source: Source, mutual: EmbeddedBroker, tmp_path: Path
) -> None:
    for name, text in zip(SHIPPED.values(), pem_of(mutual), strict=True):
        file = tmp_path / name
        file.write_text(text, encoding="ascii")
        source.spark.sparkContext.addFile(str(file))
    kafka = {
        "kafka.bootstrap.servers": mutual.bootstrap_servers,
        "kafka.security.protocol": "SSL",
        **SHIPPED,
    }
    found = round_trips(source.spark, kafka, str(tmp_path / "checkpoints"), prefix="shipped-")
    assert found == EVERYWHERE


def test_certificates_as_text(source: Source, mutual: EmbeddedBroker, tmp_path: Path) -> None:
    names = (
        "kafka.ssl.truststore.certificates",
        "kafka.ssl.keystore.certificate.chain",
        "kafka.ssl.keystore.key",
    )
    kafka = {
        "kafka.bootstrap.servers": mutual.bootstrap_servers,
        "kafka.security.protocol": "SSL",
        **dict(zip(names, pem_of(mutual), strict=True)),
    }
    found = round_trips(source.spark, kafka, str(tmp_path / "checkpoints"), prefix="text-")
    assert found == EVERYWHERE


def test_a_file_that_was_not_shipped_is_named_with_advice(
    source: Source, mutual: EmbeddedBroker
) -> None:
    kafka = {
        "kafka.bootstrap.servers": mutual.bootstrap_servers,
        "kafka.security.protocol": "SSL",
        "kafka.ssl.ca.location": "forgotten.pem",
    }
    rows = source.spark.range(1).selectExpr("cast(id as string) as value")
    read = source.spark.read.format("thalweg").options(**kafka, subscribe="shipped-written").load()
    write = rows.write.format("thalweg").mode("append").options(**kafka, topic="shipped-written")
    for work in (read.count, write.save):
        with pytest.raises(
            Exception, match=r"'kafka\.ssl\.ca\.location' names.*forgotten\.pem"
        ) as e:
            work()
        assert "spark.sparkContext.addFile" in str(e.value)


def test_logins_over_tls(source: Source, secure_kafka: RealKafka, tmp_path: Path) -> None:
    add_user(secure_kafka, "spark", "hunter2")
    for name in TOPICS:
        secure_kafka.create_topic(f"scram-{name}", 2)
    kafka = {
        "kafka.bootstrap.servers": secure_kafka.bootstrap("SASL_SSL"),
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.location": str(secure_kafka.certificates / "ca.pem"),
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required"
        ' username="spark" password="hunter2";',
    }
    assert round_trips(source.spark, kafka, str(tmp_path), prefix="scram-") == EVERYWHERE
