"""Options: names, values, rules, secrets, and one error with all problems."""

import math
import pickle
import socket
import warnings
from pathlib import Path
from typing import Any

import pytest

from thalweg import config as configuration
from thalweg._config.coerce import duration_ms
from thalweg._config.options import CLIENTS, ROWS
from thalweg.config import Config, IgnoredOptionWarning, TlsOptions, options_of, resolve
from thalweg.errors import KafkaConfigurationError, KafkaError
from thalweg.partitioner import DefaultPartitioner, RoundRobinPartitioner


def problems(client: Any, **given: Any) -> list[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(KafkaConfigurationError) as caught:
            resolve(client, given)
    assert all(each in str(caught.value) for each in caught.value.problems)
    return list(caught.value.problems)


def one_problem(client: Any, **given: Any) -> str:
    found = problems(client, **given)
    assert len(found) == 1, found
    return found[0]


# ---------------------------------------------------------------- names


@pytest.mark.parametrize(
    "given",
    [
        {"linger_ms": 7},
        {"linger.ms": 7},
        {"linger.ms": "7"},
        {"queue.buffering.max.ms": "7"},
        {"linger_ms": 7.0},
    ],
)
def test_an_option_has_kafka_pythons_name_kafkas_and_librdkafkas(given):
    assert resolve("p", given)["linger_ms"] == 7


def test_every_name_of_an_option_leads_to_it_and_to_no_other():
    for client in CLIENTS:
        seen: dict[str, str] = {}
        for row in options_of(client).values():
            for name in {row.name, row.dotted or row.name, *row.aliases}:
                assert seen.setdefault(name, row.name) == row.name, name


def test_an_unknown_option_is_named_with_the_nearest_valid_name():
    assert one_problem("p", linger=5) == "unknown option 'linger' (did you mean 'linger_ms'?)"
    assert "'bootstrap.servers'" in one_problem("p", **{"bootstrap.server": "x"})
    assert "'auto_offset_reset'" in one_problem("c", auto_offest_reset="latest")


def test_an_option_of_another_client_is_named_as_such():
    text = one_problem("p", group_id="g")
    assert text == "'group_id' is an option of KafkaConsumer, not of KafkaProducer"


def test_all_problems_are_named_at_once_and_each_is_an_item():
    found = problems("p", linger=5, acks=7, buffer_memory="much", **{"batch.size": -1})
    assert len(found) == 4
    for name in ("linger", "acks", "buffer_memory", "batch_size"):
        assert any(name in each for each in found), name


def test_the_error_is_a_value_error_and_a_kafka_error():
    with pytest.raises(ValueError):
        resolve("a", {"nonsense": 1})
    assert issubclass(KafkaConfigurationError, KafkaError)


def test_one_option_under_two_names_must_have_one_value():
    assert resolve("p", {"linger_ms": 3, "linger.ms": 3})["linger_ms"] == 3
    text = one_problem("p", **{"linger_ms": 3, "linger.ms": 4})
    assert text == (
        "'linger_ms' and 'linger.ms' are names of the same option, with different values: set only"
        " one of them"
    )


# ---------------------------------------------------------------- values


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
    assert text.startswith("batch_size must be a whole number of at least 0, not ")


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
        ("pt1s", 1000),
        ("P", None),
        ("PT", None),
        ("1D", None),
        ("P1Y", None),
        ("", None),
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


def test_interceptors_are_made_of_names_classes_and_instances():
    one = Seen()
    given = [one, Seen, "collections.OrderedDict"]
    found = resolve("p", {"interceptor_classes": given})["interceptor_classes"]
    assert found[0] is one
    assert [type(each).__name__ for each in found] == ["Seen", "Seen", "OrderedDict"]
    for bad in ("nowhere.Class", "collections.Nothing", "Bare"):
        assert repr(bad) in one_problem("c", **{"interceptor.classes": bad})


# ---------------------------------------------------------------- secrets


SECRETS = sorted(row.name for row in ROWS if row.secret)


def test_the_secrets_are_known():
    assert SECRETS == [
        "sasl_jaas_config",
        "sasl_oauth_token_provider",
        "sasl_plain_password",
        "ssl_keystore_password",
        "ssl_password",
        "ssl_truststore_password",
    ]


def test_a_secret_is_never_shown():
    given = {
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "alice",
        "sasl_plain_password": "hunter2",
    }
    found = resolve("a", given)
    assert found["sasl_plain_password"] == "hunter2"
    assert found.core()["sasl_plain_password"] == "hunter2"
    for text in (repr(found), str(found), f"{found}", repr(found.public())):
        assert "hunter2" not in text
    assert found.public()["sasl_plain_password"] == "<hidden>"
    assert found.public()["sasl_plain_username"] == "alice"


@pytest.mark.parametrize("name", SECRETS)
def test_a_bad_secret_is_named_without_its_value(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(KafkaConfigurationError) as caught:
            resolve("a", {name: ["hunter2"], "also": "wrong"})
    assert "hunter2" not in str(caught.value)


def test_the_value_of_an_unknown_option_is_not_shown():
    assert "hunter2" not in one_problem("a", sasl_plain_pasword="hunter2")


_BODY = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgmarkerofthesecretkey"


@pytest.mark.parametrize("row", [row for row in ROWS if row.kind == "pem"])
@pytest.mark.parametrize(
    "text",
    [
        f"-----BEGIN PRIVATE KEY-----\n{_BODY}\n-----END PRIVATE KEY-----\n",
        f"{_BODY[:40]}\n{_BODY[40:]}\n",
        _BODY,
        f"-----BEGIN PRIVATE KEY-----\r\n{_BODY}\r\n-----END PRIVATE KEY-----\r\n",
        f"  -----BEGIN PRIVATE KEY-----\n  {_BODY}\n  -----END PRIVATE KEY-----\n",
        f"-----BEGIN PRIVATE KEY----- {_BODY} -----END PRIVATE KEY-----",
        f"----BEGIN PRIVATE KEY----{_BODY}",
        f" {_BODY} ",
        f"'{_BODY}'",
        f"{_BODY}\\n{_BODY}",
        f"{_BODY} {_BODY}",
        _BODY.replace("A", "-") + "_",
    ],
    ids=[
        "PEM",
        "lines without armour",
        "base64",
        "CRLF",
        "indented",
        "one line",
        "four dashes",
        "spaces around",
        "quotes around",
        "escaped line break",
        "words",
        "URL-safe",
    ],
)
def test_pem_text_is_never_shown(row, text, recwarn):
    """Not when it is accepted, not when it is refused, and not when it has no effect."""
    shown = []
    for protocol in ("SSL", "PLAINTEXT"):
        given = {"security_protocol": protocol, "ssl_certfile": "/no/such", row.name: text}
        try:
            found = resolve("p", given)
            shown += [repr(found), str(found.public()), repr(TlsOptions(given))]
        except KafkaConfigurationError as error:
            copy = pickle.loads(pickle.dumps(error))
            shown += [str(error), repr(error), repr(error.problems), str(copy), repr(vars(copy))]
    found = Config("p", {row.name: text}, ())
    shown += [repr(found), repr(found.public()), *(str(each.message) for each in recwarn)]
    assert "marker" not in "\n".join(shown).replace("\\n", "")
    assert "GByqGSM49AgEGCCqGSM49" not in "\n".join(shown)


def test_the_path_of_a_pem_file_is_shown():
    found = Config("p", {"ssl_keyfile": "/etc/keys/client.pem"}, ())
    assert found.public() == {"ssl_keyfile": "/etc/keys/client.pem"}
    long = "/tmp/pytest-of-alice/pytest-12/a/very/long/path/of/many/words/without/any/end"
    assert Config("p", {"ssl_keyfile": long}, ()).public() == {"ssl_keyfile": long}
    assert long in one_problem("p", security_protocol="SSL", ssl_cafile=long)


@pytest.mark.parametrize(
    "address", ["SASL_SSL://u:hunter2@h:9092", "u:hunter2@h:9092", "hunter2@h"]
)
def test_a_password_in_an_address_is_refused_and_not_shown(address):
    text = one_problem("p", bootstrap_servers=["h:1", address])
    assert "sasl_plain_password" in text
    assert "hunter2" not in text


def test_all_files_that_cannot_be_read_are_named_with_all_other_problems(tmp_path):
    (tmp_path / "there").touch()
    found = problems(
        "p",
        security_protocol="SSL",
        ssl_cafile=str(tmp_path / "no-ca"),
        ssl_certfile=str(tmp_path),
        ssl_keyfile=str(tmp_path / "there"),
        ssl_crlfile="nul\0",
        acks=7,
    )
    listed = "\n".join(found)
    assert len(found) == 4
    assert f"ssl_cafile cannot be read from {tmp_path / 'no-ca'}: No such file" in listed
    assert f"ssl_certfile cannot be read from {tmp_path}: it is a directory" in listed
    assert "ssl_crlfile cannot be read from nul" in listed
    assert "acks must be" in listed


def test_doubled_secrets_are_named_without_their_values():
    text = one_problem("a", **{"sasl_plain_password": "hunter2", "sasl.password": "hunter3"})
    assert "hunter" not in text


# ---------------------------------------------------------------- ignored, deprecated, refused


def test_an_option_without_effect_warns_with_the_reason():
    with pytest.warns(IgnoredOptionWarning, match="api_version is accepted and ignored: the vers"):
        resolve("p", {"api_version": (2, 5)})


@pytest.mark.parametrize(
    "client, name",
    sorted((client, row.name) for row in ROWS for client in row.clients if row.is_ignored(client)),
)
def test_every_ignored_option_is_accepted_with_one_warning(client, name):
    with pytest.warns(IgnoredOptionWarning) as caught:
        resolve(client, {name: 3 if options_of(client)[name].kind == "int" else "decimal.Decimal"})
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
        {"metric_reporters": [object()]},
    ],
)
def test_nobody_hears_of_metrics_that_are_switched_off(given):
    for client in ("p", "c"):
        with pytest.warns(IgnoredOptionWarning, match="metrics_enabled is False") as caught:
            resolve(client, {**given, "metrics_enabled": False})
        assert len(caught) == 1
        assert all(name in str(caught[0].message) for name in given)


