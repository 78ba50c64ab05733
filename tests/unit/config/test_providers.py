"""Placeholders in the values of options (config providers, KIP-297)."""

from __future__ import annotations

import os
import time
import traceback
import warnings
from pathlib import Path
from typing import Any

import pytest

from tests.unit.config.problems import problems
from thalweg import Secret
from thalweg.config import resolve
from thalweg.errors import KafkaConfigurationError

PATHS = "config_providers_file_param_allowed_paths"
LOGIN = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "SCRAM-SHA-512",
    "sasl_plain_username": "orders",
}


def password(value: str, **providers: Any) -> str:
    """Returns the password that a client gets."""
    found = resolve("p", {**LOGIN, "sasl_plain_password": value, **providers})
    text: str = found["sasl_plain_password"].reveal()
    return text


def file_options(folder: Path) -> dict[str, Any]:
    return {"config_providers": "file", PATHS: str(folder)}


@pytest.fixture
def env(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
    monkeypatch.setenv("HOME_PASSWORD", "hunter3")
    return {
        "config.providers": "env",
        "config.providers.env.class": (
            "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
        ),
        "config.providers.env.param.allowlist.pattern": "KAFKA_.*",
    }


def test_without_config_providers_nothing_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "hunter2")
    with pytest.warns(UserWarning, match="looks like a placeholder"):
        assert password("${env:KAFKA_PASSWORD}") == "${env:KAFKA_PASSWORD}"


def test_an_environment_variable(env: dict[str, Any]) -> None:
    assert password("a-${env:KAFKA_PASSWORD}-${env:KAFKA_PASSWORD}", **env) == "a-hunter2-hunter2"
    with pytest.warns(UserWarning, match="looks like a placeholder"):
        assert password("${file:/etc/passwd:root}", **env) == "${file:/etc/passwd:root}"
    # A value that was replaced is not looked at again.
    os.environ["KAFKA_PASSWORD"] = "${env:KAFKA_PASSWORD}"
    with pytest.warns(UserWarning, match="looks like a placeholder"):
        assert password("${env:KAFKA_PASSWORD}", **env) == "${env:KAFKA_PASSWORD}"


def test_a_value_stays_hidden(env: dict[str, Any]) -> None:
    given = {**LOGIN, "sasl_plain_password": Secret("${env:KAFKA_PASSWORD}"), **env}
    found = resolve("p", given)
    assert "hunter2" not in repr(found) + repr(dict(found)) + str(found.core())


@pytest.mark.parametrize(
    "option", ["client_id", "bootstrap_servers", "ssl_cafile", "ssl_keystore_location"]
)
def test_a_value_stays_hidden_in_options_that_are_not_secret(
    env: dict[str, Any], option: str
) -> None:
    given = {"security_protocol": "SSL", option: "${env:KAFKA_PASSWORD}", **env}
    if option.startswith("ssl"):
        # Relative paths, which the constructor reads.
        os.environ["KAFKA_PASSWORD"] = os.path.relpath(__file__)
    found = resolve("p", given)
    assert os.environ["KAFKA_PASSWORD"] in str(found[option])
    assert found.public()[option] == "<hidden>"
    assert os.environ["KAFKA_PASSWORD"] not in repr(found)


@pytest.mark.parametrize("given_as", ["a placeholder", "a Secret"])
@pytest.mark.parametrize(
    "option, value",
    [
        ("acks", "hunter2"),
        ("bootstrap_servers", "ok:9092, hunter2:99999"),
        ("bootstrap_servers", "hunter2:1:2"),
        ("bootstrap_servers", "a/hunter2"),
        ("compression_type", "hunter2"),
        ("enable_idempotence", "hunter2"),
        ("interceptor_classes", "hunter2.Class"),
        ("interceptor_classes", "hunter2.part.Class"),
        ("key_serializer", "hunter2"),
        ("linger_ms", "hunter2"),
        ("linger_ms", "-4711471147"),
        ("partitioner", "hunter2"),
        ("sasl_login_refresh_window_factor", "4711471147"),
        ("sasl_oauth_token_provider", "hunter2:make"),
        ("security_protocol", "hunter2"),
        ("ssl_cafile", "/nowhere/hunter2"),
        ("ssl_ciphers", "hunter2"),
        ("ssl_enabled_protocols", "TLSv1.3,hunter2"),
        ("ssl_endpoint_identification_algorithm", "hunter2"),
        ("ssl_keystore_type", "hunter2"),
        ("ssl_protocol", "hunter2"),
    ],
)
def test_no_problem_and_no_frame_shows_a_value_that_a_placeholder_supplied(
    env: dict[str, Any], option: str, value: str, given_as: str
) -> None:
    os.environ["KAFKA_PASSWORD"] = value
    given = Secret(value) if given_as == "a Secret" else "${env:KAFKA_PASSWORD}"
    if option == "sasl_oauth_token_provider" and given_as == "a Secret":
        return  # the same as a str, because the option may hold a token by mistake
    with pytest.raises(KafkaConfigurationError, match=option) as caught:
        resolve("p", {"security_protocol": "SSL", option: given, **env})
    shown = str(caught.value) + repr(caught.value) + repr(caught.value.problems)
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    shown += repr([frame.f_locals for frame in frames if frame.f_code.co_name == "resolve"])
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    assert "hunter2" not in shown
    assert "4711471147" not in shown


