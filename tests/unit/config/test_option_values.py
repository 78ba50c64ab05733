"""The values that an option takes, and what it makes of them."""

import math
import socket
import warnings
from typing import Any

import pytest

from tests.unit.config.problems import one_problem
from thalweg._config.coerce import duration_ms
from thalweg._config.options import CLIENTS
from thalweg.config import IgnoredOptionWarning, options_of, resolve
from thalweg.partitioner import DefaultPartitioner, RoundRobinPartitioner


def test_every_default_passes_its_own_checks():
    clients: Any = CLIENTS
    for client in clients:
        assert set(resolve(client, {})) == set(options_of(client))


@pytest.mark.parametrize("client", list(CLIENTS))
def test_none_is_a_value_of_its_own_or_the_same_as_not_given(client):
    plain = resolve(client, {})
    for row in options_of(client).values():
        if row.name in ("bootstrap_servers", "enable_auto_commit"):
            continue  # tested below
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = resolve(client, {row.name: None})
        if row.nullable:
            assert found[row.name] in (None, "none"), row.name
        elif row.kind != "reset":
            assert found == plain, row.name
            assert not found.explicit, row.name


@pytest.mark.parametrize(
    "given, expected",
    [
        ("kafka", ["kafka:9092"]),
        ("a:1,b", ["a:1", "b:9092"]),
        (["a:1", "b:2"], ["a:1", "b:2"]),
        (["a:1,b:2", "c"], ["a:1", "b:2", "c:9092"]),
        ("[::1]:5", ["[::1]:5"]),
        ("[fe80::1%eth0]", ["[fe80::1%eth0]:9092"]),
        ("PLAINTEXT://a:1", ["a:1"]),
        ("a:1,a:1", ["a:1"]),
    ],
)
def test_bootstrap_servers(given, expected):
    found = resolve("a", {"bootstrap_servers": given})
    assert found["bootstrap_servers"] == expected


def test_the_core_is_given_hosts_without_brackets():
    found = resolve("a", {"bootstrap_servers": "[::1]:5,h:6"}).core()
    assert found["bootstrap_servers"] == [("::1", 5), ("h", 6)]


def test_bootstrap_servers_that_are_none_are_no_localhost():
    assert one_problem("p", bootstrap_servers=None).startswith("bootstrap_servers is None")


@pytest.mark.parametrize("given", ["", [], "a:b", "a:0", "a:65536", "::1", 5, [5], "a b", ":9092"])
def test_bad_bootstrap_servers_are_named(given):
    assert one_problem("a", bootstrap_servers=given).startswith("bootstrap_servers ")


@pytest.mark.parametrize("given", ["x", "1.5", 1.5, True, math.nan, math.inf, [], -1, 2**31])
def test_numbers_are_checked(given):
    text = one_problem("p", batch_size=given)
    assert text.startswith("batch_size must be a whole number from 0 to 2147483647, not ")


@pytest.mark.parametrize(
    "given, expected", [("true", True), ("FALSE", False), (1, True), (0, False)]
)
def test_flags_are_coerced(given, expected):
    assert resolve("c", {"check_crcs": given})["check_crcs"] is expected


@pytest.mark.parametrize("given", ["yes", 2, "", 1.0])
def test_other_flags_are_refused(given):
    assert "check_crcs must" in one_problem("c", check_crcs=given)


@pytest.mark.parametrize(
    "given, expected", [("all", -1), (-1, -1), ("-1", -1), (1, 1), ("1", 1), (0, 0), ("0", 0)]
)
def test_acks(given, expected):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert resolve("p", {"acks": given})["acks"] == expected


@pytest.mark.parametrize("given", [2, "some", True, 1.0])
def test_bad_acks(given):
    assert one_problem("p", acks=given).startswith("acks must ")


def test_choices_are_found_in_any_case_and_named_if_not():
    assert resolve("a", {"security_protocol": "ssl"})["security_protocol"] == "SSL"
    text = one_problem("a", security_protocol="TLS")
    assert text == (
        "security_protocol must be one of 'PLAINTEXT', 'SSL', 'SASL_PLAINTEXT', 'SASL_SSL',"
        " not 'TLS'"
    )


def test_infinite_is_no_limit_where_kafka_python_has_it():
    assert resolve("p", {"retries": math.inf})["retries"] == 2**31 - 1
    assert resolve("c", {"consumer_timeout_ms": math.inf})["consumer_timeout_ms"] is None


@pytest.mark.parametrize(
    "given, expected",
    [
        ("earliest", "earliest"),
        ("LATEST", "latest"),
        ("none", "none"),
        (None, "none"),
        ("smallest", "earliest"),
        ("largest", "latest"),
        ("beginning", "earliest"),
        ("end", "latest"),
        ("error", "none"),
        ("by_duration:P1D", "by_duration:P1D"),
    ],
)
def test_auto_offset_reset(given, expected):
    assert resolve("c", {"auto_offset_reset": given})["auto_offset_reset"] == expected


@pytest.mark.parametrize("given", ["soon", "by_duration:", "by_duration:1h", "by_duration:-P1D", 5])
def test_bad_auto_offset_reset(given):
    assert one_problem("c", auto_offset_reset=given).startswith("auto_offset_reset must be ")


