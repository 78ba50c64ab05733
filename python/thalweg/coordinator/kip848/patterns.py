"""Patterns of topic names, matched in linear time as RE2 does.

    pattern ── Python's parser ──> tree ──> states and edges (Thompson) ──> sets of states

Kafka uses RE2's syntax. Python's own matching backtracks: a pattern such as `(a|a)*b` can take
practically forever, and holds the GIL. Here each character of a name is read once, with the set of
all states that the pattern may be in. Features that need more are refused, as in RE2: backward
references, lookarounds, atomic groups. Word boundaries are refused too, although RE2 has them.
"""

import importlib
import re
from collections.abc import Callable, Iterable
from typing import Any, Final

__all__ = ["PatternError", "TopicPattern"]

_CHARACTERS_MAX: Final = 1 << 15  # Python's parser takes quadratic time
_STATES_MAX: Final = 10_000  # a counted repeat is written out
_PARTS_MAX: Final = 50_000  # of the written-out pattern: groups add no states, sets may be large
_REPEATS_MAX: Final = 1_000  # as in RE2
_SETS_MAX: Final = 10_000  # sets of states in the cache
# The work limit of one search: a share for each character, and a constant.
_STEPS_PER_CHARACTER: Final = 20
_STEPS_MAX: Final = 300_000

# The characters that are allowed in topic names.
_CHARACTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
_CATEGORIES: Final = {
    "CATEGORY_DIGIT": re.compile(r"\d"),
    "CATEGORY_NOT_DIGIT": re.compile(r"\D"),
    "CATEGORY_SPACE": re.compile(r"\s"),
    "CATEGORY_NOT_SPACE": re.compile(r"\S"),
    "CATEGORY_WORD": re.compile(r"\w"),
    "CATEGORY_NOT_WORD": re.compile(r"\W"),
}
_STARTS: Final = ("AT_BEGINNING", "AT_BEGINNING_STRING")
_ENDS: Final = ("AT_END", "AT_END_STRING")
_END_OF_NAME: Final = "end"  # read after the last character; longer than any character

# re._parser creates a tree of (operation, argument). There is no public API for it.
_parser: Final[Any] = importlib.import_module("re._parser")

