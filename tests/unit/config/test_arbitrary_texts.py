"""Any text in any option: an option error, or a value. Never another exception, never a secret."""

from __future__ import annotations

import os
import warnings
from typing import Any
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from thalweg._config.formats.jaas import read_login
from thalweg._config.formats.pem import is_text
from thalweg._config.options import ROWS
from thalweg._config.providers import _properties
from thalweg.config import resolve
from thalweg.errors import KafkaConfigurationError

SECRET = "Sentinel/+4711="
# Pieces of what parsers look for, so that random texts come past the first check.
PIECES = st.sampled_from(
    [
        *("PlainLoginModule", " required ", "username", "=", '"', "'", ";", "\\", "\n", "/*", "*/"),
        *("//", "${", "${env:", "${file:", "${dir:", "}", ":", ",", "SECRET", "\\u00", "#", "!"),
        *("http://", "https://", "file:", "@", "?", "[::1]", ":99999", "-----BEGIN ", "-----"),
        *("\0", "\udc80", "\N{SNOWMAN}", " ", "1", "-1", "1e999", "nan", "true", "PT1S"),
    ]
)
TEXTS = st.one_of(st.text(max_size=30), st.lists(PIECES, max_size=12).map("".join))
VALUES = st.one_of(
    TEXTS,
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.binary(max_size=20),
    st.lists(TEXTS, max_size=3),
    st.dictionaries(TEXTS, TEXTS, max_size=2),
)
# These import a module with the given name.
NAMES = [row.name for row in ROWS if row.kind not in ("interceptors", "token_provider")]


def problems_of(client: Any, options: dict[str, Any]) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            repr(resolve(client, options))
        except KafkaConfigurationError as error:
            return [str(error), *error.problems]
    return []


@settings(max_examples=400)
@given(st.sampled_from("pca"), st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4))
def test_an_option_may_have_any_value(client: Any, options: dict[str, Any]) -> None:
    problems_of(client, options)


@settings(max_examples=200)
@given(st.sampled_from(NAMES), TEXTS, TEXTS)
@example("acks", "${env:", "}")
@example("bootstrap_servers", "", "/")
@example("ssl_ciphers", "ECDHE-RSA-AES256-GCM-SHA384:", "")
def test_no_problem_shows_what_a_placeholder_supplied(name: str, before: str, after: str) -> None:
    options = {
        "config_providers": "env",
        "config_providers_env_param_allowlist_pattern": "SECRET",
        "security_protocol": "SASL_SSL",
        name: f"{before}${{env:SECRET}}{after}",
    }
    with mock.patch.dict(os.environ, {"SECRET": SECRET}):
        for client in "pca":
            assert not [text for text in problems_of(client, options) if SECRET in text]


@given(TEXTS)
def test_a_login_line_may_be_any_text(text: str) -> None:
    try:
        login = read_login(text)
    except ValueError as error:
        quoted = [word for word in text.split() if len(word) > 12 and word in str(error)]
        assert not quoted
    else:
        assert login.module in text


@given(st.dictionaries(st.from_regex(r"[a-z]{1,9}", fullmatch=True), st.text(max_size=20)))
def test_a_login_line_is_read_as_it_was_written(options: dict[str, str]) -> None:
    def quoted(value: str) -> str:
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        return f'"{escaped}"'

    entries = " ".join(f"{name}={quoted(value)}" for name, value in options.items())
    assert read_login(f"a.b.PlainLoginModule required {entries};").options == options


@given(TEXTS)
def test_a_file_of_properties_may_be_any_text(text: str) -> None:
    found = _properties(text)
    assert all(isinstance(each, str) for pair in found.items() for each in pair)


@given(st.dictionaries(st.text(min_size=1, max_size=10), st.text(max_size=20), max_size=4))
def test_properties_are_read_as_java_writes_them(given_: dict[str, str]) -> None:
    def stored(text: str) -> str:
        units = text.encode("utf-16-be", "surrogatepass")
        return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))

    lines = "\n".join(f"{stored(key)}={stored(value)}" for key, value in given_.items())
    found = _properties(f"# a comment\n{lines}\n")
    joined = {_joined(key): _joined(value) for key, value in found.items()}
    assert joined == given_


def _joined(text: str) -> str:
    return text.encode("utf-16-be", "surrogatepass").decode("utf-16-be", "surrogatepass")


@given(TEXTS)
def test_whether_a_text_is_pem_is_always_decided(text: str) -> None:
    assert isinstance(is_text(text), bool)


@pytest.mark.parametrize("text", ['"' * 50_000, "\\" * 50_000, "${env:" * 20_000, "/*" * 50_000])
def test_a_long_text_takes_linear_time(text: str) -> None:
    """Without a limit on the time, quadratic work would be found by the limit of the test."""
    problems_of("p", {"security_protocol": "SASL_SSL", "sasl_jaas_config": text})
    _properties(text)
