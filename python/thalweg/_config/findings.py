"""`Findings`: the problems and warnings of a client's options, and the classes of the warnings."""

import re
from collections.abc import Sequence

__all__ = ["Findings", "IgnoredOptionWarning", "InsecureConnectionWarning"]


class IgnoredOptionWarning(UserWarning):
    """An option has no effect. The message says why."""


class InsecureConnectionWarning(UserWarning):
    """An option makes connections insecure.

    Other people can read secrets or records, or pretend to be a broker or a user. The message says
    why.
    """


class Findings:
    """The problems and warnings found so far."""

    def __init__(self, client: str) -> None:
        self.client = client
        self.problems: list[str] = []
        self.warnings: list[tuple[str, type[Warning]]] = []
        self.named: set[str] = set()  # options that a problem or warning already names
        self.substituted: set[str] = set()  # options whose values a config provider supplied
        self._veiled: set[str] = set()

    def veil(self, text: str) -> None:
        """Makes problems and warnings that follow show `<hidden>` for this text and its parts."""
        for part in (text, *re.split(r"[,;:\s]", text)):
            self._veiled |= {part.strip(), repr(part.strip())[1:-1]} - {""}

    def problem(self, text: str) -> None:
        """Adds a problem, which becomes part of the error."""
        self.problems.append(self._without_veiled(text))

    def warn(self, text: str, category: type[Warning] = UserWarning) -> None:
        """Adds a warning."""
        self.warnings.append((self._without_veiled(text), category))

    def _without_veiled(self, text: str) -> str:
        longest_first = sorted(self._veiled, key=lambda each: (-len(each), each))
        for each in longest_first:
            # A short text, such as a number, is also part of words that do not show it.
            pattern = re.escape(each) if len(each) > 3 else rf"(?<!\w){re.escape(each)}(?!\w)"
            text = re.sub(pattern, "<hidden>", text)
        return text

    def without_effect(self, names: Sequence[str], reason: str) -> None:
        """Adds a warning that these options have no effect. Does nothing without names."""
        if names:
            self.warn(f"{', '.join(names)}: without effect, because {reason}", IgnoredOptionWarning)

    def message(self) -> str:
        """Returns all problems as one text."""
        if len(self.problems) == 1:
            return f"{self.client}: {self.problems[0]}"
        listed = "".join(f"\n  - {each}" for each in self.problems)
        return f"{self.client} has {len(self.problems)} problems in its options:{listed}"
