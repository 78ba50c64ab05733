"""Rules between options: timeouts, idempotence, compression, groups."""

import warnings
from typing import Any

import pytest

from tests.unit.config.problems import one_problem, problems
from thalweg.config import IgnoredOptionWarning, resolve

# ---------------------------------------------------------------- rules of all clients


def test_a_first_backoff_above_the_greatest_raises_it():
    found = resolve("p", {"reconnect_backoff_ms": 5000})
    assert found["reconnect_backoff_max_ms"] == 5000
    found = resolve("p", {"retry_backoff_max_ms": 10})
    assert found["retry_backoff_ms"] == 10
    text = one_problem("p", retry_backoff_ms=10, retry_backoff_max_ms=5)
    assert text == "retry_backoff_ms (10) must not be larger than retry_backoff_max_ms (5)"


def test_connections_must_not_be_closed_under_a_request():
    text = one_problem("a", connections_max_idle_ms=30000)
    assert text == "connections_max_idle_ms (30000) must be larger than request_timeout_ms (30000)"
    found = resolve("a", {"connections_max_idle_ms": -1})
    assert found.core()["connections_max_idle_ms"] is None


# ---------------------------------------------------------------- rules of producers


CONFLICTS = [
    ({"acks": 1}, "acks"),
    ({"acks": 0}, "acks"),
    ({"retries": 0}, "retries"),
    ({"max_in_flight_requests_per_connection": 6}, "max_in_flight_requests_per_connection"),
]


@pytest.mark.parametrize("given, name", CONFLICTS)
def test_idempotence_by_default_is_switched_off_with_one_warning_that_names_the_option(given, name):
    with pytest.warns(UserWarning, match="idempotence is switched off") as caught:
        found = resolve("p", given)
    assert found["enable_idempotence"] is False
    assert len(caught) == 1
    assert f"{name}=" in str(caught[0].message)


@pytest.mark.parametrize("given, name", CONFLICTS)
def test_idempotence_asked_for_is_an_error_then(given, name):
    text = one_problem("p", enable_idempotence=True, **given)
    assert text.startswith("enable_idempotence=True needs ")
    assert f"not {name}=" in text


@pytest.mark.parametrize("given, name", CONFLICTS)
def test_a_transactional_id_is_an_error_then(given, name):
    text = one_problem("p", transactional_id="t", **given)
    assert text.startswith("transactional_id needs ")
    assert f"not {name}=" in text


def test_a_transactional_id_needs_idempotence():
    text = one_problem("p", transactional_id="t", enable_idempotence=False)
    assert text == "transactional_id needs enable_idempotence=True"
    assert "transactional_id must not be empty" in problems("p", transactional_id="")


def test_idempotence_switched_off_by_the_user_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert resolve("p", {"enable_idempotence": False, "acks": 0})["acks"] == 0


def test_all_conflicts_with_idempotence_are_named_at_once():
    found = problems("p", enable_idempotence=True, acks=1, retries=0)
    assert len(found) == 2


def test_a_delivery_timeout_left_alone_is_raised_with_a_warning():
    with pytest.warns(UserWarning, match=r"delivery_timeout_ms is raised to .* \(200005\)"):
        found = resolve("p", {"request_timeout_ms": 200_000})
    assert found["delivery_timeout_ms"] == 200_005


def test_a_delivery_timeout_that_is_too_short_is_an_error():
    text = one_problem("p", delivery_timeout_ms=30_000)
    assert (
        text
        == "delivery_timeout_ms (30000) must be at least linger_ms + request_timeout_ms (30005)"
    )


def test_the_level_of_a_codec():
    assert (
        resolve("p", {"compression_type": "zstd", "compression_level": 7})["compression_level"] == 7
    )
    found = resolve("p", {"compression.type": "lz4", "compression.lz4.level": "12"})
    assert found["compression_level"] == 12
    found = resolve("p", {"compression_type": "gzip", "compression_gzip_level": -1})
    assert found["compression_level"] is None
    found = resolve("p", {"compression_type": "gzip", "compression_zstd_level": 5})
    assert found["compression_level"] is None


