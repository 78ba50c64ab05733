"""The soak of `benches/spark/soak.py`, for seconds in place of half an hour."""

from __future__ import annotations

from pathlib import Path

import pytest

from benches.spark.soak import KINDS, Seen, run, verdict
from tests.support.scale import FULL_SCALE, scale

# Each third period has the same disturbances. Real brokers take minutes.
SIZES = (
    {True: (3, 10.0, 200)} if scale() < FULL_SCALE else {True: (9, 10, 500), False: (9, 20, 500)}
)


# A cluster, a driver and executors start, which takes long on a busy machine.
@pytest.mark.timeout(900)
@pytest.mark.skipif(not Path("/proc").exists(), reason="finds processes in /proc")
@pytest.mark.parametrize("embedded", SIZES)
def test_a_stream_loses_and_doubles_nothing_whatever_happens_to_its_cluster(embedded: bool) -> None:
    periods, period_s, rate = SIZES[embedded]
    lines: list[str] = []
    assert run(periods, period_s, rate, embedded, lines.append) == []
    assert len(lines) == periods
    happened = "\n".join(lines)
    for each in ("restarted", "executor killed", "of the same name", "partitions"):
        assert each in happened


def test_the_soak_notices_what_is_wrong() -> None:
    def found(**changes: object) -> list[str]:
        sizes = {kind: [90.0, 95.0, *[100.0] * 4, 103.0, 105.0] for kind in KINDS}
        fields = {"sent": {b"1", b"2"}, "side": {b"a"}, "read": {b"1", b"2", b"a"}, "sizes": sizes}
        return verdict(Seen(**(fields | changes)))  # type: ignore[arg-type]

    assert found() == []
    assert found(read={b"1", b"a"}) == ["1 rows are missing, among them [b'2']"]
    assert found(side=set()) == ["1 rows were never sent, among them [b'a']"]
    assert found(twice=2) == ["2 rows are twice in the log"]
    assert found(errors=["the query has failed"]) == ["the query has failed"]
    grown = found(sizes={"driver heap": [50.0, 60.0, *[100.0] * 4, 111.0, 111.0]})
    assert grown == ["driver heap has grown by 11%: [50, 60, 100, 100, 100, 100, 111, 111]"]
