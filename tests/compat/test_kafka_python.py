"""Code written for kafka-python 2.x or 3.x runs with one import changed.

The tests compare names, signatures, defaults, error bases and module paths with both versions.
Exactly the differences that differences.py lists are allowed.
"""

import importlib
from collections.abc import Callable
from typing import Any

import pytest

import thalweg
from tests.compat import differences
from tests.compat.describe import DEEP_IMPORTS
from tests.compat.options import REFUSED, refused_by
from thalweg import EmbeddedBroker, IgnoredOptionWarning
from thalweg._config.broker_version import inferred


def unlisted(found: set[Any], listed: Any) -> list[Any]:
    return sorted(each for each in found if each not in listed)


def stale(
    both: dict[str, Any], ours: Any, find: Callable[[Any, Any], set[Any]], listed: Any
) -> Any:
    found = set().union(*(find(theirs, ours) for theirs in both.values()))
    return sorted(each for each in listed if each not in found)


# ---------------------------------------------------------------- what is compared


def missing_modules(theirs: Any, ours: Any) -> set[str]:
    return set(theirs["modules"]) - set(ours["modules"])


def missing_names(theirs: Any, ours: Any) -> set[tuple[str, str]]:
    return {
        (part, name)
        for part, names in theirs["names"].items()
        for name in names
        if name not in ours["names"][part]
    }


def missing_methods(theirs: Any, ours: Any) -> set[tuple[str, str]]:
    return {
        (kind, name)
        for kind, members in theirs["methods"].items()
        for name in members
        if name not in ours["methods"][kind]
    }


def other_signatures(theirs: Any, ours: Any) -> set[tuple[str, str]]:
    """Returns methods whose parameters differ, except for additional ones with defaults."""
    found = set()
    for kind, members in theirs["methods"].items():
        for name, wanted in members.items():
            given = ours["methods"][kind].get(name, wanted)
            if not takes(given, wanted):
                found.add((kind, name))
    return found


def takes(given: Any, wanted: Any) -> bool:
    if given is None or wanted is None:
        return given is wanted
    more = given[len(wanted) :]
    return given[: len(wanted)] == wanted and all(
        default is not None or kind.startswith("VAR_") for _, kind, default in more
    )


def other_defaults(theirs: Any, ours: Any) -> set[str]:
    return {
        option
        for client, options in theirs["defaults"].items()
        for option, default in options.items()
        if ours["defaults"][client].get(option, "missing") != default
    }


def other_errors(theirs: Any, ours: Any) -> set[tuple[str, str]]:
    found = set()
    for name, wanted in theirs["errors"].items():
        given = ours["errors"][name]
        if not set(wanted["bases"]) <= set(given["bases"]):
            found.add((name, "bases"))
        for attribute in ("errno", "message", "retriable", "invalid_metadata"):
            if given[attribute] != wanted[attribute]:
                found.add((name, attribute))
    return found


def other_structs(theirs: Any, ours: Any) -> set[str]:
    return {
        name for name, wanted in theirs["structs"].items() if ours["structs"].get(name) != wanted
    }


def other_enums(theirs: Any, ours: Any) -> set[tuple[str, str]]:
    return {
        (name, member)
        for name, members in theirs["enums"].items()
        for member, value in members.items()
        if ours["enums"].get(name, {}).get(member) != value
    }


def other_constructors(theirs: Any, ours: Any) -> set[tuple[str, str]]:
    return {
        (part, name)
        for part, kinds in theirs["constructors"].items()
        for name, wanted in kinds.items()
        if not takes(ours["constructors"][part].get(name), wanted)
    }


# ---------------------------------------------------------------- the comparisons


def test_module_paths(theirs, ours):
    missing = missing_modules(theirs, ours)
    prefixes = tuple(differences.MODULES)
    assert sorted(each for each in missing if not each.startswith(prefixes)) == []


def test_public_names(theirs, ours):
    assert unlisted(missing_names(theirs, ours), differences.NAMES) == []


def test_methods(theirs, ours):
    assert unlisted(missing_methods(theirs, ours), differences.METHODS) == []


def test_signatures(theirs, ours):
    assert unlisted(other_signatures(theirs, ours), differences.SIGNATURES) == []


