"""`ottla/coordinator/group/assignors`: what every assignment must be, and what a person would expect of a few."""

from __future__ import annotations

import pytest

from ottla.coordinator.group.assignors import ASSIGNORS, Assignment, GroupSpec, MemberSpec
from ottla.coordinator.group.assignors.hash_order import HashOrder, partition_order, table_size, uuid_hash
from ottla.types import Uuid

ORDERS, PAYMENTS = Uuid(b"orders".ljust(16)), Uuid(b"payments".ljust(16))


def assign(
    name: str, members: dict[str, MemberSpec], counts: dict[Uuid, int], *, same: bool = True
) -> dict[str, dict[Uuid, list[int]]]:
    taken: dict[Uuid, set[int]] = {}
    for member in members.values():
        for topic, partitions in member.assignment.items():
            taken.setdefault(topic, set()).update(partitions)
    spec = GroupSpec(members, same, counts.__getitem__, taken)
    assigned = ASSIGNORS[name](spec)
    return {member_id: _sorted(assigned.get(member_id, {})) for member_id in members}


def _sorted(assignment: Assignment) -> dict[Uuid, list[int]]:
    return {topic: sorted(partitions) for topic, partitions in assignment.items()}


def owning(**partitions: tuple[int, ...]) -> dict[str, MemberSpec]:
    """Members that are subscribed to one topic and should own these."""
    return {name: MemberSpec((ORDERS,), {ORDERS: owned} if owned else {}) for name, owned in partitions.items()}


def test_range_gives_each_member_the_same_partitions_of_every_topic() -> None:
    both = MemberSpec((ORDERS, PAYMENTS))
    assert assign("range", {"b": both, "a": both}, {ORDERS: 3, PAYMENTS: 3}) == {
        "a": {ORDERS: [0, 1], PAYMENTS: [0, 1]},
        "b": {ORDERS: [2], PAYMENTS: [2]},
    }


def test_range_puts_static_members_first_by_their_instance_ids() -> None:
    members = {
        "a": MemberSpec((ORDERS,)),
        "z": MemberSpec((ORDERS,), instance_id="one"),
        "y": MemberSpec((ORDERS,), instance_id="two"),
    }
    assert assign("range", members, {ORDERS: 3}) == {"a": {ORDERS: [2]}, "z": {ORDERS: [0]}, "y": {ORDERS: [1]}}


@pytest.mark.parametrize("name", sorted(ASSIGNORS))
def test_a_group_of_nobody_and_members_of_no_topic_are_assigned_nothing(name: str) -> None:
    assert assign(name, {}, {}) == {}
    assert assign(name, {"a": MemberSpec(())}, {}) == {"a": {}}
    assert assign(name, {"a": MemberSpec(()), "b": MemberSpec(())}, {}, same=False) == {"a": {}, "b": {}}


def test_uniform_moves_only_what_a_new_member_is_to_get() -> None:
    assigned = assign("uniform", owning(a=(0, 1, 2), b=(3, 4, 5), c=()), {ORDERS: 6})
    assert [len(assigned[member][ORDERS]) for member in "abc"] == [2, 2, 2]
    assert set(assigned["a"][ORDERS]) <= {0, 1, 2}
    assert set(assigned["b"][ORDERS]) <= {3, 4, 5}


def test_uniform_gives_what_a_member_has_left_behind_to_the_others() -> None:
    assert assign("uniform", owning(a=(0, 1), b=(2, 3)), {ORDERS: 6}) == {
        "a": {ORDERS: [0, 1, 4]},
        "b": {ORDERS: [2, 3, 5]},
    }


def test_uniform_takes_topics_away_that_nobody_is_subscribed_to_any_more() -> None:
    members = {"a": MemberSpec((PAYMENTS,), {ORDERS: (0, 1)})}
    assert assign("uniform", members, {ORDERS: 2, PAYMENTS: 1}) == {"a": {PAYMENTS: [0]}}
    members["b"] = MemberSpec((ORDERS,))
    assert assign("uniform", members, {ORDERS: 2, PAYMENTS: 1}, same=False) == {
        "a": {PAYMENTS: [0]},
        "b": {ORDERS: [0, 1]},
    }


def test_uniform_balances_members_of_different_subscriptions_as_far_as_these_allow() -> None:
    members = {
        "a": MemberSpec((ORDERS, PAYMENTS), {ORDERS: (0, 1), PAYMENTS: (0, 1)}),
        "b": MemberSpec((PAYMENTS,)),
        "c": MemberSpec((ORDERS,)),
    }
    assigned = assign("uniform", members, {ORDERS: 3, PAYMENTS: 3}, same=False)
    assert sorted(sum(len(partitions) for partitions in one.values()) for one in assigned.values()) == [2, 2, 2]
    assert set(assigned["b"]) == {PAYMENTS}
    assert set(assigned["c"]) == {ORDERS}


def test_java_orders_a_table_by_bucket_and_within_one_by_arrival() -> None:
    assert partition_order([17, 1, 33, 0]) == (0, 17, 1, 33)
    assert partition_order(range(12)) == tuple(range(12))
    order = HashOrder(uuid_hash, capacity=0)
    for topic in (ORDERS, PAYMENTS, ORDERS):
        order.add_if_absent(topic)
    assert len(order) == 2
    assert (table_size(0), table_size(1), table_size(16), table_size(17)) == (1, 1, 16, 32)
