"""Options for PEM files. The value is a path, or the PEM text itself, which may be secret."""

import os
import re
import stat

__all__ = ["is_text", "unreadable"]


def is_text(value: str) -> bool:
    """Whether the value is the text itself, with or without BEGIN and END lines.

    The native core decides in the same way (crates/network/src/tls/pem.rs).
    """
    if "-----BEGIN " in value or "\n" in value or "\r" in value:
        return True
    return any(map(_is_base64, re.findall(r"[A-Za-z0-9+/=_-]{40,}", value)))


def _is_base64(run: str) -> bool:
    """Whether the characters are mixed as in a key, and not as in a path."""
    counts = [len(re.findall(kind, run)) for kind in ("[A-Z]", "[a-z]", "[0-9]")]
    return counts[0] >= 6 and counts[1] >= 6 and counts[2] >= 1


def unreadable(value: str, may_be_folder: bool = False) -> str | None:
    """Returns why the file cannot be read, or None if it can or the value is PEM text.

    It does not open the file, which may be a pipe: that can be read only once.
    """
    if "-----BEGIN " in value:
        return None
    try:
        mode = os.stat(value).st_mode
    except (OSError, ValueError) as wrong:
        if is_text(value):
            return "is neither the path of a file nor PEM text, which has BEGIN and END lines"
        return f"cannot be read from {value}: {getattr(wrong, 'strerror', None) or wrong}"
    if stat.S_ISDIR(mode) and not may_be_folder:
        return f"cannot be read from {value}: it is a directory"
    return None if os.access(value, os.R_OK) else f"cannot be read from {value}: permission denied"
