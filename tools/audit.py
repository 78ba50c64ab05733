"""Looks for known vulnerabilities, licences and sources that we do not accept in what we depend on.

    python tools/audit.py PIP_AUDIT        `make audit` calls it with the pip-audit that it installs

cargo-deny checks the crates of Cargo.lock with deny.toml. pip-audit checks each file of
requirements/. Both compare with public databases. If a database can't be reached, nothing is known
about vulnerabilities. So that part has not passed, and the program ends with an error.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S = 600
# Words in the output of a tool that could not reach its database.
UNREACHABLE = (
    "failed to fetch advisory database",
    "unable to load advisory database",
    "could not be audited",
    "ConnectionError",
    "ServiceError",
)
PASSED, FAILED, UNKNOWN = "passed", "FAILED", "NOT CHECKED, its database can't be reached"


@dataclass(frozen=True)
class Part:
    """One command of the audit, and what it checks."""

    checks: str
    command: Sequence[str]

    def run(self) -> tuple[str, str]:
        """Returns the result, and what the command printed."""
        try:
            ended = subprocess.run(
                self.command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=LIMIT_S,
                check=False,
            )
        except FileNotFoundError:
            return FAILED, f"{self.command[0]} is not installed"
        except subprocess.TimeoutExpired:
            return FAILED, f"it did not end within {LIMIT_S} s"
        if ended.returncode == 0:
            return PASSED, ended.stdout
        out_of_reach = any(words in ended.stdout for words in UNREACHABLE)
        return UNKNOWN if out_of_reach else FAILED, ended.stdout


def parts(pip_audit: str) -> list[Part]:
    """Returns everything that the audit runs."""
    deny = ("cargo", "deny", "--locked", "check")
    found = [
        Part("licences, sources and banned crates", [*deny, "bans", "licenses", "sources"]),
        Part("vulnerabilities of crates", [*deny, "advisories"]),
    ]
    # Each file pins every package, so pip does not have to look for more of them.
    pip = (pip_audit, "--strict", "--no-deps", "--disable-pip", "--progress-spinner=off")
    for file in sorted((ROOT / "requirements").glob("*.txt")):
        name = f"requirements/{file.name}"
        found.append(Part(f"vulnerabilities of {name}", [*pip, "--requirement", name]))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("pip_audit", help="the path of pip-audit")
    results = []
    for part in parts(parser.parse_args(arguments).pip_audit):
        result, output = part.run()
        if result == FAILED:
            print(f"{part.checks}:\n{output}", file=sys.stderr)
        results.append((part.checks, result))
    width = max(len(checks) for checks, _ in results)
    for checks, result in results:
        print(f"{checks:{width}}  {result}")
    return 0 if all(result == PASSED for _, result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
