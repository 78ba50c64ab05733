"""Config providers (KIP-297): parts of values that come from the environment or from files.

    "${file:/run/secrets/kafka.properties:password}" ──> allowed? ──> read ──> "hunter2"

They are off by default. Otherwise a person who may set options could read any file of the process
(CVE-2024-31141). So `config_providers` enables each one by name, and another option says what it
may read. Nothing here raises, because a traceback would show the variables of its frames.
"""

import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from thalweg._config.findings import Findings
from thalweg._config.options import Option
from thalweg._config.secret import hidden, revealed
from thalweg._config.suggestions import did_you_mean

__all__ = ["substituted"]

# No part contains the beginning of a placeholder, so that a search takes linear time.
_PLACEHOLDER: Final = r"\$\{([^${}:]*):(?:([^${}]*):)?([^${}:]*)\}"
# The beginning of something that a provider, a shell or a template should have replaced.
_LIKE_A_PLACEHOLDER: Final = r"\$\{[A-Za-z_]\w*[:}]"
_BYTES_MAX: Final = 1 << 20
_PATHS: Final = "config_providers_{}_param_allowed_paths"
_PATTERN: Final = "config_providers_env_param_allowlist_pattern"
_CLASSES: Final = {
    "env": "EnvVarConfigProvider",
    "file": "FileConfigProvider",
    "dir": "DirectoryConfigProvider",
}
_PACKAGE: Final = "org.apache.kafka.common.config.provider."


@dataclass(frozen=True)
class _Problem:
    """Why a placeholder has no value: the rest of a sentence that begins with the placeholder."""

    text: str


_Reader = Callable[[str, str], "str | _Problem"]


def substituted(
    given: Mapping[str, Any], known: Mapping[str, Option], found: Findings
) -> dict[str, Any]:
    """Returns the given options with a value in place of each placeholder.

    Args:
        given: The user's options, under any of their names.
        known: All names of options.
        found: Gets the problems.

    Returns:
        The options. A value that contained a placeholder is a `Secret`, whatever the option: the
        purpose of a provider is to supply secrets.
    """
    own = {known[name].name: value for name, value in given.items() if name in known}
    readers = _readers(own, found)
    if not readers:
        _warn_of_placeholders(given, known, found)
        return dict(given)
    replaced = {
        name: value if _is_own(known.get(name)) else _substitute(name, value, readers, found)
        for name, value in given.items()
    }
    changed = [name for name, value in given.items() if replaced[name] is not value]
    found.substituted |= {known[name].name for name in changed if name in known}
    unchanged = {name: value for name, value in given.items() if name not in changed}
    _warn_of_placeholders(unchanged, known, found)
    return replaced


def _warn_of_placeholders(
    given: Mapping[str, Any], known: Mapping[str, Option], found: Findings
) -> None:
    """Warns of credentials that would be sent although they look like a placeholder."""
    for name, value in given.items():
        row, text = known.get(name), revealed(value)
        if row is None or not (row.secret or row.name == "sasl_plain_username"):
            continue
        if isinstance(text, str) and re.search(_LIKE_A_PLACEHOLDER, text) is not None:
            # The text may nevertheless be a password, so it is not shown.
            found.warn(
                f"{name} looks like a placeholder, but no config provider has replaced it, so the"
                " client uses the text as it is. A placeholder is '${provider:key}' or"
                " '${provider:path:key}'. Set config_providers to the name of its provider"
            )


def _is_own(row: Option | None) -> bool:
    return row is not None and row.name.startswith("config_providers")


def _readers(own: Mapping[str, Any], found: Findings) -> dict[str, _Reader]:
    """Returns what reads the placeholders of each enabled provider."""
    readers: dict[str, _Reader] = {}
    for name in _listed("config_providers", own, found):
        if name not in _CLASSES:
            hint = did_you_mean(name, _CLASSES)
            found.problem(
                f"config_providers names {name!r}{hint}. Use one or more of env, file and dir"
            )
            continue
        kind = own.get(f"config_providers_{name}_class")
        if kind is not None and kind != _PACKAGE + _CLASSES[name]:
            found.problem(
                f"config_providers_{name}_class must be {_PACKAGE + _CLASSES[name]}, not {kind!r}"
            )
            continue
        reader = _env_reader(own, found) if name == "env" else _file_reader(name, own, found)
        if reader is not None:
            readers[name] = reader
    return readers


def _env_reader(own: Mapping[str, Any], found: Findings) -> _Reader | None:
    pattern = own.get(_PATTERN)
    if not pattern or not isinstance(pattern, str):
        found.problem(
            f"config_providers has 'env', so set {_PATTERN} to a regular expression of the"
            " environment variables that it may read"
        )
        return None
    try:
        allowed = re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        found.problem(f"{_PATTERN} is not a regular expression: {error}")
        return None

    def read(path: str, key: str) -> str | _Problem:
        if path:
            return _Problem("has a path, but an environment variable has only a name")
        if allowed.fullmatch(key) is None:
            return _Problem(f"is not allowed: {_PATTERN} does not match {key!r}")
        value = os.environ.get(key)
        return _Problem("is not set in the environment") if value is None else value

    return read


