"""Tokens for OAUTHBEARER: what providers may return, and where they run."""

import asyncio
import base64
import itertools
import json
import queue
import subprocess
import sys
import threading
import time
from typing import Any

import pytest

from thalweg.auth import AbstractTokenProvider, Token
from thalweg.auth.provider import TokenSource
from thalweg.auth.token import read
from thalweg.auth.unsecured import UnsecuredTokens


def jwt(**claims: Any) -> str:
    payload = base64.urlsafe_b64encode(json.dumps(claims).encode()).rstrip(b"=").decode()
    return f"eyJhbGciOiJub25lIn0.{payload}."


class Reply:
    """Keeps the answer, as the core does."""

    def __init__(self) -> None:
        self.answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def token(
        self,
        value: str,
        expires_at: float | None,
        principal: str | None,
        extensions: list[tuple[str, str]],
    ) -> None:
        self.answers.put((value, expires_at, principal, extensions))

    def failed(self, reason: str, error: BaseException) -> None:
        self.answers.put((reason, error))


def answer(provider: Any, *rest: Any) -> Any:
    reply = Reply()
    TokenSource(provider, *rest).request(reply)
    return reply.answers.get(timeout=60)


# ---------------------------------------------------------------- tokens


@pytest.mark.parametrize(
    "returned, expected",
    [
        ("opaque", Token("opaque")),
        (("t", 5), Token("t", 5)),
        (["t", 5.5, "alice"], Token("t", 5.5, "alice")),
        (("t", 5, "alice", {"a": "b"}), Token("t", 5, "alice", {"a": "b"})),
        (("t", None), Token("t")),
        (Token("t", 5), Token("t", 5)),
    ],
)
def test_a_token_has_many_shapes(returned, expected):
    assert read(returned, "f()") == expected


def test_a_jwt_says_when_it_expires_and_whom_it_is_for():
    value = jwt(exp=1234, sub="alice")
    assert read(value, "f()") == Token(value, 1234.0, "alice")
    assert read((value, 99, "bob"), "f()") == Token(value, 99, "bob")


@pytest.mark.parametrize(
    "value",
    [
        "a.b",
        "..",
        "a.!!!.c",
        "a.bm90IGpzb24.c",
        "a.W10.c",
        jwt(exp="soon", sub=5),
        jwt(exp=True),
        jwt(exp=1e400),
        jwt(exp=10**400),
        f"a.{base64.urlsafe_b64encode(b'[' * 100_000).decode()}.c",
    ],
)
def test_other_tokens_are_opaque(value):
    assert read(value, "f()") == Token(value)


@pytest.mark.parametrize(
    "returned, kind, words",
    [
        (None, TypeError, "not NoneType"),
        (b"t", TypeError, "not bytes"),
        (("t",), TypeError, "not tuple"),
        (("t", 1, "a", {}, 5), TypeError, "not tuple"),
        ((None, 1), TypeError, "a token of type NoneType"),
        (("t", "1"), TypeError, "the expiry as a finite number, not str"),
        (("t", True), TypeError, "the expiry as a finite number, not bool"),
        (("t", float("nan")), TypeError, "the expiry as a finite number"),
        (("t", 1_700_000_000_000), ValueError, "looks like milliseconds: divide it by 1000"),
        (("t", 1, 5), TypeError, "the principal as str, not int"),
        (("t", 1, None, ["a"]), TypeError, "the extensions as a dict of str, not list"),
        (("t", 1, None, {"a": 1}), TypeError, "a dict of str to str"),
        ("", ValueError, "empty token"),
        ("hunter2\u00e9", ValueError, "a character that is not ASCII"),
        ("hunter2\udc80", ValueError, "a character that is not ASCII"),
        (("t", 10**400), TypeError, "the expiry as a finite number"),
        (("t", 1, None, {"a": "hunter2\udc80"}), ValueError, "an extension with a character"),
    ],
)
def test_nonsense_is_named_with_the_provider(returned, kind, words):
    with pytest.raises(kind) as caught:
        read(returned, "Mine.token()")
    assert str(caught.value).startswith("Mine.token() ")
    assert words in str(caught.value)
    assert "hunter2" not in repr(caught.value)


