"""A producer of many topics sends each record to the topic that the call named."""

from __future__ import annotations

from thalweg import KafkaProducer
from thalweg.broker import EmbeddedBroker

# More than the first two levels of the producer's topic table hold (64 and 1,024).
TOPICS = 1_500


def test_sends_reach_their_topics_by_kept_and_by_new_names():
    names = [f"many-{number}" for number in range(TOPICS)]
    with EmbeddedBroker() as broker:
        for name in names:
            broker.create_topic(name, 1)
        with KafkaProducer(bootstrap_servers=broker.bootstrap_servers, linger_ms=50) as producer:
            for turn in range(3):
                sent = [producer.send(name, b"kept") for name in names]
                # Equal names, but other objects.
                fresh = [producer.send(f"many-{number}", b"new") for number in range(TOPICS)]
                for name, kept, new in zip(names, sent, fresh, strict=True):
                    metadata = [kept.get(timeout=30), new.get(timeout=30)]
                    assert [one.topic for one in metadata] == [name, name]
                    assert [one.offset for one in metadata] == [2 * turn, 2 * turn + 1]
