"""The processes of `pytest -n` share what one of them has started."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from tests.support.runs.sharing import Sharing

LIMIT_S = 120


def process(folder: Path, pipe: Connection) -> None:
    """Shares "it". Every message to this process is the name of a method."""
    shared = Sharing(folder)

    def start() -> tuple[str, Any]:
        write("started ")
        return f"by {os.getpid()}", lambda: write("stopped ")

    def write(text: str) -> None:
        with folder.with_name("log").open("a") as log:
            log.write(text)

    with suppress(EOFError):  # the test has ended
        while True:
            if pipe.recv() == "join":
                pipe.send(shared.join("it", start))
            else:
                shared.leave()
                pipe.send("left")


class Process:
    def __init__(self, folder: Path) -> None:
        self._pipe, its = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(
            target=process, args=(folder, its), daemon=True
        )
        self._process.start()

    def ask(self, step: str) -> None:
        self._pipe.send(step)

    def told(self) -> Any:
        assert self._pipe.poll(LIMIT_S)
        return self._pipe.recv()

    def join(self) -> str:
        self.ask("join")
        return str(self.told())

    def kill(self) -> None:
        self._process.kill()
        self._process.join(LIMIT_S)

    def has_told(self) -> bool:
        return self._pipe.poll(0.2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "shared"


@pytest.fixture
def three(folder: Path) -> Iterator[list[Process]]:
    processes = [Process(folder) for _ in range(3)]
    yield processes
    for each in processes:
        each.kill()


def log(folder: Path) -> str:
    return folder.with_name("log").read_text().strip()


def test_one_process_starts_it_and_stops_it_when_all_have_left(
    three: list[Process], folder: Path
) -> None:
    for each in three:
        each.ask("join")
    told = [each.told() for each in three]
    assert len(set(told)) == 1
    assert log(folder) == "started"
    starter = next(each for each in three if told[0] == f"by {each._process.pid}")
    others = [each for each in three if each is not starter]
    starter.ask("leave")
    assert not starter.has_told(), "others still use it"
    others[0].ask("leave")
    others[0].told()
    assert not starter.has_told()
    assert log(folder) == "started"
    others[1].ask("leave")
    others[1].told()
    starter.told()
    assert log(folder) == "started stopped"
    assert three[0].join() == f"by {three[0]._process.pid}", "it can be started again"


def test_a_process_that_crashes_has_left(three: list[Process], folder: Path) -> None:
    first, second, _ = three
    first.join()
    second.join()
    first.ask("leave")
    assert not first.has_told()
    second.kill()
    first.told()
    assert log(folder) == "started stopped"


def test_the_folder_is_removed_at_the_end(folder: Path) -> None:
    one, two = Sharing(folder), Sharing(folder)
    stopped: list[str] = []
    one.join("a", lambda: ("a", partial(stopped.append, "a")))
    two.join("b", lambda: ("b", partial(stopped.append, "b")))
    one.leave()
    assert folder.exists()
    two.leave()
    assert not folder.exists()
    assert set(stopped) == {"a", "b"}


def test_who_leaves_early_does_not_disturb_the_others(folder: Path) -> None:
    early, late = Sharing(folder), Sharing(folder)
    early.leave()
    stopped: list[str] = []
    assert late.join("a", lambda: ("a", partial(stopped.append, "a"))) == "a"
    early.leave()
    assert stopped == []
    late.leave()
    assert stopped
    assert not folder.exists()


def test_a_lock_is_that_of_a_file_that_exists(folder: Path) -> None:
    """The file is deleted while another process waits for its lock."""
    first, second = Sharing(folder), Sharing(folder)
    first.join("a", lambda: ("first", lambda: None))
    joined: list[str] = []
    joining = threading.Thread(
        target=lambda: joined.append(second.join("a", lambda: ("second", lambda: None)))
    )
    users = folder / "a.users"
    with users.open("w") as file:
        first._used.pop().close()
        fcntl.flock(file, fcntl.LOCK_EX)
        joining.start()
        joining.join(0.3)
        for each in folder.glob("a.*"):
            each.unlink()
    joining.join(LIMIT_S)
    assert joined == ["second"]
    with users.open("w") as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    second.leave()
    assert not folder.exists()
