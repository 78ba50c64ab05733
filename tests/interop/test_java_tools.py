"""Java's command line tools with text, and thalweg on the other end, on every broker.

The tools are 4.3's, whatever the broker is. They read with `--partition`, so they join no group.
"""

from __future__ import annotations

import json

from tests.support import java
from tests.support.scale import scaled

CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
CONSOLE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PRODUCER_PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
TOPICS = "org.apache.kafka.tools.TopicCommand"
GET_OFFSETS = "org.apache.kafka.tools.GetOffsetShell"

LINES = [f"Zeile {n}: süß, 日本語, {'x' * (n % 97)}" for n in range(200)]


def console_consume(broker, topic, count, *more):
    arguments = "--topic", topic, "--partition", "0", "--offset", "earliest"
    limits = "--max-messages", str(count), "--timeout-ms", "30000"
    where = "--bootstrap-server", broker.bootstrap_servers
    return java.run(CONSOLE_CONSUMER, *where, *arguments, *limits, *more)


def test_thalweg_reads_what_the_console_producer_wrote(broker):
    from thalweg import KafkaConsumer, TopicPartition

    topic = broker.create_topic("console")
    keyed = "".join(f"key-{n}\t{line}\n" for n, line in enumerate(LINES))
    options = "--reader-property", "parse.key=true", "--compression-codec", "lz4"
    where = "--bootstrap-server", broker.bootstrap_servers, "--topic", topic
    java.run(CONSOLE_PRODUCER, *where, *options, stdin=keyed)
    found = []
    with KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers, consumer_timeout_ms=10_000
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


def test_the_console_tools_pass_text_to_each_other(broker):
    topic = broker.create_topic("console")
    where = "--bootstrap-server", broker.bootstrap_servers, "--topic", topic
    java.run(CONSOLE_PRODUCER, *where, stdin="".join(line + "\n" for line in LINES))
    assert console_consume(broker, topic, len(LINES)).splitlines() == LINES


def test_the_performance_producer_is_acknowledged_in_full(broker):
    count = scaled(1_000_000, minimum=1000)
    topic = broker.create_topic("performance", 4)
    sizes = "--num-records", str(count), "--record-size", "100", "--throughput", "-1"
    where = "--topic", topic, "--bootstrap-server", broker.bootstrap_servers
    options = "--command-property", "acks=all", "compression.type=zstd", "linger.ms=5"
    printed = java.run(PRODUCER_PERFORMANCE, *where, *sizes, *options)
    assert f"{count} records sent" in printed
    assert sum(broker.wire.end_offsets(topic).values()) == count


def test_the_verifiable_producer_gets_an_acknowledgement_for_each_record(broker):
    count = scaled(100_000, minimum=1000)
    topic = broker.create_topic("verifiable")
    where = "--topic", topic, "--bootstrap-server", broker.bootstrap_servers
    printed = java.run(VERIFIABLE_PRODUCER, *where, "--max-messages", str(count), "--acks", "-1")
    events = [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    successes = [event for event in events if event["name"] == "producer_send_success"]
    assert sorted(event["offset"] for event in successes) == list(range(count))
    assert broker.wire.end_offsets(topic) == {0: count}


def test_the_topic_and_offset_tools_tell_what_is_there(broker):
    topic = broker.create_topic("tools", 3)
    where = "--bootstrap-server", broker.bootstrap_servers
    assert topic in java.run(TOPICS, *where, "--list").split()
    described = java.run(TOPICS, *where, "--describe", "--topic", topic)
    assert f"Topic: {topic}" in described
    assert "PartitionCount: 3" in described
    offsets = java.run(GET_OFFSETS, *where, "--topic", topic).split()
    assert sorted(offsets) == [f"{topic}:{partition}:0" for partition in range(3)]