def test_the_repr_of_a_token_hides_it():
    assert "hunter2" not in repr(Token("hunter2", 5, "alice"))


# ---------------------------------------------------------------- providers


class Sync(AbstractTokenProvider):
    def token(self) -> str:
        return "t"

    def extensions(self) -> dict[str, str]:
        return {"a": "b"}


class Async(AbstractTokenProvider):
    def __init__(self) -> None:
        self.loops: list[asyncio.AbstractEventLoop] = []

    async def token(self) -> str:
        await asyncio.sleep(0)
        self.loops.append(asyncio.get_running_loop())
        return "t"


def test_a_provider_with_extensions_is_asked_for_both():
    assert answer(Sync()) == ("t", None, None, [("a", "b")])


def test_the_extensions_of_a_token_go_before_those_of_the_provider():
    class Both(Sync):
        def token(self) -> Any:
            return Token("t", extensions={})

    assert answer(Both()) == ("t", None, None, [])


def test_a_function_gets_the_configuration():
    assert answer(lambda config: f"t{config}", "5") == ("t5", None, None, [])


def test_a_provider_runs_in_a_thread_of_its_own():
    seen: list[threading.Thread] = []

    def provide(config: str | None) -> str:
        seen.append(threading.current_thread())
        return "t"

    answer(provide)
    assert seen[0] is not threading.current_thread()
    assert seen[0].daemon, "the interpreter must not wait for it"


def test_calls_share_one_thread():
    seen: list[int] = []

    def provide(config: str | None) -> str:
        seen.append(threading.get_ident())
        return "t"

    source, reply = TokenSource(provide), Reply()
    for _ in range(3):
        source.request(reply)
        reply.answers.get(timeout=60)
    assert len(set(seen)) == 1, "the interpreter starts no thread at exit"


def test_a_request_does_not_wait_for_the_provider():
    end = threading.Event()
    reply = Reply()
    TokenSource(lambda config: str(end.wait(120))).request(reply)
    assert reply.answers.empty()
    end.set()
    assert reply.answers.get(timeout=60)[0] == "True"


def test_async_calls_share_one_loop():
    provider, reply = Async(), Reply()
    source = TokenSource(provider)
    for _ in range(2):
        source.request(reply)
        assert reply.answers.get(timeout=60) == ("t", None, None, [])
    assert len(set(provider.loops)) == 1
    [loop] = set(provider.loops)
    del source
    limit = time.monotonic() + 60
    while not loop.is_closed() and time.monotonic() < limit:
        time.sleep(0.01)
    assert loop.is_closed(), "it ends with the client"


def test_an_async_provider_runs_in_the_loop_of_its_client():
    provider, reply = Async(), Reply()

    async def program() -> None:
        source = TokenSource(provider, None, asyncio.get_running_loop())
        source.request(reply)
        got = await asyncio.to_thread(reply.answers.get, timeout=60)
        assert got == ("t", None, None, [])
        assert provider.loops == [asyncio.get_running_loop()]

    asyncio.run(program())


def test_a_loop_that_is_closed_is_an_error():
    loop = asyncio.new_event_loop()
    loop.close()
    reason, error = answer(Async(), None, loop)
    assert reason.startswith("Async.token() raised RuntimeError: ")
    assert isinstance(error, RuntimeError)


@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt])
def test_whatever_a_provider_raises_is_the_answer(kind):
    raised = kind("no\udc80 token")

    def provide(config: str | None) -> str:
        raise raised

    reason, error = answer(provide)
    assert error is raised
    assert reason.endswith(f"provide() raised {kind.__name__}: no\\udc80 token")


