"""The embedded broker's responses to raw requests equal Kafka's, field by field.

`crates/broker/examples/responses` sends some hundred requests, good and bad, to one new node, and
prints each response. The test does not compare the text of error messages or the list of APIs.
"""

from __future__ import annotations

import re
import subprocess

from tests.support.examples import example
from tests.support.kafka.cluster import RealKafka
from thalweg import EmbeddedBroker

# Responses that differ, and why.
DIFFERENT = {
    "create, validate v7": "of a real node min.insync.replicas is a dynamic default (KIP-966)",
    "configs v4": "of a real node min.insync.replicas is a dynamic default (KIP-966)",
    "metadata, unknown id v10": "Kafka names no brokers beside the error",
    "metadata, zero id v12": "Kafka names no brokers beside the error",
    "produce base offset": "the log's start beside a refusal: 0, here unknown",
    "produce control": "the log's start beside a refusal: 0, here unknown",
    "produce counts": "the log's start beside a refusal: 0, here unknown",
    "produce no sequence": "the log's start beside a refusal: 0, here unknown",
    "produce, keyless v12": "the log's start beside a refusal: 0, here unknown",
    "produce unknown codec": "INVALID_RECORD in the place of UNKNOWN_SERVER_ERROR",
    "alter operation v1": "INVALID_REQUEST in the place of UNKNOWN_SERVER_ERROR",
}
# Kafka returns these in the order of a hash table.
UNORDERED = {"delete v5", "delete again v6"}
MESSAGE = re.compile(r'((?:error_)?message): (?:None|Some\(\s*".*?",?\s*\)|"[^\n]*")', re.DOTALL)
TOPIC_ID = re.compile(r"topic_id: (?!A{22})[\w-]{22},")
PACE = re.compile(r", waited (true|false)")  # depends on how busy the machine is
RESPONSES = 300


def test_raw_responses_are_kafkas() -> None:
    with EmbeddedBroker() as embedded:
        ours = responses_of(embedded.bootstrap_servers)
    kafka = RealKafka("4.3")
    try:
        kafka.start()
        theirs = responses_of(kafka.bootstrap_servers)
    finally:
        kafka.close()
    assert list(ours) == list(theirs)
    assert len(ours) >= RESPONSES
    differing = {name for name in ours if ours[name] != theirs[name]}
    assert differing == DIFFERENT.keys()


def responses_of(servers: str) -> dict[str, list[str]]:
    """Returns the lines of each response."""
    command = [example("responses"), servers]
    printed = subprocess.run(
        command, check=True, capture_output=True, text=True, timeout=600
    ).stdout
    printed = PACE.sub("", TOPIC_ID.sub("topic_id: ID,", MESSAGE.sub(r"\1: ?", printed)))
    found: dict[str, list[str]] = {}
    name = ""
    for line in printed.splitlines():
        if line[:1] not in " }])":
            name = line.partition(":")[0]
            found.setdefault(name, [])
        found[name].append(line)
    return {
        name: sorted(lines) if name in UNORDERED else lines
        for name, lines in found.items()
        if not name.startswith("api versions")
    }
