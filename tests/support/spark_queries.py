"""Starts streams, although Spark's Python processes sometimes take too long to start.

Spark gives each of its Python processes ten seconds to start, and no option changes that. On a busy
machine this is too short, so the query is then started again, as an operator would do. Programs in
their own process also import this, with the root of the tree in PYTHONPATH.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

TOO_SLOW = "Python worker failed to connect back"
LIMIT_S = 200


def finish(start: Callable[[], StreamingQuery], limit_s: int | None = LIMIT_S) -> StreamingQuery:
    """Starts a query and waits for its end, which may be an error. Without a limit: forever."""
    for is_last in (False, True):
        query = start()
        try:
            if limit_s is None:
                query.awaitTermination()
            elif not query.awaitTermination(limit_s):
                raise AssertionError(f"the query has not ended: {query.status}")
            if (failure := query.exception()) is not None:
                raise failure
        except Exception as error:
            if is_last or TOO_SLOW not in str(error):
                raise
        else:
            return query
        finally:
            query.stop()
    raise AssertionError("the last try returns or raises")


def begun(
    start: Callable[[], StreamingQuery],
    ready: Callable[[StreamingQuery], object] = lambda query: query.lastProgress is not None,
    limit_s: float = 120.0,
) -> StreamingQuery:
    """Starts a query that does not end, and waits until it is ready or has failed.

    By default it is ready after its first batch, which Spark runs even if it is empty.
    """
    for is_last in (False, True):
        query = start()
        until = time.monotonic() + limit_s
        while query.isActive and not ready(query):
            if time.monotonic() > until:
                status = query.status
                query.stop()  # the session has other tests
                raise AssertionError(f"the query is not ready: {status}")
            time.sleep(0.02)
        if is_last or query.isActive or TOO_SLOW not in str(query.exception()):
            return query
    raise AssertionError("the last try returns")