def test_rules_between_options_do_not_show_values_of_placeholders(env: dict[str, Any]) -> None:
    os.environ["KAFKA_PASSWORD"] = "4711"
    given = {"retry_backoff_ms": "${env:KAFKA_PASSWORD}", "retry_backoff_max_ms": 471, **env}
    with pytest.raises(KafkaConfigurationError) as caught:
        resolve("p", given)
    assert "retry_backoff_ms (<hidden>) must not be larger than" in str(caught.value)
    assert "(471)" in str(caught.value)


def test_a_warning_hides_a_value_of_a_placeholder_also_if_it_becomes_an_error(
    env: dict[str, Any],
) -> None:
    os.environ["KAFKA_PASSWORD"] = "AES256:hunter2"
    ciphers = "ECDHE-RSA-AES256-GCM-SHA384,${env:KAFKA_PASSWORD}"
    given = {"security_protocol": "SSL", "ssl_ciphers": ciphers, **env}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="<hidden>") as caught:
            resolve("p", given)
    frames = [frame for frame, _ in traceback.walk_tb(caught.value.__traceback__)]
    shown = str(caught.value) + repr([f.f_locals for f in frames if f.f_code.co_name == "resolve"])
    assert "hunter2" not in shown


def test_a_short_value_of_a_placeholder_is_hidden_only_as_a_word(env: dict[str, Any]) -> None:
    os.environ["KAFKA_PASSWORD"] = "a"
    with pytest.raises(KafkaConfigurationError) as caught:
        resolve("p", {"client_id": "${env:KAFKA_PASSWORD}", "acks": "a-b", **env})
    assert "acks must be 'all' (or -1), 1 or 0, not '<hidden>-b'" in str(caught.value)


def test_two_names_of_an_option_may_have_the_same_value_from_a_placeholder(
    env: dict[str, Any],
) -> None:
    given = {"client.id": "${env:KAFKA_PASSWORD}", "client_id": "hunter2", **env}
    assert resolve("p", given)["client_id"] == "hunter2"


@pytest.mark.parametrize(
    "placeholder, reason",
    [
        ("${env:HOME_PASSWORD}", "is not allowed"),
        ("${env:XKAFKA_PASSWORD}", "is not allowed"),
        ("${env:KAFKA_NOWHERE}", "is not set in the environment"),
        ("${env:some:KAFKA_PASSWORD}", "has a path"),
    ],
)
def test_a_placeholder_that_has_no_value_is_named(
    env: dict[str, Any], placeholder: str, reason: str
) -> None:
    (problem,) = problems("p", **LOGIN, sasl_plain_password=f"hunter4{placeholder}", **env)
    assert problem.startswith(f"sasl_plain_password: {placeholder} {reason}")
    assert "hunter" not in problem


PROPERTIES = r"""
# password = commented
! password = commented, too
password = hunter2
spaces   hunter 2\
   and more
colon:a=b\:c
escaped\ key=\u00e9\t\\
empty
last=\
"""


@pytest.mark.parametrize(
    "key, value",
    [
        ("password", "hunter2"),
        ("spaces", "hunter 2and more"),
        ("colon", "a=b:c"),
        ("escaped key", "\u00e9\t\\"),
        ("empty", ""),
        ("last", ""),
    ],
)
def test_a_key_of_a_file_of_properties(tmp_path: Path, key: str, value: str) -> None:
    file = tmp_path / "kafka.properties"
    file.write_text(PROPERTIES, encoding="utf-8")
    options = {"client_id": f"<${{file:{file}:{key}}}>", **file_options(tmp_path)}
    assert resolve("p", options)["client_id"] == f"<{value}>"


def test_a_file_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "password").write_text("hunter2\n", encoding="utf-8")
    options = {
        "config_providers": ["dir"],
        "config_providers_dir_param_allowed_paths": [str(tmp_path)],
    }
    assert password(f"${{dir:{tmp_path}:password}}", **options) == "hunter2"
    (problem,) = problems(
        "p", **LOGIN, sasl_plain_password=f"${{dir:{tmp_path}:../password}}", **options
    )
    assert problem.endswith("does not name a file of the folder")


def test_mounted_secrets_are_links_within_their_folder(tmp_path: Path) -> None:
    (tmp_path / "..data").mkdir()
    (tmp_path / "..data" / "password").write_text("hunter2", encoding="utf-8")
    (tmp_path / "password").symlink_to(tmp_path / "..data" / "password")
    options = {
        "config_providers": "dir",
        "config_providers_dir_param_allowed_paths": str(tmp_path),
    }
    assert password(f"${{dir:{tmp_path}:password}}", **options) == "hunter2"


