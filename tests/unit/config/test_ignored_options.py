"""Options that have no effect, are deprecated or are refused say so once."""

import math
import warnings

import pytest

from tests.unit.config.problems import problems
from thalweg._config.options import ROWS
from thalweg.config import IgnoredOptionWarning, options_of, resolve
from thalweg.metrics import MetricsReporter


def test_an_option_without_effect_warns_with_the_reason():
    with pytest.warns(
        IgnoredOptionWarning, match="api_version is accepted and ignored: the client negotiates"
    ):
        resolve("p", {"api_version": (2, 5)})


@pytest.mark.parametrize(
    "client, name",
    sorted((client, row.name) for row in ROWS for client in row.clients if row.is_ignored(client)),
)
def test_every_ignored_option_is_accepted_with_one_warning(client, name):
    value = 3 if options_of(client)[name].kind == "int" else "thalweg.metrics.MetricsReporter"
    with pytest.warns(IgnoredOptionWarning) as caught:
        resolve(client, {name: value})
    assert len(caught) == 1
    assert str(caught[0].message).startswith(f"{name} is accepted and ignored: ")


def test_an_option_warns_only_where_it_has_no_effect():
    options = {
        "max_in_flight_requests_per_connection": 3,
        "metrics_num_samples": 3,
        "metrics_sample_window_ms": 1000,
    }
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve("p", options)
        resolve("c", {name: 3 for name in options if name.startswith("metrics")})
    with pytest.warns(IgnoredOptionWarning) as caught:
        resolve("a", options)
    assert [str(each.message).split()[0] for each in caught] == list(options)


def test_what_a_class_does_not_use_is_warned_of_by_that_class_alone():
    given, unused = {"consumer_timeout_ms": 5}, {"consumer_timeout_ms": "because"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve("c", given)
        resolve("c", {"consumer_timeout_ms": math.inf}, "AIOKafkaConsumer", unused)
    with pytest.warns(IgnoredOptionWarning, match="consumer_timeout_ms .* ignored: because"):
        resolve("c", given, "AIOKafkaConsumer", unused)


@pytest.mark.parametrize(
    "given",
    [
        {"stats_cb": print, "statistics_interval_ms": 5},
        {"stats_cb": print},
        {"metric_reporters": [MetricsReporter()]},
    ],
)
def test_nobody_hears_of_metrics_that_are_switched_off(given):
    for client in ("p", "c"):
        with pytest.warns(IgnoredOptionWarning, match="metrics_enabled is False") as caught:
            resolve(client, {**given, "metrics_enabled": False})
        assert len(caught) == 1
        assert all(name in str(caught[0].message) for name in given)


@pytest.mark.parametrize("name", sorted(row.name for row in ROWS if row.deprecated))
def test_every_deprecated_option_is_accepted_with_a_warning(name):
    client = next(row for row in ROWS if row.name == name).clients[0]
    with pytest.warns(DeprecationWarning, match=f"{name} is deprecated: "):
        resolve(client, {name: 1})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(row.name for row in ROWS if row.refused))
def test_a_refused_option_is_an_error_unless_it_is_none(name):
    assert f"{name} is refused: " in "\n".join(problems("a", **{name: object()}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve("a", {name: None})


def test_no_auto_commit_may_be_written_as_none():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert resolve("c", {"enable_auto_commit": None})["enable_auto_commit"] is False
        found = resolve("c", {"enable.auto.commit": None, "group_id": "g"})
    assert found["enable_auto_commit"] is False


def test_a_default_given_explicitly_warns_of_nothing():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve("c", {"metrics_num_samples": 2, "api_version": None, "metric_reporters": ()})


def test_kafka_python_2s_bootstrap_timeout_is_taken():
    with pytest.warns(DeprecationWarning, match="bootstrap_timeout_ms"):
        found = resolve("p", {"api_version_auto_timeout_ms": 1234})
    assert found["bootstrap_timeout_ms"] == 1234
    found_problems = problems("p", api_version_auto_timeout_ms="soon", acks=7)
    assert sorted(each.split()[0] for each in found_problems) == [
        "acks",
        "api_version_auto_timeout_ms",
    ]
    assert "whole number" in found_problems[-1]


def test_a_warning_points_at_the_users_line():
    with pytest.warns(IgnoredOptionWarning) as caught:
        resolve("p", {"api_version": (1, 0)})
    assert caught[0].filename == __file__