@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt])
def test_an_async_provider_is_called_again_whatever_it_raises(kind):
    raised: list[BaseException] = []

    async def provide(config: str | None) -> str:
        if raised:
            return "t"
        raised.append(kind("no"))
        raise raised[0]

    source, reply = TokenSource(provide), Reply()
    source.request(reply)
    reason, error = reply.answers.get(timeout=60)
    assert error is raised[0]
    assert reason.endswith(f"provide() raised {kind.__name__}: no")
    source.request(reply)
    assert reply.answers.get(timeout=60)[0] == "t"


def test_a_provider_that_stops_its_loop_is_called_again():
    stopped: list[asyncio.AbstractEventLoop] = []

    async def provide(config: str | None) -> str:
        if not stopped:
            stopped.append(asyncio.get_running_loop())
            stopped[0].stop()
            await asyncio.sleep(600)
        return "t"

    source, reply = TokenSource(provide), Reply()
    source.request(reply)
    _, error = reply.answers.get(timeout=60)
    assert isinstance(error, asyncio.CancelledError)
    limit = time.monotonic() + 60
    while not stopped[0].is_closed() and time.monotonic() < limit:
        time.sleep(0.01)
    source.request(reply)
    assert reply.answers.get(timeout=60)[0] == "t"


def test_an_exception_without_a_text_is_an_answer():
    class Mute(Exception):
        def __str__(self) -> str:
            raise ValueError("no text")

    def provide(config: str | None) -> str:
        raise Mute

    source, reply = TokenSource(provide), Reply()
    for _ in range(2):
        source.request(reply)
        reason, error = reply.answers.get(timeout=60)
        assert isinstance(error, Mute)
        assert reason.endswith("provide() raised Mute: (its text cannot be shown)")


def test_a_call_that_hangs_does_not_delay_the_next_one():
    end, started = threading.Event(), threading.Event()

    def provide(config: str | None) -> str:
        if not started.is_set():
            started.set()
            end.wait(120)
            return "late"
        return "t"

    source, first, second = TokenSource(provide), Reply(), Reply()
    source.request(first)
    assert started.wait(60)
    source.request(second)
    assert second.answers.get(timeout=60)[0] == "t"
    assert first.answers.empty()
    end.set()
    assert first.answers.get(timeout=60)[0] == "late"


def test_a_call_does_not_wait_for_one_that_a_failed_answer_has_started():
    """The core may start the next call while it takes an answer, and then refuse the answer."""
    end, hangs, numbers = threading.Event(), threading.Event(), itertools.count(1)

    def provide(config: str | None) -> str:
        number = next(numbers)
        if number == 2:
            hangs.set()
            end.wait(120)
        return f"t{number}"

    class Refusing(Reply):
        def token(self, *_: Any) -> None:
            source.request(second)
            raise ValueError("refused")

    source, first, second, third = TokenSource(provide), Refusing(), Reply(), Reply()
    source.request(first)
    assert isinstance(first.answers.get(timeout=60)[1], ValueError)
    assert hangs.wait(60)
    source.request(third)
    assert third.answers.get(timeout=30)[0] == "t3"
    end.set()
    assert second.answers.get(timeout=60)[0] == "t2"


def test_a_coroutine_that_hangs_is_cancelled_by_the_next_call():
    started: queue.SimpleQueue[None] = queue.SimpleQueue()

    async def provide(config: str | None) -> str:
        started.put(None)
        await asyncio.sleep(600)
        return "t"

    source, first = TokenSource(provide), Reply()
    source.request(first)
    started.get(timeout=60)
    source.request(Reply())
    assert "CancelledError" in first.answers.get(timeout=60)[0]
    started.get(timeout=60)


