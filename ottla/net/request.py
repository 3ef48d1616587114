"""A request on its way to a peer: the message or how to build it, who is told of the answer, and how they are told."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.errors import InvalidRequest, KafkaError, UnsupportedVersion, as_kafka_error
from ottla.net.versions import VERSION_MAX, ApiVersions
from ottla.wire import APIS, EncodeError, Message
from ottla.world import Promise


class Subject(NamedTuple):
    """Whose log lines these are: the name in brackets, and the logger."""

    name: str
    log: logging.Logger


class Build(NamedTuple):
    """A request that looks different in different versions: made when the version is known."""

    api_key: int
    make: Callable[[int], Message]
    version_min: int = 0
    version_max: int = VERSION_MAX


Request = Message | Build

OnAnswer = Callable[[Message | None, KafkaError | None], None]
"""Called once with the response, or with why there is none."""


def api_name(request: Request) -> str:
    """The name of the request's API."""
    key = request.api_key if isinstance(request, Build) else request.schema.api_key
    assert key is not None, "a request has an API"
    return APIS[key].name


def choose_version(request: Request, versions: ApiVersions, peer: str) -> tuple[Message, int]:
    """The message and the highest version that both sides know; a `KafkaError` when there is none or it has no form."""
    if isinstance(request, Build):
        key = request.api_key
        version = versions.usable(key, request.version_min, request.version_max)
        if version is not None:
            try:
                return request.make(version), version
            except Exception as error:  # noqa: BLE001  it is the caller's
                failed = as_kafka_error(error, f"The {APIS[key].name} request could not be built")
                raise failed from failed.__cause__
    else:
        assert request.schema.api_key is not None, "a request has an API"
        key = request.schema.api_key
        version = versions.usable(key)
        if version is not None:
            return request, version
    raise UnsupportedVersion(f"The broker {peer} has no version of {APIS[key].name} that can be used here")


def not_sent(request: Request, error: Exception) -> KafkaError:
    """What to tell of a request that could not be built, encoded or sent."""
    if isinstance(error, EncodeError):
        return InvalidRequest(str(error))
    return as_kafka_error(error, f"The {api_name(request)} request could not be sent")


def tell(on_answer: OnAnswer, response: Message | None, error: KafkaError | None, what: str, subject: Subject) -> None:
    """Call it. What it raises on a response it is told as the error; what it raises then is logged and goes no further,
    so that others who wait hear of theirs."""
    try:
        on_answer(response, error)
    except Exception as raised:
        if error is None:
            failed = as_kafka_error(raised, f"The response to {what} could not be handled")
            tell(on_answer, None, failed, what, subject)
        else:
            subject.log.exception("[%s] The callback for the failure of %s (%s) failed", subject.name, what, error)


def settling(promise: Promise[Any]) -> OnAnswer:
    """A callback that settles `promise`, unless whoever waited for it has gone."""

    def answered(response: Message | None, error: KafkaError | None) -> None:
        if promise.done():
            return
        if error is not None:
            promise.set_exception(error)
        else:
            promise.set_result(response)

    return answered
