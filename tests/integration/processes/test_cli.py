"""`thalweg broker`, `thalweg produce` and `thalweg consume`, run as processes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.support.brokers import Broker
from tests.support.waiting import wait_until
from thalweg import EmbeddedBroker, KafkaProducer

LIMIT_S = 120


@pytest.fixture(autouse=True)
def _programs_take_ctrl_c() -> Iterator[None]:
    """A shell's background jobs ignore SIGINT, and so do the programs that they start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _has_produced(broker: EmbeddedBroker, count: int) -> bool:
    return broker.requests("Produce").get("Produce", 0) >= count


def thalweg(*arguments: str, given: bytes = b"") -> tuple[int, bytes, str]:
    """Runs the command, and returns its exit status, output and errors."""
    command = [sys.executable, "-m", "thalweg", *arguments]
    done = subprocess.run(command, input=given, capture_output=True, timeout=LIMIT_S, check=False)
    return done.returncode, done.stdout, done.stderr.decode()


@pytest.fixture
def topic(embedded: Broker) -> str:
    """A topic of two partitions with b"a", b"b", b"c" and one record that is not text."""
    name = embedded.create_topic("cli", 2)
    with KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
        for value in (b"a", b"b", b"c"):
            producer.send(name, value, partition=0)
        producer.send(name, b"\xff\xfe", key=b"k", partition=1)
    return name


def consume(embedded: Broker, topic: str, *more: str) -> tuple[int, bytes, str]:
    return thalweg("consume", topic, "-b", embedded.bootstrap_servers, *more)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_broker_serves_until_it_is_told_to_end(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "thalweg", "broker", "--nodes", "3", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as broker:
        assert broker.stdout is not None
        assert broker.stderr is not None
        try:
            name, _, servers = broker.stdout.readline().decode().strip().partition("=")
            assert name == "Kafka is ready: bootstrap_servers"
            assert len(servers.split(",")) == 3
            with KafkaProducer(bootstrap_servers=servers) as producer:
                assert producer.send("made-by-itself", b"x").get(20).offset == 0
            port = servers.split(",")[0].rpartition(":")[2]
            status, output, errors = thalweg("broker", "--port", port)
            assert (status, output) == (1, b"")
            assert errors.startswith("thalweg broker: ")
            assert port in errors
            broker.send_signal(number)
            assert broker.wait(LIMIT_S) == 0
            assert broker.stderr.read() == b""
        finally:
            broker.kill()


def test_a_broker_with_logins_acls_and_tls(tmp_path: Path) -> None:
    (tmp_path / "users").write_text("admin:secret-1\nalice:secret-2\n")
    ca = tmp_path / "ca.pem"
    options = ["--security-protocol", "SASL_SSL", "--sasl-mechanism", "SCRAM-SHA-512"]
    options += ["--users", str(tmp_path / "users"), "--super-user", "admin", "--write-ca", str(ca)]
    command = [sys.executable, "-m", "thalweg", "broker", "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as broker:
        assert broker.stdout is not None
        try:
            servers = broker.stdout.readline().decode().strip().partition("=")[2]

            def produce(user: str, password: str, limit_ms: int = 60_000) -> tuple[int, bytes, str]:
                given = {
                    "security.protocol": "SASL_SSL",
                    "sasl.mechanism": "SCRAM-SHA-512",
                    "sasl.username": user,
                    "sasl.password": password,
                    "ssl.ca.location": str(ca),
                    "max.block.ms": str(limit_ms),
                }
                more = [part for pair in given.items() for part in ("-X", "=".join(pair))]
                return thalweg("produce", "t", "-b", servers, *more, given=b"value\n")

            assert produce("admin", "secret-1")[0] == 0
            status, _, errors = produce("alice", "secret-2")
            assert status == 1
            assert "AUTHORIZATION_FAILED" in errors
            status, _, errors = produce("admin", "wrong-secret", limit_ms=3000)
            assert status == 1
            assert "wrong-secret" not in errors
            assert errors.count("authentication failed: SCRAM-SHA-512 as user 'admin'") == 1
        finally:
            broker.kill()


def test_a_broker_that_cannot_listen_names_the_address() -> None:
    # An address of documentation examples, which no host has.
    status, output, errors = thalweg("broker", "--host", "192.0.2.1", "--port", "9092")
    assert (status, output) == (1, b"")
    assert errors.startswith("thalweg broker: node 1: cannot listen on 192.0.2.1:9092: ")


def test_lines_are_produced_and_read_back(embedded: Broker) -> None:
    topic = embedded.create_topic("cli")
    bootstrap = embedded.bootstrap_servers
    status, _, errors = thalweg("produce", topic, "-b", bootstrap, given=b"one\ntwo\n")
    assert (status, errors) == (0, "")
    assert consume(embedded, topic, "-o", "earliest", "-e") == (0, b"one\ntwo\n", "")


@pytest.mark.parametrize("ends_by", ["end of input", "Ctrl-C", "an error of send()"])
def test_the_first_record_that_is_not_written_is_reported_at_once(
    start_embedded: Callable[..., EmbeddedBroker], tmp_path: Path, ends_by: str
) -> None:
    broker = start_embedded(configs={"message.max.bytes": "1000"})
    broker.create_topic("cli")
    command = [sys.executable, "-m", "thalweg", "produce", "cli", "-b", broker.bootstrap_servers]
    said = tmp_path / "errors"
    with (
        said.open("wb") as errors,
        subprocess.Popen(command, stdin=subprocess.PIPE, stderr=errors) as produce,
    ):
        assert produce.stdin is not None
        try:
            for count in range(1, 4):
                produce.stdin.write(b"z" * 2_000 + b"\n")
                produce.stdin.flush()
                wait_until(partial(_has_produced, broker, count))
            # The input is still open.
            wait_until(lambda: said.read_text().endswith("\n"), what="a report")
            if ends_by == "Ctrl-C":
                produce.send_signal(signal.SIGINT)
            elif ends_by == "an error of send()":
                produce.stdin.write(b"z" * 2_000_000 + b"\n")
                produce.stdin.flush()
            else:
                produce.stdin.close()
            assert produce.wait(LIMIT_S) == (130 if ends_by == "Ctrl-C" else 1)
        finally:
            produce.kill()
    first, last, *rest = said.read_text().splitlines()
    assert first.startswith("thalweg produce: a record was not written: ")
    assert "MESSAGE_TOO_LARGE" in first
    assert last.startswith("thalweg produce: 3 records were not written")
    assert len(rest) == (1 if ends_by == "an error of send()" else 0)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["-o", "earliest"], b"a\nb\nc\n"),
        (["-o", "beginning"], b"a\nb\nc\n"),
        (["-o", "1"], b"b\nc\n"),
        (["-o", "-1"], b"c\n"),
        (["-o", "latest"], b""),
        ([], b""),
        (["-X", "auto.offset.reset=earliest"], b"a\nb\nc\n"),
        (["-X", "auto.offset.reset=earliest", "-o", "latest"], b""),
    ],
)
def test_it_begins_where_it_is_told_to(
    embedded: Broker, topic: str, options: list[str], expected: bytes
) -> None:
    assert consume(embedded, topic, "-p", "0", "-e", *options) == (0, expected, "")


