"""Code written for aiokafka 0.14 runs with one import changed.

The tests compare names, parameters and defaults of its clients with ours. Exactly the differences
that differences_aio.py lists are allowed.
"""

import asyncio
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.compat import differences_aio as differences
from tests.compat.options import REFUSED, refused_by
from tests.support import peers
from thalweg import EmbeddedBroker, aio
from thalweg._config.options import ROWS, Option
from thalweg.structs import TopicPartition

ROOT = Path(__file__).resolve().parents[2]


def description(python: str, module: str, kind: str) -> dict[str, Any]:
    """Returns what describe_aio.py prints for a class."""
    program = Path(__file__).parent / "describe_aio.py"
    command = [python, str(program), module, kind]
    found = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"PYTHONPATH": f"{ROOT}/python"}
    )
    assert found.returncode == 0, found.stderr
    printed: dict[str, Any] = json.loads(found.stdout)
    return printed


@pytest.fixture(scope="module")
def package() -> dict[str, Any]:
    """The public names of aiokafka's modules, and the codes of its errors."""
    program = Path(__file__).parent / "describe_aio.py"
    command = [str(peers.python_of("aiokafka")), str(program), "aiokafka"]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    printed: dict[str, Any] = json.loads(found.stdout)
    return printed


@pytest.fixture(scope="module", params=["AIOKafkaProducer", "AIOKafkaConsumer"])
def kind(request: pytest.FixtureRequest) -> str:
    found: str = request.param
    return found


@pytest.fixture(scope="module")
def theirs(kind: str) -> dict[str, Any]:
    return description(str(peers.python_of("aiokafka")), "aiokafka", kind)


@pytest.fixture(scope="module")
def ours(kind: str) -> dict[str, Any]:
    return description(sys.executable, "thalweg.aio", kind)


@pytest.fixture(scope="module")
def options(kind: str) -> dict[str, Option]:
    """Our class's options by each of their names."""
    letter = {"AIOKafkaProducer": "p", "AIOKafkaConsumer": "c"}[kind]
    rows = [row for row in ROWS if letter in row.clients]
    return {name: row for row in rows for name in (*row.aliases, row.name)}


def test_every_public_member_is_there(theirs, ours):
    # `client` and similar attributes belong to instances, and to aiokafka's internals.
    assert set(theirs["members"]) <= set(ours["members"])


def test_methods_take_the_same_parameters_or_are_listed(kind, theirs, ours):
    both = set(theirs["members"]) & set(ours["members"])
    differ = {
        name for name in both if named(theirs["members"][name]) != named(ours["members"][name])
    }
    assert differ == set(differences.SIGNATURES[kind])
    for name in differ:  # a method may take more parameters, never fewer
        more = named(ours["members"][name])
        assert more[: len(theirs["members"][name])] == named(theirs["members"][name])


def named(parameters: list[list[Any]]) -> list[list[Any]]:
    """Returns parameters without the notation of an empty default."""
    return [[name, kind, default] for name, kind, default in parameters]


def test_every_option_is_known(theirs, options):
    assert names_of(theirs) <= set(options)


def names_of(theirs: dict[str, Any]) -> set[str]:
    """Returns aiokafka's options."""
    return {name for name, _, _ in theirs["constructor"]} - {"loop", "topics"}


@pytest.mark.filterwarnings("ignore")
def test_every_option_is_accepted_by_the_constructor_or_refused_with_a_reason(kind, theirs):
    names = names_of(theirs)
    with EmbeddedBroker() as broker:

        def make(**options: Any) -> None:
            client = getattr(aio, kind)(bootstrap_servers=broker.bootstrap_servers, **options)
            asyncio.run(started_and_stopped(client))

        assert refused_by(make, names) == names & set(REFUSED)


async def started_and_stopped(client: Any) -> None:
    async with client:
        pass


def test_defaults_are_the_same_or_listed(kind, theirs, options):
    def plain(value: Any) -> Any:
        return "object" if " object at 0x" in repr(value) else value

    differ = set()
    for name, _, default in theirs["constructor"]:
        if name in ("loop", "topics"):
            continue
        value = options[name].default
        if default is None or repr(plain(value)) != default:
            differ.add(name)
    assert differ == set(differences.DEFAULTS[kind])


def test_builders_are_used_as_aiokafkas_are():
    from thalweg.aio import BatchBuilder

    for name in ("append", "close", "closed", "record_count", "size"):
        assert callable(getattr(BatchBuilder, name))


# ---------------------------------------------------------------- modules and names


def test_every_name_of_a_module_is_there_or_listed(package):
    missing = {
        (module, name)
        for module, names in package["names"].items()
        for name in names
        if not hasattr(importlib.import_module(f"thalweg.aio{module}"), name)
    }
    assert missing == set(differences.NAMES)


def test_every_error_has_the_code_that_it_has_in_aiokafka(package):
    from thalweg.aio import errors

    assert len(package["names"][".errors"]) >= 104
    for name, code in package["codes"]:
        assert issubclass(getattr(errors, name), errors.for_code(code)), name


def test_an_except_clause_for_an_error_of_aiokafka_gets_ours():
    from thalweg import errors as ours
    from thalweg.aio import errors

    assert errors.GroupCoordinatorNotAvailableError is ours.CoordinatorNotAvailableError
    assert issubclass(ours.NoBrokersAvailable, errors.KafkaUnavailableError)
    assert set(errors.__all__) >= set(ours.__all__)


def test_asking_for_a_name_that_is_not_there_never_raises():
    assert not hasattr(aio, "AIOKafkaAdminClient")
    assert not hasattr(aio, "nonsense")
    with pytest.raises(AttributeError, match=r"AIOKafkaAdminClient'.*use thalweg\.KafkaAdmin"):
        aio.AIOKafkaAdminClient  # noqa: B018


def test_the_package_is_an_attribute_of_thalweg():
    program = "import thalweg; print(thalweg.aio.AIOKafkaProducer.__name__)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert found.stdout == "AIOKafkaProducer\n", found.stderr


# ---------------------------------------------------------------- clients before their start


def test_a_consumer_shows_what_it_was_given_before_its_start():
    consumer = aio.AIOKafkaConsumer()
    assert consumer.subscription() == set()
    consumer.subscribe(["a", "b"])
    assert consumer.subscription() == {"a", "b"}
    assert consumer.assignment() == set()

    assigned = aio.AIOKafkaConsumer()
    assigned.assign([TopicPartition("a", 1)])
    assert assigned.assignment() == {TopicPartition("a", 1)}
    assert assigned.subscription() == set()
    assigned.unsubscribe()
    assert assigned.assignment() == set()


def test_a_started_consumer_without_subscription_has_an_empty_one():
    async def program(bootstrap: str) -> None:
        async with aio.AIOKafkaConsumer(bootstrap_servers=bootstrap) as consumer:
            assert consumer.subscription() == set()
            consumer.subscribe(["a"])
            assert consumer.subscription() == {"a"}
            await consumer.unsubscribe()
            assert consumer.subscription() == set()

    with EmbeddedBroker() as broker:
        asyncio.run(program(broker.bootstrap_servers))


def test_a_client_is_not_closed_before_its_start(kind):
    async def program(bootstrap: str) -> None:
        client = getattr(aio, kind)(bootstrap_servers=bootstrap)
        assert not client.closed
        async with client:
            assert not client.closed
        assert client.closed

    with EmbeddedBroker() as broker:
        asyncio.run(program(broker.bootstrap_servers))
