"""Logging in to EmbeddedBroker: mechanisms, users, refusals, sessions and limits."""

from __future__ import annotations

import contextlib
import logging
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.support.aio import run
from tests.integration.support.clients import read, within
from tests.support.oauth import token
from tests.support.waiting import wait_until
from thalweg import (
    EmbeddedBroker,
    KafkaAdminClient,
    KafkaConsumer,
    KafkaProducer,
    Secret,
    TopicPartition,
)
from thalweg.admin import UserScramCredentialDeletion, UserScramCredentialUpsertion
from thalweg.aio import AIOKafkaConsumer, AIOKafkaProducer
from thalweg.errors import (
    IllegalStateError,
    KafkaError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore:enable_sasl_oauthbearer_unsecure_jwt"  # that is how these tokens are made
)

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
PASSWORD, WRONG = "s3cret-of-alice", "not-the-secret-4711"
USERS = {"alice": PASSWORD, "a=b,c": ",=\"\\ '%", "beyond-ascii-\N{SNOWMAN}": "p\xe4ssw\xf6rd"}
CLIENTS = [KafkaProducer, KafkaConsumer, KafkaAdminClient]
SASL_HANDSHAKE, API_VERSIONS, METADATA, SASL_AUTHENTICATE = 17, 18, 3, 36


def secured(**options: Any) -> EmbeddedBroker:
    given = {"security_protocol": "SASL_PLAINTEXT", "users": USERS, **options}
    return EmbeddedBroker(**given)


@pytest.fixture(scope="module")
def broker() -> Iterator[EmbeddedBroker]:
    with secured(nodes=2, sasl_mechanisms=MECHANISMS) as running:
        yield running


def options_of(broker: EmbeddedBroker, mechanism: str, user: str = "alice") -> dict[str, Any]:
    options: dict[str, Any] = {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
    }
    if mechanism == "OAUTHBEARER":
        return options | {
            "sasl_oauthbearer_config": f"principal={user}",
            "enable_sasl_oauthbearer_unsecure_jwt": True,
        }
    return options | {"sasl_plain_username": user, "sasl_plain_password": USERS[user]}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_records_go_through_all_clients(broker: EmbeddedBroker, mechanism: str) -> None:
    topic = f"all-clients-{mechanism.lower()}"
    options = options_of(broker, mechanism)
    values = [b"%d" % number for number in range(100)]
    with KafkaAdminClient(**options) as admin:
        admin.create_topics({topic: {"num_partitions": 1, "replication_factor": 2}})
    with KafkaProducer(**options) as producer:
        assert producer.send_many(topic, values).get(30).count == 100
    with KafkaConsumer(topic, **options, group_id=topic, auto_offset_reset="earliest") as consumer:
        assert [each.value for each in read(consumer, 100)] == values

    async def program() -> bytes | None:
        async with AIOKafkaProducer(**options) as producer:
            sent = await producer.send_and_wait(topic, b"value")
        async with AIOKafkaConsumer(**options) as consumer:
            partition = TopicPartition(topic, 0)
            consumer.assign([partition])
            consumer.seek(partition, sent.offset)
            record = await consumer.getone()
        value: bytes | None = record.value
        return value

    assert run(program()) == b"value"