def test_a_level_that_the_codec_lacks_is_an_error():
    text = one_problem("p", compression_type="gzip", compression_level=12)
    assert text == "compression_level of gzip must be from 1 to 9, not 12"
    text = one_problem("p", compression_type="gzip", compression_level=42)
    assert text == "compression_level of gzip must be from 1 to 9, not 42"
    text = one_problem("p", compression_type="zstd", compression_level=42)
    assert text == "compression_level of zstd must be from -131072 to 22, not 42"
    text = one_problem("p", compression_type="gzip", compression_level="fast")
    assert text == "compression_level must be a whole number, not 'fast'"
    text = one_problem("p", compression_type="lz4", compression_level=3, compression_lz4_level=4)
    assert text == "compression_level (3) contradicts compression_lz4_level (4)"


def test_a_level_without_codec_is_warned_of():
    with pytest.warns(IgnoredOptionWarning, match="compression_level: without effect"):
        assert resolve("p", {"compression_level": 3})["compression_level"] is None


def test_no_compression_is_none_or_its_name():
    assert resolve("p", {"compression_type": None})["compression_type"] == "none"
    assert resolve("p", {"compression_type": "none"})["compression_type"] == "none"


def test_a_batch_must_fit_into_the_memory():
    text = one_problem("p", batch_size=100, buffer_memory=99)
    assert text == "batch_size (100) must not be larger than buffer_memory (99)"


# ---------------------------------------------------------------- rules of consumers


def test_a_broker_must_respond_before_the_client_gives_up():
    text = one_problem("c", fetch_max_wait_ms=30_000)
    assert text == "request_timeout_ms (30000) must be larger than fetch_max_wait_ms (30000)"


def test_frames_may_be_as_large_as_a_fetch():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = resolve("c", {"fetch_max_bytes": 200_000_000})
        assert found["receive_message_max_bytes"] == 201_048_576
        resolve("c", {"receive_message_max_bytes": 60_000_000})
        resolve("a", {"receive_message_max_bytes": 1000})
    with pytest.warns(UserWarning, match=r"receive_message_max_bytes is raised to .*53477376"):
        found = resolve("c", {"receive_message_max_bytes": 1000})
    assert found["receive_message_max_bytes"] == 53_477_376


def test_a_static_member_needs_a_group_and_a_legal_name():
    assert "group_instance_id needs group_id" in problems("c", group_instance_id="me")
    text = one_problem("c", group_id="g", group_instance_id="a b")
    assert text.startswith("group_instance_id must be ")
    resolve("c", {"group_id": "g", "group_instance_id": "a-b_c.1"})


def test_auto_commit_without_group_is_off_and_warned_of_only_if_asked_for():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert resolve("c", {})["enable_auto_commit"] is False
        assert resolve("c", {"group_id": "g"})["enable_auto_commit"] is True
    with pytest.warns(IgnoredOptionWarning, match="because group_id is not set"):
        resolve("c", {"enable_auto_commit": True})


def test_heartbeats_must_be_more_frequent_than_the_session():
    text = one_problem("c", session_timeout_ms=3000)
    assert text == "heartbeat_interval_ms (3000) must be less than session_timeout_ms (3000)"


def test_options_that_a_group_protocol_lacks_are_refused():
    text = one_problem("c", group_protocol="consumer", session_timeout_ms=10_000)
    assert (
        text
        == "session_timeout_ms cannot be set with group_protocol='consumer': the broker decides it"
    )
    assert "needs group_protocol='consumer'" in one_problem("c", group_remote_assignor="uniform")


def test_an_empty_group_is_refused():
    assert one_problem("c", group_id="") == "group_id must not be empty"


@pytest.mark.parametrize(
    ("client", "name"),
    [("p", "transactional_id"), ("c", "group_id"), ("c", "client_rack"), ("a", "client_id")],
)
def test_a_name_fits_into_a_request(client: Any, name: str) -> None:
    resolve(client, {name: "x" * 32767})
    problem = one_problem(client, **{name: "ö" * 16384})
    assert problem == f"{name} has 32768 bytes, more than 32767: choose a shorter one"
