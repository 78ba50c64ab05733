"""A process that stands still for longer than its sessions, tokens and requests may last."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Iterator

import pytest

from tests.integration.support.scripts import start
from tests.support.identity import IdentityProvider
from tests.support.scale import scaled
from thalweg import EmbeddedBroker

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no SIGSTOP")

NODES = 3
# Not shorter: a pause of the machine may cost a connection or a token.
LIFE_S = 7
# Longer than a session, a token, a request and the membership of the group.
SUSPENDED_S = scaled(60, minimum=10)

PROGRAM = """
import json, warnings
warnings.simplefilter("ignore")
servers, url = sys.argv[1:3]
common = {
    "bootstrap_servers": servers,
    "security_protocol": "SASL_PLAINTEXT",
    "request_timeout_ms": 8000,
}
producer = KafkaProducer(
    **common,
    acks="all",
    sasl_mechanism="OAUTHBEARER",
    sasl_oauthbearer_token_endpoint_url=url,
    sasl_oauthbearer_client_credentials_client_id="sleeper",
    sasl_oauthbearer_client_credentials_client_secret="hunter2",
)
consumer = KafkaConsumer(
    "sleep",
    **common,
    sasl_mechanism="SCRAM-SHA-256",
    sasl_plain_username="alice",
    sasl_plain_password="s3cret",
    group_id="sleepers",
    auto_offset_reset="earliest",
    session_timeout_ms=6000,
    heartbeat_interval_ms=500,
)
futures, read, number = [], [], 0
woken = threading.Event()
signal.signal(signal.SIGCONT, lambda *_: woken.set())

def metrics():
    of_both = {"producer": producer.metrics(), "consumer": consumer.metrics()}
    return {name: values[f"{name}-metrics"] for name, values in of_both.items()}

def work(seconds):
    global number
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        futures.append(producer.send("sleep", b"%d" % number, partition=number % 6))
        number += 1
        for records in consumer.poll(20).values():
            read.extend(int(record.value) for record in records)

work(5)
before = metrics()
print("working")
while not woken.is_set():
    work(0.1)
work(5)
for future in futures:
    future.get(30)
until = time.monotonic() + 30
while len(set(read)) < number and time.monotonic() < until:
    work(0.1)
after = metrics()
print(json.dumps({"sent": number, "read": read, "before": before, "after": after}))
consumer.close()
producer.close()
"""


@pytest.fixture
def embedded() -> Iterator[EmbeddedBroker]:
    with EmbeddedBroker(
        nodes=NODES,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanisms=["OAUTHBEARER", "SCRAM-SHA-256"],
        users={"alice": "s3cret"},
        configs={"connections.max.reauth.ms": str(LIFE_S * 1000)},
    ) as broker:
        broker.create_topic("sleep", 6, replication_factor=NODES)
        yield broker


def test_a_suspended_process_goes_on_with_one_reconnect_for_each_connection(
    embedded: EmbeddedBroker,
) -> None:
    """Scenario 110."""
    idp = IdentityProvider()
    idp.life_s = LIFE_S + 1
    with (
        idp,
        start(PROGRAM, embedded.bootstrap_servers, idp.token_url, limit_s=240) as script,
    ):
        script.wait_for("working")
        script.process.send_signal(signal.SIGSTOP)
        issued = idp.issued
        time.sleep(SUSPENDED_S)
        assert idp.issued <= issued + 1, "a request may have been open"
        issued = idp.issued
        script.process.send_signal(signal.SIGCONT)
        ended = script.end()
    assert ended.code == 0, ended.err
    told = json.loads(ended.lines[-1])
    assert set(told["read"]) == set(range(told["sent"]))
    for name, after in told["after"].items():
        before = told["before"][name]
        created = after["connection-creation-total"] - before["connection-creation-total"]
        assert created <= before["connection-count"], name
        assert after["failed-authentication-total"] == 0, name
        assert after["failed-reauthentication-total"] == 0, name
    # A few seconds of work, with a new token every six or seven.
    assert 0 < idp.issued - issued < 10