@pytest.mark.parametrize("way", ["path", "dots", "link", "neighbour", "relative"])
def test_a_file_outside_of_the_allowed_folders_is_refused(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    allowed, outside = tmp_path / "allowed", tmp_path / "outside"
    allowed.mkdir()
    outside.write_text("key=hunter2", encoding="utf-8")
    (allowed / "link").symlink_to(outside)
    (tmp_path / "allowed-not").write_text("key=hunter2", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    paths = {
        "path": str(outside),
        "dots": f"{allowed}/../outside",
        "link": str(allowed / "link"),
        "neighbour": str(tmp_path / "allowed-not"),
        "relative": "outside",
    }
    (problem,) = problems("p", client_id=f"${{file:{paths[way]}:key}}", **file_options(allowed))
    assert problem.endswith(f"is not allowed: the file is not in {PATHS}")


@pytest.mark.parametrize("kind", ["file", "dir"])
def test_the_error_of_a_placeholder_without_a_path_says_what_it_lacks(
    tmp_path: Path, kind: str
) -> None:
    options = {"config_providers": kind, f"config_providers_{kind}_param_allowed_paths": tmp_path}
    (problem,) = problems("p", client_id=f"${{{kind}:key}}", **options)
    assert problem.endswith(f"has no path: write ${{{kind}:/path:key}}")


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe", "huge", "binary", "no key"])
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "kafka.properties"
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":  # reading it would wait for ever
        os.mkfifo(file)
    elif kind != "missing":
        contents = {"huge": b"key=" + b"x" * (1 << 20), "binary": b"key=\xff", "no key": b"a=b"}
        file.write_bytes(contents[kind])
    (problem,) = problems("p", client_id=f"${{file:{file}:key}}", **file_options(tmp_path))
    assert problem.startswith(f"client_id: ${{file:{file}:key}} ")


@pytest.mark.parametrize(
    "options, reason",
    [
        ({"config_providers": "env"}, "set config_providers_env_param_allowlist_pattern"),
        ({"config_providers": "file"}, f"set {PATHS}"),
        ({"config_providers": "file", PATHS: "secrets"}, "absolute paths"),
        ({"config_providers": "dir"}, "set config_providers_dir_param_allowed_paths"),
        ({"config_providers": "fil"}, "did you mean"),
        (
            {"config_providers": "env", "config_providers_env_param_allowlist_pattern": "("},
            "is not a regular expression",
        ),
        (
            {"config_providers": "env", "config_providers_env_class": "com.example.Vault"},
            "config_providers_env_class must be org.apache.kafka",
        ),
    ],
)
def test_providers_are_set_up_completely(options: dict[str, Any], reason: str) -> None:
    (problem,) = problems("p", **options)
    assert reason in problem


def test_all_problems_are_reported_at_once(env: dict[str, Any]) -> None:
    placeholder = "${env:HOME_PASSWORD}"
    assert (
        len(problems("p", client_id=placeholder, acks="some", ssl_cafile=placeholder, **env)) == 3
    )


@pytest.mark.parametrize(
    "placeholder", ["${file:/a\0b:key}", "${file:/a\ud800:key}", "${env:A\ud800}"]
)
def test_a_placeholder_that_no_file_can_have_is_named_without_the_secret_beside_it(
    tmp_path: Path, placeholder: str
) -> None:
    options = {
        "config_providers": "env,file",
        "config_providers_env_param_allowlist_pattern": ".*",
        PATHS: tmp_path,
    }
    (problem,) = problems("p", **LOGIN, sasl_plain_password=f"hunter2{placeholder}", **options)
    assert "hunter2" not in problem


@pytest.mark.parametrize(
    "text", ["${:" * 300_000, "${" * 300_000, "${env:" * 200_000], ids=["colon", "brace", "env"]
)
def test_a_long_value_takes_linear_time(env: dict[str, Any], text: str) -> None:
    began = time.process_time()
    # The providers leave the text as it is. Then it is too long.
    (problem,) = problems("p", client_id=text, **env)
    assert problem.startswith(f"client_id has {len(text)} bytes, more than 32767")
    assert time.process_time() - began < 30, "quadratic work takes hours"


def test_a_wrong_type_is_a_problem_of_that_option() -> None:
    (problem,) = problems("p", config_providers=5)
    assert problem.startswith("config_providers must be a str, or a list of str")


@pytest.mark.parametrize(
    ("value", "providers"),
    [
        ("${env:KAFKA_PASSWORD}", False),
        ("${env:KAFKA_PASSWORD", True),
        ("${vault:KAFKA_PASSWORD}", True),
        ("${KAFKA_PASSWORD}", True),
    ],
)
@pytest.mark.parametrize("kind", [str, Secret])
def test_a_password_that_looks_like_a_placeholder_warns(env, value, providers, kind):
    options = {**LOGIN, "sasl.password": kind(value), **(env if providers else {})}
    with pytest.warns(UserWarning, match="sasl.password looks like a placeholder") as seen:
        resolve("p", options)
    assert "KAFKA_PASSWORD" not in str(seen[0].message)


@pytest.mark.parametrize("value", ["hunter2", "$hunter{2}", "${}", "${1:2}"])
def test_other_passwords_do_not_warn(value):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert password(value) == value
