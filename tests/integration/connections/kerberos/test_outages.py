"""Tickets and sessions that end, and a KDC that is gone, silent or has another clock."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.integration.connections.kerberos.conftest import SESSION_S
from tests.integration.support.clients import within
from tests.integration.support.scripts import start
from tests.support.identity.kerberos import Realm, keytab, options_of, use_cache
from tests.support.kafka.cluster import RealKafka
from tests.support.ports import free_port
from tests.support.waiting import wait_until
from thalweg import KafkaAdminClient, KafkaProducer
from thalweg.errors import KafkaError, NoBrokersAvailable, NoCredentialsError

# The messages to the broker are the same in both versions, which test_logins.py shows.
pytestmark = pytest.mark.parametrize("kafka", ["kafka-4.3"], indirect=True)
TICKET_S = 4


def renewed(producer: KafkaProducer[Any, Any]) -> float:
    """Returns how often the connections of a producer have authenticated again."""
    metrics = producer.metrics()["producer-metrics"]
    return float(metrics["successful-reauthentication-total"])


def test_sessions_and_tickets_end_without_an_error(
    kafka: RealKafka, realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 86: the library replaces the tickets of a keytab."""
    realm.write_conf(tmp_path / "krb5.conf", lifetime_s=TICKET_S)
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
    kafka.create_topic("kerberos-sessions")
    sent = 0
    with KafkaProducer(**options_of(kafka, "SASL_SSL", **keytab(realm)), linger_ms=0) as producer:

        def send() -> float:
            nonlocal sent
            assert producer.send("kerberos-sessions", b"%d" % sent).get(60).offset == sent
            sent += 1
            return renewed(producer)

        began = time.monotonic()
        while time.monotonic() < began + 3 * TICKET_S:
            send()
        # After a pause of the machine, a connection is lost and another one logs in.
        wait_until(lambda: send() >= TICKET_S / SESSION_S, 60, every=0)