@pytest.mark.parametrize(
    "text, expected",
    [
        ("P1D", 86_400_000),
        ("PT1H30M", 5_400_000),
        ("P2DT3H4M5.678S", 183_845_678),
        ("PT0.5S", 500),
        ("PT1.0019S", 1001),
        ("pt1s", 1000),
        ("P", None),
        ("PT", None),
        ("1D", None),
        ("P1Y", None),
        ("", None),
        ("PT\u0661S", None),  # another script's digit
        ("PT9223372036854775S", 9_223_372_036_854_775_000),
        ("PT9223372036854776S", None),
        (f"PT{'9' * 20}H", None),
        (f"PT{'9' * 5000}H", None),
        (f"PT{'9' * 5000}S", None),
    ],
)
def test_durations_are_javas(text, expected):
    assert duration_ms(text) == expected


def test_the_core_is_told_a_duration_in_milliseconds():
    core = resolve("c", {"auto_offset_reset": "by_duration:PT1H"}).core()
    assert core["auto_offset_reset"] == "by_duration"
    assert core["auto_offset_reset_by_duration_ms"] == 3_600_000


@pytest.mark.parametrize("given", ["abc", 5, [(1, 2)], [("a", "b", "c")], [5]])
def test_bad_socket_options(given):
    assert one_problem("a", socket_options=given).startswith("socket_options must ")


def test_socket_choices_that_nothing_follows_are_warned_of():
    with pytest.warns(IgnoredOptionWarning, match="socket_options: without effect"):
        resolve("p", {"socket_options": [(6, 1, 1), (1, 9, 1)]})


def test_bootstrap_names_are_expanded_to_those_of_their_addresses(monkeypatch):
    addresses = {"alias": ["10.0.0.1", "10.0.0.2"], "other": ["10.0.0.2"], "lonely": ["10.0.0.3"]}
    names = {"10.0.0.1": "one.example", "10.0.0.2": "two.example"}

    def getaddrinfo(host: str, port: int, type: int) -> list[Any]:
        if host not in addresses:
            raise socket.gaierror("not known")
        return [(socket.AF_INET, type, 6, "", (each, port)) for each in addresses[host]]

    def getnameinfo(address: tuple[str, int], flags: int) -> tuple[str, str]:
        return names.get(address[0], address[0]), "9092"

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    monkeypatch.setattr(socket, "getnameinfo", getnameinfo)
    servers = "alias:9092,other:9092,lonely:9,missing:9092"
    given = {"bootstrap_servers": servers, "client_dns_lookup": None}
    for lookup, expected in [
        ("use_all_dns_ips", ["alias", "other", "lonely", "missing"]),
        (
            "resolve_canonical_bootstrap_servers_only",
            ["one.example", "two.example", "10.0.0.3", "missing"],
        ),
    ]:
        core = resolve("c", {**given, "client_dns_lookup": lookup}).core()
        assert [host for host, _ in core["bootstrap_servers"]] == expected


def test_a_partitioner_is_a_name_an_instance_a_class_or_a_callable():
    def own(key: Any, all_partitions: Any, available: Any) -> int:
        return 0

    for given, native in [
        ("round_robin", "round_robin"),
        ("consistent_random", "consistent_random"),
        ("org.apache.kafka.clients.producer.RoundRobinPartitioner", "round_robin"),
        (DefaultPartitioner(), "default"),
        (RoundRobinPartitioner, "round_robin"),
        (own, "default"),
    ]:
        assert resolve("p", {"partitioner": given}).core()["partitioner"] == native
    assert "partitioner must be" in one_problem("p", partitioner="fastest")
    assert "partitioner is not usable" in one_problem("p", partitioner=5)
    assert resolve("p", {"partitioner.class": "round_robin"})["partitioner"] == "round_robin"


def test_serializers_are_checked_for_their_shape():
    assert "key_serializer is not usable" in one_problem("p", key_serializer=5)
    assert "value_deserializer is not usable" in one_problem("c", value_deserializer="json")


class Seen:
    """An interceptor that options give by name."""

    def on_send(self, record: Any) -> Any:
        return record


def test_interceptors_are_made_of_names_classes_and_instances():
    one = Seen()
    given = [one, Seen, "thalweg.interceptor.ProducerInterceptor"]
    found = resolve("p", {"interceptor_classes": given})["interceptor_classes"]
    assert found[0] is one
    assert [type(each).__name__ for each in found] == ["Seen", "Seen", "ProducerInterceptor"]
    for bad in ("nowhere.Class", "collections.Nothing", "Bare"):
        assert repr(bad) in one_problem("c", **{"interceptor.classes": bad})


@pytest.mark.parametrize("option", ["interceptor_classes", "metric_reporters"])
@pytest.mark.parametrize("given", [42, [42], [object()], "json.JSONDecoder"])
def test_objects_without_any_of_the_methods_are_refused(option, given):
    assert f"{option} has an object of type" in one_problem("p", **{option: given})


class Index:
    """An int of another library, such as numpy's."""

    def __index__(self) -> int:
        return 7

    def __int__(self) -> int:
        return 7


def test_ints_of_other_libraries_are_ints():
    assert resolve("p", {"linger_ms": Index()})["linger_ms"] == 7


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl_login_refresh_window_factor", 10**400),
        ("socket_options", [(math.inf, 1, 1)]),
        ("auto_offset_reset", f"by_duration:PT{'9' * 400}S"),
    ],
    ids=["float", "int", "duration"],
)
def test_absurd_numbers_are_problems_of_their_option(name, value):
    assert name in one_problem("c", **{name: value})
