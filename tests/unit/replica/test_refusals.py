"""A batch behind one that was refused is refused too, and only such a one. Beside a real Kafka, which does not do it:
tests/cluster/test_sequences_after_restart.py."""

from __future__ import annotations

import pytest

from ottla.errors import KafkaError, NotEnoughReplicas, NotLeaderOrFollower
from ottla.replica.refusals import PRODUCERS_MAX, REFUSED_MS, Refusals
from tests.support.logs import TestLog, make_batch

NOW = 50_000


def batch(sequence: int, *, producer_id: int = 1, epoch: int = 0) -> bytes:
    return make_batch(b"value", producer_id=producer_id, producer_epoch=epoch, sequence=sequence)


class Story:
    """A log in which producer 1 has written 0 and 1, and what was refused since."""

    def __init__(self) -> None:
        self.log = TestLog()
        self.refusals = Refusals()
        for sequence in (0, 1):
            self.write(sequence)

    def write(self, sequence: int) -> None:
        self.log.append(b"value", producer_id=1, sequence=sequence)

    def refuse(self, sequence: int, *, at_ms: int = NOW, error: KafkaError | None = None, epoch: int = 0) -> None:
        self.refusals.note(batch(sequence, epoch=epoch), error or NotEnoughReplicas("too few"), self.log.log, at_ms)

    def answer(self, sequence: int, *, at_ms: int = NOW, producer_id: int = 1, epoch: int = 0) -> KafkaError | None:
        data = batch(sequence, producer_id=producer_id, epoch=epoch)
        return self.refusals.of_earlier_batch(data, self.log.log, at_ms)


@pytest.mark.parametrize("kind", [NotEnoughReplicas, NotLeaderOrFollower])
def test_what_follows_a_refused_batch_is_refused_for_the_same_reason(kind: type[KafkaError]) -> None:
    story = Story()
    story.refuse(2, error=kind("why"))
    for sequence in (3, 5):
        error = story.answer(sequence)
        assert type(error) is kind
        assert error.message == "why"
        assert error.__traceback__ is None


def test_the_first_that_was_refused_counts() -> None:
    story = Story()
    for sequence in (2, 3, 4):
        story.refuse(sequence)
    assert story.answer(3) is not None
    story.refuse(2)
    assert story.answer(3) is not None


def test_a_batch_that_was_written_since_is_not_missing() -> None:
    story = Story()
    story.refuse(2)
    story.write(2)
    assert story.answer(4) is None
    assert story.refusals.is_empty


def test_a_second_refusal_counts_from_its_own_batch_when_the_first_was_written() -> None:
    story = Story()
    story.refuse(2)
    story.write(2)
    story.refuse(3)
    assert story.answer(4) is not None


def test_what_a_producer_sends_first_is_not_overtaken_either() -> None:
    """The log takes any sequence of a producer that it does not know: the second batch would come before the first."""
    story = Story()
    story.refusals.note(batch(0, producer_id=7), NotEnoughReplicas("too few"), None, NOW)
    assert story.answer(1, producer_id=7) is not None
    assert story.answer(0, producer_id=7) is None


def test_what_comes_before_the_refused_batch_is_not_behind_it() -> None:
    story = Story()
    story.refuse(4)
    assert story.answer(3) is None
    assert story.answer(4) is None


def test_other_producers_and_epochs_have_nothing_to_do_with_it() -> None:
    story = Story()
    story.refuse(2)
    assert story.answer(3, producer_id=2) is None
    assert story.answer(3, epoch=1) is None
    story.refuse(0, epoch=1)
    assert story.answer(1, epoch=1) is not None
    assert story.answer(3) is None


def test_a_batch_that_is_not_sent_again_is_given_up() -> None:
    story = Story()
    story.refuse(2)
    story.refuse(2, at_ms=NOW + 5_000)
    assert story.answer(3, at_ms=NOW + 5_000 + REFUSED_MS - 1) is not None
    assert story.answer(3, at_ms=NOW + 5_000 + REFUSED_MS) is None


def test_a_refusal_of_long_ago_does_not_count_when_another_comes() -> None:
    story = Story()
    story.refuse(2)
    story.refuse(5, at_ms=NOW + REFUSED_MS)
    assert story.answer(4, at_ms=NOW + REFUSED_MS) is None
    assert story.answer(6, at_ms=NOW + REFUSED_MS) is not None


def test_sequences_go_on_with_0_after_the_largest() -> None:
    refusals = Refusals()
    log = TestLog()
    log.append(b"value", producer_id=1, sequence=2**31 - 2)
    refusals.note(batch(2**31 - 1), NotEnoughReplicas("too few"), None, NOW)
    assert refusals.of_earlier_batch(batch(0), log.log, NOW) is not None
    log.append(b"value", producer_id=1, sequence=2**31 - 1)
    assert refusals.of_earlier_batch(batch(1), log.log, NOW) is None


def test_as_many_producers_are_remembered_as_the_bound_says() -> None:
    story = Story()
    for producer_id in range(1, PRODUCERS_MAX + 2):
        story.refusals.note(batch(2, producer_id=producer_id), NotEnoughReplicas("too few"), None, NOW)
    assert story.answer(3) is None
    assert story.answer(3, producer_id=2) is not None


@pytest.mark.parametrize("data", [b"", b"short", make_batch(b"value"), bytes(80)])
def test_batches_without_a_producer_are_not_remembered(data: bytes) -> None:
    story = Story()
    story.refusals.note(data, NotEnoughReplicas("too few"), None, NOW)
    assert story.refusals.of_earlier_batch(data, story.log.log, NOW) is None
