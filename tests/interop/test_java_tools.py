"""Java's command line tools and thalweg exchange text, on every broker.

The tools are those of 4.3 for each broker. A consumer with `--partition` joins no group.
"""

from __future__ import annotations

import json

import pytest

from tests.support import java
from tests.support.runs.selection import only_other_clients
from tests.support.scale import scaled

CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
CONSUMER_GROUPS = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
CONSUMER_PERFORMANCE = "org.apache.kafka.tools.ConsumerPerformance"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
TOPICS = "org.apache.kafka.tools.TopicCommand"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"

LINES = [f"Zeile {n}: süß, 日本語, {'x' * (n % 97)}" for n in range(200)]


FIRST_PARTITION = "--partition", "0", "--offset", "earliest"


def console_consume(broker, topic, count, *more, start=FIRST_PARTITION):
    limits = "--max-messages", str(count), "--timeout-ms", "90000"
    where = "--bootstrap-server", broker.bootstrap_servers, "--topic", topic
    return java.run(CONSOLE_CONSUMER, *where, *start, *limits, *more)


def described(broker, group):
    """Returns what the tool of groups prints for each partition, by the names of its columns."""
    where = "--bootstrap-server", broker.bootstrap_servers, "--timeout", "60000"
    printed = java.run(CONSUMER_GROUPS, *where, "--describe", "--group", group)
    table = [line.split() for line in printed.splitlines() if line.startswith(("GROUP ", group))]
    return [dict(zip(table[0], row, strict=True)) for row in table[1:]]


def test_thalweg_reads_what_the_console_producer_wrote(broker):
    from thalweg import KafkaConsumer, TopicPartition

    topic = broker.create_topic("console")
    keyed = "".join(f"key-{n}\t{line}\n" for n, line in enumerate(LINES))
    options = "--reader-property", "parse.key=true", "--compression-codec", "lz4"
    where = "--bootstrap-server", broker.bootstrap_servers, "--topic", topic
    java.run(CONSOLE_PRODUCER, *where, *options, stdin=keyed)
    found = []
    with KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers, consumer_timeout_ms=60_000
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        consumer.seek_to_beginning()
        for record in consumer:
            found.append((record.key, record.value))
            if len(found) == len(LINES):
                break
    assert found == [(f"key-{n}".encode(), line.encode()) for n, line in enumerate(LINES)]


def test_the_console_consumer_reads_what_thalweg_wrote(broker):
    from thalweg import KafkaProducer

    topic = broker.create_topic("console")
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for n, line in enumerate(LINES):
            producer.send(topic, line.encode(), key=b"key-%d" % n)
        producer.flush(30)
    options = "--formatter-property", "print.key=true"
    assert console_consume(broker, topic, len(LINES), *options).splitlines() == [
        f"key-{n}\t{line}" for n, line in enumerate(LINES)
    ]


@only_other_clients
def test_the_console_tools_pass_text_to_each_other(broker):
    topic = broker.create_topic("console")
    where = "--bootstrap-server", broker.bootstrap_servers, "--topic", topic
    java.run(CONSOLE_PRODUCER, *where, stdin="".join(line + "\n" for line in LINES))
    assert console_consume(broker, topic, len(LINES)).splitlines() == LINES


# Kafka 3.9 serves groups of the new protocol only if its configuration enables it.
@pytest.mark.parametrize(
    ("kind", "protocol"),
    [
        ("embedded", "classic"),
        ("embedded", "consumer"),
        ("kafka-4.3", "consumer"),
        ("kafka-3.9", "classic"),
    ],
)
def test_the_console_consumer_goes_on_where_its_group_ended(brokers, kind, protocol):
    from thalweg import KafkaProducer

    broker = brokers.get(kind)
    topic = broker.create_topic("console-group", 2)
    group = f"{topic}-readers"
    with KafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
        for n, line in enumerate(LINES):
            producer.send(topic, line.encode(), partition=n % 2)
    start = "--group", group, "--from-beginning"
    options = "--command-property", f"group.protocol={protocol}"
    # Read more than one partition has, so that both have a committed offset.
    early = console_consume(broker, topic, 120, *options, start=start).splitlines()
    partitions = described(broker, group)
    assert sorted(row["PARTITION"] for row in partitions) == ["0", "1"]
    assert {(row["TOPIC"], row["LOG-END-OFFSET"]) for row in partitions} == {(topic, "100")}
    assert sum(int(row["CURRENT-OFFSET"]) for row in partitions) == 120
    assert sum(int(row["LAG"]) for row in partitions) == len(LINES) - 120
    late = console_consume(broker, topic, len(LINES) - 120, *options, start=start).splitlines()
    assert sorted([*early, *late]) == sorted(LINES)


@only_other_clients
def test_the_performance_tools_send_and_read_every_record(broker):
    count = scaled(1_000_000, minimum=1000)
    topic = broker.create_topic("performance", 4)
    sizes = "--record-size", "100", "--throughput", "-1"
    where = "--topic", topic, "--bootstrap-server", broker.bootstrap_servers
    all_of_them = "--num-records", str(count)
    options = "--command-property", "acks=all", "compression.type=zstd", "linger.ms=5"
    printed = java.run(PRODUCER_PERFORMANCE, *where, *all_of_them, *sizes, *options)
    assert f"{count} records sent" in printed
    assert sum(broker.wire.end_offsets(topic).values()) == count
    limits = "--group", f"{topic}-readers", "--timeout", "60000", "--hide-header"
    printed = java.run(CONSUMER_PERFORMANCE, *where, *all_of_them, *limits)
    # Times, MB, MB/s, records, records/s, then four numbers about the rebalance and the fetches.
    [figures] = [line.split(", ") for line in printed.splitlines() if line.count(", ") == 9]
    assert figures[4] == str(count)


@only_other_clients
def test_the_verifiable_producer_gets_an_acknowledgement_for_each_record(broker):
    count = scaled(100_000, minimum=1000)
    topic = broker.create_topic("verifiable")
    where = "--topic", topic, "--bootstrap-server", broker.bootstrap_servers
    printed = java.run(VERIFIABLE_PRODUCER, *where, "--max-messages", str(count), "--acks", "-1")
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    successes = [event for event in events if event["name"] == "producer_send_success"]
    assert sorted(event["offset"] for event in successes) == list(range(count))
    assert broker.wire.end_offsets(topic) == {0: count}


@only_other_clients
def test_the_topic_and_offset_tools_tell_what_is_there(broker):
    topic = broker.create_topic("tools", 3)
    where = "--bootstrap-server", broker.bootstrap_servers
    assert topic in java.run(TOPICS, *where, "--list").split()
    described = java.run(TOPICS, *where, "--describe", "--topic", topic)
    assert f"Topic: {topic}" in described
    assert "PartitionCount: 3" in described
    offsets = java.run(GET_OFFSETS, *where, "--topic", topic).split()
    assert sorted(offsets) == [f"{topic}:{partition}:0" for partition in range(3)]
