"""SASL OAUTHBEARER on real Kafka: which providers work, and what happens if they do not."""

from __future__ import annotations

import asyncio
import itertools
import logging
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.support.aio import run
from tests.integration.support.clients import read, within
from tests.support.brokers import Brokers
from tests.support.kafka.cluster import VERSIONS, RealKafka
from tests.support.oauth import Provider, oauth_options, token
from tests.support.paths import ROOT
from tests.support.scram import add_user
from tests.support.waiting import wait_until
from thalweg import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from thalweg.aio import AIOKafkaConsumer, AIOKafkaProducer
from thalweg.aio.abc import AbstractTokenProvider
from thalweg.auth import Token
from thalweg.config import InsecureConnectionWarning
from thalweg.errors import (
    KafkaError,
    KafkaTimeoutError,
    NoCredentialsError,
    SaslAuthenticationFailedError,
)

CLIENTS = [KafkaProducer, KafkaConsumer, KafkaAdminClient]
PROTOCOLS = ["SASL_PLAINTEXT", "SASL_SSL"]


@pytest.fixture(scope="module", params=[f"kafka-{version}" for version in VERSIONS])
def kafka(request: pytest.FixtureRequest, brokers: Brokers) -> Iterator[RealKafka]:
    """A node of Kafka 4.3 and one of 3.9."""
    if request.param == "kafka-4.3":
        yield brokers.secure_kafka()
        return
    with RealKafka(request.param.removeprefix("kafka-"), secure=True, heap="512m") as started:
        yield started


