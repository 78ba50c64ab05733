"""Clients that are open at interpreter exit are closed."""

import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

from tests.support.closing import watch_nothing
from thalweg._client import closing


class Client:
    def __init__(self) -> None:
        self.closed = False

    def close(self) -> None:
        self.closed = True


def test_open_clients_are_closed_and_one_that_fails_does_not_stop_the_rest(caplog, monkeypatch):
    watch_nothing(closing, monkeypatch)
    # Later tests need the callback thread of this process.
    monkeypatch.delitem(sys.modules, "thalweg._core", raising=False)
    first, bad, done = Client(), Client(), Client()

    def fail(_: Any) -> None:
        raise ValueError("no")

    closing.watch(bad, fail)
    closing.watch(first, Client.close)
    closing.watch(done, fail)
    done.close()
    closing._close_all()
    assert first.closed
    assert caplog.text.count("at exit failed") == 1


def test_a_client_that_is_gone_is_not_kept(monkeypatch):
    watch_nothing(closing, monkeypatch)
    closing.watch(Client(), Client.close)
    assert len(closing._open) == 0


def test_errors_of_daemon_threads_are_quiet_before_the_core_makes_them_raise(monkeypatch):
    watch_nothing(closing, monkeypatch)
    before, hooks = threading.excepthook, []
    monkeypatch.setattr(threading, "excepthook", before)  # undone afterwards

    def begin_exit() -> None:
        hooks.append(threading.excepthook)

    core = SimpleNamespace(begin_exit=begin_exit, stop_threads=lambda limit_s: 0)
    monkeypatch.setitem(sys.modules, "thalweg._core", core)
    closing.watch(client := Client(), Client.close)
    closing._close_all()
    assert client.closed
    assert len(hooks) == 1
    assert hooks[0] is not before


def test_it_happens_at_exit_and_not_in_a_forked_child():
    code = """
import os
from thalweg._client import closing
class Client:
    closed = False
client = Client()
closing.watch(client, lambda _: print("closed", flush=True))
if hasattr(os, "fork") and os.fork() == 0:
    raise SystemExit(0)
elif hasattr(os, "fork"):
    os.wait()
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "closed\n"
