"""kafka-python's own integration tests, run against thalweg and against kafka-python itself.

The tests are those of its source distribution, unchanged. `kafka` is the package of alias/, and one
real Kafka 4.3 replaces the brokers that the suite starts itself. expected.py lists what does not
pass. A test that is listed there and passes is a failure too.

Only `make test-full` runs this, after `make kafka-python-suite`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.kafka_python_suite import expected
from tests.support.kafka.cluster import USERS, RealKafka
from tests.support.paths import CACHE, PEERS_PYTHON, made
from thalweg import KafkaAdminClient
from thalweg.admin import UserScramCredentialUpsertion

HERE = Path(__file__).parent
VERSION = "3.0.12"
USER = "alice"
LIMIT_S = 900


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Starts a real Kafka with the suite's settings, and yields its address as JSON."""
    configs = {"num.partitions": "4", "group.min.session.timeout.ms": "1000"}
    options = {"secure": True, "authorizer": True, "first_node_id": 0, "configs": configs}
    with RealKafka("4.3", **options) as kafka:  # type: ignore[arg-type]
        with KafkaAdminClient(bootstrap_servers=kafka.bootstrap_servers) as admin:
            for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                upsertion = UserScramCredentialUpsertion(USER, mechanism, USERS[USER])
                assert admin.alter_user_scram_credentials([upsertion]) == {USER: None}
        ssl_dir = tmp_path_factory.mktemp("ssl")
        shutil.copy(kafka.certificates / "ca.pem", ssl_dir / "ca-cert")
        yield json.dumps(
            {
                "ports": kafka.nodes[0].ports,
                "ssl_dir": str(ssl_dir),
                "user": USER,
                "password": USERS[USER],
            }
        )


def _results(folder: Path, broker: str, path: list[Path]) -> tuple[dict[str, str], str]:
    """Returns {test: "passed", "failed" or "skipped"}, and pytest's output."""
    sdist = made(CACHE / "compat" / f"kafka_python-{VERSION}-sdist", "kafka-python-suite")
    suite = folder / "test"
    shutil.copytree(sdist / "test", suite)
    (suite / "__init__.py").touch()  # the distribution does not contain it
    shutil.copy(HERE / "broker_fixtures.py", suite / "integration" / "fixtures.py")
    (folder / "pytest.ini").write_text("[pytest]\n")
    report = folder / "report.xml"
    command = [
        sys.executable,
        "-m",
        "pytest",
        "test/integration",
        "-q",
        "--timeout=120",
        "--durations=12",
    ]
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, [folder, *path])),
        "KAFKA_VERSION": "4.3",
        "THALWEG_SUITE_BROKER": broker,
    }
    ran = subprocess.run(
        [*command, f"--junitxml={report}"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    cases = ElementTree.parse(report).iter("testcase") if report.exists() else ()
    found: dict[str, str] = {}
    for case in cases:
        module = str(case.get("classname")).removeprefix("test.integration.")
        kinds = {child.tag for child in case}
        failed = kinds & {"failure", "error"}
        outcome = "failed" if failed else "skipped" if "skipped" in kinds else "passed"
        found[f"{module}.{case.get('name')}"] = outcome
    return found, ran.stdout + ran.stderr


def _check(results: dict[str, str], printed: str, fails: dict[str, str]) -> None:
    assert len(results) > 50, printed
    by_outcome = {
        outcome: {test for test, found in results.items() if found == outcome}
        for outcome in ("failed", "skipped")
    }
    listed = {"failed": set(fails), "skipped": set(expected.SKIPPED)}
    print(printed)
    assert by_outcome == listed, printed


def test_thalweg_passes_all_that_is_not_listed(broker: str, tmp_path: Path) -> None:
    root = Path(sys.modules["thalweg"].__path__[0]).parent
    results, printed = _results(tmp_path, broker, [HERE / "alias", root])
    _check(results, printed, expected.THALWEG_FAILS)


def test_kafka_python_passes_all_that_is_not_listed(broker: str, tmp_path: Path) -> None:
    """A test that kafka-python fails on this broker would say nothing about thalweg."""
    packages = next(made(PEERS_PYTHON, "peers").parents[1].glob("lib/python3*/site-packages"))
    results, printed = _results(tmp_path, broker, [packages])
    _check(results, printed, expected.KAFKA_PYTHON_FAILS)
