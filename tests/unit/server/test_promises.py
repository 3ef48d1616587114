"""`ottla/server/promises.py`."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.errors import InvalidRequest, KafkaError, NotCoordinator
from ottla.server.promises import chained, gathered, mapped, recovered
from ottla.sim import virtual_node_world
from ottla.world import Promise

WORLD = virtual_node_world(1)
TASKS = WORLD.tasks


def kept(value: Any) -> Promise[Any]:
    promise = TASKS.promise()
    promise.set_result(value)
    return promise


def broken(error: Exception) -> Promise[Any]:
    promise = TASKS.promise()
    promise.set_exception(error)
    return promise


def run() -> None:
    WORLD.loop.run_until_complete(TASKS.sleep_ms(1))


def refuse(_: object) -> Any:
    raise InvalidRequest


def test_what_is_kept_already_is_mapped_chained_and_gathered_at_once() -> None:
    assert mapped(TASKS, kept(2), lambda value: value + 1).result() == 3
    assert chained(TASKS, kept(2), lambda value: kept(value + 2)).result() == 4
    assert chained(TASKS, kept(2), lambda value: value + 3).result() == 5
    assert gathered(TASKS, [kept(1), kept(2)]).result() == [1, 2]
    assert gathered(TASKS, []).result() == []
    assert recovered(TASKS, lambda: kept(6), lambda error: 0).result() == 6


def test_what_comes_later_is_told_later() -> None:
    first, second, third = TASKS.promise(), TASKS.promise(), TASKS.promise()
    doubled = mapped(TASKS, first, lambda value: value * 2)
    both = gathered(TASKS, [first, second])
    then = chained(TASKS, first, lambda value: third)
    assert not doubled.done()
    first.set_result(4)
    run()
    assert doubled.result() == 8
    assert not both.done()
    assert not then.done()
    second.set_result(5)
    third.set_result(6)
    run()
    assert both.result() == [4, 5]
    assert then.result() == 6


def test_errors_go_through_and_a_kafka_error_can_be_recovered_from() -> None:
    late = TASKS.promise()
    failing: list[Promise[Any]] = [
        mapped(TASKS, broken(NotCoordinator()), lambda value: value),
        mapped(TASKS, kept(1), refuse),
        chained(TASKS, broken(NotCoordinator()), lambda value: value),
        chained(TASKS, kept(1), refuse),
        chained(TASKS, kept(1), lambda _: late),
        gathered(TASKS, [kept(1), broken(NotCoordinator()), late]),
    ]
    recovering: list[Promise[Any]] = [
        recovered(TASKS, lambda: broken(NotCoordinator()), lambda error: error.name),
        recovered(TASKS, lambda: late, lambda error: error.name),
        recovered(TASKS, lambda: refuse(None), lambda error: error.name),
    ]
    late.set_exception(NotCoordinator())
    run()
    for promise in failing:
        with pytest.raises(KafkaError):
            promise.result()
    assert [one.result() for one in recovering] == [NotCoordinator.name, NotCoordinator.name, InvalidRequest.name]
