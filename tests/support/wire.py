"""Encodes a few Kafka requests by hand: the harness's own client for any broker.

    Wire("127.0.0.1:9092").create_topic("t", 4)
    Wire("127.0.0.1:9092").end_offsets("t") -> {0: 17, ...}

It shares no code with the library, so tests can check the library with it. It needs no other
process, so creating a topic takes a millisecond. All versions are the last ones before the flexible
encoding (KIP-482). Brokers from 2.1 to 4.x support them. It deliberately has no retries and no
pooling, and treats record batches as opaque bytes. Only a `Connection` can have TLS.
"""

from __future__ import annotations

import builtins
import socket
import ssl
import struct
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType

from tests.support.waiting import wait_until

PRODUCE, FETCH, LIST_OFFSETS, METADATA = 0, 1, 2, 3
CREATE_TOPICS, DELETE_TOPICS = 19, 20
LATEST, EARLIEST = -1, -2
TOPIC_ALREADY_EXISTS = 36
FRAME_BYTES_MAX = 256 << 20


class WireError(RuntimeError):
    """A broker responded with an error code, or did not respond."""


class Writer:
    """Writes big-endian fields in the old, non-flexible encoding."""

    def __init__(self) -> None:
        self.out = bytearray()

    def int(self, code: str, *values: builtins.int) -> Writer:
        self.out += struct.pack(">" + code, *values)
        return self

    def string(self, text: str | None) -> Writer:
        if text is None:
            return self.int("h", -1)
        data = text.encode()
        self.int("h", len(data))
        self.out += data
        return self

    def bytes(self, data: bytes) -> Writer:
        self.int("i", len(data))
        self.out += data
        return self


class Reader:
    """Reads what `Writer` writes."""

    def __init__(self, data: bytes | memoryview) -> None:
        self.data = memoryview(data)
        self.at = 0

    def int(self, code: str) -> builtins.int:
        (value,) = struct.unpack_from(">" + code, self.data, self.at)
        self.at += struct.calcsize(">" + code)
        return builtins.int(value)

    def string(self) -> str | None:
        length = self.int("h")
        return None if length < 0 else bytes(self.take(length)).decode()

    def blob(self) -> memoryview | None:
        length = self.int("i")
        return None if length < 0 else self.take(length)

    def take(self, length: builtins.int) -> memoryview:
        piece = self.data[self.at : self.at + length]
        self.at += length
        return piece


@dataclass(frozen=True)
class BatchHeader:
    """The contents of the first 61 bytes of a record batch (v2)."""

    base_offset: int
    length: int
    attributes: int
    last_offset_delta: int
    records: int
    producer_id: int
    producer_epoch: int
    base_sequence: int

    @property
    def codec(self) -> int:
        """0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd."""
        return self.attributes & 7


@dataclass
class Partition:
    """A partition in a Metadata response."""

    index: int
    leader: int
    replicas: list[int]
    isr: list[int]
    error: int


@dataclass
class Topology:
    """The brokers and topics of a Metadata response."""

    nodes: dict[int, tuple[str, int]] = field(default_factory=dict)
    controller: int = -1
    topics: dict[str, list[Partition]] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)


class Connection:
    """One socket, which sends a request and receives its response."""

    def __init__(
        self, host: str, port: int, timeout: float = 30.0, tls: ssl.SSLContext | None = None
    ) -> None:
        self.socket = socket.create_connection((host, port), timeout=timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_hostname=host)
        self.correlation = 0

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def send(self, key: int, version: int, body: bytes | bytearray) -> None:
        self.correlation += 1
        header = Writer().int("hhi", key, version, self.correlation).string("thalweg-harness").out
        self.socket.sendall(struct.pack(">i", len(header) + len(body)) + header + body)

    def receive(self) -> memoryview:
        (length,) = struct.unpack(">i", self.exactly(4))
        if not 4 <= length <= FRAME_BYTES_MAX:
            raise WireError(f"a frame of {length} bytes")
        return self.exactly(length)[4:]

    def exactly(self, length: int) -> memoryview:
        data = bytearray(length)
        view = memoryview(data)
        while view:
            got = self.socket.recv_into(view)
            if not got:
                raise WireError("the broker closed the connection")
            view = view[got:]
        return memoryview(data)

    def call(self, key: int, version: int, body: bytes | bytearray) -> Reader:
        self.send(key, version, body)
        return Reader(self.receive())


