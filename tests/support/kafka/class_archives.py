"""Makes the archives of classes with which brokers and Kafka's tools start in less time.

    python -m tests.support.kafka.class_archives        as `make kafka` does

A broker starts, and when it stops, its JVM writes down the classes that it has loaded ("dynamic
class data sharing", in every Java since 13). Without an archive everything works, but more slowly.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from tests.support import java
from tests.support.kafka.cluster import VERSIONS, RealKafka


def make(version: str) -> None:
    """Makes the archive of a Kafka version if this JVM has none yet."""
    archive = java.class_archive(version)
    if archive.exists():
        return
    # Under another name until it is complete.
    unfinished = archive.with_suffix(".unfinished")
    options = (*java.SHORT_LIVED, f"-XX:ArchiveClassesAtExit={unfinished}")
    with RealKafka(version, jvm_options=options) as kafka:
        kafka.create_topic("t")
        for node in kafka.nodes:
            kafka.stop_node(node.node_id)
        if not unfinished.exists():
            raise RuntimeError(f"the JVM has made no archive:\n{kafka.logs()}")
    unfinished.rename(archive)


def main() -> None:
    """Makes the archives of all versions. A failure costs only time, so it is only reported."""
    with ThreadPoolExecutor() as pool:
        made = {version: pool.submit(make, version) for version in VERSIONS}
    for version, each in made.items():
        if (error := each.exception()) is not None:
            print(f"no archive of Kafka {version}'s classes, brokers start more slowly: {error}")


if __name__ == "__main__":
    main()