@pytest.mark.parametrize("name", sorted(row.name for row in ROWS if row.deprecated))
def test_every_senseless_option_is_accepted_with_a_deprecation_warning(name):
    client = next(row for row in ROWS if row.name == name).clients[0]
    with pytest.warns(DeprecationWarning, match=f"{name} makes no sense here: "):
        resolve(client, {name: 1})  # type: ignore[arg-type]


@pytest.mark.parametrize("name", sorted(row.name for row in ROWS if row.refused))
def test_an_option_that_cannot_be_honoured_is_refused(name):
    assert f"{name} cannot be honoured: " in "\n".join(problems("a", **{name: object()}))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        resolve("a", {name: None})


def test_no_auto_commit_may_be_written_as_none():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert resolve("c", {"enable_auto_commit": None})["enable_auto_commit"] is False
        found = resolve("c", {"enable.auto.commit": None, "group_id": "g"})
    assert found["enable_auto_commit"] is False


def test_the_password_of_a_key_is_refused_with_what_to_do():
    assert "openssl pkcs8" in one_problem("c", **{"ssl.key.password": "hunter2"})


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


def test_sasl_needs_a_mechanism_and_its_credentials():
    text = one_problem("a", security_protocol="SASL_PLAINTEXT")
    assert text == "security_protocol='SASL_PLAINTEXT' needs sasl_mechanism"
    found = problems("a", security_protocol="SASL_SSL", sasl_mechanism="PLAIN")
    assert found == [
        "sasl_mechanism='PLAIN' needs sasl_plain_username",
        "sasl_mechanism='PLAIN' needs sasl_plain_password",
    ]


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "scram-sha-512"])
def test_scram_needs_the_same_credentials_as_plain(mechanism):
    given = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
    assert problems("a", **given) == [
        f"sasl_mechanism={mechanism.upper()!r} needs sasl_plain_username",
        f"sasl_mechanism={mechanism.upper()!r} needs sasl_plain_password",
    ]
    found = resolve("a", {**given, "sasl.username": "u", "sasl.password": "p"}).core()
    assert found["sasl_mechanism"] == mechanism.upper()
    assert found["sasl_scram_iterations_max"] == 131072
    assert found["sasl_scram_tokenauth"] is False


