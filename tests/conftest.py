"""Fixtures that every test may use. Their code is in tests/support."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from typing import Any

import hypothesis
import pytest
from xdist.remote import Producer

from tests.support import java
from tests.support.brokers import KINDS, MODERN_KINDS, Broker, Brokers
from tests.support.kafka.cluster import RealKafka
from tests.support.runs import selection, sharing
from tests.support.runs.scheduling import Scheduling, rank
from tests.support.runs.sharing import Sharing
from tests.support.scale import FULL_SCALE, scale

# A pause of a busy machine is not a failure, neither of an example nor while one is generated.
hypothesis.settings.register_profile(
    "thalweg", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("thalweg")

# This applies to Spark's own JVMs, too, also if a test starts a program that starts Spark. The
# tests of Spark also use an archive of classes (tests/spark/conftest.py).
os.environ["SPARK_SUBMIT_OPTS"] = " ".join(java.SHORT_LIVED)


def pytest_report_header() -> list[str]:
    """Reports the scale of the tests."""
    lines = [f"thalweg: test scale {scale():g} (1 is 2% of the full numbers, 50 is all of them)"]
    if scale() < FULL_SCALE:
        lines.append("thalweg: the end of the output counts what only make test-full runs")
    return lines


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keeps the tests of this scale, and runs the longest files first."""
    deselected = selection.deselect(items)
    config.stash[_DESELECTED] = deselected
    if hasattr(config, "workeroutput"):  # a process of xdist
        config.workeroutput["deselected"] = dict(deselected)
    items.sort(key=lambda item: rank(item.path.name))


def pytest_configure(config: pytest.Config) -> None:
    """Lets the processes of `pytest -n` find what they share."""
    if hasattr(config, "workerinput") or not config.getoption("numprocesses", None):
        config.stash[_SHARING] = Sharing(sharing.folder_of(config))


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stops what this process has started for all, when its own tests have closed everything."""
    if (shared := session.config.stash.get(_SHARING, None)) is not None:
        shared.leave()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Takes over what a process of xdist has deselected. All processes deselect the same."""
    ended = getattr(node, "workeroutput", None)  # a process that crashed has none
    if ended is not None:
        node.config.stash[_DESELECTED] = Counter(ended.get("deselected", {}))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Says which tests of this tree did not run at this scale, and why."""
    deselected = config.stash.get(_DESELECTED, Counter[str]())
    for line in selection.summary(deselected):
        terminalreporter.write_line(line)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling:
    """Keeps a file's tests in one process with its brokers, for `pytest -n 4`."""
    return Scheduling(config, log)


@pytest.fixture(scope="session")
def brokers(request: pytest.FixtureRequest) -> Iterator[Brokers]:
    """All brokers of the session, started on demand."""
    found = Brokers(request.config.stash[_SHARING])
    yield found
    found.close()


@pytest.fixture(scope="module", autouse=True)
def _topics_go_with_their_file(brokers: Brokers) -> Iterator[None]:
    """Deletes a file's topics: at full scale those of all files would not fit into memory."""
    yield
    brokers.forget_embedded_topics()


@pytest.fixture
def broker_of(request: pytest.FixtureRequest, brokers: Brokers) -> Callable[[str], Broker]:
    """Returns the session's broker of a kind. A failed test's report contains the broker's log."""

    def get(kind: str) -> Broker:
        found = brokers.get(kind)
        request.node.stash[_BROKER] = found
        return found

    return get


@pytest.fixture(params=KINDS)
def broker(request: pytest.FixtureRequest, broker_of: Callable[[str], Broker]) -> Broker:
    """Runs the test on the embedded broker, on Kafka 4.3 and on Kafka 3.9."""
    return broker_of(request.param)


@pytest.fixture(params=MODERN_KINDS)
def modern_broker(request: pytest.FixtureRequest, broker_of: Callable[[str], Broker]) -> Broker:
    """Runs the test on the embedded broker and on Kafka 4.3, for features that 3.9 lacks."""
    return broker_of(request.param)


@pytest.fixture
def embedded(brokers: Brokers) -> Broker:
    """The session's embedded broker."""
    return brokers.get("embedded")


@pytest.fixture
def kafka(broker_of: Callable[[str], Broker]) -> Broker:
    """The session's real Kafka 4.3."""
    return broker_of("kafka-4.3")


@pytest.fixture
def secure_kafka(brokers: Brokers) -> RealKafka:
    """A real Kafka 4.3 with TLS and SASL listeners; `.certificates`, `.bootstrap("SASL_SSL")`."""
    return brokers.secure_kafka()


@pytest.fixture
def start_kafka() -> Iterator[Callable[..., RealKafka]]:
    """Starts a real cluster for this test alone: `start_kafka("4.3", nodes=3)`."""
    started: list[RealKafka] = []

    def start(version: str = "4.3", **options: object) -> RealKafka:
        kafka = RealKafka(version, **options)  # type: ignore[arg-type]
        started.append(kafka)
        kafka.start()
        return kafka

    yield start
    for kafka in started:
        kafka.close()


_BROKER: pytest.StashKey[Broker] = pytest.StashKey()
_DESELECTED: pytest.StashKey[Counter[str]] = pytest.StashKey()
_SHARING: pytest.StashKey[Sharing] = pytest.StashKey()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds the last part of the broker's log to the report of a failed test."""
    report = yield
    broker = item.stash.get(_BROKER, None)
    if report.when == "call" and report.failed and broker is not None:
        report.sections.append((f"log of {broker.kind}", broker.logs()))
    return report
