"""`thalweg.Secret`, and how the clients change and ask for passwords."""

import copy
import pickle
import queue
import threading
import warnings
from dataclasses import dataclass
from typing import Any

import pytest

from thalweg import Secret
from thalweg.auth.password import PasswordSource
from thalweg.config import resolve
from thalweg.errors import IllegalStateError

PLAIN = {
    "security_protocol": "SASL_SSL",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_username": "alice",
    "sasl_plain_password": "old",
}


def test_a_secret_shows_nothing_but_reveals_its_text():
    secret = Secret("hunter2")
    shown = (repr(secret), str(secret), f"{secret}", f"{secret!r}", repr([secret]))
    assert set(shown) == {"<hidden>", "[<hidden>]"}
    assert secret.reveal() == "hunter2"
    with pytest.raises(TypeError):
        vars(secret)


def test_secrets_are_equal_if_their_texts_are():
    assert Secret("a") == Secret("a")
    assert hash(Secret("a")) == hash(Secret("a"))
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"


def test_a_secret_cannot_be_pickled_but_copied():
    secret = Secret("hunter2")
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(TypeError, match="cannot be pickled") as caught:
            pickle.dumps({"password": secret}, protocol)
        assert "hunter2" not in str(caught.value)
    assert copy.copy(secret) is copy.deepcopy(secret) is secret


def test_a_secret_must_be_a_str():
    with pytest.raises(TypeError, match="must be a str, not bytes"):
        Secret(b"hunter2")  # type: ignore[arg-type]


def test_options_take_secrets():
    found = resolve("a", {**PLAIN, "sasl_plain_password": Secret("hunter2")})
    assert found.core()["sasl_plain_password"] == Secret("hunter2")
    line = 'PlainLoginModule required username="u" password="hunter3";'
    given = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}
    found = resolve("a", {**given, "sasl_jaas_config": Secret(line)})
    assert found["sasl_plain_password"] == Secret("hunter3")


def test_options_keep_functions_that_supply_passwords():
    found = resolve("a", {**PLAIN, "sasl_plain_password": lambda: "hunter2"})
    assert isinstance(found.core()["sasl_plain_password"], PasswordSource)
    assert found.public()["sasl_plain_password"] == "<hidden>"


class Reply:
    """Keeps the answer, as the core does."""

    def __init__(self) -> None:
        self.answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def password(self, value: str) -> None:
        self.answers.put((value, threading.current_thread().name))

    def failed(self, reason: str, error: BaseException) -> None:
        self.answers.put((reason, error))


def answer(function: Any) -> Any:
    reply = Reply()
    PasswordSource(function).request(reply)
    return reply.answers.get(timeout=60)


@pytest.mark.parametrize("returned", ["hunter2", Secret("hunter2")])
def test_a_function_supplies_the_password_in_a_thread_of_its_own(returned):
    assert answer(lambda: returned) == ("hunter2", "thalweg-credentials")


def test_what_a_function_raises_is_named_without_its_text():
    reason, error = answer(lambda: int("hunter2"))
    assert reason.startswith("the function in sasl_plain_password raised ValueError. The __cause__")
    assert "hunter2" not in reason
    assert isinstance(error, ValueError)
    reason, error = answer(lambda: 4711)
    assert isinstance(error, TypeError)
    assert "4711" not in reason + str(error)
    assert reason == "the function in sasl_plain_password must return a str, not int"


@dataclass(frozen=True)
class FrozenError(Exception):
    text: str


class UnreadableError(Exception):
    @property  # type: ignore[misc]
    def __class__(self):
        raise RuntimeError("hunter2")


@pytest.mark.parametrize("kind", [FrozenError, UnreadableError])
def test_an_exception_that_refuses_to_be_read_is_an_answer_too(kind, capfd):
    error = kind("hunter2")

    def function() -> str:
        raise error

    source = PasswordSource(function)
    for _ in range(20):  # more than may hang at a time
        reply = Reply()
        source.request(reply)
        reason, given = reply.answers.get(timeout=60)
        assert given is error
        assert "hunter2" not in reason
    assert capfd.readouterr() == ("", "")


def test_an_async_function_cannot_supply_a_password():
    async def password() -> str:
        return "hunter2"

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reason, error = answer(password)
    assert reason == (
        "the function in sasl_plain_password must return a str, not coroutine. Give a function that"
        " is not async"
    )
    assert isinstance(error, TypeError)


def test_credentials_can_change_before_and_after_a_client_is_open():
    class Client:
        def set_sasl_credentials(self, username: str, password: Secret) -> None:
            self.given = (username, password)

    found, client = resolve("a", PLAIN), Client()
    found.set_credentials("bob", Secret("new"), None)
    assert found.core()["sasl_plain_username"] == "bob"
    assert found.core()["sasl_plain_password"] == Secret("new")
    found.set_credentials("carol", Secret("newer"), client)
    assert client.given == ("carol", Secret("newer"))


def test_credentials_that_the_mechanism_cannot_have_are_refused():
    found = resolve("a", PLAIN)
    with pytest.raises(ValueError, match="password must not contain a NUL"):
        found.set_credentials("bob", Secret("new\0"), None)
    with pytest.raises(TypeError, match="username must be a str, not int"):
        found.set_credentials(1, Secret("new"), None)  # type: ignore[arg-type]
    assert found["sasl_plain_username"] == "alice"
    with pytest.raises(IllegalStateError, match="sasl_mechanism PLAIN, SCRAM"):
        resolve("a", {}).set_credentials("bob", Secret("new"), None)
