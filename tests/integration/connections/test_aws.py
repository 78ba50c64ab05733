"""AWS_MSK_IAM and MskTokenProvider, with records. A front in Kafka's place checks the signatures.

Amazon's own brokers are not available here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.support.aio import run
from tests.integration.support.clients import read, within
from tests.support.identity.tls import certificates
from tests.support.kafka.cluster import RealKafka
from tests.support.msk import MskFront
from thalweg import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from thalweg.aio import AIOKafkaProducer
from thalweg.auth.aws import AwsError, Credentials
from thalweg.errors import NoCredentialsError, SaslAuthenticationFailedError

KEYS = Credentials("AKIDEXAMPLE", "hunter2/+secret", "hunter3")


@pytest.fixture(scope="module")
def kafka() -> Iterator[RealKafka]:
    with RealKafka("4.3", proxied=True, heap="512m") as started:
        yield started


@pytest.fixture
def front(kafka: RealKafka) -> Iterator[MskFront]:
    with MskFront(kafka, {KEYS.access_key: KEYS.secret_key}) as started:
        yield started


def options(front: MskFront, **more: Any) -> dict[str, Any]:
    return {
        "bootstrap_servers": front.bootstrap_servers,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(certificates() / "ca.pem"),
        "sasl_mechanism": "AWS_MSK_IAM",
        "sasl_aws_credentials": KEYS,
        "sasl_aws_region": "eu-west-1",
        **more,
    }


def test_records_go_through_all_clients(kafka: RealKafka, front: MskFront) -> None:
    given = options(front)
    values = [b"%d" % number for number in range(100)]
    with (
        KafkaAdminClient(**given) as admin,
        KafkaProducer(**given) as producer,
        KafkaConsumer(**given, auto_offset_reset="earliest") as consumer,
    ):
        admin.create_topics({"msk": {"num_partitions": 1, "replication_factor": 1}})
        admin.wait_for_topics(["msk"])
        assert producer.send_many("msk", values).get(30).count == 100
        consumer.assign([TopicPartition("msk", 0)])
        assert [each.value for each in read(consumer, 100)] == values
    assert len(front.logins) >= 3
    assert {login["host"] for login in front.logins} == {"127.0.0.1"}
    assert {login["x-amz-security-token"] for login in front.logins} == {"hunter3"}


def test_an_asyncio_client_logs_in(kafka: RealKafka, front: MskFront) -> None:
    kafka.create_topic("msk-aio")

    async def program() -> int:
        async with AIOKafkaProducer(**options(front)) as producer:
            return int((await producer.send_and_wait("msk-aio", b"value")).offset)

    assert run(program()) == 0


def test_sessions_end_and_go_on_with_new_credentials(kafka: RealKafka) -> None:
    """Scenario 72."""
    kafka.create_topic("msk-sessions")
    secrets = {f"AKID{number}": f"secret{number}" for number in range(1000)}
    numbers = iter(range(1000))

    def rotating() -> Credentials:
        number = next(numbers)
        return Credentials(f"AKID{number}", f"secret{number}")

    with (
        MskFront(kafka, secrets, session_ms=2000) as front,
        KafkaProducer(**options(front, sasl_aws_credentials=rotating)) as producer,
    ):
        until, sent = time.monotonic() + 7, 0
        # It takes longer if the machine pauses.
        while time.monotonic() < (until if len(front.logins) >= 4 else until + 60):
            assert producer.send("msk-sessions", b"%d" % sent).get(60).offset == sent
            sent += 1
            time.sleep(0.01)
        ids = [login["x-amz-credential"].partition("/")[0] for login in front.logins]
    assert len(ids) >= 4
    assert len(set(ids)) == len(ids), "each login asks for the credentials again"


def test_a_wrong_key_is_refused_in_the_brokers_words(front: MskFront) -> None:
    """Scenario 72."""
    wrong = Credentials(KEYS.access_key, "hunter9")
    with within(20), pytest.raises(SaslAuthenticationFailedError) as caught:
        KafkaProducer(**options(front, sasl_aws_credentials=wrong))
    text = str(caught.value)
    assert "AWS_MSK_IAM: Access denied. Check the AWS credentials" in text
    assert "hunter9" not in text + repr(caught.value)


@pytest.mark.parametrize(
    "response, words",
    [(b"", "is empty"), (b"ok", "is not JSON"), (b'{"version":"2020_10_22"}', "no request-id")],
)
def test_a_broker_that_does_not_confirm_is_refused(
    kafka: RealKafka, response: bytes, words: str
) -> None:
    """Scenario 72."""
    keys = {KEYS.access_key: KEYS.secret_key}
    with MskFront(kafka, keys, response=response) as front:
        with within(20), pytest.raises(SaslAuthenticationFailedError, match=words) as caught:
            KafkaAdminClient(**options(front))
        assert caught.value.by_client


def test_missing_credentials_are_the_error(
    front: MskFront, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 72."""
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)

    def none() -> None:
        return None

    with within(20), pytest.raises(NoCredentialsError, match="need an access_key") as caught:
        KafkaAdminClient(**options(front, sasl_aws_credentials=none))
    assert isinstance(caught.value.__cause__, AwsError)
    assert not front.logins
    given = options(front, sasl_aws_region=None)
    with within(20), pytest.raises(NoCredentialsError, match="Set sasl_aws_region"):
        KafkaAdminClient(**given)