def test_calls_that_hang_have_a_limit():
    end = threading.Event()
    source, reply = TokenSource(lambda config: str(end.wait(120))), Reply()
    for _ in range(8):
        source.request(reply)
    with pytest.raises(RuntimeError, match=r"8 calls of .*<lambda>\(\) have not"):
        source.request(reply)
    end.set()
    for _ in range(8):
        assert reply.answers.get(timeout=60)[0] == "True"
    source.request(reply)
    assert reply.answers.get(timeout=60)[0] == "True"


def names_in(error: BaseException) -> list[str]:
    """Returns the functions in a traceback, and checks that no frame shows the token."""
    names = []
    entry = error.__traceback__
    while entry is not None:
        assert "hunter2" not in repr(entry.tb_frame.f_locals)
        names.append(entry.tb_frame.f_code.co_name)
        entry = entry.tb_next
    return names


def test_a_traceback_has_only_frames_of_the_provider():
    def fetch() -> str:
        raise OSError("down")

    def provide(config: str | None) -> str:
        return fetch()

    async def provide_later(config: str | None) -> str:
        return fetch()

    assert names_in(answer(provide)[1]) == ["provide", "fetch"]
    assert names_in(answer(provide_later)[1]) == ["provide_later", "fetch"]


@pytest.mark.parametrize(
    "returned",
    [
        ("hunter2", 1e12),
        ("hunter2", 1, 5),
        ("hunter2", "soon"),
        "hunter2\u00e9",
        "hunter2\udc80",
        b"hunter2",
        jwt(secret="hunter2") + "\u00e9",
    ],
)
def test_no_frame_of_a_refusal_shows_the_token(returned):
    reason, error = answer(lambda config: returned)
    assert names_in(error) == []
    assert "hunter2" not in reason + repr(error)


def test_no_frame_of_failing_extensions_shows_the_token():
    class Failing(AbstractTokenProvider):
        def token(self) -> str:
            return "hunter2"

        def extensions(self) -> dict[str, str]:
            raise OSError("down")

    assert names_in(answer(Failing())[1]) == ["extensions"]


def test_a_principal_with_lone_surrogates_crosses_to_the_core():
    assert answer(lambda config: ("t", 5, "al\udc80ice"))[2] == "al\\udc80ice"


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_provider_is_called_at_exit(kind):
    program = f"""
import atexit, queue
from thalweg.auth.provider import TokenSource

answers = queue.SimpleQueue()

class Reply:
    def token(self, *answer): answers.put(answer)
    def failed(self, *answer): answers.put(answer)

{kind} provide(config):
    return "t"

def at_exit():
    source.request(Reply())
    print(answers.get(timeout=60)[0])

# Registered first, so it runs last: after `weakref`, which calls finalizers at exit.
atexit.register(at_exit)
source = TokenSource(provide)
source.request(Reply())
answers.get(timeout=60)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=180, check=False
    )
    assert (done.stdout, done.stderr) == ("t\n", "")


def test_a_provider_without_a_name_is_called_by_its_class():
    class Callable:
        def __call__(self, config: str | None) -> None:
            return None

    reason, error = answer(Callable())
    assert reason.startswith("Callable() raised TypeError: Callable() must return a token")
    assert isinstance(error, TypeError)


def test_tokens_without_a_signature_have_the_claims_of_the_configuration(
    monkeypatch: pytest.MonkeyPatch,
):
    # Kafka would round the time to the next millisecond, and refuse a token from the future.
    monkeypatch.setattr(time, "time", lambda: 1_750_000_000.1237)
    text = "principal=alice scope=a,b lifeSeconds=60 extension_traceId=7"
    token = UnsecuredTokens(text).token()
    header, payload, signature = token.value.split(".")
    claims = json.loads(base64.urlsafe_b64decode(payload + "=="))
    assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "none"}
    assert signature == ""
    assert (claims["sub"], claims["scope"]) == ("alice", ["a", "b"])
    assert claims["iat"] == 1_750_000_000
    assert token.expires_at == claims["exp"] == 1_750_000_060.1237
    assert (token.principal, token.extensions) == ("alice", {"traceId": "7"})
