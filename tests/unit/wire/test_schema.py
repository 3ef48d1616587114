"""Declared classes: how they are constructed, compared and shown, and what a wrong declaration says."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from ottla.types import ZERO_UUID
from ottla.wire import Versions
from ottla.wire.schema import NO_VERSIONS, Int32, Message, Struct, field
from tests.unit.wire.samples import Child, Everything, Grandchild, Nothing, Tagged


def test_every_field_may_be_left_out_and_has_its_default() -> None:
    made = Everything()
    assert (made.flag, made.tiny, made.long, made.ratio) == (False, 0, 0, 0.0)
    assert (made.id, made.text, made.text_or_null) == (ZERO_UUID, "", None)
    assert (made.data, made.data_or_null, made.records) == (b"", None, None)
    assert (made.numbers, made.numbers_or_null, made.children) == ([], None, [])
    assert (made.child, made.child_or_null) == (Child(), None)
    assert made.gone == -1
    assert made.unknown_tags == ()


def test_tagged_structs_that_the_wire_cannot_null_are_absent_by_default() -> None:
    assert Tagged().child is None
    assert Tagged().nullable_child == Grandchild()


def test_objects_do_not_share_their_default_lists_and_structs() -> None:
    first, second = Everything(), Everything()
    first.numbers.append(1)
    first.child.name = "changed"
    assert second.numbers == []
    assert second.child.name == ""


def test_fields_are_given_by_place_or_by_name() -> None:
    assert Grandchild(1, 2) == Grandchild(number=1, late=2)
    with pytest.raises(TypeError):
        Grandchild(nummer=1)  # type: ignore[call-arg]


def test_an_object_has_slots_and_takes_no_other_attribute() -> None:
    with pytest.raises(AttributeError):
        Grandchild().nummer = 1  # type: ignore[attr-defined]


def test_equal_fields_and_unknown_tags_make_equal_objects() -> None:
    one, other = Child("a", [Grandchild(1)]), Child("a", [Grandchild(1)])
    assert one == other
    other.grandchildren[0].number = 2
    assert one != other
    assert one != Everything()
    tagged = Grandchild(1)
    tagged.unknown_tags = ((9, b"x"),)
    assert tagged != Grandchild(1)


def test_an_object_that_may_change_has_no_hash() -> None:
    with pytest.raises(TypeError, match="unhashable"):
        hash(Grandchild())


def test_an_object_shows_its_fields_and_unknown_tags() -> None:
    made = Child("a", [Grandchild(1, 2)])
    made.unknown_tags = ((9, b"x"),)
    assert repr(made) == "Child(name='a', grandchildren=[Grandchild(number=1, late=2)], unknown_tags=((9, b'x'),))"
    assert "data=<3 bytes>" in repr(Everything(data=memoryview(b"abc")))


def test_objects_can_be_copied_and_pickled() -> None:
    made = Child("a", [Grandchild(1)])
    made.unknown_tags = ((9, b"x"),)
    assert copy.deepcopy(made) == made
    assert copy.deepcopy(made).grandchildren[0] is not made.grandchildren[0]
    assert pickle.loads(pickle.dumps(made)) == made


def test_a_message_without_fields_has_none() -> None:
    assert Nothing.schema.fields == ()
    assert Nothing() == Nothing()


@pytest.mark.parametrize(
    ("text", "inside", "outside"),
    [
        ("4-18", (4, 18), (3, 19)),
        ("12+", (12, 32767), (11,)),
        ("3", (3,), (2, 4)),
        ("none", (), (0, 1)),
    ],
)
def test_versions_are_written_as_kafka_writes_them(
    text: str, inside: tuple[int, ...], outside: tuple[int, ...]
) -> None:
    versions = Versions.parse(text)
    assert str(versions) == text
    assert all(versions.includes(version) for version in inside)
    assert not any(versions.includes(version) for version in outside)


def test_a_range_of_one_version_prints_as_that_version() -> None:
    assert str(Versions(2, 2)) == "2"
    assert str(NO_VERSIONS) == "none"


def test_a_field_without_a_declaration_is_refused() -> None:
    class Careless(Message, versions="0"):
        declared: Int32 = field()
        forgotten: Int32 = 0

    with pytest.raises(AssertionError, match="Careless: a field needs a type and `field"):
        Careless()


def test_a_type_that_is_not_of_the_wire_is_refused() -> None:
    class Lost(Struct):
        when: complex = field()

    with pytest.raises(AssertionError, match="complex is neither a wire type nor a struct"):
        Lost()


def test_an_unknown_class_option_is_refused() -> None:
    options: dict[str, Any] = {"version": "0"}
    with pytest.raises(AssertionError, match="unknown options"):

        class Misspelt(Message, **options):
            pass


def test_a_field_cannot_have_a_name_that_every_message_needs() -> None:
    with pytest.raises(AssertionError, match=r"Greedy: \['unknown_tags'\] cannot be fields"):

        class Greedy(Message, versions="0"):
            unknown_tags: Int32 = field()  # type: ignore[assignment]
