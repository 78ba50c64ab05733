"""Reads Java's login line (JAAS), as Kafka's `JaasConfig` does. Errors quote no part of the line.

'...PlainLoginModule required username="u" password="p";' ──> Login("PlainLoginModule", {...})
"""

import re
from typing import Final, NamedTuple

__all__ = ["Login", "read_login"]

_FLAGS: Final = ("required", "requisite", "sufficient", "optional")
# Patterns are compiled when they are used.
# A comment matches in one way only. Otherwise a search could take exponential time.
_GAP: Final = r"(?:\s|//[^\n]*\n|//[^\n]*$|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/)*"
_HEAD: Final = rf"{_GAP}(?P<module>[\w.$-]+){_GAP}(?P<flag>\w+)"
_ENTRY: Final = (
    rf"{_GAP}(?P<name>[\w.$-]+){_GAP}={_GAP}"
    r"(?:\"(?P<double>(?:[^\"\\\n]|\\.)*)\"|'(?P<single>(?:[^'\\\n]|\\.)*)'|(?P<bare>[^\s;\"']+))"
)
_END: Final = rf"{_GAP}(?:;{_GAP})?"
_ESCAPE: Final = r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)"
_ESCAPED: Final = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


class Login(NamedTuple):
    """A login line: the class of the module without its package, and the options."""

    module: str
    options: dict[str, str]


def read_login(line: str) -> Login:
    """Reads a login line.

    Raises:
        ValueError: If it is not valid. The text is the end of a sentence that begins with the name
            of the option, and quotes nothing of the line.
    """
    head = re.compile(_HEAD, re.DOTALL).match(line)
    if head is None or head["flag"].lower() not in _FLAGS:
        raise ValueError('must be \'<LoginModule> required username="..." password="...";\'')
    options: dict[str, str] = {}
    position = head.end()
    pattern, end = re.compile(_ENTRY, re.DOTALL), re.compile(_END, re.DOTALL)
    while (entry := pattern.match(line, position)) is not None:
        quoted = entry["single"] if entry["double"] is None else entry["double"]
        text = entry["bare"] if quoted is None else re.sub(_ESCAPE, _unescaped, quoted)
        options[entry["name"]] = text
        position = entry.end()
    if end.fullmatch(line, position) is not None:
        return Login(head["module"].rpartition(".")[2], options)
    if line[position:].lstrip().startswith(";"):
        raise ValueError("has text after its ';'. It must have exactly one login module")
    raise ValueError(
        f'cannot be read after its option {len(options)}. Write each option as name="value", with'
        " a backslash before each quote and backslash within the value"
    )


def _unescaped(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped[0] in "01234567":
        return chr(int(escaped, 8))
    return _ESCAPED.get(escaped, escaped)
