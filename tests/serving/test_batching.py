"""Series of concurrent requests are forecast together, each request gets its own answers, in its own order."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from informer.service.requests import Batcher, Options, Task

PLAIN, FAR = Options(), Options(horizon=9)


class Gate:
    """A forecaster that doubles numbers; it records its batches, and waits for the test on request."""

    def __init__(self) -> None:
        self.batches: list[tuple[list[int], Options]] = []
        self.entered, self.open = threading.Event(), threading.Event()

    def __call__(self, tasks: Sequence[Any], options: Options) -> list[Any]:
        self.batches.append((list(tasks), options))
        self.entered.set()
        self.open.wait()
        if any(task < 0 for task in tasks):
            raise ValueError(f"negative: {list(tasks)}")
        return [2 * task for task in tasks]


def during_a_batch(gate: Gate, size: int, then: Callable[[Batcher], Coroutine[Any, Any, Any]]) -> Any:
    """The result of `then`, whose requests arrive while a first batch of one series, 0, is being forecast.

    `then` opens the gate once they are queued.
    """

    async def session() -> Any:
        batcher = Batcher(gate, size)
        running = asyncio.create_task(batcher.run())
        first = asyncio.create_task(batcher.forecast(tasks(0), PLAIN))
        await asyncio.to_thread(gate.entered.wait)
        result = await then(batcher)
        assert await first == [0]
        running.cancel()
        return result

    return asyncio.run(session())


def tasks(*numbers: int) -> list[Task]:
    return list(numbers)  # type: ignore[arg-type]


def together(gate: Gate, *requests: tuple[list[int], Options]) -> Callable[[Batcher], Coroutine[Any, Any, Any]]:
    async def then(batcher: Batcher) -> Any:
        each = [asyncio.create_task(batcher.forecast(tasks(*numbers), options)) for numbers, options in requests]
        await asyncio.sleep(0)  # each runs up to its place in the queue
        gate.open.set()
        return await asyncio.gather(*each, return_exceptions=True)

    return then


def test_what_arrives_during_a_batch_is_the_next_batch() -> None:
    """Red if each request has a separate batch."""
    gate = Gate()
    assert during_a_batch(gate, 8, together(gate, *(([n], PLAIN) for n in range(1, 6)))) == [[2], [4], [6], [8], [10]]
    assert gate.batches == [([0], PLAIN), ([1, 2, 3, 4, 5], PLAIN)]


def test_a_large_request_does_not_keep_a_small_one_waiting() -> None:
    """Red if batches are filled in the order of arrival: 9 would come after 1 to 6."""
    gate = Gate()
    answers = during_a_batch(gate, 4, together(gate, ([1, 2, 3, 4, 5, 6], PLAIN), ([9], PLAIN)))
    assert answers == [[2, 4, 6, 8, 10, 12], [18]]
    assert [batch for batch, _ in gate.batches] == [[0], [1, 9, 2, 3], [4, 5, 6]]


def test_requests_with_other_options_are_other_batches() -> None:
    gate = Gate()
    assert during_a_batch(gate, 4, together(gate, ([1], PLAIN), ([2], FAR), ([3], PLAIN))) == [[2], [4], [6]]
    assert gate.batches == [([0], PLAIN), ([1, 3], PLAIN), ([2], FAR)]


def test_a_series_that_fails_fails_its_own_request_only() -> None:
    gate = Gate()
    one, failed, other = during_a_batch(gate, 4, together(gate, ([1], PLAIN), ([-1, 5], PLAIN), ([3], PLAIN)))
    assert (one, other) == ([2], [6])
    assert isinstance(failed, ValueError)
    assert str(failed) == "negative: [-1]"


def test_a_cancelled_request_is_not_forecast() -> None:
    """Red if a client that gave up still costs a forward pass."""
    gate = Gate()

    async def then(batcher: Batcher) -> Any:
        gone, stays = (asyncio.create_task(batcher.forecast(tasks(n), PLAIN)) for n in (1, 2))
        await asyncio.sleep(0)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        gate.open.set()
        return await stays

    assert during_a_batch(gate, 1, then) == [4]
    assert [batch for batch, _ in gate.batches] == [[0], [2]]