class Wire:
    """A client for any broker or cluster."""

    def __init__(self, bootstrap_servers: str, timeout: float = 30.0) -> None:
        self.addresses = [parse_address(each) for each in bootstrap_servers.split(",")]
        self.timeout = timeout

    def connect(self) -> Connection:
        """Connects to the first address that accepts a connection."""
        last: OSError | None = None
        for host, port in self.addresses:
            try:
                return Connection(host, port, self.timeout)
            except OSError as error:
                last = error
        raise WireError(f"none of {self.addresses} responds: {last}")

    def metadata(self, *topics: str) -> Topology:
        """Returns the brokers, and the partitions of the named topics."""
        body = Writer().int("i", len(topics))
        for topic in topics:
            body.string(topic)
        body.int("b", 0)  # allow_auto_topic_creation
        with self.connect() as connection:
            return parse_metadata(connection.call(METADATA, 5, body.out))

    def create_topic(
        self,
        name: str,
        num_partitions: int = 1,
        *,
        replication_factor: int = 1,
        configs: Mapping[str, str] | None = None,
        exist_ok: bool = False,
    ) -> None:
        """Creates a topic and returns when all its partitions have leaders.

        Raises:
            WireError: the broker refused.
        """
        body = Writer().int("i", 1).string(name).int("ihi", num_partitions, replication_factor, 0)
        body.int("i", len(configs or {}))
        for key, value in (configs or {}).items():
            body.string(key).string(value)
        body.int("ib", int(self.timeout * 1000), 0)
        self._to_controller(CREATE_TOPICS, 4, body.out, name, exist_ok)
        wait_until(
            lambda: self._has_leaders(name, num_partitions),
            self.timeout,
            what=f"leaders of topic {name}",
        )

    def delete_topic(self, name: str) -> None:
        """Deletes a topic."""
        body = Writer().int("i", 1).string(name).int("i", int(self.timeout * 1000))
        self._to_controller(DELETE_TOPICS, 3, body.out, name, False)

    def end_offsets(self, topic: str) -> dict[int, int]:
        """Returns the offset of the next record of each partition."""
        return self.offsets(topic, LATEST)

    def offsets(self, topic: str, timestamp: int) -> dict[int, int]:
        """Returns an offset for each partition.

        It is the latest for timestamp -1, the earliest for -2, otherwise that of the first record
        at or after the timestamp.
        """
        topology = self.metadata(topic)
        found: dict[int, int] = {}
        with ExitStack() as stack:
            connections = {
                node: stack.enter_context(Connection(*topology.nodes[node], self.timeout))
                for node in {partition.leader for partition in topology.topics[topic]}
            }
            for partition in topology.topics[topic]:
                connection = connections[partition.leader]
                found[partition.index] = list_offset(connection, topic, partition.index, timestamp)
        return found

    def batches(self, topic: str, partition: int) -> Iterator[BatchHeader]:
        """Yields the headers of all batches of a partition, from its beginning to its end."""
        topology = self.metadata(topic)
        host, port = topology.nodes[topology.topics[topic][partition].leader]
        with Connection(host, port, self.timeout) as connection:
            offset = list_offset(connection, topic, partition, EARLIEST)
            end = list_offset(connection, topic, partition, LATEST)
            while offset < end:
                found = list(
                    batch_headers(fetch(connection, topic, {partition: offset})[partition])
                )
                if not found:
                    raise WireError(f"{topic}-{partition}: no batch at {offset} of {end}")
                yield from found
                offset = found[-1].base_offset + found[-1].last_offset_delta + 1

    def _has_leaders(self, name: str, num_partitions: int) -> bool:
        partitions = self.metadata(name).topics.get(name, [])
        if len(partitions) != num_partitions or any(
            each.error or each.leader < 0 for each in partitions
        ):
            return False
        try:
            self.end_offsets(name)
        except WireError:
            return False  # Metadata names a leader before that broker has become the leader.
        return True

    def _to_controller(
        self, key: int, version: int, body: bytearray, name: str, exist_ok: bool
    ) -> None:
        topology = self.metadata()
        host, port = topology.nodes.get(topology.controller) or next(iter(topology.nodes.values()))
        with Connection(host, port, self.timeout) as connection:
            response = connection.call(key, version, body)
        response.int("i")  # throttle_time_ms
        for _ in range(response.int("i")):
            response.string()
            code = response.int("h")
            message = response.string() if key == CREATE_TOPICS else None
            if code and not (exist_ok and code == TOPIC_ALREADY_EXISTS):
                raise WireError(f"topic {name}: error {code} ({message})")