def test_tickets_of_a_cache_are_replaced_by_another_program(
    kafka: RealKafka, realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 86: the client reads the cache again for each authentication."""
    cache = tmp_path / "cache"
    use_cache(monkeypatch, cache)
    kafka.create_topic("kerberos-cache")
    sent, end = 0, threading.Event()
    failures: list[BaseException] = []

    def replace() -> None:
        # As kinit does: the file is always complete.
        realm.ticket("alice", tmp_path / "new", lifetime_s=TICKET_S)
        (tmp_path / "new").rename(cache)

    def replace_all_the_time() -> None:
        try:
            while not end.wait(TICKET_S / 4):
                replace()
        except BaseException as error:
            failures.append(error)

    def connected() -> list[KafkaProducer[Any, Any]]:
        # After a pause of the machine, the ticket may have expired.
        with contextlib.suppress(NoCredentialsError):
            return [KafkaProducer(**options_of(kafka, "SASL_SSL"), linger_ms=0)]
        return []

    replace()
    replacing = threading.Thread(target=replace_all_the_time)
    replacing.start()
    try:
        [opened] = wait_until(connected)
        with opened as producer:

            def send() -> float:
                nonlocal sent
                assert producer.send("kerberos-cache", b"%d" % sent).get(60).offset == sent
                sent += 1
                return renewed(producer)

            began = time.monotonic()
            while time.monotonic() < began + 2 * TICKET_S:
                send()
            wait_until(lambda: send() >= TICKET_S / SESSION_S, 60, every=0)
    finally:
        end.set()
        replacing.join()
    assert not failures


def test_records_wait_until_the_kdc_is_back(
    kafka: RealKafka, realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 86: sessions continue while there are tickets, and again when there are new ones."""
    conf = tmp_path / "krb5.conf"
    realm.write_conf(conf, lifetime_s=TICKET_S)
    monkeypatch.setenv("KRB5_CONFIG", str(conf))
    kafka.create_topic("kerberos-outage")
    options = options_of(kafka, "SASL_SSL", **keytab(realm), linger_ms=0)
    with KafkaProducer(**options, reconnect_backoff_max_ms=300) as producer:
        futures: list[Any] = []

        def sessions() -> float:
            futures.append(producer.send("kerberos-outage", b"%d" % len(futures)))
            return renewed(producer)

        def continues_with_the_old_ticket() -> bool:
            # A pause of the machine may be longer than the life of the ticket.
            realm.write_conf(conf, lifetime_s=TICKET_S)
            before = sessions()
            futures[-1].get(60)
            realm.write_conf(conf, lifetime_s=TICKET_S, port=free_port())
            end = time.monotonic() + TICKET_S
            while time.monotonic() < end:
                if sessions() > before:
                    return True
                time.sleep(0.05)
            return False

        wait_until(continues_with_the_old_ticket, 60, what="a session with the old ticket")

        def stuck() -> bool:
            sessions()
            return not any(each.is_done for each in futures[-20:])

        wait_until(stuck, 40, every=0.05, what="the end of the last session")
        realm.write_conf(conf, lifetime_s=TICKET_S)
        offsets = [each.get(60).offset for each in futures]
        assert offsets == list(range(len(futures)))


def test_a_kdc_that_is_gone_is_reported_in_seconds(
    kafka: RealKafka, realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 86."""
    realm.write_conf(tmp_path / "krb5.conf", port=free_port())
    monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
    with within(30), pytest.raises(NoCredentialsError) as caught:
        KafkaProducer(**options_of(kafka, **keytab(realm)))
    assert "Cannot contact any KDC for realm" in str(caught.value)
    assert "Check that krb5.conf has the realm and its KDCs" in str(caught.value)


def test_a_silent_kdc_delays_only_the_clients_that_need_it(kafka: RealKafka, realm: Realm) -> None:
    """Scenario 87: neither the I/O thread nor the interpreter waits for it."""
    kafka.create_topic("kerberos-silent")
    options = options_of(kafka, **keytab(realm), bootstrap_timeout_ms=4000)

    def is_not_delayed(other: KafkaProducer[Any, Any]) -> bool:
        raised: list[KafkaError] = []

        def connect() -> None:
            with pytest.raises(NoBrokersAvailable) as caught:
                KafkaAdminClient(**options)
            raised.append(caught.value)

        waiting = [threading.Thread(target=connect) for _ in range(3)]
        slowest, sends = 0.0, 0
        with realm.silent():
            for each in waiting:
                each.start()
            while any(each.is_alive() for each in waiting):
                began = time.monotonic()
                other.send("kerberos-silent", b"value").get(60)
                slowest = max(slowest, time.monotonic() - began)
                sends += 1
        assert len(raised) == len(waiting)
        words = "the Kerberos library has not returned a ticket yet"
        waited = all(words in str(error) for error in raised)
        return waited and sends > 10 and slowest < 2.5  # the clients waited for 4 s

    with KafkaProducer(bootstrap_servers=kafka.bootstrap("PLAINTEXT"), linger_ms=0) as other:
        # More than one try only if the machine pauses.
        wait_until(lambda: is_not_delayed(other), 60, what="a client that continues")
    with KafkaAdminClient(**options | {"bootstrap_timeout_ms": 60_000}) as admin:
        assert admin.bootstrap_connected()


def test_the_interpreter_exits_while_a_kdc_is_silent(kafka: RealKafka, realm: Realm) -> None:
    """Scenario 87."""
    options = options_of(kafka, **keytab(realm))
    del options["bootstrap_timeout_ms"]
    # A slow machine needs more time until the client asks for a ticket.
    program = f"""
        for timeout_ms in (500, 1000, 2000, 4000, 4000):
            try:
                KafkaProducer(**{options!r}, bootstrap_timeout_ms=timeout_ms)
            except errors.NoBrokersAvailable as error:
                if "the Kerberos library has not returned a ticket yet" in str(error):
                    print("it waits")
                    break
    """
    with realm.silent(), start(program) as script:
        script.wait_for("it waits")
        with within(20):
            ended = script.end()
    assert ended.code == 0, ended.err


def test_a_wrong_clock_is_reported_as_such(
    kafka: RealKafka, realm: Realm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 85: this KDC refuses every clock."""
    with Realm(tmp_path / "realm", skew_s=-1) as other:
        other.keytab("kafka/localhost")
        monkeypatch.setenv("KRB5_CONFIG", str(other.conf))
        with within(30), pytest.raises(NoCredentialsError) as caught:
            KafkaProducer(**options_of(kafka, **keytab(other)))
    assert "Clock skew too great. Correct this machine's clock" in str(caught.value)


@pytest.mark.parametrize("source", ["keytab", "cache"])
def test_many_clients_log_in_at_once(
    kafka: RealKafka, realm: Realm, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    options = options_of(kafka)
    if source == "keytab":
        options |= keytab(realm)
    else:
        use_cache(monkeypatch, realm.folder / "alice.cache")

    def log_in(_: int) -> bool:
        with KafkaAdminClient(**options) as admin:
            return admin.bootstrap_connected()

    with ThreadPoolExecutor(16) as threads:
        assert all(threads.map(log_in, range(48)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_logs_in(kafka: RealKafka, realm: Realm) -> None:
    program = f"""
        import os
        from thalweg import KafkaAdminClient

        options = {options_of(kafka, **keytab(realm))!r}
        with KafkaAdminClient(**options) as parent:
            assert parent.bootstrap_connected()
            pid = os.fork()
            if pid == 0:
                with KafkaAdminClient(**options) as child:
                    os._exit(0 if child.bootstrap_connected() else 3)
            assert os.waitpid(pid, 0)[1] == 0
            parent.describe_cluster()
    """
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
