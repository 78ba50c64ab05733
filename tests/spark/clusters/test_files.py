"""Files that options name: where a worker of Spark finds them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark import SparkFiles, TaskContext

from thalweg._config.concealment import names_of
from thalweg._config.formats.jaas import read_login
from thalweg._config.options import ROWS
from thalweg.errors import KafkaConfigurationError
from thalweg.spark.workers.files import with_local_files

PEM = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
PATHS = (
    "ssl.ca.location",
    "ssl.truststore.location",
    "ssl_cafile",
    "ssl.certificate.location",
    "ssl.keystore.location",
    "ssl.key.location",
    "ssl.crl.location",
    "https.ca.location",
    "sasl.kerberos.keytab",
    "sasl.oauthbearer.assertion.file",
    "sasl.oauthbearer.assertion.template.file",
    "sasl.oauthbearer.assertion.private.key.file",
)


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a worker with the files that Spark has shipped."""
    folder = tmp_path / "userFiles"
    folder.mkdir()
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.setattr(SparkFiles, "_root_directory", str(folder))
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    return folder


def test_every_option_with_a_file_is_looked_up(shipped: Path) -> None:
    """A new option with a file must be added to `workers/files.py`, or to the exceptions here."""
    # What the client writes, loads as a library, or only takes as an absolute path.
    exceptions = {
        "ssl_keylog_file",
        "ssl_engine_location",
        "config_providers_file_param_allowed_paths",
        "config_providers_dir_param_allowed_paths",
        "sasl_aws_profile",  # a name in a file of AWS
    }
    ends = ("file", "location", "keytab", "paths")
    named = {row.name for row in ROWS if row.kind == "pem" or row.name.endswith(ends)}
    lookups = named - exceptions - {"https_ca_pem"}
    assert lookups
    (shipped / "file").touch()
    rows = {row.name: row for row in ROWS}
    for name in (each for option in lookups for each in names_of(rows[option])):
        assert with_local_files({name: "file"}, None) == {name: str(shipped / "file")}


@pytest.mark.parametrize("option", PATHS)
def test_a_relative_path_is_found_among_the_shipped_files(shipped: Path, option: str) -> None:
    (shipped / "secret.pem").touch()
    (shipped / "folder").mkdir()
    (shipped / "folder" / "secret.pem").touch()
    for path in ("secret.pem", "./secret.pem", "folder/secret.pem"):
        place = str((shipped / path).resolve())
        assert with_local_files({option: path, "acks": "all"}, None) == {
            option: place,
            "acks": "all",
        }


def test_a_stream_on_the_driver_also_looks_where_its_source_was_created(
    shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (shipped / "ca.pem").touch()
    monkeypatch.setattr(SparkFiles, "_root_directory", str(tmp_path / "streaming_job"))
    given = {"ssl.ca.location": "ca.pem"}
    assert with_local_files(given, str(shipped)) == {"ssl.ca.location": str(shipped / "ca.pem")}
    # A task may be on another machine.
    monkeypatch.setattr(TaskContext, "get", lambda: Task(""))
    with pytest.raises(KafkaConfigurationError):
        with_local_files(given, str(shipped))


@dataclass
class Task:
    """What a task knows of its job."""

    tags: str

    def getLocalProperty(self, name: str) -> str | None:
        return self.tags if name == "spark.job.tags" else None


def test_a_task_also_looks_in_the_folder_of_its_session(
    shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, other = "09b2a143-1356-49f3-8ade-33ec3b78a25e", "1ac90eee-19fd-469c-b601-40fd64c846cb"
    for session in (ours, other):
        (shipped / session).mkdir()
        (shipped / session / "ca.pem").touch()
    tags = f"a-tag,spark-session-{ours}-execution-root-id-5,spark-session-{ours}"
    monkeypatch.setattr(TaskContext, "get", lambda: Task(tags))
    found = with_local_files({"ssl.ca.location": "ca.pem"}, None)
    assert found == {"ssl.ca.location": str(shipped / ours / "ca.pem")}


def test_a_file_in_the_working_directory_comes_first(shipped: Path) -> None:
    for folder in (shipped, Path.cwd()):
        (folder / "ca.pem").touch()
    assert with_local_files({"ssl.ca.location": "ca.pem"}, None) == {"ssl.ca.location": "ca.pem"}


@pytest.mark.parametrize(
    "option, value",
    [
        ("ssl.ca.location", "/etc/absent/ca.pem"),
        ("ssl.ca.location", "probe"),
        ("https.ca.location", "probe"),
        ("ssl.ca.pem", PEM),
        ("ssl.keystore.key", PEM),
        ("https.ca.pem", PEM),
        ("ssl.key.location", "${file:/run/secrets/kafka.properties:key}"),
        ("sasl.oauthbearer.token.endpoint.url", "https://example.test/token"),
        ("sasl.oauthbearer.token.endpoint.url", "file:/run/token"),
        ("sasl.jaas.config", "Krb5LoginModule required keyTab"),
        ("sasl.jaas.config", 'x.PlainLoginModule required username="u" password="p";'),
        ("ssl.truststore.type", "absent"),
    ],
)
def test_other_values_are_left_alone(shipped: Path, option: str, value: str) -> None:
    assert with_local_files({option: value}, None) == {option: value}


def test_the_url_of_a_token_file_may_be_relative(shipped: Path) -> None:
    (shipped / "my token").touch()
    option = "sasl.oauthbearer.token.endpoint.url"
    for given in ("file:my%20token", "file:./my token"):
        found = with_local_files({option: given}, None)[option]
        assert found == (shipped / "my token").as_uri()


def test_a_keytab_in_the_login_line_is_found(shipped: Path) -> None:
    (shipped / "user.keytab").touch()
    line = (
        "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true"
        r""" keyTab="./user.keytab" principal='a\\b"c';"""
    )
    found = with_local_files({"sasl.jaas.config": line}, None)["sasl.jaas.config"]
    assert read_login(found) == (
        "Krb5LoginModule",
        {
            "useKeyTab": "true",
            "keyTab": str(shipped / "user.keytab"),
            "principal": 'a\\b"c',
        },
    )


def test_missing_files_are_named_with_advice(shipped: Path) -> None:
    given = {
        "ssl.ca.location": "ca.pem",
        "sasl.jaas.config": 'Krb5LoginModule required keyTab="k.tab" principal="hunter2";',
    }
    with pytest.raises(KafkaConfigurationError) as caught:
        with_local_files(given, None)
    assert len(caught.value.problems) == 2
    text = str(caught.value)
    assert "Option 'kafka.ssl.ca.location' names the file 'ca.pem'" in text
    assert "Option 'kafka.sasl.jaas.config' names the file 'k.tab'" in text
    assert f"in {Path.cwd()} or {shipped}" in text
    assert "addFile" in text
    assert "hunter2" not in text


def test_without_spark_a_missing_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", False)
    monkeypatch.setattr(SparkFiles, "_sc", None)
    with pytest.raises(KafkaConfigurationError, match=f"'ca.pem'.*no such file in {tmp_path}"):
        with_local_files({"ssl.ca.location": "ca.pem"}, None)


@pytest.mark.parametrize("option", ["ssl.key.location", "ssl.keystore.key"])
def test_a_long_value_is_not_shown(shipped: Path, option: str) -> None:
    key = "MIIEvQSECRETKEYTEXT." * 80  # neither a path nor base64
    with pytest.raises(KafkaConfigurationError) as raised:
        with_local_files({option: key}, None)
    assert "MIIE" not in str(raised.value)
    assert f"Option 'kafka.{option}' has a value of 1,600 characters" in str(raised.value)
