"""A secret that tests give to clients, and what finds it in everything that a client shows.

with Outputs() as outputs:
    with KafkaProducer(**options) as producer:
        outputs.of_client(producer)
assert not outputs.found(SENTINEL)
"""

from __future__ import annotations

import base64
import logging
import os
import pickle
import sys
import threading
import traceback
import urllib.parse
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

from thalweg import _logging

SENTINEL = "S3nt/nel+4711="
_TRACE = 1


def forms(secret: str) -> frozenset[str]:
    """Returns the texts that show a secret: itself, and its encodings wherever they begin."""
    data = secret.encode()
    found = {
        secret,
        repr(secret)[1:-1],
        urllib.parse.quote(secret),
        urllib.parse.quote(secret, safe=""),
        data.hex(),
        data.hex().upper(),
        repr(list(data))[1:-1],
    }
    for before in range(3):
        for encoded in (base64.b64encode, base64.urlsafe_b64encode):
            text = encoded(b"\0" * before + data).decode()
            # The first and the last characters also depend on what is beside the secret.
            found.add(text[before + 1 if before else 0 : (before + len(data)) * 8 // 6])
    return frozenset(found)


def chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yields an error, its cause, the cause of that, and so on."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def frames(error: BaseException) -> list[FrameType]:
    """Returns the frames of the package, not those of a test, which has the secret."""
    found = [frame for each in chain(error) for frame, _ in traceback.walk_tb(each.__traceback__)]
    return [frame for frame in found if frame.f_globals["__name__"].startswith("thalweg")]


def shown_by(error: BaseException) -> Iterator[tuple[str, str]]:
    """Yields what an error shows: its texts, and the variables of its frames."""
    for frame in frames(error):
        yield frame.f_code.co_qualname, repr(frame.f_locals)
    for each in chain(error):
        for text in (str(each), repr(each), repr(vars(each)), repr(each.args)):
            yield f"the {type(each).__name__}", text


class Outputs(logging.Handler):
    """Collects all that clients show within a `with` block, at the lowest level of all loggers."""

    def __init__(self) -> None:
        super().__init__(_TRACE)
        self._shown: list[tuple[str, str]] = []
        self._levels: dict[str, int] = {}
        self._caught = warnings.catch_warnings(record=True)
        self.kinds: set[str] = set()

    def add(self, kind: str, *texts: Any) -> None:
        """Adds texts. Of other objects, it adds what `repr` and `str` show."""
        self.kinds.add(kind)
        for each in texts:
            pair = (each,) if isinstance(each, str) else (repr(each), str(each))
            self._shown += [(kind, text) for text in pair]

    def emit(self, record: logging.LogRecord) -> None:
        """Adds a record of a log, with its arguments and its traceback."""
        self.add("log", f"{record.name}: {record.getMessage()}", vars(record))
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            self.of_error(error)

    def of_error(self, error: BaseException) -> None:
        """Adds an error, with its causes and the variables of all frames."""
        self.kinds.add("error")
        self._shown += shown_by(error)

    def of_client(self, client: Any) -> None:
        """Adds what an open client shows: attributes, configuration, metrics, pickles, threads."""
        self.add("client", client, vars(client))
        self.add("configuration", client.config, client.config.public())
        for raw in (False, True) if hasattr(client, "metrics") else ():
            found = client.metrics(raw)
            self.add("metrics", found, *list(found))
        for each in (client, client.config):
            self._add_pickle(each)
        self.of_threads()

    def of_threads(self) -> None:
        """Adds the names of all threads, those of Python and those of the system."""
        self.add("thread", *(each.name for each in threading.enumerate()))
        tasks = Path("/proc/self/task")
        if tasks.exists():
            for task in tasks.iterdir():
                with suppress(OSError):  # the thread has ended
                    self.add("thread", (task / "comm").read_text())

    def _add_pickle(self, given: Any) -> None:
        try:
            data = pickle.dumps(given)
        except Exception as error:
            self.of_error(error)
        else:
            self.add("pickle", data.decode("latin-1"))

    def __enter__(self) -> Outputs:
        self._warnings: Sequence[warnings.WarningMessage] = self._caught.__enter__() or ()
        warnings.simplefilter("always")
        names = ["", "thalweg", "asyncio", *(f"thalweg.{each}" for each in _logging.NATIVE_LOGGERS)]
        for name in names:
            self._levels[name] = logging.getLogger(name).level
            logging.getLogger(name).setLevel(_TRACE)
        logging.getLogger().addHandler(self)
        _logging.refresh()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        logging.getLogger().removeHandler(self)
        for name, level in self._levels.items():
            logging.getLogger(name).setLevel(level)
        _logging.refresh()
        for each in self._warnings:
            self.add("warning", str(each.message), vars(each))
        self._caught.__exit__(kind, error, trace)

    def found(self, *secrets: str) -> list[str]:
        """Returns where a secret was shown, with the beginning of the text around it."""
        wanted = [form for secret in secrets for form in forms(secret)]
        return [
            f"{kind}: ...{text[max(0, text.index(form) - 60) :][:200]}"
            for kind, text in self._shown
            for form in wanted
            if form in text
        ]


class Observer:
    """An interceptor, a reporter of metrics and a `stats_cb` that adds all its arguments."""

    def __init__(self, outputs: Outputs) -> None:
        """Takes where it adds them."""
        self._outputs = outputs

    def configure(self, config: Any) -> None:
        """Adds the configuration."""
        self._outputs.add("interceptor", config, dict(config))

    def init(self, metrics: Iterable[Any]) -> None:
        """Adds the metrics."""
        self._outputs.add("reporter", *metrics)

    def metric_change(self, metric: Any) -> None:
        """Adds a metric."""
        self._outputs.add("reporter", metric)

    def metric_removal(self, metric: Any) -> None:
        """Adds a metric."""
        self._outputs.add("reporter", metric)

    def on_send(self, record: Any) -> Any:
        """Adds a record that is sent."""
        self._outputs.add("interceptor", record)
        return record

    def on_acknowledgement(self, *given: Any) -> None:
        """Adds a result."""
        self._outputs.add("interceptor", *given)

    def on_consume(self, records: Any) -> Any:
        """Adds records that were read."""
        self._outputs.add("interceptor", records)
        return records

    def on_commit(self, offsets: Any) -> None:
        """Adds committed offsets."""
        self._outputs.add("interceptor", offsets)

    def close(self) -> None:
        """Does nothing."""

    def __call__(self, statistics: str) -> None:
        """Adds statistics."""
        self._outputs.add("statistics", statistics)


def captured(text: str) -> str:
    """Returns what was printed, and this process's arguments."""
    return text + repr(sys.argv) + repr(os.environ.get("PYTHONWARNINGS"))
