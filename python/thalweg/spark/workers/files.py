"""Finds the files that options name, on the machine of the driver or of an executor.

    ca.pem ──> in the working directory?      ──> unchanged
           ──> among the files Spark shipped? ──> its path on this machine
           ──> in neither                     ──> an error

Spark ships files with `spark.sparkContext.addFile`, `--files` or, in Spark Connect,
`spark.addArtifact(path, file=True)`. Each worker process has its own folder of them, so the driver
and each task look for the files themselves. Absolute paths and PEM text remain unchanged.

Streams need more. The process that serves a stream on the driver gets a folder that does not exist.
So the data source remembers the folder of the process that created it, which is on the driver, too.
In Spark Connect, each session has a folder of its own, and the tasks of a stream get the folder
above it. They find the name of the session in the tags of their job.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from thalweg._config.concealment import names_of
from thalweg._config.formats.jaas import read_login
from thalweg._config.formats.pem import is_text
from thalweg._config.options import ROWS
from thalweg.errors import KafkaConfigurationError
from thalweg.spark.client_config import ClientConfig

# Besides the options whose value may be PEM text. None of them names a file that is written.
_PATHS: Final = (
    "https_ca_location",
    "sasl_kerberos_keytab",
    "sasl_oauthbearer_assertion_file",
    "sasl_oauthbearer_assertion_template_file",
)
_ONLY_TEXT: Final = ("https_ca_pem",)
_LOGIN: Final = "sasl_jaas_config"
_TOKEN_URL: Final = "sasl_oauthbearer_token_endpoint_url"
# Entries of Java's login line.
_ENTRIES: Final = ("keyTab", "ssl.truststore.location")
_SCHEME: Final = "file:"
# The property of a task with the tags of its job, and the tag of its session.
_TAGS: Final = "spark.job.tags"
_SESSION: Final = r"(?:^|,)spark-session-([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?=,|$)"
# A longer value is not shown in an error, because it may be a secret.
_PATH_CHARS_SHOWN: Final = 200
# librdkafka's word for the authorities of the system.
_NO_FILES: Final = ("", "probe")


def shipped_folder() -> str | None:
    """Returns the folder with the files that Spark has shipped to this process, if it has one."""
    from pyspark import SparkFiles

    try:
        return SparkFiles.getRootDirectory() or None
    except AssertionError:  # no worker, and no session in this process
        return None


def with_local_files(config: Mapping[str, Any], driver_files: str | None) -> ClientConfig:
    """Returns the options of a client with the paths that their files have on this machine.

    Args:
        config: The options of a client, under any of their names.
        driver_files: The folder of the process that created the data source.

    Raises:
        KafkaConfigurationError: If a relative path leads to no file, neither from the working
            directory nor among the files that Spark shipped. `problems` has one entry for each.
    """
    config = ClientConfig(config)  # a frame of the error shows no secret
    found, problems = _looked_up(config, _folders(driver_files))
    if problems:
        raise KafkaConfigurationError("; ".join(problems), problems=problems)
    return found


def _folders(driver_files: str | None) -> list[str]:
    """Returns the folders of this machine that may have shipped files."""
    from pyspark import TaskContext

    own, task = shipped_folder(), TaskContext.get()
    if task is None:
        places = [own, driver_files]
    else:
        names = re.findall(_SESSION, task.getLocalProperty(_TAGS) or "")
        places = [own, *(os.path.join(own or "", name) for name in names)]
    return [each for each in dict.fromkeys(places) if each and os.path.isdir(each)]


def _looked_up(config: ClientConfig, folders: Sequence[str]) -> tuple[ClientConfig, list[str]]:
    found, problems = ClientConfig(config), []
    for name, value in config.items():
        kind = _kinds().get(name)
        # A placeholder of a config provider is replaced later, by the client.
        if kind is None or not isinstance(value, str) or "${" in value:
            continue
        try:
            found[name] = _located(kind, value, folders)
        except FileNotFoundError as missing:
            problems.append(_problem(name, str(missing), folders))
    return found, problems


@lru_cache(maxsize=1)
def _kinds() -> dict[str, str]:
    """Returns how each option names a file, by every name of the option."""
    found: dict[str, str] = {}
    for row in ROWS:
        if row.name in (_LOGIN, _TOKEN_URL):
            kind = row.name
        elif row.name in _PATHS or (row.kind == "pem" and row.name not in _ONLY_TEXT):
            kind = "path"
        else:
            continue
        found.update(dict.fromkeys(names_of(row), kind))
    return found


def _located(kind: str, value: str, folders: Sequence[str]) -> str:
    if kind == _LOGIN:
        return _login(value, folders)
    if kind == _TOKEN_URL:
        place = value.removeprefix(_SCHEME)
        if place == value or place.startswith("/"):
            return value
        return Path(os.path.abspath(_path(unquote(place), folders))).as_uri()
    return value if is_text(value) or value in _NO_FILES else _path(value, folders)


def _login(line: str, folders: Sequence[str]) -> str:
    """Returns Java's login line, with the paths of its files on this machine."""
    try:
        login = read_login(line)
    except ValueError:
        return line  # the client explains what is wrong
    own: dict[str, str] = {
        name: _path(login.options[name], folders) for name in _ENTRIES if name in login.options
    }
    if all(login.options[name] == path for name, path in own.items()):
        return line
    entries: dict[str, str] = {**login.options, **own}
    text = " ".join(f"{name}={_quoted(value)}" for name, value in entries.items())
    return f"{login.module} required {text};"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _path(path: str, folders: Sequence[str]) -> str:
    """Returns where a file is on this machine.

    Raises:
        FileNotFoundError: If the path is relative, and leads to nothing.
    """
    if os.path.isabs(path) or os.path.exists(path):
        return path
    for folder in folders:
        place = os.path.abspath(os.path.join(folder, path))
        if os.path.exists(place):
            return place
    raise FileNotFoundError(path)


def _problem(name: str, path: str, folders: Sequence[str]) -> str:
    if len(path) > _PATH_CHARS_SHOWN:
        # Perhaps the text of a key without its first and last line.
        return (
            f"Option 'kafka.{name}' has a value of {len(path):,} characters that is neither PEM"
            " text, which begins with -----BEGIN, nor the path of a file"
        )
    where = " or ".join(dict.fromkeys([os.getcwd(), *folders]))
    return (
        f"Option 'kafka.{name}' names the file '{path}', and {socket.gethostname()} has no such"
        f" file in {where}. Ship it with spark.sparkContext.addFile (Spark Connect:"
        " spark.addArtifact(path, file=True)), or set a path that exists on the driver and on every"
        " executor"
    )
