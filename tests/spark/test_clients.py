"""Clients that a worker keeps between tasks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import pytest
from pyspark import TaskContext

from thalweg.spark.clients import KeptClients


class Client:
    def __init__(self, config: Mapping[str, Any]) -> None:
        self.config = config
        self.is_resting = False
        self.closed: list[float | None] = []


@pytest.fixture
def in_a_task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TaskContext, "get", lambda: object())


@pytest.fixture
def kept() -> KeptClients[Client]:
    def rest(client: Client) -> None:
        client.is_resting = True

    return KeptClients(Client, lambda client, timeout: client.closed.append(timeout), rest)


def test_the_next_task_gets_the_client_of_the_last(
    in_a_task: None, kept: KeptClients[Client]
) -> None:
    client = kept.take({"a": "1"})
    kept.give_back({"a": "1"}, client)
    assert client.is_resting
    assert not client.closed
    assert kept.take({"a": "1"}) is client
    assert kept.take({"a": "1"}) is not client, "it is taken"


def test_other_options_need_another_client(in_a_task: None, kept: KeptClients[Client]) -> None:
    client = kept.take({"a": "1"})
    kept.give_back({"a": "1"}, client)
    assert kept.take({"a": "2"}) is not client
    assert "1" not in repr(list(kept._idle)).replace(str(os.getpid()), "")


def test_only_the_most_recently_used_are_kept(in_a_task: None, kept: KeptClients[Client]) -> None:
    clients = [kept.take({"n": number}) for number in range(6)]
    for client in clients:
        kept.give_back(client.config, client)
    assert [bool(client.closed) for client in clients] == [True, True, False, False, False, False]


def test_two_clients_with_the_same_options_are_not_both_kept(
    in_a_task: None, kept: KeptClients[Client]
) -> None:
    first, second = kept.take({}), kept.take({})
    kept.give_back({}, first)
    kept.give_back({}, second)
    assert (first.closed, second.closed) == ([None], [])


def test_a_client_is_closed_outside_of_a_task_and_after_a_failure(
    kept: KeptClients[Client],
) -> None:
    good, bad = kept.take({}), kept.take({})
    kept.give_back({}, good)
    kept.discard(bad)
    assert (good.closed, bad.closed) == ([None], [0])


def test_a_forked_worker_neither_uses_nor_closes_the_clients_of_its_parent(
    in_a_task: None, kept: KeptClients[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    clients = [kept.take({"n": number}) for number in range(4)]
    for client in clients:
        kept.give_back(client.config, client)
    monkeypatch.setattr(os, "getpid", lambda: 1)
    other = kept.take({"n": 0})
    assert other is not clients[0]
    kept.give_back({"n": 0}, other)
    kept._close_all()
    assert [client.closed for client in clients] == [[], [], [], []]
    assert other.closed == [5]