@pytest.mark.parametrize(
    "mechanism, refused",
    [
        ("PLAIN", ["sasl_plain_username", "sasl_plain_password"]),
        ("SCRAM-SHA-256", ["sasl_plain_username"]),
    ],
)
def test_a_nul_that_the_mechanism_cannot_send_is_refused(mechanism, refused):
    found = problems(
        "a",
        security_protocol="SASL_SSL",
        sasl_mechanism=mechanism,
        sasl_plain_username="a\0",
        sasl_plain_password="hunter\0",
    )
    assert found == [f"{name} must not contain a NUL character" for name in refused]


def test_the_limit_of_iterations_has_a_lowest_value():
    text = one_problem("a", sasl_scram_iterations_max=4095)
    assert text.startswith("sasl_scram_iterations_max must be a whole number")


@pytest.mark.parametrize("mechanism", ["GSSAPI", "OAUTHBEARER", "AWS_MSK_IAM"])
def test_a_mechanism_that_this_version_lacks_says_so(mechanism):
    text = one_problem("a", security_protocol="SASL_SSL", sasl_mechanism=mechanism)
    wanted = "PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"
    assert text == f"sasl_mechanism {mechanism!r} is not supported yet; use {wanted}"


def test_a_made_up_mechanism_is_refused():
    text = one_problem("a", security_protocol="SASL_SSL", sasl_mechanism="ROT13")
    wanted = "'PLAIN', 'SCRAM-SHA-256' or 'SCRAM-SHA-512'"
    assert text == f"sasl_mechanism must be {wanted}, not 'ROT13'"


