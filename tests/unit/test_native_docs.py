"""The docstrings in the stub of the native module are those that the tool writes.

tools/generate_stub_docs.py says where they come from. The signatures in the stub are written by
hand: mypy's stubtest compares them with the native module (`make lint`).
"""

import importlib.util
import subprocess
import sys
from types import ModuleType, SimpleNamespace

import pytest

from tests.support.paths import ROOT

TOOL = ROOT / "tools" / "generate_stub_docs.py"
STUB = '''\
from typing import Final, TypedDict, final, type_check_only

is_optimized: Final[bool]
"""Only the stub says this."""

def wait(
    timeout: float,
) -> None: ...
@final
class Future:
    @property
    def value(self) -> int:
        """An old text."""
    def cancel(self) -> None: ...
    def __len__(self) -> int: ...
    @property
    def blocking(self) -> bool: ...
    @blocking.setter
    def blocking(self, blocking: bool) -> None: ...

@type_check_only
class Hooks:
    def on_send(self) -> None:
        """Only the stub has it."""

class View(TypedDict):
    epoch: int
'''
WRITTEN = '''\
from typing import Final, TypedDict, final, type_check_only

is_optimized: Final[bool]
"""Only the stub says this."""

def wait(
    timeout: float,
) -> None:
    """Waits.

    Raises:
        KafkaTimeoutError: After `timeout` seconds.
    """

@final
class Future:
    """A result."""

    @property
    def value(self) -> int:
        """The value."""

    def cancel(self) -> None:
        """Cancels a result whose first paragraph is so long that the quotes do not fit into a
        line.
        """

    def __len__(self) -> int: ...
    @property
    def blocking(self) -> bool:
        """Whether it blocks."""

    @blocking.setter
    def blocking(self, blocking: bool) -> None: ...

@type_check_only
class Hooks:
    def on_send(self) -> None:
        """Only the stub has it."""

class View(TypedDict):
    epoch: int
'''


def documented(text: str | None) -> SimpleNamespace:
    return SimpleNamespace(__doc__=text)


@pytest.fixture(scope="module")
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_stub_docs", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def native() -> SimpleNamespace:
    return SimpleNamespace(
        wait=documented("Waits.\n\nRaises:\n    KafkaTimeoutError: After `timeout` seconds."),
        Future=SimpleNamespace(
            __doc__="A result.",
            value=documented("The value."),
            cancel=documented(
                "Cancels a result whose first paragraph is so long that the quotes do not fit into"
                " a line."
            ),
            __len__=documented("Python's own text."),
            blocking=documented("Whether it blocks."),
        ),
    )


def test_the_docstrings_of_the_stub_are_those_of_the_native_module() -> None:
    found = subprocess.run(
        [sys.executable, TOOL, "--check"], capture_output=True, text=True, check=False
    )
    assert found.returncode == 0, found.stdout + found.stderr


def test_docstrings_are_written_below_the_signatures(tool, native) -> None:
    assert tool.render(STUB, native) == (WRITTEN, [])


def test_a_stub_that_is_up_to_date_stays_as_it_is(tool, native) -> None:
    assert tool.render(WRITTEN, native) == (WRITTEN, [])


def test_everything_without_a_native_docstring_is_listed(tool, native) -> None:
    native.wait.__doc__ = None
    native.Future.value.__doc__ = ""
    del native.Future.cancel
    text, problems = tool.render(STUB, native)
    assert text == STUB
    assert [each.partition(":")[0] for each in problems] == [
        "wait",
        "Future.value",
        "Future.cancel",
    ]


def test_a_special_method_must_not_have_a_docstring_of_its_own(tool, native) -> None:
    stub = STUB.replace(
        "def __len__(self) -> int: ...", 'def __len__(self) -> int:\n        "Rows"'
    )
    _, problems = tool.render(stub, native)
    assert problems == ["Future.__len__: describe a special method in the doc comment of its class"]


@pytest.mark.parametrize("text", ['He says """no""".', "A path: C:\\temp."])
def test_text_that_python_would_read_differently_is_refused(tool, native, text) -> None:
    native.wait.__doc__ = text
    _, problems = tool.render(STUB, native)
    assert problems == ["wait: its doc comment must not contain a backslash or three quotes"]


def test_the_check_names_the_command_to_run(tool, monkeypatch, tmp_path, capsys) -> None:
    stale = tmp_path / "_core.pyi"
    current = tool.STUB.read_text(encoding="utf-8")
    stale.write_text(current.replace("The producer core.", "An old text."), encoding="utf-8")
    monkeypatch.setattr(tool, "STUB", stale)
    assert tool.main(["--check"]) == 1
    assert tool.COMMAND in capsys.readouterr().out
    assert tool.main([]) == 0
    assert stale.read_text(encoding="utf-8") == current
