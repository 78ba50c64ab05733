"""Prepared transactions: one client prepares, any client ends."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
import uuid
from typing import Any

import pytest

from tests.integration.support.clients import Clients, committed
from tests.integration.transactions.test_transactions import has_version_2, transactional
from tests.support.brokers import Broker
from tests.support.waiting import wait_until
from thalweg import KafkaAdminClient, PreparedTransaction, TopicPartition
from thalweg.admin import TransactionState
from thalweg.aio import AIOKafkaProducer
from thalweg.errors import (
    IllegalStateError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaError,
    ProducerFencedError,
)
from thalweg.structs import OffsetAndMetadata


@pytest.fixture
def admin(broker: Broker) -> Any:
    with KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers) as made:
        yield made


def prepared(clients: Clients, broker: Broker, topic: str, *values: bytes) -> PreparedTransaction:
    """Prepares a transaction with these records, and closes the producer."""
    with transactional(clients, broker) as producer:
        producer.begin_transaction()
        futures = [producer.send(topic, value, partition=0) for value in values]
        found = producer.prepare_transaction()
        assert all(future.is_done for future in futures)
    assert found is not None
    return found


def test_another_client_commits_or_aborts(broker: Broker, clients: Clients, admin: Any) -> None:
    topic = broker.create_topic("prepared")
    first = prepared(clients, broker, topic, b"a", b"b")
    second = prepared(clients, broker, topic, b"c")
    assert committed(clients, broker, topic, 0) == []
    found = admin.describe_transactions([first.transactional_id])[first.transactional_id]
    assert found.state is TransactionState.ONGOING
    assert (found.producer_id, found.producer_epoch) == first[1:]
    admin.end_transaction(second, commit=False)
    admin.end_transaction(first, commit=True)
    assert committed(clients, broker, topic, 2) == [b"a", b"b"]


def test_the_same_end_again_succeeds_and_the_other_one_fails(
    broker: Broker, clients: Clients, admin: Any
) -> None:
    topic = broker.create_topic("prepared-again")
    for commit in (True, False):
        given = prepared(clients, broker, topic, b"%d" % commit)
        # As another program would store it.
        given = PreparedTransaction(*json.loads(json.dumps(given)))
        for _ in range(3):
            admin.end_transaction(given, commit=commit)
        refused = (InvalidTxnStateError, InvalidProducerEpochError, ProducerFencedError)
        with pytest.raises(refused, match=given.transactional_id):
            admin.end_transaction(given, commit=not commit)
    assert committed(clients, broker, topic, 1) == [b"1"]


def test_a_new_producer_with_the_same_id_aborts_it(
    broker: Broker, clients: Clients, admin: Any
) -> None:
    topic = broker.create_topic("prepared-fenced")
    given = prepared(clients, broker, topic, b"a")
    producer = transactional(clients, broker, given.transactional_id)
    with pytest.raises((ProducerFencedError, InvalidProducerEpochError)):
        admin.end_transaction(given, commit=True)
    producer.begin_transaction()
    producer.send(topic, b"b", partition=0)
    producer.commit_transaction()
    assert committed(clients, broker, topic, 1) == [b"b"]


def test_the_producer_may_end_it_too(broker: Broker, clients: Clients) -> None:
    topic = broker.create_topic("prepared-own")
    producer = transactional(clients, broker)
    for number in range(4):
        producer.begin_transaction()
        producer.send(topic, b"%d" % number, partition=0)
        assert producer.prepare_transaction() is not None
        with pytest.raises(IllegalStateError, match="PREPARED_TRANSACTION"):
            producer.send(topic, b"late")
        if number % 2 == 0:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    producer.begin_transaction()
    assert producer.prepare_transaction() is None
    producer.commit_transaction()
    assert committed(clients, broker, topic, 2) == [b"0", b"2"]


def test_it_outlives_its_process(broker: Broker, clients: Clients, admin: Any) -> None:
    topic = broker.create_topic("prepared-dead")
    command = [sys.executable, "-c", PREPARER, broker.bootstrap_servers, topic, uuid.uuid4().hex]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=60, check=False)
    assert done.returncode == -9
    admin.end_transaction(PreparedTransaction(*json.loads(done.stdout)), commit=True)
    assert committed(clients, broker, topic, 1) == [b"a"]


PREPARER = """
import json, os, signal, sys
from thalweg import KafkaProducer

_, servers, topic, name = sys.argv
producer = KafkaProducer(bootstrap_servers=servers, transactional_id=name)
producer.init_transactions()
producer.begin_transaction()
producer.send(topic, b"a", partition=0)
print(json.dumps(producer.prepare_transaction()), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_an_expired_one_cannot_be_committed(broker: Broker, clients: Clients, admin: Any) -> None:
    topic = broker.create_topic("prepared-late")

    def prepared_in_time() -> PreparedTransaction | None:
        with transactional(clients, broker, transaction_timeout_ms=1000) as producer:
            began = time.monotonic()
            producer.begin_transaction()
            producer.send(topic, b"a", partition=0)
            try:
                return producer.prepare_transaction()
            except KafkaError:
                if time.monotonic() - began < 1:
                    raise
                return None  # the machine was busy for longer than the timeout

    given = wait_until(prepared_in_time, 60)
    assert given is not None
    name = given.transactional_id
    wait_until(
        lambda: admin.describe_transactions([name])[name].state is TransactionState.COMPLETE_ABORT,
        60,
        what="the coordinator's abort",
    )
    with pytest.raises((InvalidTxnStateError, InvalidProducerEpochError, ProducerFencedError)):
        admin.end_transaction(given, commit=True)
    assert committed(clients, broker, topic, 0) == []


def test_asyncio_clients_prepare_too(broker: Broker, clients: Clients, admin: Any) -> None:
    topic = broker.create_topic("prepared-asyncio")

    async def program() -> PreparedTransaction | None:
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap_servers, transactional_id=uuid.uuid4().hex
        )
        async with producer:
            await producer.begin_transaction()
            await producer.send(topic, b"a", partition=0)
            preparing = asyncio.ensure_future(producer.prepare_transaction())
            await asyncio.sleep(0)
            if not preparing.cancel():  # it has ended within one turn
                return preparing.result()
            return await producer.prepare_transaction()

    given = asyncio.run(program())
    assert given is not None
    admin.end_transaction(given, commit=True)
    assert committed(clients, broker, topic, 1) == [b"a"]


def test_a_prepared_transaction_with_offsets(broker: Broker, clients: Clients, admin: Any) -> None:
    topic, group = broker.create_topic("prepared-offsets"), uuid.uuid4().hex
    where = TopicPartition(topic, 0)
    producer = transactional(clients, broker)
    producer.begin_transaction()
    producer.send_offsets_to_transaction({where: OffsetAndMetadata(7)}, group)
    given = producer.prepare_transaction()
    assert given is not None
    assert admin.list_group_offsets([group])[group].get(where) is None
    admin.end_transaction(given, commit=True)
    wait_until(
        lambda: admin.list_group_offsets([group])[group].get(where) == OffsetAndMetadata(7),
        30,
        what="the group's offset",
    )


def test_the_version_of_transactions_is_known(broker: Broker, admin: Any) -> None:
    assert (admin._transaction_version() >= 2) is has_version_2(broker)