def parse_address(text: str) -> tuple[str, int]:
    """Parses `host:port`. An IPv6 address is in brackets."""
    host, _, port = text.strip().rpartition(":")
    return host.removeprefix("[").removesuffix("]"), int(port)


def parse_metadata(response: Reader) -> Topology:
    """Parses the body of a Metadata response, version 5."""
    found = Topology()
    response.int("i")  # throttle_time_ms
    for _ in range(response.int("i")):
        node, host, port = response.int("i"), response.string() or "", response.int("i")
        response.string()  # rack
        found.nodes[node] = (host, port)
    response.string()  # cluster_id
    found.controller = response.int("i")
    for _ in range(response.int("i")):
        error, name, _internal = response.int("h"), response.string() or "", response.int("b")
        partitions = []
        for _ in range(response.int("i")):
            code, index, leader = response.int("h"), response.int("i"), response.int("i")
            lists = [[response.int("i") for _ in range(response.int("i"))] for _ in range(3)]
            partitions.append(Partition(index, leader, lists[0], lists[1], code))
        found.topics[name] = sorted(partitions, key=lambda each: each.index)
        found.errors[name] = error
    return found


def list_offset(connection: Connection, topic: str, partition: int, timestamp: int) -> int:
    """Sends ListOffsets version 2 for one partition to its leader, and returns the offset."""
    body = (
        Writer()
        .int("ib", -1, 0)
        .int("i", 1)
        .string(topic)
        .int("i", 1)
        .int("iq", partition, timestamp)
    )
    response = connection.call(LIST_OFFSETS, 2, body.out)
    response.int("i")  # throttle_time_ms
    response.int("i")  # one topic
    response.string()
    response.int("i")  # one partition
    response.int("i")
    code = response.int("h")
    response.int("q")
    if code:
        raise WireError(f"ListOffsets of {topic}-{partition}: error {code}")
    return response.int("q")


def fetch(
    connection: Connection,
    topic: str,
    offsets: Mapping[int, int],
    *,
    partition_bytes_max: int = 1 << 20,
    bytes_max: int = 50 << 20,
) -> dict[int, memoryview]:
    """Sends Fetch version 4 to the leader of these partitions, and returns their batches."""
    send_fetch(connection, topic, offsets, partition_bytes_max, bytes_max)
    return parse_fetch(connection.receive())


def send_fetch(
    connection: Connection,
    topic: str,
    offsets: Mapping[int, int],
    partition_bytes_max: int,
    bytes_max: int,
) -> None:
    """Sends the request of `fetch` without waiting for its response."""
    body = Writer().int("iiiib", -1, 500, 1, bytes_max, 0).int("i", 1).string(topic)
    body.int("i", len(offsets))
    for partition, offset in offsets.items():
        body.int("iqi", partition, offset, partition_bytes_max)
    connection.send(FETCH, 4, body.out)


def parse_fetch(response: memoryview) -> dict[int, memoryview]:
    """Returns the batches of each partition in a Fetch response, version 4, with one topic."""
    reader = Reader(response)
    reader.int("i")  # throttle_time_ms
    found: dict[int, memoryview] = {}
    for _ in range(reader.int("i")):
        topic = reader.string()
        for _ in range(reader.int("i")):
            partition, code = reader.int("i"), reader.int("h")
            reader.int("q")  # high_watermark
            reader.int("q")  # last_stable_offset
            for _ in range(reader.int("i")):  # aborted_transactions
                reader.int("q")
                reader.int("q")
            if code:
                raise WireError(f"Fetch of {topic}-{partition}: error {code}")
            found[partition] = reader.blob() or memoryview(b"")
    return found


_BATCH = struct.Struct(">qiibIhiqqqhii")


def batch_headers(data: memoryview) -> Iterator[BatchHeader]:
    """Yields the headers of all complete batches. Omits an incomplete one at the end."""
    at = 0
    while at + _BATCH.size <= len(data):
        fields = _BATCH.unpack_from(data, at)
        length = 12 + fields[1]
        if at + length > len(data):
            return
        yield BatchHeader(
            base_offset=fields[0],
            length=length,
            attributes=fields[5],
            last_offset_delta=fields[6],
            records=fields[12],
            producer_id=fields[9],
            producer_epoch=fields[10],
            base_sequence=fields[11],
        )
        at += length
