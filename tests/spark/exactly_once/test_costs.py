"""What the exactly-once sink costs: requests to the brokers."""

from __future__ import annotations

from pathlib import Path

from tests.spark.conftest import Source, Topics
from tests.spark.exactly_once.conftest import Copy
from tests.support.brokers import Broker
from thalweg import EmbeddedBroker

TASKS = 2


def test_a_batch_sends_few_requests(source: Source, tmp_path: Path) -> None:
    """After the first batches, driver and workers have their connections."""
    with EmbeddedBroker() as embedded:
        topics = Topics(Broker("embedded", embedded.bootstrap_servers))
        copy = Copy(source, topics, tmp_path / "checkpoint")

        def requests(batches: int) -> dict[str, int]:
            for partition in range(TASKS):
                topics.send(copy.origin, ["a"] * 3 * batches, partition)
            before = embedded.requests()
            copy.run()
            return {api: many - before.get(api, 0) for api, many in embedded.requests().items()}

        requests(1)  # before the first decision, the driver also looks for those of other topics
        few, many = requests(2), requests(12)
        batch = {api: (many[api] - few.get(api, 0)) / 10 for api in many}
    # The driver plans, finds the coordinators, describes, decides, and looks for failed attempts.
    # Each task looks whether it is late.
    assert batch["OffsetFetch"] == batch["TxnOffsetCommit"] == 1
    assert batch["DescribeTransactions"] == 1 + TASKS
    assert batch["ListTransactions"] == 1
    assert batch["InitProducerId"] == batch["EndTxn"] == 1 + TASKS
    # Producers of tasks find their coordinators, and tasks that of the driver. So does the driver,
    # until it knows the names.
    assert batch["FindCoordinator"] <= 1 + 3 * TASKS
    # Producers of tasks connect. The driver has its connections. Spark may start another worker
    # during the run, which connects, too.
    assert batch["ApiVersions"] <= 3 * TASKS + 1
    assert batch["Metadata"] <= 3 * TASKS + 2
