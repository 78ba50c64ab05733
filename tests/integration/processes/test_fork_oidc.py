"""fork() while a client has tokens of an identity provider: the child gets its own."""

from __future__ import annotations

import sys

import pytest

from tests.integration.support.scripts import run
from tests.support.brokers import Brokers
from tests.support.identity import IdentityProvider
from tests.support.kafka.cluster import RealKafka

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="there is no fork")

PROGRAM = """
import gc, threading
from thalweg.auth.oidc import sharing

servers, url, topic = sys.argv[1:4]
options = {
    "bootstrap_servers": servers,
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "OAUTHBEARER",
    "sasl_oauthbearer_token_endpoint_url": url,
    "sasl_oauthbearer_client_credentials_client_id": "forks",
    "sasl_oauthbearer_client_credentials_client_secret": "hunter2",
}
producer = KafkaProducer(**options)
producer.send(topic, b"parent").get(20)
# Another thread holds both locks at the moment of the fork.
shared = next(iter(sharing._all.values()))
held, end = threading.Event(), threading.Event()

def hold():
    with sharing._all_lock, shared._lock:
        held.set()
        end.wait(60)

threading.Thread(target=hold, daemon=True).start()
assert held.wait(30)
pid = os.fork()
if pid == 0:
    try:
        assert not sharing._all
        with KafkaProducer(**options) as own:
            own.send(topic, b"child").get(20)
        os._exit(0)
    except BaseException:
        import traceback
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
end.set()
until = time.monotonic() + 60
while True:
    ended, status = os.waitpid(pid, os.WNOHANG)
    if ended:
        break
    if time.monotonic() > until:
        os.kill(pid, signal.SIGKILL)
        raise SystemExit("the child hangs")
    time.sleep(0.01)
assert os.waitstatus_to_exitcode(status) == 0
producer.send(topic, b"parent").get(20)
producer.close()
print("done")
"""


@pytest.fixture
def kafka(brokers: Brokers) -> RealKafka:
    return brokers.secure_kafka()


def test_a_forked_child_requests_its_own_token(kafka: RealKafka) -> None:
    """Scenario 73."""
    kafka.create_topic("oidc-fork")
    with IdentityProvider() as idp:
        ended = run(PROGRAM, kafka.bootstrap("SASL_PLAINTEXT"), idp.token_url, "oidc-fork")
        assert (ended.code, ended.lines) == (0, ["done"]), ended.err
        assert len(idp.requests) == 2, "one of the parent, and one of the child"
