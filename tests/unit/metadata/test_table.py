"""Tables that are copied by what changes."""

from __future__ import annotations

import random
import sys
from collections.abc import MutableMapping

import pytest

from ottla.metadata.builder import ImageBuilder
from ottla.metadata.image import Image
from ottla.metadata.table import PLAIN_MAX, Table, copied
from ottla.types import Uuid
from ottla.wire.metadata import PartitionRecord, RemoveTopicRecord, TopicRecord


@pytest.mark.parametrize("seed", range(10))
def test_generations_of_copies_read_as_dicts_do(seed: int) -> None:
    chance = random.Random(seed)
    plain = {key: str(key) for key in range(PLAIN_MAX + chance.randrange(200))}
    table: MutableMapping[int, str] = copied(plain)
    assert isinstance(table, Table)
    generations: list[tuple[MutableMapping[int, str], dict[int, str]]] = []
    for _ in range(60):
        generations.append((table, dict(plain)))
        table, plain = copied(table), dict(plain)
        for _ in range(chance.randrange(30)):
            key = chance.randrange(2 * PLAIN_MAX)
            if chance.random() < 0.4 and key in plain:
                del plain[key]
                del table[key]
            else:
                plain[key] = table[key] = f"{key} {chance.random()}"
            assert (key in table) == (key in plain)
            assert table.get(key) == plain.get(key)
    for table, expected in generations:
        assert len(table) == len(expected)
        assert dict(table.items()) == expected
        assert all(table[key] == value for key, value in expected.items())
        assert -1 not in table
        assert table.pop(-1, "none") == "none"
        with pytest.raises(KeyError):
            table[-1]


def test_entries_stay_in_the_order_of_their_insertion() -> None:
    table = copied(dict.fromkeys(range(PLAIN_MAX + 1), "old"))
    table[-5] = "new"
    table[7] = "changed"
    del table[3]
    assert list(table) == [key for key in range(PLAIN_MAX + 1) if key != 3] + [-5]
    assert list(copied(table)) == list(table)


def test_small_mappings_are_dicts() -> None:
    assert type(copied({1: 2})) is dict
    shrunk = copied(dict.fromkeys(range(PLAIN_MAX + 1), "x"))
    for key in range(100):
        del shrunk[key]
    assert type(copied(shrunk)) is dict


def image_of(topics: int) -> Image:
    builder = ImageBuilder(Image("cluster"))
    for number in range(topics):
        builder.replay(TopicRecord(name=f"topic-{number}", topic_id=uuid(number)))
        builder.replay(PartitionRecord(partition_id=0, topic_id=uuid(number), replicas=[1], isr=[1], leader=1))
    return builder.build(offset=1, epoch=1, timestamp_ms=1)[1]


def uuid(number: int) -> Uuid:
    return Uuid((number + 1).to_bytes(16, "big"))


def test_one_change_costs_the_same_however_many_topics_there_are() -> None:
    """Counted in calls and lines of Python: it had copied two tables, which took 54 ms for 100,000 topics."""
    memory = []
    for count in (2_000, 20_000):
        image = image_of(count)
        image = changed(image, count)  # the first makes the tables
        before = image
        image = changed(image, count + 1)
        assert sys.getsizeof(image.topics.by_id) < 200
        memory.append(len(image.topics.by_id._changes))  # type: ignore[attr-defined]
        assert image.topics.by_id._base is before.topics.by_id._base  # type: ignore[attr-defined]
        assert image.topics.by_name._base is before.topics.by_name._base  # type: ignore[attr-defined]
        assert len(image.topics.by_id) == count + 2
        assert f"topic-{count + 1}" not in before.topics.by_name
    assert memory[0] == memory[1] == 2


def changed(image: Image, number: int) -> Image:
    builder = ImageBuilder(image)
    builder.replay(TopicRecord(name=f"topic-{number}", topic_id=uuid(number)))
    delta, after = builder.build(offset=image.offset + 1, epoch=1, timestamp_ms=1)
    assert list(delta.changed_topics) == [uuid(number)]
    return after


def test_a_topic_that_is_removed_and_made_again_is_in_the_image_once() -> None:
    image = image_of(PLAIN_MAX + 100)
    builder = ImageBuilder(image)
    builder.replay(RemoveTopicRecord(topic_id=uuid(5)))
    builder.replay(TopicRecord(name="topic-5", topic_id=uuid(90_000)))
    delta, after = builder.build(offset=2, epoch=1, timestamp_ms=1)
    assert list(delta.deleted_topics) == [uuid(5)]
    assert after.topics.by_name["topic-5"].id == uuid(90_000)
    assert len(after.topics.by_name) == len(after.topics.by_id) == PLAIN_MAX + 100
    assert sorted(topic.name for topic in after.topics.by_id.values()) == sorted(after.topics.by_name)
