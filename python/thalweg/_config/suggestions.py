"""Suggests a known name in place of an unknown one."""

from collections.abc import Iterable

__all__ = ["did_you_mean"]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Returns ` (did you mean 'linger_ms'?)`, or "" if no known name is similar."""
    import difflib

    candidates = list(known)
    close = difflib.get_close_matches(name, candidates, n=1, cutoff=0.6)
    if not close:
        close = sorted((each for each in candidates if name and name in each), key=len)
    return f" (did you mean {close[0]!r}?)" if close else ""
