"""`Outcomes`: one settled value or error for each resource."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from ottla.client.admin import Outcomes
from ottla.client.admin.fake.world import fake_world, run
from ottla.errors import InvalidPartitions, UnknownTopicOrPartition
from ottla.world.threads import running_world


def outcomes_of(*keys: str) -> Outcomes[str, int]:
    return Outcomes(fake_world().tasks, "Counting", keys)


def test_values_and_errors_are_kept_apart() -> None:
    outcomes = outcomes_of("a", "b", "c")
    outcomes.settle("b", UnknownTopicOrPartition("b is not there"))
    assert outcomes.unsettled() == ["a", "c"]
    assert not outcomes.done
    outcomes.settle("a", 1)
    outcomes.settle("c", 3)
    assert list(outcomes) == ["a", "b", "c"]
    assert outcomes.succeeded == {"a": 1, "c": 3}
    assert [str(error) for error in outcomes.errors.values()] == ["b is not there"]
    with pytest.raises(UnknownTopicOrPartition, match="b is not there"):
        outcomes.all()
    with pytest.raises(UnknownTopicOrPartition):
        outcomes["b"].result()


def test_an_outcome_is_settled_once() -> None:
    outcomes = outcomes_of("a")
    outcomes.settle("a", 1)
    outcomes.settle_rest(InvalidPartitions())
    outcomes.settle("a", 2)
    assert outcomes.all() == {"a": 1}


def test_an_outcome_that_is_open_says_so() -> None:
    outcomes = outcomes_of("a")
    assert repr(outcomes["a"]) == "<Outcome of Counting of a: not yet>"
    with pytest.raises(AssertionError, match="await it first"):
        outcomes["a"].result()


def test_nothing_asked_for_is_settled_at_once() -> None:
    assert run(outcomes_of()).all() == {}


def test_one_is_waited_for_without_the_others() -> None:
    async def main() -> None:
        tasks = running_world().tasks
        outcomes: Outcomes[str, int] = Outcomes(tasks, "Counting", ["fast", "slow"])
        tasks.later(1, lambda: outcomes.settle("fast", 1))
        assert await outcomes["fast"] == 1
        assert not outcomes["slow"].done
        tasks.later(1, lambda: outcomes.settle("slow", InvalidPartitions("too slow")))
        assert (await outcomes).succeeded == {"fast": 1}
        with pytest.raises(InvalidPartitions, match="too slow"):
            await outcomes["slow"]

    asyncio.run(main())


def test_several_may_wait_for_the_same_outcome() -> None:
    async def main() -> None:
        tasks = running_world().tasks
        outcomes: Outcomes[str, int] = Outcomes(tasks, "Counting", ["a"])
        waiting = [asyncio.ensure_future(_value(outcomes)) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
        outcomes.settle("a", 7)
        assert await asyncio.gather(*waiting[1:]) == [7, 7]

    async def _value(outcomes: Outcomes[str, int]) -> int:
        return await outcomes["a"]

    asyncio.run(main())


def test_an_error_that_nobody_looked_at_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    outcomes = outcomes_of("a", "b")
    outcomes.settle("a", UnknownTopicOrPartition("a is not there"))
    outcomes.settle("b", UnknownTopicOrPartition("b is not there"))
    assert outcomes["b"].error is not None
    gc.collect()  # what other tests have left is theirs
    with caplog.at_level(logging.WARNING):
        caplog.clear()
        del outcomes
        gc.collect()
    assert caplog.messages == ["Counting of a failed, and nobody looked: UnknownTopicOrPartition: a is not there"]
