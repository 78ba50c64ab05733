"""Groups error codes that several tests treat alike."""

from __future__ import annotations

from typing import Final

from thalweg.errors import (
    CoordinatorLoadInProgressError,
    CoordinatorNotAvailableError,
    NotCoordinatorError,
)

# They mean: not yet, or not here. The group's partition is being created, loaded or moved.
COORDINATOR_AWAY: Final = (
    CoordinatorLoadInProgressError.errno,
    CoordinatorNotAvailableError.errno,
    NotCoordinatorError.errno,
)