def test_every_option_is_known(theirs, ours):
    for client, options in theirs["defaults"].items():
        assert set(options) <= set(ours["defaults"][client]), client


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("client", ["KafkaProducer", "KafkaConsumer", "KafkaAdminClient"])
def test_every_option_is_accepted_by_the_constructor_or_refused_with_a_reason(both, client):
    names = {name for theirs in both.values() for name in theirs["defaults"][client]}
    with EmbeddedBroker() as broker:

        def make(**options: Any) -> None:
            getattr(thalweg, client)(bootstrap_servers=broker.bootstrap_servers, **options).close()

        assert refused_by(make, names) == names & set(REFUSED)


@pytest.mark.parametrize(("path", "name"), DEEP_IMPORTS)
def test_names_that_applications_import_from_deeper_modules_are_there(path, name):
    module = importlib.import_module(f"thalweg.{path}")
    assert name in module.__all__
    home = importlib.import_module(f"thalweg.{path.split('.')[0]}")
    assert path.startswith(("coordinator", "version")) or getattr(module, name) is getattr(
        home, name
    )


def test_each_of_these_is_where_kafka_python_has_it(both):
    paths = {f"{path}.{name}" for path, name in DEEP_IMPORTS}
    assert paths <= set().union(*(theirs["deep"] for theirs in both.values()))


def test_defaults(theirs, ours):
    assert unlisted(other_defaults(theirs, ours), differences.DEFAULTS) == []


def test_every_error_is_there(theirs, ours):
    assert sorted(set(theirs["errors"]) - set(ours["errors"])) == []


def test_error_bases_and_attributes(theirs, ours):
    assert unlisted(other_errors(theirs, ours), differences.ERRORS) == []


def test_structs(theirs, ours):
    assert unlisted(other_structs(theirs, ours), differences.STRUCTS) == []


def test_a_structs_fields_come_in_the_same_order(theirs, ours):
    for name, wanted in theirs["structs"].items():
        if name in ours["structs"]:
            assert ours["structs"][name]["fields"] == wanted["fields"], name


def test_constructors(theirs, ours):
    assert other_constructors(theirs, ours) == set()


def test_enums(theirs, ours):
    assert unlisted(other_enums(theirs, ours), differences.ENUMS) == []


def test_records_have_the_same_fields(theirs, ours):
    assert ours["records"] == theirs["records"]


def test_functions(theirs, ours):
    for name, wanted in theirs["callables"].items():
        assert takes(ours["callables"][name], wanted), name


def test_nothing_is_listed_that_does_not_differ(both, ours):
    assert stale(both, ours, missing_names, differences.NAMES) == []
    assert stale(both, ours, missing_methods, differences.METHODS) == []
    assert stale(both, ours, other_signatures, differences.SIGNATURES) == []
    assert stale(both, ours, other_defaults, differences.DEFAULTS) == []
    assert stale(both, ours, other_errors, differences.ERRORS) == []
    assert stale(both, ours, other_structs, differences.STRUCTS) == []
    assert stale(both, ours, other_enums, differences.ENUMS) == []
    missing = set().union(*(missing_modules(theirs, ours) for theirs in both.values()))
    for prefix in differences.MODULES:
        assert any(each.startswith(prefix) for each in missing), prefix


def test_every_difference_has_its_reason():
    for table in (
        differences.MODULES,
        differences.NAMES,
        differences.METHODS,
        differences.SIGNATURES,
        differences.DEFAULTS,
        differences.ERRORS,
        differences.STRUCTS,
        differences.ENUMS,
    ):
        assert all(reason for reason in table.values())


# ---------------------------------------------------------------- the broker's version


def test_the_brokers_version_is_inferred_as_kafka_python_infers_it(both):
    for version, apis in both["3.0.12"]["api_versions"]:
        assert list(inferred(apis)) == version, version


def test_clients_show_the_brokers_version_unless_it_is_given():
    with EmbeddedBroker() as broker:
        servers = broker.bootstrap_servers
        for kind in (thalweg.KafkaProducer, thalweg.KafkaConsumer, thalweg.KafkaAdminClient):
            with kind(bootstrap_servers=servers) as client:
                assert client.config["api_version"] >= (4, 0)
                assert client.config["api_version"] == client.config.get("api_version")
            with (
                pytest.warns(IgnoredOptionWarning, match="api_version"),
                kind(bootstrap_servers=servers, api_version=(2, 6)) as client,
            ):
                assert client.config["api_version"] == (2, 6)
