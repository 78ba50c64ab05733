"""The benchmark `benches/security_costs.py`, for moments."""

from __future__ import annotations

from benches.security_costs import rates


def test_each_broker_takes_records_from_its_producer() -> None:
    lines: list[str] = []
    ratios = rates(2, 0.1, lines.append)
    assert list(ratios) == ["sessions of 3 s", "1,000 ACLs"]
    assert all(ratio > 0 for ratio in ratios.values())
    assert len(lines) == 6
