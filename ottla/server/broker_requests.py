"""`BrokerRequests`: questions for other brokers, with one request under way for each broker and the others gathered.

Promises: a question is answered once, with what the broker told of it or with the `KafkaError` that kept its request
from being answered; questions go out in the order they were asked, as many together as `BATCH_MAX` allows; two with the
same `subject` are never in one request, so a response that names subjects is never ambiguous. A question that would be
one too many (`WAITING_MAX`) is refused with `NetworkException`, as if the connection had broken.

Called by whatever asks a coordinator or a leader on another broker: transaction markers, transaction verification,
share state. What is asked of this node itself does not come here.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from ottla.errors import KafkaError, NetworkException, UnknownServerError
from ottla.metadata import Image
from ottla.wire import Message
from ottla.world import Promise, Tasks

if TYPE_CHECKING:
    from ottla.net import Request

log = logging.getLogger(__name__)

Q = TypeVar("Q")
A = TypeVar("A")

BATCH_MAX = 1_000
"""How many questions go out in one request."""
WAITING_MAX = 10_000
"""How many questions wait for the request before them, for each destination."""
NO_BROKER = -1


class PeerLink(Protocol):
    """The way to other brokers: see `Peers`."""

    def send(self, broker_id: int, request: Request, *, timeout_ms: float, lane: str = "") -> Promise[Message]: ...


def leader_of(image: Image, topic: str, index: int) -> int:
    """The broker that leads a partition and is not fenced; -1 where there is none."""
    topic_image = image.topics.by_name.get(topic)
    partition = None if topic_image is None else topic_image.partitions.get(index)
    leader = None if partition is None else image.brokers.get(partition.leader)
    return NO_BROKER if leader is None or leader.is_fenced else leader.id


class _Waiting(NamedTuple, Generic[Q, A]):
    question: Q
    promise: Promise[A]


class BrokerRequests(Generic[Q, A]):
    """See the module.

    `request` makes the request of some questions, `answers` reads its response: one answer for each of them, in their
    order. `scope` is what all questions of a request must share besides their broker.
    """

    def __init__(
        self,
        peers: PeerLink,
        tasks: Tasks,
        *,
        lane: str,
        timeout_ms: Callable[[], float],
        subject: Callable[[Q], Hashable],
        request: Callable[[Sequence[Q]], Request],
        answers: Callable[[Sequence[Q], Message], Sequence[A]],
        scope: Callable[[Q], Hashable] = lambda question: None,
    ) -> None:
        self._peers = peers
        self._tasks = tasks
        self._lane = lane
        self._timeout_ms = timeout_ms
        self._subject = subject
        self._request = request
        self._answers = answers
        self._scope = scope
        self._waiting: dict[tuple[int, Hashable], list[_Waiting[Q, A]]] = {}
        """By destination; a destination is here while a request is under way or about to be."""

    def ask(self, broker_id: int, question: Q) -> Promise[A]:
        promise: Promise[A] = self._tasks.promise()
        destination = broker_id, self._scope(question)
        waiting = self._waiting.get(destination)
        if waiting is None:
            waiting = self._waiting[destination] = []
            self._tasks.soon(lambda: self._send(destination))  # with whatever else is asked until then
        if len(waiting) >= WAITING_MAX:
            promise.set_exception(NetworkException(f"{WAITING_MAX} questions wait for broker {broker_id} already"))
        else:
            waiting.append(_Waiting(question, promise))
        return promise

    def _send(self, destination: tuple[int, Hashable]) -> None:
        chosen: dict[Hashable, _Waiting[Q, A]] = {}
        rest: list[_Waiting[Q, A]] = []
        for one in self._waiting[destination]:
            if len(chosen) < BATCH_MAX and chosen.setdefault(self._subject(one.question), one) is one:
                continue
            rest.append(one)
        if not chosen:
            del self._waiting[destination]
            return
        self._waiting[destination] = rest
        sent = list(chosen.values())
        questions = [one.question for one in sent]

        def settle(done: Promise[Message]) -> None:
            self._settle(destination, sent, questions, done)

        response = self._peers.send(
            destination[0], self._request(questions), timeout_ms=self._timeout_ms(), lane=self._lane
        )
        response.add_done_callback(settle)

    def _settle(
        self,
        destination: tuple[int, Hashable],
        sent: list[_Waiting[Q, A]],
        questions: list[Q],
        done: Promise[Message],
    ) -> None:
        failure: KafkaError
        try:
            answers = self._answers(questions, done.result())
        except KafkaError as error:
            log.info("[BrokerRequests %s] No answer of broker %d: %s", self._lane, destination[0], error)
            failure = error
        except Exception as error:
            log.exception("[BrokerRequests %s] The answer of broker %d makes no sense", self._lane, destination[0])
            failure = UnknownServerError(str(error))
        else:
            for one, answer in zip(sent, answers, strict=True):
                one.promise.set_result(answer)
            self._send(destination)
            return
        for one in sent:
            one.promise.set_exception(failure)
        self._send(destination)
