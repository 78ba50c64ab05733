"""Error codes that several tests know as one thing."""

from __future__ import annotations

from typing import Final

from thalweg.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
)

# Answers that only say: not yet, or not here. The group's partition is being made, loaded or moved.
COORDINATOR_AWAY: Final = (
    CoordinatorLoadInProgressError.errno,
    CoordinatorNotAvailableError.errno,
    NotCoordinatorError.errno,
)
