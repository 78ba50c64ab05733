"""Reads the small files of a login: keys, assertions, templates, tokens."""

from typing import Final

from thalweg.auth.oidc.error import Failure

__all__ = ["read_text"]

_BYTES_MAX: Final = 1024 * 1024


def read_text(path: str, name: str) -> str | Failure:
    """Returns the text of a file. It is read each time, because it may have changed.

    Args:
        path: The path of the file.
        name: The option that names it, for messages.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(_BYTES_MAX + 1)
        if len(data) > _BYTES_MAX:
            return Failure(f"{name}: {path} is larger than {_BYTES_MAX} bytes")
        return data.decode()
    except UnicodeDecodeError:
        reason = "it is not UTF-8 text"
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or type(error).__name__
    return Failure(f"{name}: {path} cannot be read: {reason}")