def test_options_of_scram_warn_with_another_mechanism():
    with pytest.warns(IgnoredOptionWarning, match=r"sasl_scram_tokenauth: .*'PLAIN'") as caught:
        resolve("a", {**SASL, "security_protocol": "SASL_SSL", "sasl_scram_tokenauth": True})
    assert len(caught) == 1


SCRAM_LINE = (
    "org.apache.kafka.common.security.scram.ScramLoginModule required"
    ' username="alice" password="hunter2" tokenauth="true";'
)


def test_javas_login_line_of_scram_may_have_a_delegation_token():
    given = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": SCRAM_LINE,
    }
    found = resolve("a", given).core()
    assert (found["sasl_plain_username"], found["sasl_plain_password"]) == ("alice", "hunter2")
    assert found["sasl_scram_tokenauth"] is True
    assert resolve("a", {**given, "sasl_scram_tokenauth": False})["sasl_scram_tokenauth"] is False


@pytest.mark.parametrize(
    "mechanism, line, wanted",
    [
        ("PLAIN", SCRAM_LINE, "'SCRAM-SHA-256' or 'SCRAM-SHA-512'"),
        ("SCRAM-SHA-256", SCRAM_LINE.replace("scram.Scram", "plain.Plain"), "'PLAIN'"),
    ],
)
def test_javas_login_module_must_fit_the_mechanism(mechanism, line, wanted):
    text = one_problem(
        "a", security_protocol="SASL_SSL", sasl_mechanism=mechanism, sasl_jaas_config=line
    )
    assert text.startswith("sasl_jaas_config has ")
    assert text.endswith(f"which needs sasl_mechanism {wanted}, not {mechanism!r}")
    assert "hunter2" not in text


def test_javas_login_line_gives_user_and_password():
    line = (
        "org.apache.kafka.common.security.plain.PlainLoginModule required"
        ' username="alice" password="a\\"b\\\\c";'
    )
    found = resolve(
        "a",
        {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.jaas.config": line,
        },
    )
    assert found["sasl_plain_username"] == "alice"
    assert found["sasl_plain_password"] == 'a"b\\c'


def test_a_broken_login_line_is_refused_without_being_shown():
    found = problems(
        "a",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_jaas_config='password="hunter2"',
    )
    assert any(each.startswith("sasl_jaas_config must be ") for each in found)
    assert "hunter2" not in "".join(found)


SASL = {"sasl_mechanism": "PLAIN", "sasl_plain_username": "u", "sasl_plain_password": "x"}


@pytest.mark.parametrize(
    "given, lack",
    [
        (SASL, "does not authenticate"),
        ({"sasl_mechanism": "SCRAM-SHA-256"}, "does not authenticate"),
        ({"sasl_mechanism": "PLAIN", "security_protocol": "SSL"}, "does not authenticate"),
        ({"sasl_jaas_config": "nonsense"}, "does not authenticate"),
        ({"sasl_kerberos_domain_name": "d"}, "GSSAPI is not supported"),
        ({"ssl_cafile": "ca.pem"}, "has no encryption"),
        ({"ssl_keyfile": "key.pem"}, "has no encryption"),
        ({"ssl_truststore_location": "trust.jks"}, "has no encryption"),
        ({"ssl_protocol": "TLSv1.2"}, "both offered"),
    ],
)
def test_security_options_without_effect_are_ignored_with_one_warning(given, lack):
    with pytest.warns(IgnoredOptionWarning, match=lack) as caught:
        found = resolve("a", given)
    assert len(caught) == 1
    assert all(name in str(caught[0].message) for name in given if name != "security_protocol")
    assert found.core()["sasl_mechanism"] is None


@pytest.fixture
def pem_files(tmp_path, monkeypatch):
    """Makes these empty files in the working folder."""
    (tmp_path / "a").mkdir()
    for name in ("ca.pem", "client.pem", "client.key", "a/ca.pem"):
        (tmp_path / name).touch()
    monkeypatch.chdir(tmp_path)