class Async(AbstractTokenProvider):
    """A provider of aiokafka's shape."""

    def __init__(self) -> None:
        self.loops: list[asyncio.AbstractEventLoop] = []

    async def token(self) -> str:
        self.loops.append(asyncio.get_running_loop())
        await asyncio.sleep(0.01)
        return token()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_records_go_through_all_clients(kafka: RealKafka, protocol: str) -> None:
    topic = f"oauth-{protocol.lower()}"
    options = oauth_options(kafka, Provider(), protocol)
    values = [b"%d" % number for number in range(100)]
    with KafkaAdminClient(**options) as admin:
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 1}})
        admin.wait_for_topics([topic])
    with KafkaProducer(**options) as producer:
        assert producer.send_many(topic, values).get(30).count == 100
    with KafkaConsumer(**options, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [each.value for each in read(consumer, 100)] == values


@pytest.mark.parametrize(
    "provider",
    [
        Provider(),
        Async(),
        lambda config: token(),
        lambda config: (token(), time.time() + 3600),
        lambda config: (token(), time.time() + 3600, "alice", {"traceId": "7"}),
        lambda config: Token(token(), extensions={"traceId": "7"}),
        "tests.support.oauth:provider",
        "tests.support.oauth:Provider",
    ],
    ids=[
        "kafka-python",
        "aiokafka",
        "str",
        "pair",
        "confluent-kafka",
        "Token",
        "function",
        "class",
    ],
)
def test_providers_of_every_shape_work(kafka: RealKafka, provider: Any) -> None:
    with KafkaAdminClient(**oauth_options(kafka, provider)) as admin:
        assert admin.bootstrap_connected()


def test_a_function_gets_its_configuration(kafka: RealKafka) -> None:
    seen: list[str] = []

    def provide(config: str) -> str:
        seen.append(config)
        return token()

    options = {
        **oauth_options(kafka),
        "oauth_cb": provide,
        "sasl.oauthbearer.config": "some text",
    }
    KafkaAdminClient.from_config(options).close()
    assert set(seen) == {"some text"}


def test_an_async_provider_of_an_asyncio_client_runs_on_its_loop(kafka: RealKafka) -> None:
    kafka.create_topic("oauth-aio")
    provider = Async()
    options = oauth_options(kafka, provider)

    async def program() -> bytes | None:
        async with AIOKafkaProducer(**options) as producer:
            await producer.send_and_wait("oauth-aio", b"value")
        async with AIOKafkaConsumer("oauth-aio", **options, auto_offset_reset="earliest") as reader:
            record = await reader.getone()
        assert set(provider.loops) == {asyncio.get_running_loop()}
        value: bytes | None = record.value
        return value

    assert run(program()) == b"value"


def test_tokens_without_a_signature_need_no_provider(kafka: RealKafka) -> None:
    options = {
        **oauth_options(kafka),
        "enable.sasl.oauthbearer.unsecure.jwt": "true",
        "sasl.oauthbearer.config": "principal=alice extension_traceId=7",
    }
    with pytest.warns(InsecureConnectionWarning, match="no signature"):
        admin = KafkaAdminClient.from_config(options)
    with admin:
        assert admin.bootstrap_connected()


def test_javas_login_line_makes_tokens_without_a_signature(kafka: RealKafka) -> None:
    line = (
        "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
        ' unsecuredLoginStringClaim_sub="alice";'
    )
    with pytest.warns(InsecureConnectionWarning, match="no signature"):
        admin = KafkaAdminClient(**oauth_options(kafka), sasl_jaas_config=line)
    with admin:
        assert admin.bootstrap_connected()


def test_the_command_line_logs_in(kafka: RealKafka) -> None:
    kafka.create_topic("oauth-cli")
    options = [
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanisms=OAUTHBEARER",
        "sasl.oauth.token.provider=tests.support.oauth:provider",
    ]
    given = [part for each in options for part in ("-X", each)]
    command = ["topics", "list", "-b", kafka.bootstrap("SASL_PLAINTEXT"), *given]
    done = subprocess.run(
        [sys.executable, "-m", "thalweg", *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "oauth-cli" in done.stdout.splitlines()


@pytest.mark.parametrize("client", CLIENTS)
def test_a_token_that_has_expired_is_refused_with_what_helps(
    kafka: RealKafka, client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    old = token("bob", life_s=-6000)
    with within(20), pytest.raises(SaslAuthenticationFailedError) as caught:
        client(**oauth_options(kafka, lambda config: old))
    text = str(caught.value)
    assert "OAUTHBEARER: the broker refuses the token: invalid_token" in text
    assert "subject 'bob', expired 60" in text
    assert "sasl_oauth_token_provider" in text
    assert kafka.bootstrap("SASL_PLAINTEXT") in text
    assert old not in text + repr(caught.value) + caplog.text
    assert not caught.value.by_client


@pytest.mark.parametrize("client", CLIENTS)
def test_what_a_provider_raises_is_the_cause(kafka: RealKafka, client: Any) -> None:
    raised = OSError("the identity provider is down")

    def provide(config: str | None) -> str:
        raise raised

    with within(20), pytest.raises(NoCredentialsError) as caught:
        client(**oauth_options(kafka, provide))
    assert caught.value.__cause__ is raised
    assert caught.value.by_client
    assert isinstance(caught.value, SaslAuthenticationFailedError)
    assert caught.value.retriable
    assert "provide() raised OSError: the identity provider is down" in str(caught.value)


def test_what_a_provider_raises_is_the_cause_in_asyncio(kafka: RealKafka) -> None:
    class Down(AbstractTokenProvider):
        async def token(self) -> str:
            raise OSError("down")

    async def program() -> None:
        producer = AIOKafkaProducer(**oauth_options(kafka, Down()))
        with pytest.raises(NoCredentialsError, match=r"Down\.token\(\)") as caught:
            await producer.start()
        assert isinstance(caught.value.__cause__, OSError)

    run(program())


@pytest.mark.parametrize(
    "returned, kind, words",
    [
        (None, TypeError, "not NoneType"),
        (b"bytes", TypeError, "not bytes"),
        ("", ValueError, "empty token"),
        (("t", 1e12), ValueError, "milliseconds"),
        (("t",), TypeError, "not tuple"),
        (("t", 1.0, "alice", {"a": 1}), TypeError, "dict of str"),
    ],
)
def test_nonsense_of_a_provider_is_named(
    kafka: RealKafka, returned: Any, kind: type[Exception], words: str
) -> None:
    with within(20), pytest.raises(NoCredentialsError, match=words) as caught:
        KafkaAdminClient(**oauth_options(kafka, lambda config: returned))
    assert isinstance(caught.value.__cause__, kind)


@pytest.mark.parametrize(
    "returned, words",
    [
        ("hunter2\x01auth=Bearer x", "a bearer token cannot have"),
        (Token("t", extensions={"auth": "hunter2"}), "'auth'"),
        (Token("t", extensions={"a": "hunter2\x01"}), "not allowed"),
        ("hunter2" * 10_000, "more than 65536"),
    ],
)
def test_a_token_that_cannot_be_sent_is_not_shown(
    kafka: RealKafka, returned: Any, words: str
) -> None:
    with within(20), pytest.raises(NoCredentialsError, match=words) as caught:
        KafkaAdminClient(**oauth_options(kafka, lambda config: returned))
    assert "hunter2" not in str(caught.value)


def test_a_provider_that_hangs_is_named(kafka: RealKafka) -> None:
    end = threading.Event()

    def provide(config: str | None) -> str:
        end.wait(120)
        return token()

    options = {**oauth_options(kafka, provide), "socket_connection_setup_timeout_ms": 500}
    text = ""
    try:
        for timeout_ms in (2000, 8000, 20_000):  # a pause of the broker may come first
            with within(timeout_ms / 1000 + 20), pytest.raises(KafkaError) as caught:
                KafkaAdminClient(**options, bootstrap_timeout_ms=timeout_ms)
            if "the token provider" in (text := str(caught.value)):
                break
        assert "the token provider" in text
    finally:
        end.set()


def test_a_client_is_cured_when_its_provider_is(kafka: RealKafka) -> None:
    kafka.create_topic("oauth-cured")
    good = threading.Event()

    def provide(config: str | None) -> str:
        return token() if good.is_set() else token(life_s=-1)

    with pytest.raises(SaslAuthenticationFailedError):
        KafkaProducer(**oauth_options(kafka, provide))
    good.set()
    with KafkaProducer(**oauth_options(kafka, provide)) as producer:
        producer.send("oauth-cured", b"value").get(30)


def test_a_client_survives_an_outage_of_its_provider(kafka: RealKafka) -> None:
    kafka.create_topic("oauth-outage")
    down = threading.Event()

    def provide(config: str | None) -> tuple[str, float]:
        if down.is_set():
            raise OSError("the identity provider is down")
        return token(), time.time()  # by this expiry, each connection needs another token

    options = {
        **oauth_options(kafka, provide),
        "connections_max_idle_ms": 2500,
        "request_timeout_ms": 2000,
    }
    with KafkaAdminClient(**options) as admin, KafkaProducer(**options) as producer:
        producer.send("oauth-outage", b"before").get(30)
        time.sleep(5)  # the clients close their connections
        wait_until(lambda: connections(producer) == 0)
        down.set()
        refusals: list[str] = []

        def is_refused() -> bool:
            # After a pause of the machine, the client may not have closed its connection yet.
            try:
                admin.list_topics()
            except NoCredentialsError as error:
                refusals.append(str(error))
                return True
            except KafkaTimeoutError:
                return False
            time.sleep(3)
            return False

        waiting = producer.send("oauth-outage", b"during")
        with within(20):
            wait_until(is_refused)
        assert "is down" in refusals[0]
        time.sleep(2)
        assert not waiting.is_done
        down.clear()
        assert waiting.get(30).offset == 1

        def is_cured() -> bool:
            try:
                return "oauth-outage" in admin.list_topics()
            except (NoCredentialsError, KafkaTimeoutError):
                return False

        wait_until(is_cured, every=0.2)


def connections(producer: KafkaProducer[Any, Any]) -> float:
    return float(producer.metrics()["producer-metrics"]["connection-count"])


def test_tokens_are_refreshed_before_they_expire(kafka: RealKafka) -> None:
    kafka.create_topic("oauth-refresh")
    asked: list[float] = []

    def provide(config: str | None) -> str:
        asked.append(time.monotonic())
        return token(life_s=6)

    def gaps() -> list[float]:
        return [after - before for before, after in itertools.pairwise(asked)]

    began = time.monotonic()
    with KafkaProducer(**oauth_options(kafka, provide)) as producer:
        producer.send("oauth-refresh", b"value").get(30)
        if time.monotonic() < began + 4:
            assert len(asked) == 1, "all connections share the token"
        # A pause of the machine makes a refresh late.
        wait_until(
            lambda: sum(gap < 6 for gap in gaps()) >= 2, 60, what=lambda: f"refreshes: {asked}"
        )
        producer.send("oauth-refresh", b"value").get(30)
    assert all(gap >= 4 for gap in gaps()), "after 80% to 85% of the life"


def test_a_refresh_that_fails_is_logged_and_repeated(
    kafka: RealKafka, caplog: pytest.LogCaptureFixture
) -> None:
    down = threading.Event()

    def provide(config: str | None) -> str:
        if down.is_set():
            raise OSError("down")
        return token(life_s=5)

    caplog.set_level(logging.WARNING, "thalweg.network")

    def is_logged() -> bool:
        down.clear()
        with KafkaProducer(**oauth_options(kafka, provide)):
            down.set()
            ends = time.monotonic() + 8
            while "OSError: down" not in caplog.text and time.monotonic() < ends:
                time.sleep(0.05)
        return "OSError: down" in caplog.text

    # If a pause of the machine outlasts the token, the next login has the error, and no warning.
    wait_until(is_logged, 60, what="a warning")
    assert "cannot get a new token" in caplog.text


def test_two_mechanisms_work_in_one_process(kafka: RealKafka) -> None:
    kafka.create_topic("oauth-and-scram")
    scram = add_user(kafka, "of-scram", "secret")
    with (
        KafkaProducer(**oauth_options(kafka, Provider())) as producer,
        KafkaConsumer(**scram, auto_offset_reset="earliest") as consumer,
    ):
        producer.send("oauth-and-scram", b"value").get(30)
        consumer.assign([TopicPartition("oauth-and-scram", 0)])
        assert [each.value for each in read(consumer, 1)] == [b"value"]


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_the_last_records_get_a_token_at_exit(kafka: RealKafka, kind: str) -> None:
    topic = f"oauth-exit-{kind.replace(' ', '-')}"
    kafka.create_topic(topic)
    program = f"""
        import atexit, time

        asked = []
        # Registered before thalweg, so it runs after thalweg has closed the producer.
        atexit.register(lambda: print(len(asked)))
        from tests.support.oauth import token
        from thalweg import KafkaProducer

        {kind} provide(config):
            asked.append(None)
            return token(), time.time()  # by this expiry, each connection needs another token

        producer = KafkaProducer(
            bootstrap_servers={kafka.bootstrap("SASL_PLAINTEXT")!r},
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism="OAUTHBEARER",
            sasl_oauth_token_provider=provide,
            connections_max_idle_ms=2500,
            request_timeout_ms=2000,
            linger_ms=60_000,
        )
        for _ in range(3):
            producer.send({topic!r}, b"value")
        while producer.metrics()["producer-metrics"]["connection-count"]:
            time.sleep(0.05)  # the client closes its connections
        print(len(asked))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    before, after = map(int, done.stdout.split())
    assert after > before, "the client asked for a token at exit"
    options = oauth_options(kafka, Provider())
    with KafkaConsumer(**options, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [each.value for each in read(consumer, 3)] == [b"value"] * 3


@pytest.mark.parametrize(
    "provider", ["lambda config: time.sleep(60)", "lambda config: asyncio.sleep(60)"]
)
def test_the_interpreter_exits_while_a_provider_hangs(kafka: RealKafka, provider: str) -> None:
    program = f"""
        import asyncio, time
        from thalweg import KafkaProducer
        from thalweg.errors import NoBrokersAvailable

        # A slow machine needs more time until the client asks for a token.
        for timeout_ms in (500, 2000, 8000):
            try:
                KafkaProducer(
                    bootstrap_servers={kafka.bootstrap("SASL_PLAINTEXT")!r},
                    bootstrap_timeout_ms=timeout_ms,
                    security_protocol="SASL_PLAINTEXT",
                    sasl_mechanism="OAUTHBEARER",
                    sasl_oauth_token_provider={provider},
                )
            except NoBrokersAvailable as error:
                print(error)
                if "the token provider" in str(error):
                    break
    """
    with within(40):  # the provider waits for 60 s
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(program)],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "the token provider has not returned a token yet" in done.stdout
