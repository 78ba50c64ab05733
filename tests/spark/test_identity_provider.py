"""Spark's driver and tasks log in with tokens of an identity provider."""

from __future__ import annotations

import logging

import pytest

from tests.spark.conftest import Source, Topics
from tests.support.brokers import Broker
from tests.support.identity import IdentityProvider
from tests.support.kafka.cluster import RealKafka

SECRET = "hunter2-of-spark"


def test_driver_and_tasks_request_tokens(
    source: Source,
    secure_kafka: RealKafka,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG, "thalweg")
    topic = Topics(Broker("kafka-4.3", secure_kafka.bootstrap_servers)).create(prefix="oidc")
    outside = Topics(Broker("kafka-4.3", secure_kafka.bootstrap("SASL_SSL")))
    with IdentityProvider() as idp:
        login = {
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.ca.location": str(secure_kafka.certificates / "ca.pem"),
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.sasl.oauthbearer.token.endpoint.url": idp.token_url,
            "kafka.sasl.oauthbearer.client.credentials.client.id": "spark",
            "kafka.sasl.oauthbearer.client.credentials.client.secret": SECRET,
        }
        rows = source.spark.createDataFrame([("a",), ("b",)], "value string")
        source.write(rows, outside, topic=topic, **login)
        frame = source.read(outside, subscribe=topic, **login)
        assert sorted(row.value.decode() for row in frame.select("value").collect()) == ["a", "b"]
        assert {request.basic for request in idp.requests} == {f"spark:{SECRET}"}
        frame.explain(extended=True)
    shown = capfd.readouterr()
    assert SECRET not in shown.out + shown.err + caplog.text
