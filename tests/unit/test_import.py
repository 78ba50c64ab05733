"""An import loads only what is used."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import thalweg

ROOT = Path(__file__).resolve().parents[2]
# Reads sys.modules only. The benchmarks print times and do not assert them.
HEAVY = ("pyarrow", "pandas", "polars", "numpy", "pyspark", "asyncio", "thalweg._core", "rich")


def loaded_by(code: str) -> set[str]:
    found = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sorted(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(found.stdout.split())


def heavy(modules: set[str]) -> list[str]:
    return [name for name in HEAVY if name in modules]


def test_importing_thalweg_loads_next_to_nothing():
    modules = loaded_by("import thalweg")
    assert heavy(modules) == []
    ours = {name for name in modules if name.split(".")[0] == "thalweg"}
    assert ours == {"thalweg", "thalweg._version"}
    assert not modules & {"typing", "logging", "inspect", "dataclasses", "socket", "ssl"}


@pytest.mark.parametrize(
    "module",
    [
        "config",
        "errors",
        "structs",
        "serializer",
        "partitioner",
        "interceptor",
        "tables",
        "range_reader",
        "coordinator",
        "coordinator.assignors",
        "coordinator.driver",
        "cli",
    ],
)
def test_modules_without_clients_load_no_native_code(module):
    assert heavy(loaded_by(f"import thalweg.{module}")) == []


def test_importing_thalweg_aio_loads_neither_asyncio_nor_native_code():
    assert heavy(loaded_by("import thalweg.aio")) == []


def test_names_that_need_no_client_load_none():
    code = "from thalweg import TopicPartition, OffsetAndMetadata, JsonSerializer, RecordTable"
    assert heavy(loaded_by(code)) == []


@pytest.mark.parametrize(
    "name",
    [
        "thalweg.KafkaProducer",
        "thalweg.KafkaConsumer",
        "thalweg.KafkaAdminClient",
        "thalweg.aio.AIOKafkaProducer",
        "thalweg.aio.AIOKafkaConsumer",
    ],
)
def test_a_client_does_not_load_the_types_of_options(name):
    # They are many, and only type checkers read them.
    home, client = name.rsplit(".", 1)
    assert "thalweg._config.option_types" not in loaded_by(f"from {home} import {client}")


@pytest.mark.parametrize("name", thalweg.__all__)
def test_every_public_name_is_there(name):
    assert getattr(thalweg, name) is not None
    assert name in dir(thalweg)


def test_every_public_name_has_a_home_and_no_other_is_listed():
    homes = thalweg._HOMES
    assert {*homes, "__version__"} == set(thalweg.__all__)
    for name, home in homes.items():
        module = __import__(f"thalweg.{home}", fromlist=[name])
        assert getattr(module, name) is getattr(thalweg, name)


def test_submodules_are_attributes_without_an_import():
    for name in sorted(thalweg._MODULES):
        assert getattr(thalweg, name).__name__ == f"thalweg.{name}"


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'thalweg' has no attribute 'nonsense'"):
        thalweg.nonsense  # noqa: B018


def test_what_asyncio_lacks_names_what_to_use():
    import thalweg.aio

    with pytest.raises(AttributeError, match=r"'AIOKafkaAdminClient': use thalweg\."):
        thalweg.aio.AIOKafkaAdminClient  # noqa: B018
    with pytest.raises(AttributeError, match=r"has no attribute 'nonsense'$"):
        thalweg.aio.nonsense  # noqa: B018


def test_the_version_is_cargos():
    text = (ROOT / "Cargo.toml").read_text()
    match = re.search(r'\[workspace\.package\]\nversion = "([^"]+)"', text)
    assert match is not None
    assert thalweg.__version__ == match[1]


def test_both_packages_are_typed():
    for package in ("thalweg", "pyspark_thalweg"):
        assert (ROOT / "python" / package / "py.typed").exists()


def test_calls_of_the_native_core_tell_what_they_do():
    """In a shell without an editor, `help()` is the only documentation."""
    code = """
import thalweg
for cls in (thalweg.KafkaProducer, thalweg.KafkaConsumer):
    calls = {each: getattr(cls, each) for each in dir(cls) if not each.startswith("_")}
    silent = [name for name, call in calls.items() if callable(call) and not call.__doc__]
    print(cls.__name__, silent)
"""
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=180
    )
    assert result.stdout == "KafkaProducer []\nKafkaConsumer []\n"
