"""One Completions per event loop: when the loop watches it, and when it is freed."""

import asyncio
import gc
import weakref
from typing import Any

import pytest

from thalweg._core import Completions
from thalweg.aio import _completions


def test_producers_of_a_loop_share_one_and_the_last_takes_the_reader_away():
    async def program():
        loop: Any = asyncio.get_running_loop()
        first, second = _completions.attach(loop), _completions.attach(loop)
        assert first is second
        assert first.fileno() in loop._selector.get_map()
        _completions.detach(loop, first)
        assert first.fileno() in loop._selector.get_map()
        _completions.detach(loop, first)
        assert first.fileno() not in loop._selector.get_map()
        assert _completions.attach(loop) is not first

    asyncio.run(program())


def test_a_loop_that_is_thrown_away_is_not_kept():
    loop = asyncio.new_event_loop()
    completions = _completions.attach(loop)
    gone = weakref.ref(loop), weakref.ref(completions)
    loop.close()
    del loop, completions
    gc.collect()
    assert [each() for each in gone] == [None, None]


class Own(asyncio.SelectorEventLoop):
    """A loop with futures of its own, as uvloop's."""

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)


@pytest.mark.parametrize("kind", [asyncio.SelectorEventLoop, Own])
def test_a_loop_that_is_dropped_without_a_close_is_not_kept(kind):
    loop = kind()
    completions = _completions.attach(loop)
    gone = weakref.ref(loop), weakref.ref(completions)
    del loop, completions
    with pytest.warns(ResourceWarning, match="unclosed event loop"):
        gc.collect()
    assert [each() for each in gone] == [None, None]


def test_without_a_descriptor_there_is_none_to_name():
    loop = asyncio.new_event_loop()
    with pytest.raises(OSError, match="no descriptor"):
        Completions(loop, lambda: None).fileno()
    assert len(Completions(loop)) == 0
    loop.close()
