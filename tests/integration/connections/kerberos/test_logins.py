"""SASL GSSAPI on real Kafka with a Kerberos realm: who can log in, and how a refusal looks."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.connections.test_documented_clusters import examples
from tests.integration.support.aio import run
from tests.integration.support.clients import read, within
from tests.support.identity.kerberos import REALM, Realm, keytab, options_of, use_cache
from tests.support.kafka.cluster import RealKafka
from tests.support.waiting import wait_until
from thalweg import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from thalweg.aio import AIOKafkaConsumer, AIOKafkaProducer
from thalweg.errors import (
    KafkaConfigurationError,
    NoCredentialsError,
    SaslAuthenticationFailedError,
)

PROTOCOLS = ["SASL_PLAINTEXT", "SASL_SSL"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("source", ["keytab", "cache"])
def test_records_go_with_a_keytab_and_with_a_ticket_cache(
    kafka: RealKafka, realm: Realm, monkeypatch: pytest.MonkeyPatch, protocol: str, source: str
) -> None:
    topic = f"kerberos-{source}-{protocol.lower()}"
    options = options_of(kafka, protocol)
    if source == "keytab":
        options |= keytab(realm)
    else:
        use_cache(monkeypatch, realm.folder / "alice.cache")
    values = [b"%d" % number for number in range(100)]
    # A connection with a short session may break, and admin clients do not repeat changes.
    kafka.create_topic(topic)
    with KafkaAdminClient(**options) as admin:
        admin.wait_for_topics([topic])
    with KafkaProducer(**options) as producer:
        assert producer.send_many(topic, values).get(30).count == 100
    with KafkaConsumer(**options, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [each.value for each in read(consumer, 100)] == values


def test_the_options_of_the_documentation_work(
    kafka: RealKafka, realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = examples()["kerberos"]
    shutil.copy(kafka.certificates / "ca.pem", tmp_path / options["ssl_cafile"])
    monkeypatch.chdir(tmp_path)
    changes = {
        "bootstrap_servers": kafka.bootstrap("SASL_SSL"),
        "sasl_kerberos_principal": f"orders@{REALM}",
        "sasl_kerberos_keytab": realm.keytab("orders"),
    }
    assert changes.keys() <= options.keys()
    kafka.create_topic("kerberos-documented")
    with KafkaProducer(**options | changes) as producer:
        assert producer.send("kerberos-documented", b"value").get(30).offset == 0


def test_asyncio_clients_log_in(kafka: RealKafka, realm: Realm) -> None:
    kafka.create_topic("kerberos-aio")
    options = options_of(kafka, **keytab(realm))

    async def program() -> bytes | None:
        async with AIOKafkaProducer(**options) as producer:
            await producer.send_and_wait("kerberos-aio", b"value")
        async with AIOKafkaConsumer(
            "kerberos-aio", **options, auto_offset_reset="earliest"
        ) as consumer:
            record = await consumer.getone()
        value: bytes | None = record.value
        return value

    assert run(program()) == b"value"


def test_the_command_line_logs_in_with_librdkafkas_names(kafka: RealKafka, realm: Realm) -> None:
    kafka.create_topic("kerberos-cli")
    options = [
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanisms=GSSAPI",
        "sasl.kerberos.service.name=kafka",
        f"sasl.kerberos.principal=alice@{REALM}",
        f"sasl.kerberos.keytab={realm.keytab('alice')}",
    ]
    given = [part for each in options for part in ("-X", each)]
    command = ["topics", "list", "-b", kafka.bootstrap("SASL_PLAINTEXT"), *given]
    done = subprocess.run(
        [sys.executable, "-m", "thalweg", *command],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "kerberos-cli" in done.stdout.splitlines()


@pytest.mark.parametrize("source", ["keytab", "cache"])
def test_javas_login_line_logs_in(
    kafka: RealKafka, realm: Realm, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    entries = "useTicketCache=true"
    if source == "keytab":
        path = realm.keytab("alice")
        entries = f'useKeyTab=true storeKey=true keyTab="{path}" principal="alice@{REALM}"'
    else:
        use_cache(monkeypatch, realm.folder / "alice.cache")
    options = {
        "bootstrap.servers": kafka.bootstrap("SASL_PLAINTEXT"),
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": f"com.sun.security.auth.module.Krb5LoginModule required {entries};",
    }
    with KafkaAdminClient.from_config(options) as admin:
        assert admin.bootstrap_connected()


@pytest.mark.parametrize(
    "changes",
    [
        {"sasl_kerberos_name": "kafka@localhost"},
        {"sasl_kerberos_name": f"kafka/localhost@{REALM}"},
        {"sasl_kerberos_domain_name": "localhost", "sasl_kerberos_principal": "alice"},
    ],
)
def test_options_name_the_service_and_the_principal(
    kafka: RealKafka, realm: Realm, changes: dict[str, str]
) -> None:
    options = options_of(kafka, **keytab(realm), **changes)
    # The principals of the brokers do not contain this address.
    options["bootstrap_servers"] = options["bootstrap_servers"].replace("localhost", "127.0.0.1")
    with KafkaAdminClient(**options) as admin:
        assert admin.bootstrap_connected()


@pytest.mark.parametrize("user", ["alice", "etl/batch.example.com"])
def test_the_broker_sees_the_principal_that_the_client_chooses(
    kafka: RealKafka, realm: Realm, user: str
) -> None:
    both = realm.keytab("bob", user)
    options = options_of(kafka, sasl_kerberos_keytab=both, sasl_kerberos_principal=user)
    log = kafka.nodes[0].log
    before = log.stat().st_size
    with KafkaAdminClient(**options) as admin:
        assert admin.bootstrap_connected()
    with KafkaAdminClient(**options_of(kafka, sasl_kerberos_keytab=both)) as admin:
        assert admin.bootstrap_connected()
    new = log.read_bytes()[before:].decode()
    for principal in (user, "bob"):  # bob is the first one in the file
        assert f"authenticationID={principal}@{REALM};" in new


def refused(options: dict[str, Any]) -> str:
    """Returns the error of a client that gets no ticket. It comes in seconds."""
    with within(30), pytest.raises(NoCredentialsError) as caught:
        KafkaProducer(**options)
    assert caught.value.by_client
    assert caught.value.retriable
    return str(caught.value)


@pytest.mark.parametrize(
    "changes, words",
    [
        ({"sasl_kerberos_service_name": "kafcar"}, "Server kafcar/localhost@"),
        ({"sasl_kerberos_domain_name": "elsewhere"}, "sasl_kerberos_domain_name"),
        ({"sasl_kerberos_name": "kafka/localhost@OTHER.TEST"}, "domain_realm in krb5.conf"),
        (
            {"sasl_kerberos_principal": "mallory"},
            "as user 'mallory': cannot get Kerberos credentials from the keytab ",
        ),
        ({"sasl_kerberos_principal": "alice@OTHER.TEST"}, "the keytab "),
        ({"sasl_kerberos_principal": "a@b@c"}, "Malformed representation of principal"),
    ],
)
def test_a_wrong_name_is_reported_with_what_to_check(
    kafka: RealKafka, realm: Realm, changes: dict[str, str], words: str
) -> None:
    """Scenario 85: and nothing is sent to the broker."""
    text = refused(options_of(kafka, **keytab(realm), **changes))
    assert words in text
    assert "heck sasl_kerberos_" in text or "krb5.conf" in text


def test_a_client_without_tickets_is_cured_by_kinit(
    kafka: RealKafka, realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 85."""
    cache = tmp_path / "later"
    use_cache(monkeypatch, cache)
    text = refused(options_of(kafka))
    assert f"No Kerberos credentials available (default cache: FILE:{cache})" in text
    assert "Run kinit, or set sasl_kerberos_keytab" in text
    text = refused(options_of(kafka, sasl_kerberos_principal="bob"))
    assert "as user 'bob'" in text
    realm.ticket("alice", cache)
    with KafkaAdminClient(**options_of(kafka)) as admin:
        assert admin.bootstrap_connected()


