"""An interceptor for tests of how producers end."""

from __future__ import annotations

import time
from typing import Any

from thalweg import ProducerInterceptor


class Slow(ProducerInterceptor):
    """Takes time for each outcome, and notes the order of the calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def on_acknowledgement(self, metadata: Any, exception: Any) -> None:
        time.sleep(0.05)
        self.calls.append("failed" if exception else "written")

    def close(self) -> None:
        self.calls.append("closed")
