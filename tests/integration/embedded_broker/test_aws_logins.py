"""AWS_MSK_IAM on the embedded broker: users whose names are the IDs of access keys."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.support.aio import run
from tests.integration.support.clients import read, within
from thalweg import EmbeddedBroker, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from thalweg.aio import AIOKafkaProducer
from thalweg.auth.aws import Credentials
from thalweg.errors import SaslAuthenticationFailedError

KEY, SECRET = "AKIDEXAMPLE", "hunter2/+secret"
CLIENTS = [KafkaProducer, KafkaConsumer, KafkaAdminClient]


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(
        security_protocol="SASL_SSL", sasl_mechanisms=["AWS_MSK_IAM"], users={KEY: SECRET}
    ) as running:
        yield running


def test_every_client_logs_in(broker: EmbeddedBroker) -> None:
    options = broker.client_config()
    assert options["sasl_mechanism"] == "AWS_MSK_IAM"
    assert SECRET not in repr(options)

    async def send() -> None:
        async with AIOKafkaProducer(**options) as producer:
            await producer.send_and_wait("work", b"2")

    with KafkaAdminClient(**options) as admin:
        admin.create_topics({"work": {"num_partitions": 1, "replication_factor": 1}})
        admin.wait_for_topics(["work"])
    with KafkaProducer(**options) as producer:
        producer.send("work", b"1").get(30)
    run(send())
    with KafkaConsumer(**options, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition("work", 0)])
        assert [each.value for each in read(consumer, 2)] == [b"1", b"2"]


def test_the_session_token_of_temporary_credentials_is_signed(broker: EmbeddedBroker) -> None:
    keys = Credentials(KEY, SECRET, "a token/+=")
    with KafkaAdminClient(**broker.client_config() | {"sasl_aws_credentials": keys}) as admin:
        assert admin.bootstrap_connected()


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    "keys", [Credentials(KEY, "hunter3"), Credentials("AKIDOTHER", SECRET)], ids=["secret", "key"]
)
def test_others_are_refused(keys: Credentials, client: Any, broker: EmbeddedBroker) -> None:
    options: dict[str, Any] = broker.client_config() | {"sasl_aws_credentials": keys}
    with within(20), pytest.raises(SaslAuthenticationFailedError, match="Access denied") as caught:
        client(**options)
    assert "hunter" not in str(caught.value)


def test_users_come_and_go_while_the_broker_runs(broker: EmbeddedBroker) -> None:
    broker.add_user("AKIDNEW", "first")
    with KafkaAdminClient(**broker.client_config("AKIDNEW")):
        pass
    before: dict[str, Any] = broker.client_config("AKIDNEW")
    broker.add_user("AKIDNEW", "second")
    with pytest.raises(SaslAuthenticationFailedError):
        KafkaAdminClient(**before)
    with KafkaAdminClient(**broker.client_config("AKIDNEW")):
        pass
    broker.remove_user("AKIDNEW")
    with pytest.raises(SaslAuthenticationFailedError):
        KafkaAdminClient(**before)


def test_rules_name_the_access_key() -> None:
    with (
        EmbeddedBroker(
            security_protocol="SASL_SSL",
            sasl_mechanisms=["AWS_MSK_IAM"],
            users={KEY: SECRET},
            authorizer=True,
            super_users=[KEY],
        ) as broker,
        KafkaAdminClient(**broker.client_config()) as admin,
    ):
        admin.create_topics({"work": {"num_partitions": 1, "replication_factor": 1}})