def test_an_expired_ticket_is_reported_as_such(
    kafka: RealKafka, realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 85."""
    cache = tmp_path / "short"
    realm.ticket("alice", cache, lifetime_s=1)
    expires = time.time() + 2
    wait_until(lambda: time.time() > expires, what="the end of the ticket")
    use_cache(monkeypatch, cache)
    text = refused(options_of(kafka))
    assert "Ticket expired. Run kinit again, or set sasl_kerberos_keytab" in text


def test_a_broker_without_the_key_refuses_with_its_own_words(
    kafka: RealKafka, realm: Realm
) -> None:
    """Scenario 85: the KDC knows the service, but the broker is another one."""
    realm.keytab("other/localhost")
    options = options_of(kafka, **keytab(realm), sasl_kerberos_service_name="other")
    with within(30), pytest.raises(SaslAuthenticationFailedError) as caught:
        KafkaProducer(**options)
    assert not caught.value.by_client
    text = str(caught.value)
    assert f"GSSAPI as user 'alice@{REALM}'" in text
    assert "due to invalid credentials with SASL mechanism GSSAPI" in text
    assert "Check that the broker has the current key of its principal" in text


def test_a_keytab_that_is_not_there_is_a_problem_of_the_configuration(kafka: RealKafka) -> None:
    options = options_of(kafka, sasl_kerberos_keytab="/not/there.keytab")
    with pytest.raises(KafkaConfigurationError, match=r"sasl_kerberos_keytab: .*/not/there"):
        KafkaProducer(**options)

    async def program() -> None:
        await AIOKafkaProducer(**options).start()

    with pytest.raises(KafkaConfigurationError, match=r"sasl_kerberos_keytab: .*/not/there"):
        run(program())


def test_a_missing_library_is_reported_with_the_package_that_has_it(tmp_path: Path) -> None:
    # The loader finds this file first, and it is not a library.
    (tmp_path / "libgssapi_krb5.so.2").touch()
    program = """
        from thalweg import KafkaProducer
        from thalweg.errors import KafkaConfigurationError

        try:
            KafkaProducer(security_protocol="SASL_SSL", sasl_mechanism="GSSAPI")
        except KafkaConfigurationError as error:
            print(error)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "needs the Kerberos library libgssapi_krb5.so.2" in done.stdout, done.stderr
    assert "apt install libgssapi-krb5-2" in done.stdout
