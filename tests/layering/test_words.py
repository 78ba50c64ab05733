"""Phrases that cost readers time, in the text that people read: CONTRIBUTING.md, "Words"."""

from __future__ import annotations

import functools
import re

import pytest

from tests.layering.conventions import tracked
from tests.support.paths import ROOT

# A pattern for each phrase, and what to write.
AVOIDED = {
    r"\bgo(?:es)? on\b": "continues",
    r"\breads on\b": "continues to read",
    r"\banew\b": "again",
    r"\b(?:is|are|was|were|be) told\b(?! to)": "the broker reports, the error says",
    r"\bwho (?:polls|waits|sends|looks|reads|asks|comes|closes)\b": "a thread that ...",
    r"\bfor the rest\b(?! of)": "otherwise",
    r"\bwhat(?:ever)? bec(?:omes|ame) of\b": "what happens to",
    r"\bto be had\b": "is available",
    r"\bon its way\b": "in flight",
    r"under[ _]?way": "in flight, in progress",
    r"\bmended\b": "fixed",
    r"\bhas no heart\b": "a plain verb",
    r"\bin which nobody\b": "no thread",
    r"\bso that nobody\b": "so that no thread",
    r"\bwhoever\b": "a thread that ...",
    r"(?<!there)(?<!where)(?<=\w) is no (?!longer\b|more\b)\w": "is not a",
    r"\b(?:is|are|was|were) waited for\b": "the client waits for",
    r"\b(?:no|without) news\b": "nothing new",
    r"\bthe way on\b": "call ... to continue",
    r"\blearn its (?:outcome|result)\b": "get its result",
    r"\bbehind (?:(?:the|a|its) )?(?:it|them|batch(?:es)?|offsets?|records?|gaps?)\b": "after",
    # Kafka's words: CONTRIBUTING.md has the table.
    r"\brecord sets?\b": "batch, or fetch",
    r"\b(?:fetch|metadata|produce|heartbeat|unreadable|last|late|lost) answers?\b": "response",
    r"\b(?:(?:Join|Sync|Leave)Group|Offset(?:Fetch|Commit)|ApiVersions)`? answers?\b": "response",
    r"\bno answer (?:to|in time|yet)\b": "no response",
    r"\bbrokers?(?:'s|')? answers?\b": "the broker responds, the broker's response",
    r"\banswers? (?:of|from) (?:an?|the|its|any|each) (?:broker|leader|node)s?\b": "response",
    r"\banswers? (?:of|from) (?:the|its) coordinator\b": "response",
    r"\b(?:broker|coordinator|leader|server)s? (?:did|does|do|must) (?:not )?answer\b": "respond",
}
READ = {".md", ".py", ".pyi", ".rs"}
# They name the phrases.
EXEMPT = {"CONTRIBUTING.md", "tests/layering/test_words.py"}


@functools.cache
def _texts() -> dict[str, str]:
    paths = {name: ROOT / name for name in tracked() if name not in EXEMPT}
    return {
        name: path.read_text(encoding="utf-8")
        for name, path in paths.items()
        if path.suffix in READ and path.is_file()
    }


@pytest.mark.parametrize("phrase", AVOIDED)
def test_no_text_has_a_phrase_to_avoid(phrase: str) -> None:
    pattern = re.compile(phrase, re.IGNORECASE)
    found = [
        f"{name}:{number}: {line.strip()}"
        for name, text in _texts().items()
        if pattern.search(text)
        for number, line in enumerate(text.splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, f"write {AVOIDED[phrase]!r} instead:\n" + "\n".join(found)


def test_phrases_are_found() -> None:
    wrong = [
        "It goes on.",
        "for the rest",
        "The port is no TLS port",
        "Whatever became of it",
        "def is_under_way():",
        "The broker answers at once",
        "a broker's answer",
        "an answer from the leader",
    ]
    for text in wrong:
        assert any(re.search(phrase, text, re.IGNORECASE) for phrase in AVOIDED), text
    right = [
        "There is no topic",
        "where there is no fork",
        "It is no longer there",
        "is not a port",
        "the answer of a listener",
    ]
    for text in right:
        assert not any(re.search(phrase, text, re.IGNORECASE) for phrase in AVOIDED), text
