"""aiokafka with every broker. test_exchange tests it with the other clients."""

from __future__ import annotations

import pytest

from tests.support import peers
from tests.support.records import CODECS, read_records, records, write_records
from tests.support.runs.selection import only_other_clients
from tests.support.scale import scaled


@only_other_clients
@pytest.mark.parametrize("codec", CODECS)
def test_aiokafka_reads_what_it_wrote(broker, tmp_path, codec):
    count = scaled(100_000, minimum=500)
    topic = broker.create_topic("aiokafka", 2)
    sent, got = tmp_path / "sent", tmp_path / "got"
    mix = list(records(count, partitions=2, null_header_values=False, neither=False))
    write_records(sent, mix)
    peers.produce("aiokafka", broker.bootstrap_servers, topic, {codec: sent})
    peers.consume("aiokafka", broker.bootstrap_servers, topic, got, count=count)
    found = list(read_records(got))
    # A batch that compression does not shrink is sent uncompressed.
    headers = [header for each in range(2) for header in broker.wire.batches(topic, each)]
    assert CODECS.index(codec) in {header.codec for header in headers}
    for partition in range(2):
        wanted = [each for each in mix if each.partition == partition]
        assert [each._replace(offset=-1) for each in found if each.partition == partition] == wanted
