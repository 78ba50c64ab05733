"""Generated files match the tables that they come from."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize(
    "generator", ["generate_config.py", "generate_errors.py", "generate_states.py"]
)
def test_generated_files_are_what_the_generator_writes(generator):
    found = subprocess.run(
        [sys.executable, ROOT / "tools" / generator, "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_constructors_take_every_option_and_the_core_is_told_every_core_option():
    from thalweg._config import option_types as types
    from thalweg.config import options_of, resolve

    rows: tuple[tuple[Any, Any, Any], ...] = (
        ("p", types.ProducerConfig, types.CoreProducerConfig),
        ("c", types.ConsumerConfig, types.CoreConsumerConfig),
        ("a", types.AdminConfig, types.CoreClientConfig),
    )
    for client, public, core in rows:
        serializers = {name for name in options_of(client) if name.endswith("serializer")}
        assert set(public.__annotations__) | serializers == set(options_of(client))
        assert set(core.__annotations__) == set(resolve(client, {}).core())


def test_the_driver_reads_every_option_of_its_type():
    from thalweg._config.option_types import DriverConfig

    files = [
        *(ROOT / "python/thalweg/coordinator/driver").glob("*.py"),
        ROOT / "python/thalweg/_client/consuming.py",  # the reset policy
    ]
    text = "".join(path.read_text(encoding="utf-8") for path in files)
    read = set(re.findall(r"""config\[["'](\w+)["']\]""", text))
    assert set(DriverConfig.__annotations__) - read == set()