@pytest.mark.parametrize("user", list(USERS))
@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
def test_names_and_passwords_may_have_any_characters(
    broker: EmbeddedBroker, mechanism: str, user: str
) -> None:
    with KafkaAdminClient(**options_of(broker, mechanism, user)) as admin:
        assert admin.bootstrap_connected()


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("mechanism", MECHANISMS[:3])
def test_a_wrong_password_and_an_unknown_user_look_alike(
    broker: EmbeddedBroker, client: Any, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    options = options_of(broker, mechanism)
    texts = []
    for change in ({"sasl_plain_password": WRONG}, {"sasl_plain_username": "mallory"}):
        with within(20), pytest.raises(SaslAuthenticationFailedError) as caught:
            client(**options | change)
        assert not caught.value.by_client
        text = str(caught.value).replace("mallory", "alice")
        texts.append(text.split(": ", 1)[1].split(" (correlation")[0])
        assert WRONG not in str(caught.value) + caplog.text
        assert PASSWORD not in str(caught.value) + caplog.text
    expected = {
        "PLAIN": "Authentication failed: Invalid username or password",
    }.get(mechanism, f"invalid credentials with SASL mechanism {mechanism}")
    assert all(expected in text for text in texts)


def test_a_refused_token_is_explained(broker: EmbeddedBroker) -> None:
    class Expired:
        def token(self) -> str:
            return token("alice", life_s=-5)

    options = options_of(broker, "OAUTHBEARER")
    del options["sasl_oauthbearer_config"], options["enable_sasl_oauthbearer_unsecure_jwt"]
    with within(20), pytest.raises(SaslAuthenticationFailedError, match="invalid_token"):
        KafkaProducer(**options, sasl_oauth_token_provider=Expired())


def test_a_mechanism_that_is_not_offered_is_reported_with_those_that_are() -> None:
    with (
        secured(sasl_mechanisms=["SCRAM-SHA-512"]) as broker,
        pytest.raises(UnsupportedSaslMechanismError, match=r"It offers SCRAM-SHA-512\."),
    ):
        KafkaProducer(**options_of(broker, "PLAIN"))


def test_a_client_without_sasl_and_one_with_it_are_told_what_is_wrong(
    broker: EmbeddedBroker,
) -> None:
    text = ""
    for timeout_ms in (3000, 10_000, 20_000):  # more than one only if the machine pauses
        with within(timeout_ms / 1000 + 12), pytest.raises(KafkaError) as caught:
            KafkaProducer(
                bootstrap_servers=broker.bootstrap_servers, bootstrap_timeout_ms=timeout_ms
            )
        if "security_protocol" in (text := str(caught.value)):
            break
    assert "security_protocol" in text
    with EmbeddedBroker() as open_to_all, pytest.raises(KafkaError, match="ILLEGAL_SASL_STATE"):
        KafkaProducer(
            **options_of(broker, "PLAIN") | {"bootstrap_servers": open_to_all.bootstrap_servers}
        )


def test_client_config_has_what_a_client_needs_and_shows_no_password(
    broker: EmbeddedBroker,
) -> None:
    options = broker.client_config()
    assert options == {
        "bootstrap_servers": broker.bootstrap_servers,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": Secret(PASSWORD),
    }
    assert PASSWORD not in repr(options) + repr(broker) + repr(vars(broker))
    for user in USERS:
        KafkaAdminClient(**broker.client_config(user)).close()
    with pytest.raises(ValueError, match=r"no user 'alcie' \(did you mean 'alice'\?\)"):
        broker.client_config("alcie")
    with secured(sasl_mechanisms=["OAUTHBEARER"], users=None) as tokens:
        KafkaAdminClient(**tokens.client_config("anybody")).close()
    with EmbeddedBroker() as open_to_all:
        KafkaAdminClient(**open_to_all.client_config()).close()
        with pytest.raises(ValueError, match="cannot log in"):
            open_to_all.client_config("alice")


def test_users_are_added_changed_and_removed_while_it_runs(broker: EmbeddedBroker) -> None:
    for mechanism in MECHANISMS[:3]:
        options = options_of(broker, mechanism) | {
            "sasl_plain_username": "new",
            "sasl_plain_password": "first",
        }
        changed = options | {"sasl_plain_password": "second"}
        broker.add_user("new", "first")
        KafkaAdminClient(**options).close()
        broker.add_user("new", Secret("second"))
        KafkaAdminClient(**changed).close()
        with pytest.raises(SaslAuthenticationFailedError):
            KafkaAdminClient(**options)
        assert broker.remove_user("new")
        assert not broker.remove_user("new")
        with pytest.raises(SaslAuthenticationFailedError):
            KafkaAdminClient(**changed)
    with pytest.raises(ValueError, match="must not be empty"):
        broker.add_user("new", "")
    stopped = secured()
    with pytest.raises(IllegalStateError):
        stopped.add_user("new", "first")
    with stopped, pytest.raises(ValueError, match="no user 'new'"):
        stopped.client_config("new")


def test_administrators_create_and_delete_users_of_scram(broker: EmbeddedBroker) -> None:
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        name = f"made-{mechanism}"
        options = options_of(broker, mechanism) | {
            "sasl_plain_username": name,
            "sasl_plain_password": "made",
        }
        made = UserScramCredentialUpsertion(name, mechanism, "made", iterations=8192)
        with KafkaAdminClient(**broker.client_config()) as admin:
            assert admin.alter_user_scram_credentials([made]) == {name: None}
            described = admin.describe_user_scram_credentials([name])[name]
            assert described["credential_infos"] == [
                {"mechanism": made.mechanism, "iterations": 8192}
            ]
            KafkaAdminClient(**options).close()
            with pytest.raises(SaslAuthenticationFailedError):  # PLAIN has other users
                KafkaAdminClient(**options | {"sasl_mechanism": "PLAIN"})
            gone = UserScramCredentialDeletion(name, mechanism)
            assert admin.alter_user_scram_credentials([gone]) == {name: None}
            with pytest.raises(SaslAuthenticationFailedError):
                KafkaAdminClient(**options)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_clients_log_in_again_before_their_sessions_end(mechanism: str) -> None:
    """With sessions of 2 s, a load of 5 s logs in again, and no connection is lost."""
    configs = {"connections.max.reauth.ms": 2000}
    with secured(sasl_mechanisms=MECHANISMS, configs=configs) as broker:
        sent = 0

        def no_connection_is_lost() -> bool:
            nonlocal sent
            with KafkaProducer(**options_of(broker, mechanism)) as producer:
                before = broker.requests()
                end = time.monotonic() + 5
                while time.monotonic() < end:
                    producer.send("load", b"value").get(30)
                    sent += 1
                after = broker.requests()
            logins, opened = (
                after[each] - before[each] for each in ("SaslHandshake", "ApiVersions")
            )
            return logins >= 2 and opened <= 1

        # More than one try only if the machine pauses until a session has ended.
        wait_until(no_connection_is_lost, 60)
        with KafkaConsumer(
            **options_of(broker, mechanism), auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign([TopicPartition("load", 0)])
            assert len(read(consumer, sent)) == sent


def frame(key: int, version: int, body: bytes) -> bytes:
    header = struct.pack(">hhih", key, version, 1, -1)
    return struct.pack(">i", len(header + body)) + header + body


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


def closes(connection: socket.socket, limit_s: float = 30) -> bool:
    """Returns whether the broker closes the connection without a response."""
    connection.settimeout(limit_s)
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


@pytest.mark.parametrize(
    "sent",
    [
        frame(METADATA, 1, struct.pack(">i", -1)),
        frame(SASL_AUTHENTICATE, 0, struct.pack(">i", 0)),
        struct.pack(">i", 524289),
        struct.pack(">i", -1),
        b"GET / HTTP/1.1\r\n\r\n",
    ],
    ids=["Metadata", "SaslAuthenticate", "too large", "negative", "HTTP"],
)
def test_what_may_not_come_before_a_login_costs_the_connection(
    broker: EmbeddedBroker, sent: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", broker.ports[0])) as connection:
        connection.sendall(sent)
        assert closes(connection)


def test_a_login_has_the_limits_of_its_frames_only_until_it_succeeds() -> None:
    with secured(configs={"sasl.server.max.receive.size": 1000}) as broker:
        with KafkaProducer(**broker.client_config()) as producer:
            producer.send("large", bytes(100_000)).get(30)
        options = broker.client_config() | {"sasl_plain_password": "x" * 2000}
        with within(20), pytest.raises(KafkaError):
            KafkaProducer(**options, bootstrap_timeout_ms=2000)


@pytest.fixture
def impatient() -> Iterator[EmbeddedBroker]:
    """A broker that two clients may keep waiting, for a second."""
    configs = {
        "thalweg.authentication.timeout.ms": 1000,
        "thalweg.unauthenticated.connections.max": 2,
    }
    with secured(configs=configs) as running:
        yield running


def test_a_client_that_does_not_log_in_is_cut_off_and_does_not_keep_others_out(
    impatient: EmbeddedBroker,
) -> None:
    address = ("127.0.0.1", impatient.ports[0])
    started = time.monotonic()
    silent = [socket.create_connection(address) for _ in range(2)]
    silent[0].sendall(frame(SASL_HANDSHAKE, 1, text("PLAIN"))[:10])
    # The broker accepts the next client only when the silent ones are gone.
    with KafkaAdminClient(**impatient.client_config()) as admin:
        assert time.monotonic() - started > 0.5
        assert all(closes(each) for each in silent)
        connected = impatient.requests("SaslHandshake")
        # The limit counts only until the login.
        end = time.monotonic() + 1.5
        wait_until(lambda: time.monotonic() > end, what="more than the limit")
        assert admin.list_topics() is not None
        assert impatient.requests("SaslHandshake") == connected
    for each in silent:
        each.close()


def test_a_refusal_comes_late_and_closes_the_connection(broker: EmbeddedBroker) -> None:
    with socket.create_connection(("127.0.0.1", broker.ports[0])) as connection:
        connection.settimeout(30)
        connection.sendall(frame(SASL_HANDSHAKE, 1, text("PLAIN")))
        size = struct.unpack(">i", connection.recv(4))[0]
        while size > 0:
            size -= len(connection.recv(size))
        login = b"\0alice\0" + WRONG.encode()
        started = time.monotonic()
        body = struct.pack(">i", len(login)) + login
        connection.sendall(frame(SASL_AUTHENTICATE, 1, body))
        response = connection.recv(1000)
        assert time.monotonic() - started >= 0.09
        assert struct.unpack_from(">h", response, 8) == (58,)
        assert b"Invalid username or password" in response
        assert closes(connection)


def test_faults_refuse_and_delay_logins() -> None:
    with secured() as broker:
        with (
            broker.faults.on("SaslAuthenticate").then_fail("SASL_AUTHENTICATION_FAILED") as fault,
            pytest.raises(SaslAuthenticationFailedError),
        ):
            KafkaProducer(**broker.client_config())
        assert fault.hits == 0  # it is removed
        slow = broker.faults.on("SaslAuthenticate").then_delay(400)
        started = time.monotonic()
        KafkaAdminClient(**broker.client_config()).close()
        assert time.monotonic() - started >= 0.38
        assert slow.hits == 1


def test_a_user_that_is_removed_is_refused_when_its_session_ends_until_it_is_back() -> None:
    times: dict[str, Any] = {"request_timeout_ms": 500, "delivery_timeout_ms": 1000, "linger_ms": 0}
    with (
        secured(configs={"connections.max.reauth.ms": 1500}) as broker,
        KafkaProducer(**broker.client_config(), **times, reconnect_backoff_max_ms=200) as producer,
    ):

        def is_served() -> bool:
            try:
                producer.send("t", b"value").get(30)
            except KafkaError:
                return False
            return True

        wait_until(is_served)
        broker.remove_user("alice")
        wait_until(lambda: not is_served(), 60, what="the end of the session")
        broker.add_user("alice", PASSWORD)
        wait_until(is_served, 60, what="the login of the user that is back")


@pytest.mark.parametrize("reads", [False, True])
def test_a_client_that_only_asks_for_versions_gives_its_place_up(reads: bool) -> None:
    """Its requests are in the buffer of the broker, so the broker never waits for it."""
    limits = {
        "thalweg.unauthenticated.connections.max": 1,
        "thalweg.authentication.timeout.ms": 500,
    }
    header = struct.pack(">hhi", API_VERSIONS, 0, 1) + struct.pack(">h", -1)
    flood = (struct.pack(">i", len(header)) + header) * 1000
    with secured(configs=limits) as broker:
        host, port = broker.bootstrap_servers.split(":")
        with socket.create_connection((host, int(port))) as greedy:
            stop = threading.Event()

            def ask() -> None:
                with contextlib.suppress(OSError):
                    while not stop.is_set():
                        greedy.sendall(flood)

            def read_all() -> None:
                with contextlib.suppress(OSError):
                    while greedy.recv(1 << 20):
                        pass

            threads = [threading.Thread(target=each) for each in (ask, read_all)[: 1 + reads]]
            for each in threads:
                each.start()
            try:
                with within(20), KafkaAdminClient(**options_of(broker, "PLAIN")) as admin:
                    assert admin.bootstrap_connected()
            finally:
                stop.set()
                with contextlib.suppress(OSError):  # the broker has closed it
                    greedy.shutdown(socket.SHUT_RDWR)
                for each in threads:
                    each.join()


def test_a_password_that_has_no_form_in_utf8_is_not_shown() -> None:
    with pytest.raises(ValueError, match="must be encodable as UTF-8") as caught:
        secured(users={"alice": "hunter2\ud800"})
    assert "hunter2" not in repr(caught.value) + str(caught.value.__context__)
