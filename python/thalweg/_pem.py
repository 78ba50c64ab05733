"""Options that take a PEM file: its path, or the text itself, which may be secret."""

import os
import re
import stat

__all__ = ["is_text", "unreadable"]


def is_text(value: str) -> bool:
    """Whether an option that takes a PEM file was given the text itself, with or without armour.

    The native core decides alike (crates/network/src/tls/pem.rs).
    """
    if "-----BEGIN " in value or "\n" in value or "\r" in value:
        return True
    return any(map(_is_base64, re.findall(r"[A-Za-z0-9+/=_-]{40,}", value)))


def _is_base64(run: str) -> bool:
    """Whether so many letters are mixed as those of a key are, and those of a path are not."""
    counts = [len(re.findall(kind, run)) for kind in ("[A-Z]", "[a-z]", "[0-9]")]
    return counts[0] >= 6 and counts[1] >= 6 and counts[2] >= 1


def unreadable(value: str) -> str | None:
    """Why the file can't be read; None if it can, or if the value is PEM text.

    The file is not opened: it may be a pipe, which gives its text once.
    """
    if "-----BEGIN " in value:
        return None
    try:
        mode = os.stat(value).st_mode
    except (OSError, ValueError) as wrong:
        if is_text(value):
            return "is neither the path of a file nor PEM text: that has lines BEGIN and END"
        return f"cannot be read from {value}: {getattr(wrong, 'strerror', None) or wrong}"
    if stat.S_ISDIR(mode):
        return f"cannot be read from {value}: it is a directory"
    return None if os.access(value, os.R_OK) else f"cannot be read from {value}: permission denied"