def _file_reader(kind: str, own: Mapping[str, Any], found: Findings) -> _Reader | None:
    option = _PATHS.format(kind)
    folders = _listed(option, own, found)
    if not folders or not all(os.path.isabs(each) for each in folders):
        found.problem(
            f"config_providers has {kind!r}, so set {option} to the absolute paths of the files or"
            " folders that it may read"
        )
        return None
    roots = [os.path.realpath(each) for each in folders]

    def read(path: str, key: str) -> str | _Problem:
        if kind == "dir" and os.path.basename(key) != key:
            return _Problem("does not name a file of the folder")
        if not path:
            return _Problem(f"has no path: write ${{{kind}:/path:key}}")
        where = os.path.realpath(os.path.join(path, key) if kind == "dir" else path)
        if not any(where == root or _is_in(where, root) for root in roots):
            return _Problem(f"is not allowed: the file is not in {option}")
        text = _contents(where, roots)
        if isinstance(text, _Problem):
            return text
        if kind == "dir":
            return text.removesuffix("\n").removesuffix("\r")
        value = _properties(text).get(key)
        return _Problem(f"has no value: the file has no key {key!r}") if value is None else value

    return read


def _is_in(where: str, root: str) -> bool:
    return where.startswith(root.rstrip(os.sep) + os.sep)


def _contents(path: str, roots: Sequence[str]) -> str | _Problem:
    # Another process may replace a link or the file meanwhile: what counts is the opened file. A
    # pipe must not block.
    opened = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    try:
        status, now = os.fstat(opened), os.path.realpath(path)
        is_same = os.path.samestat(status, os.stat(now))
        if not is_same or not any(now == root or _is_in(now, root) for root in roots):
            return _Problem("is not allowed: the file was replaced while it was read")
        if not stat.S_ISREG(status.st_mode) or status.st_size > _BYTES_MAX:
            return _Problem(f"is not in a regular file of at most {_BYTES_MAX} bytes")
        return os.read(opened, _BYTES_MAX).decode()
    finally:
        os.close(opened)


def _read(reader: _Reader, path: str, key: str) -> str | _Problem:
    try:
        return reader(path, key)
    except OSError as error:
        return _Problem(f"cannot be read: {error.strerror}")
    except ValueError:
        return _Problem("cannot be read: it is not UTF-8 text, or its path is not valid")


def _substitute(name: str, value: Any, readers: Mapping[str, _Reader], found: Findings) -> Any:
    text = revealed(value)
    if not isinstance(text, str) or "${" not in text:
        return value
    problems: list[str] = []

    def replaced(match: re.Match[str]) -> str:
        reader = readers.get(match[1])
        if reader is None:
            return match[0]
        result = _read(reader, match[2] or "", match[3])
        if isinstance(result, _Problem):
            problems.append(f"{match[0]} {result.text}")
            return ""
        return result

    result = re.sub(_PLACEHOLDER, replaced, text)
    for each in problems:
        found.problem(f"{name}: {each}")
    return value if problems or result == text else hidden(result)


def _listed(option: str, own: Mapping[str, Any], found: Findings) -> list[str]:
    value = own.get(option)
    parts = value.split(",") if isinstance(value, str) else value
    if isinstance(value, os.PathLike):
        parts = [value]
    if parts is None:
        return []
    if not isinstance(parts, list | tuple) or not all(
        isinstance(each, str | os.PathLike) for each in parts
    ):
        found.problem(f"{option} must be a str, or a list of str, not {type(value).__name__}")
        return []
    return [text for each in parts if (text := os.fsdecode(each).strip())]


def _properties(text: str) -> dict[str, str]:
    """Reads the format of Java's `Properties`: `key=value`, `key: value` or `key value`."""
    found: dict[str, str] = {}
    for line in _logical_lines(text):
        match = re.match(r"((?:\\.|[^\\=:\s])*)[ \t\f]*[=:]?[ \t\f]*(.*)", line, re.DOTALL)
        if match is not None:
            found[_unescaped(match[1])] = _unescaped(match[2])
    return found


def _logical_lines(text: str) -> list[str]:
    """Joins lines that end with an odd number of backslashes, and drops comments."""
    lines: list[list[str]] = []
    continued = False
    for raw in re.split(r"\r\n|\r|\n", text):
        line = raw.lstrip(" \t\f")
        if not continued and (not line or line[0] in "#!"):
            continue
        ends = len(line) - len(line.rstrip("\\"))
        part = line[:-1] if ends % 2 == 1 else line
        if continued:
            lines[-1].append(part)
        else:
            lines.append([part])
        continued = ends % 2 == 1
    return ["".join(parts) for parts in lines]


def _unescaped(text: str) -> str:
    special = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

    def one(match: re.Match[str]) -> str:
        if match[1]:
            return chr(int(match[1], 16))
        return special.get(match[2], match[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", one, text, flags=re.DOTALL)
