"""A scripted Kafka broker for what no real broker does: damaged batches, absurd frames.

    scripted.logs["t", 0] = [batch, damaged(batch), batch]     raw batches, as brokers store them
    scripted.respond(FETCH, lambda request: bytes(100))     or a response that the test writes

It implements one old version of each API that a consumer and the start of a producer need. It uses
the non-flexible encoding, and none of the library's own codec. When a client sends a newer version
of ApiVersions, it tells the client to retry (KIP-511). It coordinates every group and accepts
every heartbeat.

It does not implement Produce, fetch sessions, or waiting for data (it only delays an empty response
for a moment).
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tests.support.wire import (
    FETCH,
    LIST_OFFSETS,
    METADATA,
    Connection,
    Reader,
    Wire,
    Writer,
    batch_headers,
    fetch,
)

API_VERSIONS: Final = 18
FIND_COORDINATOR, HEARTBEAT, LEAVE_GROUP = 10, 12, 13
_VERSIONS: Final = {
    API_VERSIONS: 0,
    METADATA: 5,
    LIST_OFFSETS: 2,
    FETCH: 4,
    FIND_COORDINATOR: 1,
    HEARTBEAT: 1,
    LEAVE_GROUP: 1,
}
_UNSUPPORTED_VERSION, _OUT_OF_RANGE, _UNKNOWN_TOPIC = 35, 1, 3
_EMPTY_FETCH_S: Final = 0.05


@dataclass(frozen=True)
class Request:
    """One request: its key, its version, a reader at the start of the body, and its connection.

    Connections are numbered from 0 in the order in which the broker accepted them.
    """

    key: int
    version: int
    correlation: int
    body: Reader
    connection: int


class Close(Exception):
    """A responder raises this to close the connection instead of responding."""


Responder = Callable[[Request], bytes | bytearray | None]


class ScriptedBroker:
    """Serves `logs` on loopback, with one thread per connection.

    Attributes:
        logs: the raw batches of each partition by (topic, partition), in order of their offsets.
        log_starts: the first offsets that are not 0.
        seen: the API keys of the requests so far.
        cluster_id: the cluster ID in metadata responses.
    """

    def __init__(self) -> None:
        self.logs: dict[tuple[str, int], list[bytes]] = {}
        self.log_starts: dict[tuple[str, int], int] = {}
        self.seen: list[int] = []
        self.cluster_id = "scripted"
        self._responders: dict[int, Responder] = {
            API_VERSIONS: self._api_versions,
            METADATA: self._metadata,
            LIST_OFFSETS: self._list_offsets,
            FETCH: self._fetch,
            FIND_COORDINATOR: lambda _: self.coordinator_at(1, self.port),
            HEARTBEAT: lambda _: group_response(0),
            LEAVE_GROUP: lambda _: group_response(0),
        }
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        self._thread.start()

    def respond(self, key: int, responder: Responder) -> None:
        """Sets the function that responds to an API.

        It returns the frame's content after the correlation ID. If it returns None, the broker
        sends no response. If it raises Close, the broker closes the connection.
        """
        self._responders[key] = responder

    @staticmethod
    def coordinator_at(node: int, port: int) -> bytearray:
        """Returns a FindCoordinator response."""
        out = Writer().int("ih", 0, 0).string(None)
        return out.int("i", node).string("127.0.0.1").int("i", port).out

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._sockets:
            each.close()
        self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connected, _ = self._listener.accept()
            except OSError:
                return
            number = len(self._sockets)
            self._sockets.append(connected)
            threading.Thread(target=self._serve, args=(connected, number), daemon=True).start()

    def _serve(self, connected: socket.socket, number: int) -> None:
        try:
            with connected, connected.makefile("rb") as stream:
                while head := stream.read(4):
                    request = _request(stream.read(*struct.unpack(">i", head)), number)
                    self.seen.append(request.key)
                    response = self._responders[request.key](request)
                    if response is not None:
                        frame = struct.pack(">i", request.correlation) + response
                        connected.sendall(struct.pack(">i", len(frame)) + frame)
        except (Close, OSError, ValueError):
            return

    def _api_versions(self, request: Request) -> bytearray:
        error = 0 if request.version == 0 else _UNSUPPORTED_VERSION
        out = Writer().int("h", error).int("i", len(_VERSIONS))
        for key, version in _VERSIONS.items():
            out.int("hhh", key, version, version)
        return out.out

    def _metadata(self, request: Request) -> bytearray:
        names = [request.body.string() or "" for _ in range(max(0, request.body.int("i")))]
        out = Writer().int("i", 0)
        out.int("i", 1).int("i", 1).string("127.0.0.1").int("i", self.port).string(None)
        out.string(self.cluster_id).int("i", 1).int("i", len(names))
        for name in names:
            partitions = sorted(index for topic, index in self.logs if topic == name)
            out.int("h", 0 if partitions else _UNKNOWN_TOPIC).string(name).int("b", 0)
            out.int("i", len(partitions))
            for index in partitions:
                out.int("hii", 0, index, 1).int("ii", 1, 1).int("ii", 1, 1).int("i", 0)
        return out.out

    def _list_offsets(self, request: Request) -> bytearray:
        request.body.int("i"), request.body.int("b")
        out = Writer().int("i", 0)
        topics = request.body.int("i")
        out.int("i", topics)
        for _ in range(topics):
            topic, count = request.body.string() or "", request.body.int("i")
            out.string(topic).int("i", count)
            for _ in range(count):
                index, timestamp = request.body.int("i"), request.body.int("q")
                first, end = self._bounds(topic, index)
                out.int("ihqq", index, 0, -1, end if timestamp == -1 else first)
        return out.out

    def _bounds(self, topic: str, index: int) -> tuple[int, int]:
        """Returns the log start and end offsets."""
        first = self.log_starts.get((topic, index), 0)
        batches = self.logs[topic, index]
        return first, max([first, *(_end(each) for each in batches)])

    def _fetch(self, request: Request) -> bytearray:
        request.body.int("i"), request.body.int("i"), request.body.int("i")
        request.body.int("i"), request.body.int("b")
        out = Writer().int("i", 0)
        topics, sent = request.body.int("i"), 0
        out.int("i", topics)
        for _ in range(topics):
            topic, count = request.body.string() or "", request.body.int("i")
            out.string(topic).int("i", count)
            for _ in range(count):
                index, offset = request.body.int("i"), request.body.int("q")
                records = self._records(topic, index, offset, request.body.int("i"))
                first, end = self._bounds(topic, index)
                error = 0 if first <= offset <= end else _OUT_OF_RANGE
                out.int("ihqq", index, error, end, end).int("i", -1)
                out.bytes(records if error == 0 else b"")
                sent += len(records)
        if sent == 0:
            time.sleep(_EMPTY_FETCH_S)
        return out.out

    def _records(self, topic: str, index: int, offset: int, bytes_max: int) -> bytes:
        """Returns what a broker sends: batches from the offset on. The last one may be cut off."""
        wanted = [each for each in self.logs[topic, index] if _end(each) > offset]
        data = b"".join(wanted)
        return data[: max(bytes_max, len(wanted[0]))] if wanted else b""


def group_response(error: int) -> bytearray:
    """Returns a Heartbeat or LeaveGroup response."""
    return Writer().int("ih", 0, error).out


def _request(frame: bytes, connection: int) -> Request:
    reader = Reader(frame)
    key, version, correlation = reader.int("h"), reader.int("h"), reader.int("i")
    reader.string()
    return Request(key, version, correlation, reader, connection)


def _end(batch: bytes) -> int:
    """Returns the offset after a batch, from the header alone, which no test damages."""
    (base,) = struct.unpack_from(">q", batch)
    (last,) = struct.unpack_from(">i", batch, 23)
    return int(base + last + 1)


def stored_batches(bootstrap_servers: str, topic: str, partition: int) -> list[bytes]:
    """Returns the raw batches of a real broker's partition, from its first offset on."""
    topology = Wire(bootstrap_servers).metadata(topic)
    leader = topology.nodes[topology.topics[topic][partition].leader]
    end = Wire(bootstrap_servers).end_offsets(topic)[partition]
    found: list[bytes] = []
    offset = 0
    with Connection(*leader) as connection:
        while offset < end:
            data = fetch(connection, topic, {partition: offset}, partition_bytes_max=1 << 24)[
                partition
            ]
            at = 0
            for header in batch_headers(data):
                found.append(bytes(data[at : at + header.length]))
                at += header.length
                offset = header.base_offset + header.last_offset_delta + 1
    return found


def flipped(batch: bytes, at: int = -2) -> bytes:
    """Flips one bit of the batch: by default in the last byte of a value without headers."""
    changed = bytearray(batch)
    changed[at] ^= 0x01
    return bytes(changed)
