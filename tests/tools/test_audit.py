"""`make audit` passes only if every part of it was checked and found nothing."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT

FOUND = "Found 1 known vulnerability in 1 package\nexample 1.0 PYSEC-1"
OFFLINE = "ERROR:pip_audit._cli:example: Dependency not found on PyPI and could not be audited"


def program(folder: Path, name: str, body: str) -> Path:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def audit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs the audit with a cargo and a pip-audit that do what the shell lines say."""
    spec = importlib.util.spec_from_file_location("audit", ROOT / "tools" / "audit.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "audit", module)  # dataclasses look for it there
    spec.loader.exec_module(module)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    def run(cargo: str = "exit 0", pip: str = "exit 0") -> int:
        program(tmp_path, "cargo", cargo)
        return module.main([str(program(tmp_path, "pip-audit", pip))])

    return run


def test_it_passes_when_every_part_has(audit, capsys):
    assert audit() == 0
    lines = capsys.readouterr().out.splitlines()
    files = [path.name for path in (ROOT / "requirements").glob("*.txt")]
    assert len(lines) == 2 + len(files)
    assert all(line.endswith("  passed") for line in lines)
    assert all(any(f"requirements/{name} " in line for line in lines) for name in files)


def test_a_vulnerability_fails_it_and_is_shown(audit, capsys):
    assert audit(pip=f"case $* in *peers*) echo '{FOUND}'; exit 1;; esac") == 1
    out, err = capsys.readouterr()
    [line] = [line for line in out.splitlines() if "FAILED" in line]
    assert "requirements/peers.txt" in line
    assert "PYSEC-1" in err


def test_a_licence_fails_it(audit, capsys):
    assert audit(cargo="case $* in *licenses*) echo 'error[rejected]'; exit 4;; esac") == 1
    [line] = [line for line in capsys.readouterr().out.splitlines() if "FAILED" in line]
    assert line.startswith("licences, sources and banned crates ")


def test_a_database_out_of_reach_does_not_count_as_passed(audit, capsys):
    unreachable = "case $* in *advisories*) echo 'failed to fetch advisory database'; exit 1;; esac"
    assert audit(cargo=unreachable, pip=f"echo '{OFFLINE}'; exit 1") == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("  passed")
    assert all("NOT CHECKED" in line for line in lines[1:])


def test_a_missing_program_fails_it(audit, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert audit() == 1
    assert "cargo is not installed" in capsys.readouterr().err