# Parts of a pattern in RE2's syntax, outside and inside of square brackets.
_OUTSIDE: Final = re.compile(r"\\Q(?P<quoted>.*?)(?:\\E|\Z)|\\.|\[\^?\]?|.", re.DOTALL)
_IN_BRACKETS: Final = re.compile(r"\[:(?P<name>\^?\w+):\]|\\.|.", re.DOTALL)
_CLASSES: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": r"!-/:-@\[-`{-~",
    "space": r"\t\n\v\f\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}

_States = frozenset[int]


class PatternError(ValueError):
    """A pattern is wrong, uses an unsupported feature, or takes too long."""


class TopicPattern:
    """A pattern that must match the complete topic name."""

    def __init__(self, regex: str) -> None:
        """Parses the pattern.

        Raises:
            PatternError: If it is not a pattern, is too large, or has what cannot be matched in
                linear time.
        """
        self._edges: list[list[tuple[str, int]]] = [[]]  # (characters, target)
        self._free: list[list[tuple[str, int]]] = [[]]  # (condition, target), see _closure
        self._next: dict[tuple[_States, str], _States] = {}
        self._allowed: dict[tuple[str, str], str] = {}
        self._parts = 0
        if len(regex) > _CHARACTERS_MAX:
            raise PatternError("it is too long")
        try:
            tree = _parser.parse(_in_python_syntax(regex))
            self._ignores_case = bool(tree.state.flags & re.IGNORECASE)
            self._last = self._sequence(tree, 0)
        except (re.error, OverflowError, RecursionError) as error:
            raise PatternError(str(error)) from error
        self._first = self._closure({0}, "start")

    def matching(self, names: Iterable[str]) -> frozenset[str]:
        """Returns the names that match completely.

        Raises:
            PatternError: If it takes too long.
        """
        found = []
        steps_left = _STEPS_MAX
        for name in names:
            steps_left += _STEPS_PER_CHARACTER * len(name)
            states = self._first
            for character in (*name, _END_OF_NAME):
                key = states, character
                if key not in self._next:
                    self._remember(key)
                    steps_left -= len(states) + len(self._next[key])
                    if steps_left < 0:
                        raise PatternError("it takes too long to match it with all topics")
                states = self._next[key]
                if not states:
                    break
            if self._last in states:
                found.append(name)
        return frozenset(found)

    def _remember(self, key: tuple[_States, str]) -> None:
        if len(self._next) >= _SETS_MAX:
            self._next.clear()
        states, character = key
        if character == _END_OF_NAME:
            self._next[key] = self._closure(states, "end")
            return
        reached = {
            target
            for state in states
            for characters, target in self._edges[state]
            if character in characters
        }
        self._next[key] = self._closure(reached)

    def _closure(self, states: Iterable[int], place: str = "") -> _States:
        """Returns the states reached without a character. `place`: "start" or "end" of the name."""
        found = set(states)
        todo = list(found)
        while todo:
            for condition, target in self._free[todo.pop()]:
                if condition in ("", place) and target not in found:
                    found.add(target)
                    todo.append(target)
        return frozenset(found)

    # ------------------------------------------------------------------ from tree to states

    def _state(self) -> int:
        if len(self._edges) >= _STATES_MAX:
            raise PatternError("it is too large")
        self._edges.append([])
        self._free.append([])
        return len(self._edges) - 1

    def _sequence(self, tree: Iterable[tuple[Any, Any]], state: int) -> int:
        """Adds a part of the tree after a state. Returns the state after it."""
        for operation, argument in tree:
            state = self._part(str(operation), argument, state)
        return state

    def _part(self, operation: str, argument: Any, state: int) -> int:
        self._parts += len(argument) if operation == "IN" else 1
        if self._parts > _PARTS_MAX:
            raise PatternError("it is too large")
        match operation:
            case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
                return self._character(operation, argument, state)
            case "SUBPATTERN":
                _, added, removed, tree = argument
                if added or removed:
                    raise PatternError("it sets flags for a part of it")
                return self._sequence(tree, state)
            case "BRANCH":
                end = self._state()
                for tree in argument[1]:
                    self._free[self._sequence(tree, self._branch(state))].append(("", end))
                return end
            case "MAX_REPEAT" | "MIN_REPEAT":
                least, most, tree = argument
                return self._repeat(least, most, tree, state)
            case "AT" if str(argument) in _STARTS + _ENDS:
                end = self._state()
                place = "start" if str(argument) in _STARTS else "end"
                self._free[state].append((place, end))
                return end
        raise PatternError(f"{operation.lower().replace('_', ' ')} is not supported")

    def _branch(self, state: int) -> int:
        begin = self._state()
        self._free[state].append(("", begin))
        return begin

    def _character(self, operation: str, argument: Any, state: int) -> int:
        end = self._state()
        key = operation, str(argument)
        if key not in self._allowed:
            self._allowed[key] = self._characters(operation, argument)
        self._edges[state].append((self._allowed[key], end))
        return end

    def _characters(self, operation: str, argument: Any) -> str:
        """Returns the characters that a part of the tree matches."""
        negated = operation == "NOT_LITERAL"
        parts = argument if operation == "IN" else [(operation.removeprefix("NOT_"), argument)]
        tests = []
        for part, value in parts:
            if str(part) == "NEGATE":
                negated = True
            else:
                tests.append(_test(str(part), value))

        def is_meant(character: str) -> bool:
            variants = [character]
            if self._ignores_case:
                variants += [character.lower(), character.upper()]
            return any(test(each) for test in tests for each in variants)

        return "".join(each for each in _CHARACTERS if is_meant(each) is not negated)

    def _repeat(self, least: int, most: Any, tree: Any, state: int) -> int:
        unbounded = str(most) == "MAXREPEAT"
        if least > _REPEATS_MAX or (not unbounded and int(most) > _REPEATS_MAX):
            raise PatternError(f"it repeats more than {_REPEATS_MAX} times")
        for _ in range(least):
            state = self._sequence(tree, state)
        if unbounded:
            begin = self._branch(state)
            self._free[self._sequence(tree, begin)].append(("", begin))
            return self._branch(begin)
        end = self._state()
        for _ in range(int(most) - least):
            self._free[state].append(("", end))
            state = self._sequence(tree, self._branch(state))
        self._free[state].append(("", end))
        return end


def _in_python_syntax(regex: str) -> str:
    r"""Converts syntax that only RE2 has: \Q...\E, \z and classes such as [[:digit:]].

    Raises:
        PatternError: If a class is unknown.
    """
    written = []
    in_brackets = False
    at = 0
    while at < len(regex):
        found = (_IN_BRACKETS if in_brackets else _OUTSIDE).match(regex, at)
        assert found is not None, "both match any character"
        at = found.end()
        text = found[0]
        if in_brackets:
            if name := found["name"]:
                if name not in _CLASSES:
                    raise PatternError(f"the character class [:{name}:] is not supported")
                text = _CLASSES[name]
            elif text == "[":
                text = r"\["
            in_brackets = text != "]"
        elif found["quoted"] is not None:
            text = re.escape(found["quoted"])
        elif text == r"\z":
            text = r"\Z"
        else:
            in_brackets = text.startswith("[")
        written.append(text)
    return "".join(written)


def _test(operation: str, argument: Any) -> Callable[[str], bool]:
    """Returns a function that tests whether a part of the tree matches a character."""
    match operation:
        case "LITERAL":
            return lambda each: ord(each) == argument
        case "RANGE":
            low, high = argument
            return lambda each: low <= ord(each) <= high
        case "CATEGORY":
            category = _CATEGORIES[str(argument)]
            return lambda each: category.match(each) is not None
    return lambda each: True  # ANY
