"""Promises put together: an answer made from another one, or from many."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ottla.errors import KafkaError
from ottla.world import Promise, Tasks

T = TypeVar("T")
U = TypeVar("U")


def mapped(tasks: Tasks, promise: Promise[T], make: Callable[[T], U]) -> Promise[U]:
    """What `make` makes of the value, when it has come; kept already if the promise is. Errors go through."""
    answer: Promise[U] = tasks.promise()

    def settle(done: Promise[T]) -> None:
        if answer.done():
            return
        try:
            answer.set_result(make(done.result()))
        except Exception as error:  # noqa: BLE001  whatever it is, it is the answer
            answer.set_exception(error)

    if promise.done():
        settle(promise)
    else:
        promise.add_done_callback(settle)
    return answer


def chained(tasks: Tasks, promise: Promise[T], begin: Callable[[T], U | Promise[U]]) -> Promise[U]:
    """What `begin` answers, now or later, once the value has come. Errors of either go through."""
    answer: Promise[U] = tasks.promise()

    def settle(done: Promise[U]) -> None:
        if answer.done():
            return
        try:
            answer.set_result(done.result())
        except Exception as error:  # noqa: BLE001  whatever it is, it is the answer
            answer.set_exception(error)

    def go_on(done: Promise[T]) -> None:
        try:
            begun: Any = begin(done.result())
        except Exception as error:  # noqa: BLE001  whatever it is, it is the answer
            answer.set_exception(error)
            return
        if not hasattr(begun, "add_done_callback"):
            answer.set_result(begun)
        elif begun.done():
            settle(begun)
        else:
            begun.add_done_callback(settle)

    if promise.done():
        go_on(promise)
    else:
        promise.add_done_callback(go_on)
    return answer


def recovered(tasks: Tasks, begin: Callable[[], Promise[T]], make: Callable[[KafkaError], T]) -> Promise[T]:
    """What `begin` promises, or what `make` makes of the Kafka error that it or its promise fails with."""
    answer: Promise[T] = tasks.promise()

    def settle(done: Promise[T]) -> None:
        if answer.done():
            return
        try:
            answer.set_result(done.result())
        except KafkaError as error:
            answer.set_result(make(error))
        except Exception as error:  # noqa: BLE001  whatever it is, it is the answer
            answer.set_exception(error)

    try:
        promise = begin()
    except KafkaError as error:
        answer.set_result(make(error))
        return answer
    if promise.done():
        settle(promise)
    else:
        promise.add_done_callback(settle)
    return answer


def gathered(tasks: Tasks, promises: Sequence[Promise[T]]) -> Promise[list[T]]:
    """All values in order, when the last has come; the first error if one fails."""
    answer: Promise[list[T]] = tasks.promise()
    remaining = sum(not one.done() for one in promises)

    def finish() -> None:
        values: list[T] = []
        failure: Exception | None = None
        for one in promises:
            try:
                values.append(one.result())
            except Exception as error:  # noqa: BLE001  whatever it is, it is the answer
                failure = failure or error
        if failure is None:
            answer.set_result(values)
        else:
            answer.set_exception(failure)

    def count(_: object) -> None:
        nonlocal remaining
        remaining -= 1
        if not remaining and not answer.done():
            finish()

    if not remaining:
        finish()
    for one in promises:
        if not one.done():
            one.add_done_callback(count)
    return answer
