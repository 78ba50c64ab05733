"""Notes on errors that belong to the application."""

from contextlib import suppress

__all__ = ["add_note"]


def add_note(error: BaseException, note: str) -> None:
    """Adds a note, unless the error's class forbids it, as a frozen dataclass does."""
    with suppress(Exception):
        error.add_note(note)
