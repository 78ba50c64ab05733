"""The tests' file of records: what is written is read back, and the mix has all its kinds."""

from __future__ import annotations

import pytest

from tests.support.records import VALUE_BYTES_MAX, read_records, records, write_records


def test_a_file_gives_back_what_was_written(tmp_path):
    mix = list(records(2000, seed=7))
    assert write_records(tmp_path / "f", mix) == 2000
    assert list(read_records(tmp_path / "f")) == mix


def test_the_mix_is_the_same_every_time_and_differs_by_seed():
    assert list(records(500, seed=3)) == list(records(500, seed=3))
    assert list(records(500, seed=3)) != list(records(500, seed=4))


def test_the_mix_has_every_odd_kind_of_record():
    mix = list(records(5000))
    assert {None, b""} <= {each.key for each in mix} & {each.value for each in mix}
    assert any(each.key is each.value is None for each in mix)
    assert max(len(each.value or b"") for each in mix) > 8_000
    names = [[key for key, _ in each.headers] for each in mix]
    assert any(len(set(each)) < len(each) for each in names)
    assert any(value is None for each in mix for _, value in each.headers)
    assert all(len(each.value or b"") <= VALUE_BYTES_MAX + 20 for each in mix)


def test_a_torn_file_is_refused(tmp_path):
    write_records(tmp_path / "f", records(3))
    data = (tmp_path / "f").read_bytes()
    (tmp_path / "f").write_bytes(data[:-1])
    with pytest.raises(ValueError, match="ends within a record"):
        list(read_records(tmp_path / "f"))
