"""Phrases that cost readers time, in the text that people read: CONTRIBUTING.md, "Words"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

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
    r"\bwhat bec(?:omes|ame) of\b": "what happens to",
    r"\bto be had\b": "is available",
    r"\bon its way\b": "in flight",
    r"\bmended\b": "fixed",
    r"\bhas no heart\b": "a plain verb",
    r"\bin which nobody\b": "no thread",
}
READ = {".md", ".py", ".pyi", ".rs"}
# They name the phrases.
EXEMPT = {"CONTRIBUTING.md", "tests/layering/test_words.py"}


def _files() -> Iterator[Path]:
    for name in tracked():
        path = ROOT / name
        if path.suffix in READ and name not in EXEMPT and path.is_file():
            yield path


@pytest.mark.parametrize("phrase", AVOIDED)
def test_no_text_has_a_phrase_to_avoid(phrase: str) -> None:
    pattern = re.compile(phrase, re.IGNORECASE)
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in _files()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, f"write {AVOIDED[phrase]!r} instead:\n" + "\n".join(found)


def test_phrases_are_found() -> None:
    samples = {"It goes on.": r"\bgo(?:es)? on\b", "for the rest": r"\bfor the rest\b(?! of)"}
    for text, phrase in samples.items():
        assert re.search(phrase, text, re.IGNORECASE)
        assert phrase in AVOIDED