def test_problems_of_security_come_together_with_all_others(pem_files):
    found = problems(
        "p",
        security_protocol="SASL_SSL",
        sasl_mechanism="ROT13",
        ssl_keyfile="client.key",
        sasl_oauth_token_provider=object(),
        acks=7,
    )
    assert [each.split()[0] for each in found] == [
        "sasl_oauth_token_provider",
        "acks",
        "ssl_keyfile",
        "sasl_mechanism",
    ]


def test_a_key_needs_its_certificate(pem_files):
    text = one_problem("a", security_protocol="SSL", ssl_keyfile="client.key")
    assert text == "ssl_keyfile needs ssl_certfile"


def test_kafkas_names_of_pem_stores_are_taken(pem_files):
    found = resolve(
        "a",
        {
            "security.protocol": "SSL",
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": "ca.pem",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": "client.pem",
            "ssl.endpoint.identification.algorithm": "",
        },
    )
    assert (found["ssl_cafile"], found["ssl_certfile"]) == ("ca.pem", "client.pem")
    assert found["ssl_check_hostname"] is False


def test_javas_key_stores_are_refused_with_what_to_do():
    text = one_problem("a", security_protocol="SSL", ssl_truststore_location="trust.jks")
    assert "needs ssl_truststore_type='PEM'" in text
    assert "set ssl_cafile" in text


def test_files_may_be_paths(pem_files):
    found = resolve("a", {"security_protocol": "SSL", "ssl_cafile": Path("a") / "ca.pem"})
    assert found["ssl_cafile"] == str(Path("a") / "ca.pem")


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


def test_a_broker_must_answer_before_the_client_gives_up():
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


# ---------------------------------------------------------------- compared with Kafka 4.3


def kafka_options() -> list[tuple[str, str, str]]:
    path = Path(__file__).parent / "data" / "kafka-4.3-options.tsv"
    rows = (line.split("\t") for line in path.read_text().splitlines() if line[0] != "#")
    return [(client, name, default) for client, name, _, default in rows]


# Kafka's options that thalweg does not have.
NOT_OURS = {
    "transaction.two.phase.commit.enable": "two-phase commit (KIP-939) is not offered",
    "ssl.keystore.key": "PEM in the option itself: give files",
    "ssl.keystore.certificate.chain": "PEM in the option itself: give files",
    "ssl.truststore.certificates": "PEM in the option itself: give files",
    "ssl.keymanager.algorithm": "of the Java virtual machine",
    "ssl.trustmanager.algorithm": "of the Java virtual machine",
    "ssl.secure.random.implementation": "of the Java virtual machine",
    "ssl.engine.factory.class": "of the Java virtual machine",
    "sasl.kerberos.kinit.cmd": "no Kerberos",
    "sasl.kerberos.ticket.renew.window.factor": "no Kerberos",
    "sasl.kerberos.ticket.renew.jitter": "no Kerberos",
    "sasl.kerberos.min.time.before.relogin": "no Kerberos",
    "sasl.client.callback.handler.class": "of the Java virtual machine",
}


def same(ours: Any, kafkas: str) -> bool:
    """Whether our default equals the one that Kafka prints."""
    known: dict[str, Any] = {"null": None, "true": True, "false": False, "all": -1, "[]": None}
    if kafkas in known:
        return bool(ours == known[kafkas]) or (kafkas == "[]" and not ours)
    if isinstance(ours, int) and not isinstance(ours, bool):
        return str(ours) == kafkas
    return str(ours if ours is not None else "") == kafkas


@pytest.mark.parametrize("client, name, default", kafka_options())
def test_every_option_of_kafka_is_ours_with_kafkas_default_or_a_reason(client, name, default):
    rows = [row for row in options_of(client).values() if row.dotted == name]
    if name in NOT_OURS:
        assert not rows
        assert name in one_problem(client, **{name: "x"})
        return
    if client == "a" and name == "retries":  # the admin client retries until its timeout
        return
    assert rows, f"{name} of {CLIENTS[client]} is neither in the table nor listed"
    row = rows[0]
    assert same(row.default, default) or row.differs, f"{name}: {row.default!r}, Kafka's {default}"


def test_a_reason_for_another_default_is_given_only_where_it_is_another():
    kafkas: dict[str, set[str]] = {}
    for _, name, default in kafka_options():
        kafkas.setdefault(name, set()).add(default)
    for row in ROWS:
        if row.differs and row.dotted in kafkas:
            assert not all(same(row.default, each) for each in kafkas[row.dotted]), row.name


def test_a_config_is_a_mapping_that_knows_what_was_given():
    found = resolve("p", {"linger.ms": 5, "acks": "all"})
    assert isinstance(found, Config)
    assert found.explicit == {"linger_ms", "acks"}
    assert configuration.Option is type(ROWS[0])