def test_bytes_that_are_no_text_can_be_had_back_from_json(embedded: Broker, topic: str) -> None:
    status, output, _ = consume(embedded, topic, "-p", "1", "-o", "earliest", "-e", "--json")
    found = json.loads(output)
    assert (status, found["key"], found["value"]) == (0, "k", {"base64": "//4="})


def test_a_partition_that_is_not_there_ends_it(embedded: Broker, topic: str) -> None:
    status, output, errors = consume(embedded, topic, "-p", "0", "-p", "9", "-e")
    assert (status, output) == (1, b"")
    wanted = f"topic '{topic}' has no partition 9: it has partitions 0 to 1"
    assert errors == f"thalweg consume: {wanted}\n"


def test_an_offset_that_is_none_is_refused_with_what_is_one(embedded: Broker, topic: str) -> None:
    status, _, errors = consume(embedded, topic, "-o", "earlies")
    assert status == 2
    assert "expected earliest, latest, an offset or -N, not 'earlies'" in errors


def test_who_has_read_enough_ends_it_in_silence(embedded: Broker) -> None:
    topic = embedded.create_topic("cli")
    with KafkaProducer(bootstrap_servers=embedded.bootstrap_servers) as producer:
        producer.send_many(topic, [b"x" * 100] * 20_000)
    command = ["consume", topic, "-b", embedded.bootstrap_servers, "-o", "earliest", "-e"]
    process = subprocess.Popen(
        [sys.executable, "-m", "thalweg", *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(LIMIT_S) == 0
