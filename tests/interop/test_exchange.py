"""Every client reads, byte for byte, what every client wrote, on every broker.

At full scale each producer writes 1,000,000 records: mixed sizes, keys, headers with duplicate
keys, and all five codecs in one topic. Then every consumer reads every topic.
"""

from __future__ import annotations

import pytest

from tests.interop.exchange import PARTITIONS, Exchange, first_difference
from tests.support.peers import CLIENTS
from tests.support.runs.selection import only_other_clients

CODEC_IDS = {0, 1, 2, 3, 4}


@pytest.fixture(scope="session")
def exchange(tmp_path_factory):
    return Exchange(tmp_path_factory.mktemp("exchange"))


@only_other_clients
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("consumer", CLIENTS)
@pytest.mark.parametrize("producer", CLIENTS)
def test_a_consumer_reads_what_a_producer_wrote(broker, exchange, producer, consumer):
    produced = exchange.produced(broker, producer)
    assert first_difference(produced, exchange.consumed(broker, consumer, produced)) is None


@only_other_clients
@pytest.mark.parametrize("producer", CLIENTS)
def test_a_topic_holds_each_record_once_in_all_codecs(broker, exchange, producer):
    produced = exchange.produced(broker, producer)
    assert sum(broker.wire.end_offsets(produced.topic).values()) == produced.count
    found = {
        header.codec
        for partition in range(PARTITIONS)
        for header in broker.wire.batches(produced.topic, partition)
    }
    assert found == CODEC_IDS
