"""The soak of `benches/secure_soak.py`, for seconds in place of an hour."""

from __future__ import annotations

import pytest

from benches import secure_soak
from benches.secure_soak import Counts, _verdict, run
from tests.support.identity import IdentityProvider
from tests.support.scale import FULL_SCALE, scale

# Real brokers take minutes.
SIZES = (
    {True: (2, 6.0, 200)} if scale() < FULL_SCALE else {True: (20, 6.0, 200), False: (6, 30, 500)}
)


@pytest.mark.parametrize("embedded", SIZES)
def test_everything_that_ends_is_renewed_and_counts_match(embedded: bool) -> None:
    """Scenario 104."""
    periods, period_s, rate = SIZES[embedded]
    lines: list[str] = []
    assert run(periods, period_s, rate, embedded, lines.append) == []
    assert len(lines) == periods


def test_the_soak_notices_what_is_missing_or_double(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secure_soak, "PATIENCE_S", 1)
    with IdentityProvider() as idp:
        idp.issued = 9
        counts = Counts(3, 3, [b"0", b"1", b"2"], [], {"tokens": 1.0})
        assert _verdict(counts, [0, 1, 2], idp, 3) == []
        for log in ([0, 1], [0, 1, 2, 2]):
            assert len(_verdict(counts, log, idp, 3)) == 1
        counts.read.pop()
        assert "the group lacks 1 records" in _verdict(counts, [0, 1, 2], idp, 3)[0]
        counts.renewals["tokens"] = 0.0
        assert len(_verdict(counts, [0, 1, 2], idp, 30)) == 2
