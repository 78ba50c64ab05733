"""The options with which each client of the benchmark connects, and the table of their costs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from benches.peers.__main__ import parse, secured
from benches.peers.report import Results, secured_table
from benches.peers.runner import Run
from benches.peers.security import PASSWORD, PROTOCOLS, connection_options
from benches.peers.settings import BASELINE, CASES, Case, Entrant, entrants_of

SECURED = replace(
    CASES[0], bootstrap="a:1", security="SASL_SSL", secure_bootstrap="a:2", cafile="/ca.pem"
)
CLIENTS = ["confluent-kafka", "java", "kafka-python", "thalweg", "thalweg-aio"]


@pytest.mark.parametrize("client", CLIENTS)
def test_every_client_has_the_same_login(client: str) -> None:
    found = connection_options(client, SECURED)
    text = " ".join(map(str, found.values()))
    for wanted in ("SASL_SSL", "/ca.pem", "SCRAM-SHA-512", PASSWORD):
        assert wanted in text
    assert ("a:2" in text) is (client != "java")  # its tools take the address as an argument
    plain = connection_options(client, replace(CASES[0], bootstrap="a:1"))
    assert set(plain) <= {"bootstrap.servers", "bootstrap_servers"}


def test_who_cannot_log_in_does_not_take_part() -> None:
    names = {each.client for each in entrants_of(SECURED)}
    assert "ceiling" not in names
    encrypted = {each.client for each in entrants_of(replace(SECURED, security="SSL"))}
    assert "ceiling" in encrypted
    assert "franz-go" not in encrypted
    assert {"thalweg", "confluent-kafka", "java"} <= names
    with pytest.raises(ValueError, match="franz-go"):
        connection_options("franz-go", SECURED)


def test_a_case_is_named_by_its_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    class Kafka:
        certificates = __import__("pathlib").Path("/c")

        def bootstrap(self, protocol: str) -> str:
            return f"{protocol}:1"

    cases = [secured(CASES[0], each, Kafka()) for each in PROTOCOLS]  # type: ignore[arg-type]
    assert [each.name.rpartition("-")[2] for each in cases] == ["100B", "SSL", "SASL_SSL"]
    assert [each.address for each in cases] == ["", "SSL:1", "SASL_SSL:1"]


@pytest.mark.parametrize("arguments", [["--security", "TLS"], ["--security=SSL", "--bootstrap=a"]])
def test_a_wrong_protocol_is_refused(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        parse(arguments)
    assert "--security takes PLAINTEXT" in capsys.readouterr().err


def results(case: Case, rate: float, cpu_us: float, **more: Any) -> Results:
    ours = Entrant("thalweg", "send")
    return Results(case, {each: [Run(rate, 10, cpu_us, 1, more)] for each in (BASELINE, ours)})


def test_the_table_compares_a_client_with_itself() -> None:
    start = next(case for case in CASES if case.role == "start")
    all_results = [
        results(CASES[0], 1000.0, 0.5),
        results(replace(CASES[0], security="SSL"), 800.0, 0.6),
        results(start, 1.0, 0.0, first_ms=10.0),
        results(replace(start, security="SASL_SSL"), 1.0, 0.0, first_ms=25.0),
    ]
    table = secured_table(all_results)
    assert "thalweg send" in table
    assert "rate x 0.80, CPU +0.10 us/record" in table
    assert "first_ms +15.00" in table
    assert secured_table(all_results[:1]) == ""
