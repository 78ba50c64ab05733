"""Everything that ends while clients work: `python -m benches.secure_soak --minutes 60`.

    every period (a minute):  SASL sessions and tokens end, certificates are replaced, and the next
                              broker restarts
    producer (acks=all) ──> three brokers ──> a group: one member with tokens, one with SCRAM

Each period it prints a line. At the end it reads the topic again, and exits with 1 if an
application would have seen an error, if a record is missing or is twice in the log, or if the group
has missed one. Without `--embedded` the brokers are real ones, and get new certificates, too.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import sys
import tempfile
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benches.soak import conclude
from tests.support.identity import IdentityProvider
from tests.support.kafka.certificates import PASSWORD, issue, make_certificates
from tests.support.kafka.cluster import RealKafka
from tests.support.paths import CACHE
from tests.support.scram import wait_for_login
from thalweg import EmbeddedBroker, KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from thalweg.admin import ConfigResource, UserScramCredentialUpsertion

TOPIC, GROUP, USER, USERS_PASSWORD = "soak", "soakers", "alice", "alice-secret"
PARTITIONS, NODES = 6, 3
# How long a call may wait. A restart of a real broker takes seconds, and more on a busy machine.
PATIENCE_S = 120


@dataclass
class Counts:
    """What the clients have done so far. Each list grows in one thread only."""

    sent: int = 0
    acknowledged: int = 0
    read: list[bytes] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    renewals: dict[str, float] = field(default_factory=dict)


class Brokers:
    """A cluster whose sessions last for a period, and what is replaced in it."""

    addresses: str
    plaintext: str | None = None

    def __init__(self, folder: Path, period_s: float) -> None:
        self.folder, self.configs = folder, {"connections.max.reauth.ms": str(int(period_s * 1000))}

    def restart(self, node: int) -> None:
        """Stops a broker and starts it again."""
        raise NotImplementedError

    def replace_certificates(self, number: int) -> None:
        """Replaces the files of the clients, and if possible the certificates of the brokers."""
        raise NotImplementedError

    def _write(self, name: str, text: str) -> None:
        """Replaces a file as programs do that never show half of it."""
        new = self.folder / f"{name}.new"
        new.write_text(text, encoding="utf-8")
        new.rename(self.folder / name)


class Embedded(Brokers):
    """Embedded brokers. They keep their own certificates."""

    def __init__(self, folder: Path, period_s: float, stack: contextlib.ExitStack) -> None:
        super().__init__(folder, period_s)
        self._broker = stack.enter_context(
            EmbeddedBroker(
                nodes=NODES,
                security_protocol="SASL_SSL",
                sasl_mechanisms=["OAUTHBEARER", "SCRAM-SHA-512"],
                users={USER: USERS_PASSWORD},
                configs={**self.configs, "ssl.client.auth": "required"},
            )
        )
        self._broker.create_topic(TOPIC, PARTITIONS, replication_factor=NODES)
        self.addresses = self._broker.bootstrap_servers
        self.replace_certificates(0)

    def restart(self, node: int) -> None:
        self._broker.stop_node(node)
        self._broker.start_node(node)

    def replace_certificates(self, number: int) -> None:
        made = self._broker.client_certificate(f"soak-{number}")
        # Between the two, key and certificate do not belong together.
        self._write("client.key", made.key.reveal())
        self._write("client.pem", made.certificate)
        self._write("ca.pem", str(self._broker.ca_pem))


class Real(Brokers):
    """Real brokers. Each gets a certificate with a new key, without a restart."""

    def __init__(self, folder: Path, period_s: float, stack: contextlib.ExitStack) -> None:
        super().__init__(folder, period_s)
        self._made = make_certificates(CACHE)
        self._client_files()
        configs = self.configs | {
            "listener.name.sasl_ssl.ssl.client.auth": "required",
            "min.insync.replicas": "2",
        }
        self._kafka = stack.enter_context(
            RealKafka("4.3", nodes=NODES, secure=True, configs=configs, heap="768m")
        )
        self.addresses = self._kafka.bootstrap("SASL_SSL")
        self._kafka.create_topic(TOPIC, PARTITIONS, replication_factor=NODES)
        with KafkaAdminClient(bootstrap_servers=self._kafka.bootstrap_servers) as admin:
            upsertion = UserScramCredentialUpsertion(USER, "SCRAM-SHA-512", USERS_PASSWORD)
            admin.alter_user_scram_credentials([upsertion])

    def restart(self, node: int) -> None:
        self._kafka.stop_node(node)
        self._kafka.start_node(node)

    def replace_certificates(self, number: int) -> None:
        self._client_files()
        stores = self.folder / "brokers"
        stores.mkdir(exist_ok=True)
        kind = "RSA", "-keysize", "2048"
        store = issue(self._made, stores, f"broker-{number}", kind, between=False)
        values = {"location": str(store), "password": PASSWORD, "type": "PKCS12"}
        prefix = "listener.name.sasl_ssl.ssl."
        configs = {f"{prefix}keystore.{part}": value for part, value in values.items()}
        configs[f"{prefix}key.password"] = PASSWORD
        with KafkaAdminClient(bootstrap_servers=self._kafka.bootstrap_servers) as admin:
            for node in self._kafka.nodes:
                resource = ConfigResource("broker", str(node.node_id), configs)
                admin.alter_configs([resource], raise_on_unknown=False)

    def _client_files(self) -> None:
        for name in ("client.key", "client.pem", "ca.pem"):
            self._write(name, (self._made / name).read_text(encoding="utf-8"))


def options(brokers: Brokers, idp: IdentityProvider, period_s: float) -> dict[str, dict[str, Any]]:
    """Returns the options of both logins."""
    common = {
        "bootstrap_servers": brokers.addresses,
        "security_protocol": "SASL_SSL",
        "ssl_cafile": str(brokers.folder / "ca.pem"),
        "ssl_certfile": str(brokers.folder / "client.pem"),
        "ssl_keyfile": str(brokers.folder / "client.key"),
        "ssl_reload_interval_ms": int(period_s * 500),
        "bootstrap_timeout_ms": PATIENCE_S * 1000,
    }
    return {
        "tokens": {
            **common,
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauthbearer_token_endpoint_url": idp.token_url,
            "sasl_oauthbearer_client_credentials_client_id": "soak",
            "sasl_oauthbearer_client_credentials_client_secret": "soak-secret",
        },
        "scram": {
            **common,
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": USER,
            "sasl_plain_password": lambda: USERS_PASSWORD,
        },
    }


@contextlib.contextmanager
def _reported(counts: Counts, what: str) -> Iterator[None]:
    """Counts an exception as an error that an application would have seen."""
    try:
        yield
    except Exception as error:
        counts.errors.append(f"{what}: {type(error).__name__}: {error}")


def produce(given: dict[str, Any], rate: int, counts: Counts, stop: threading.Event) -> None:
    """Sends numbers at a steady rate, and waits for each acknowledgement."""
    with _reported(counts, "producer"), KafkaProducer(**given, acks="all") as producer:
        start, pending = time.monotonic(), []
        while not stop.wait(0.05):
            due = int((time.monotonic() - start) * rate)
            # Numbers that are due after a restart are sent at once.
            for number in range(counts.sent, due):
                value = b"%d" % number
                pending.append(producer.send(TOPIC, value, partition=number % PARTITIONS))
            counts.sent = max(due, counts.sent)
            while pending and pending[0].is_done:
                pending.pop(0).get(0)
                counts.acknowledged += 1
            counts.renewals["producer"] = _renewals(producer, "producer-metrics")
        for each in pending:
            each.get(PATIENCE_S)
            counts.acknowledged += 1


def consume(given: dict[str, Any], name: str, counts: Counts, enough: Callable[[], bool]) -> None:
    """Reads as a member of the group."""
    member: dict[str, Any] = {
        "group_id": GROUP,
        "auto_offset_reset": "earliest",
        "auto_commit_interval_ms": 500,
    }
    with _reported(counts, name), KafkaConsumer(TOPIC, **given, **member) as consumer:
        while not enough():
            for records in consumer.poll(200).values():
                counts.read += [bytes(record.value or b"") for record in records]
            counts.renewals[name] = _renewals(consumer, "consumer-metrics")


def _renewals(client: Any, group: str) -> float:
    return float(client.metrics()[group]["successful-reauthentication-total"])


def log_of(given: dict[str, Any], expected: int) -> list[int]:
    """Returns all numbers in the topic."""
    found: list[int] = []
    with KafkaConsumer(**given) as consumer:
        partitions = [TopicPartition(TOPIC, each) for each in range(PARTITIONS)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = sum(consumer.end_offsets(partitions).values())
        until = time.monotonic() + PATIENCE_S
        while len(found) < max(ends, expected) and time.monotonic() < until:
            for records in consumer.poll(500).values():
                found += [int(record.value or b"-1") for record in records]
    return found


def run(
    periods: int, period_s: float, rate: int, embedded: bool, say: Callable[[str], None] = print
) -> list[str]:
    """Runs the soak. Returns what went wrong."""
    # The client says that unsigned tokens and plaintext endpoints are for tests only.
    warnings.simplefilter("ignore")
    folder = Path(tempfile.mkdtemp(prefix="secure-soak-"))
    with contextlib.ExitStack() as stack:
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        idp = stack.enter_context(IdentityProvider())
        idp.life_s, idp.claims = period_s, {"sub": USER}
        brokers = (Embedded if embedded else Real)(folder, period_s, stack)
        logins = options(brokers, idp, period_s)
        wait_for_login(logins["scram"])
        return _run(brokers, logins, idp, (periods, period_s, rate), say)


def _run(
    brokers: Brokers,
    logins: dict[str, dict[str, Any]],
    idp: IdentityProvider,
    size: tuple[int, float, int],
    say: Callable[[str], None],
) -> list[str]:
    (periods, period_s, rate), counts = size, Counts()
    stop, started = threading.Event(), time.monotonic()
    ended: list[float] = []

    def enough() -> bool:
        # After the producer has ended, the group may need time for what is left.
        late = bool(ended) and time.monotonic() > ended[0] + PATIENCE_S
        return bool(ended) and (len(set(counts.read)) >= counts.sent or late)

    threads = [threading.Thread(target=produce, args=(logins["tokens"], rate, counts, stop))]
    for name, given in logins.items():
        threads.append(threading.Thread(target=consume, args=(given, name, counts, enough)))
    for each in threads:
        each.start()
    try:
        # A constructor refuses a key of another certificate, which a client at work waits out.
        ready_by = time.monotonic() + PATIENCE_S
        while len(counts.renewals) < len(threads) and not counts.errors:
            if time.monotonic() > ready_by:
                counts.errors.append("the clients did not start in time")
            time.sleep(0.01)
        started = time.monotonic()  # on a busy machine, the clients take long to start
        for number in range(1, periods + 1):
            brokers.replace_certificates(number)
            brokers.restart(1 + number % NODES)
            stop.wait(max(0.0, started + number * period_s - time.monotonic()))
            say(_line(number, time.monotonic() - started, counts, idp))
        # A renewal may be late. If it never comes, the verdict says it.
        renewed_by = time.monotonic() + PATIENCE_S
        while not _is_renewed(counts, idp, periods) and not counts.errors:
            if time.monotonic() > renewed_by:
                break
            time.sleep(0.01)
    finally:
        stop.set()
        threads[0].join()
        ended.append(time.monotonic())
        for each in threads[1:]:
            each.join()
    return _verdict(counts, log_of(logins["scram"], counts.sent), idp, periods)


def _line(number: int, passed_s: float, counts: Counts, idp: IdentityProvider) -> str:
    renewed = ", ".join(f"{name} {total:.0f}" for name, total in sorted(counts.renewals.items()))
    return (
        f"{passed_s / 60:6.1f} min  {number} restarts  {counts.sent:,} sent"
        f"  {counts.acknowledged:,} acknowledged  {len(counts.read):,} read  {idp.issued} tokens"
        f"  renewed sessions: {renewed}  {len(counts.errors)} errors"
    )


def _is_renewed(counts: Counts, idp: IdentityProvider, periods: int) -> bool:
    return idp.issued >= periods and all(list(counts.renewals.values()))


def _verdict(counts: Counts, log: list[int], idp: IdentityProvider, periods: int) -> list[str]:
    wrong = list(counts.errors)
    numbers, read = set(range(counts.sent)), {int(value) for value in counts.read}
    for name, found in (("the log", set(log)), ("the group", read)):
        if found != numbers:
            few = sorted(numbers ^ found)[:5]
            wrong.append(f"{name} lacks {len(numbers - found)} records, among them {few}")
    if len(log) != len(set(log)):
        wrong.append(f"{len(log) - len(set(log))} records are twice in the log")
    if counts.acknowledged != counts.sent:
        wrong.append(f"{counts.sent} records were sent, and {counts.acknowledged} acknowledged")
    if not _is_renewed(counts, idp, periods):
        wrong.append(f"too few tokens ({idp.issued}) or renewed sessions ({counts.renewals})")
    return wrong


def main() -> int:
    """Runs the soak and prints its lines."""
    parser = argparse.ArgumentParser(prog="python -m benches.secure_soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--period", type=float, default=60, help="seconds (60)")
    parser.add_argument("--rate", type=int, default=2_000, help="records a second (2000)")
    parser.add_argument("--embedded", action="store_true", help="embedded brokers, without Java")
    given = parser.parse_args()
    periods = max(1, round(given.minutes * 60 / given.period))
    wrong = run(periods, given.period, given.rate, given.embedded)
    return conclude(wrong)


if __name__ == "__main__":
    sys.exit(main())
