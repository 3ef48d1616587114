"""Assignors: who gets what, what stays where it was, what must wait for its owner, and the bytes they travel as."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.config import ConsumerConfig, read_settings
from ottla.client.group.assignors import (
    Assignment,
    Assignor,
    CooperativeStickyAssignor,
    PartitionAssignor,
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    StickyAssignor,
    Subscription,
    TopicRacks,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    encode_subscription,
)
from ottla.client.group.assignors.sticky import decode_owned, encode_owned
from ottla.client.network import Cluster, Node, PartitionInfo, TopicInfo
from ottla.errors import InvalidConfig
from ottla.types import ZERO_UUID, TopicPartition
from ottla.wire import DecodeError
from tests.unit.client.group.assignor_scripts import MAKERS, Group


def cluster_of(topics: Mapping[str, int | Sequence[Sequence[int]]], racks: Sequence[str | None] = (None,)) -> Cluster:
    """Topics with this many partitions, or with these replicas of each; node `n` is in rack `racks[n]`."""
    nodes = {node: Node(node, "h", 9092, rack) for node, rack in enumerate(racks)}
    made = {}
    for topic, partitions in topics.items():
        replicas = [[0]] * partitions if isinstance(partitions, int) else partitions
        made[topic] = TopicInfo(
            topic,
            ZERO_UUID,
            {index: PartitionInfo(topic, index, one[0], replicas=tuple(one)) for index, one in enumerate(replicas)},
        )
    return Cluster(nodes=nodes, topics=made)


def assigned(assignor: Assignor, cluster: Cluster, subscriptions: Mapping[str, Subscription]) -> dict[str, list[str]]:
    found = assignor.assign(cluster, subscriptions)
    return {member: sorted(map(str, one.partitions)) for member, one in found.items()}


def parts(*texts: str) -> list[TopicPartition]:
    return [TopicPartition(text.rpartition("-")[0], int(text.rpartition("-")[2])) for text in texts]


def test_range_gives_the_same_indexes_of_topics_that_are_cut_alike() -> None:
    both = Subscription(["t", "u"])
    found = assigned(RangeAssignor(), cluster_of({"t": 3, "u": 3}), {"a": both, "b": both})
    assert found == {"a": ["t-0", "t-1", "u-0", "u-1"], "b": ["t-2", "u-2"]}


def test_range_prefers_members_in_the_rack_of_a_replica() -> None:
    cluster = cluster_of({"t": [[0], [1], [0], [1]]}, racks=["x", "y"])
    found = assigned(
        RangeAssignor(), cluster, {"a": Subscription(["t"], rack_id="y"), "b": Subscription(["t"], rack_id="x")}
    )
    assert found == {"a": ["t-1", "t-3"], "b": ["t-0", "t-2"]}


def test_round_robin_deals_all_partitions_out_past_members_that_did_not_subscribe() -> None:
    subscriptions = {"a": Subscription(["t"]), "b": Subscription(["t", "u"]), "c": Subscription(["t", "u"])}
    found = assigned(RoundRobinAssignor(), cluster_of({"t": 2, "u": 3}), subscriptions)
    assert found == {"a": ["t-0"], "b": ["t-1", "u-1"], "c": ["u-0", "u-2"]}


@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_static_members_come_before_others_and_keep_their_place_under_a_new_id(name: str) -> None:
    one = {"z": Subscription(["t"], group_instance_id="i1"), "a": Subscription(["t"])}
    again = {"a": Subscription(["t"]), "b": Subscription(["t"], group_instance_id="i1")}
    cluster = cluster_of({"t": 2})
    assert assigned(MAKERS[name](), cluster, one)["z"] == ["t-0"]
    assert assigned(MAKERS[name](), cluster, again)["b"] == ["t-0"]


@pytest.mark.parametrize("name", MAKERS)
def test_a_topic_that_nobody_knows_is_left_out(name: str) -> None:
    found = assigned(MAKERS[name](), cluster_of({"t": 1}), {"a": Subscription(["t", "gone"])})
    assert found == {"a": ["t-0"]}


def test_what_a_sticky_member_owns_stays_when_another_joins() -> None:
    assignor = StickyAssignor()
    assignor.on_assignment(Assignment(parts("t-0", "t-1", "t-2", "t-3")), 1)
    old = Subscription(["t"], user_data=assignor.subscription_user_data(["t"]), generation_id=1)
    found = assigned(StickyAssignor(), cluster_of({"t": 4}), {"old": old, "new": Subscription(["t"])})
    assert found == {"new": ["t-2", "t-3"], "old": ["t-0", "t-1"]}


def test_a_cooperative_member_gets_what_another_owns_only_after_that_gave_it_up() -> None:
    cluster = cluster_of({"t": 4})
    owned = parts("t-0", "t-1", "t-2", "t-3")
    old = Subscription(["t"], owned_partitions=owned, generation_id=1)
    first = assigned(CooperativeStickyAssignor(), cluster, {"old": old, "new": Subscription(["t"])})
    assert first == {"new": [], "old": ["t-0", "t-1"]}
    then = {
        "old": Subscription(["t"], owned_partitions=parts("t-0", "t-1"), generation_id=2),
        "new": Subscription(["t"], generation_id=2),
    }
    assert assigned(CooperativeStickyAssignor(), cluster, then) == {"new": ["t-2", "t-3"], "old": ["t-0", "t-1"]}


def test_of_two_that_claim_a_partition_the_later_generation_has_it() -> None:
    cluster = cluster_of({"t": 2})
    stale = Subscription(["t"], owned_partitions=parts("t-0", "t-1"), generation_id=3)
    fresh = Subscription(["t"], owned_partitions=parts("t-0"), generation_id=4)
    found = assigned(CooperativeStickyAssignor(), cluster, {"a": stale, "b": fresh})
    assert found == {"a": ["t-1"], "b": ["t-0"]}


def test_what_two_of_one_generation_claim_waits_for_both() -> None:
    one = Subscription(["t"], owned_partitions=parts("t-0"), generation_id=4)
    found = assigned(CooperativeStickyAssignor(), cluster_of({"t": 1}), {"a": one, "b": one})
    assert found == {"a": [], "b": []}


def test_a_partition_does_not_go_back_to_a_member_that_no_longer_subscribes_to_it() -> None:
    """Kafka gives `m` partitions of `n` here, which it had in an older generation and did not ask for again."""
    b, n = [list(range(3))] * 7, [list(range(3))] * 7
    members = {
        "n": Subscription(["b", "n"], None, parts("b-2", "b-4", "b-5"), 3, "r2"),
        "i": Subscription(["b", "n"], None, parts("n-0", "n-2", "n-4", "n-6"), 3, "r3"),
        "m": Subscription(["b"], None, parts("b-6", "n-1", "n-3", "n-5"), 2, "r2"),
        "k": Subscription(["b"], None, parts("b-0", "b-1", "b-3"), 3, "r2"),
    }
    found = CooperativeStickyAssignor().assign(cluster_of({"n": n, "b": b}, racks=["r0", "r1", "r2"]), members)
    assert {partition.topic for partition in found["m"].partitions} <= {"b"}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("seed", range(150, 170))
def test_every_partition_goes_to_one_member_that_wants_it(name: str, seed: int) -> None:
    group = Group(seed)
    for _ in range(5):
        found = group.assign(name)
        if name != "cooperative-sticky":
            wanted = {topic for one in group.members.values() for topic in one.topics}
            expected = [TopicPartition(topic, at) for topic in wanted for at in range(len(group.topics[topic]))]
            assert sorted(one for partitions in found.values() for one in partitions) == sorted(expected)
        for member, partitions in found.items():
            assert {one.topic for one in partitions} <= set(group.members[member].topics)
        group.adopt(found)
        group.change()


@pytest.mark.parametrize("seed", range(400, 430))
def test_cooperative_members_never_share_a_partition_and_soon_have_all(seed: int) -> None:
    """Members that hear every round, and join again while something is held back: five rounds are always enough."""
    group = Group(seed)
    for _ in range(4):
        wanted = {topic for one in group.members.values() for topic in one.topics}
        count = sum(len(group.topics[topic]) for topic in wanted)
        for _ in range(5):
            found = group.assign("cooperative-sticky")
            for member, partitions in found.items():
                for other in group.members.keys() - {member}:
                    still_owned = set(group.members[other].owned_partitions)
                    assert still_owned.isdisjoint(set(partitions) - set(group.members[member].owned_partitions))
            group.adopt(found, missing=0)
            if sum(map(len, found.values())) == count:
                break
        else:
            pytest.fail("partitions are still held back")
        group.change()


def test_a_sticky_group_of_equals_is_even_and_moves_as_little_as_it_can() -> None:
    cluster = cluster_of({"t": 100, "u": 57})
    members: dict[str, Subscription] = {f"m{index:02}": Subscription(["t", "u"]) for index in range(12)}
    before = StickyAssignor().assign(cluster, members)
    del members["m03"]
    members = {
        member: Subscription(["t", "u"], user_data=encode_owned(before[member].partitions, 1)) for member in members
    }
    after = StickyAssignor().assign(cluster, members)
    sizes = sorted(len(one.partitions) for one in after.values())
    assert sizes == [14] * 8 + [15] * 3
    moved = sum(len(set(after[member].partitions) - set(before[member].partitions)) for member in members)
    assert moved == len(before["m03"].partitions), "only what the member that left had"


def test_an_assignor_of_ones_own_needs_a_name_and_a_rule() -> None:
    class FirstTakesAll(PartitionAssignor):
        name = "first"

        def assign_partitions(
            self, topics: TopicRacks, subscriptions: Mapping[str, Subscription]
        ) -> dict[str, list[TopicPartition]]:
            first, *others = subscriptions
            every = [TopicPartition(topic, index) for topic, racks in topics.items() for index in range(len(racks))]
            return {first: every} | {member: [] for member in others}

    found = assigned(FirstTakesAll(), cluster_of({"t": 2}), {"b": Subscription(["t"]), "a": Subscription(["t"])})
    assert found == {"a": ["t-0", "t-1"], "b": []}
    assert FirstTakesAll().protocols == (RebalanceProtocol.EAGER,)
    config = read_settings(
        ConsumerConfig,
        {"bootstrap.servers": "b:1", "group.id": "g", "partition.assignment.strategy": [FirstTakesAll, "sticky"]},
        {},
    )
    assert [one.name for one in config.assignors()] == ["first", "sticky"]
    assert config.group_protocol == "classic"


def test_assignors_come_from_names_classes_and_kafkas_names_and_differ_in_name() -> None:
    def config(*strategy: object) -> ConsumerConfig:
        return read_settings(
            ConsumerConfig, {"bootstrap.servers": "b:1", "partition.assignment.strategy": list(strategy)}, {}
        )

    names = [
        one.name
        for one in config(
            "roundrobin",
            "org.apache.kafka.clients.consumer.StickyAssignor",
            "ottla.client.group.assignors:RangeAssignor",
            CooperativeStickyAssignor(),
        ).assignors()
    ]
    assert names == ["roundrobin", "sticky", "range", "cooperative-sticky"]
    defaults = read_settings(ConsumerConfig, {"bootstrap.servers": "b:1"}, {}).assignors()
    assert [type(one) for one in defaults] == [RangeAssignor, CooperativeStickyAssignor]
    with pytest.raises(InvalidConfig, match="'range' is used by more than one assignor"):
        config("range", RangeAssignor).assignors()


partitions = st.builds(TopicPartition, st.text("ab.-é", min_size=1, max_size=5), st.integers(0, 2**31 - 1))


@given(
    st.lists(st.text("abc", min_size=1), unique=True),
    st.none() | st.binary(max_size=9),
    st.lists(partitions, unique=True),
    st.integers(-1, 2**31 - 1),
    st.none() | st.text("xyz", min_size=1),
)
def test_a_subscription_reads_back(
    topics: list[str], data: bytes | None, owned: list[TopicPartition], generation: int, rack: str | None
) -> None:
    one = Subscription(sorted(topics), data, sorted(owned), generation, rack, "i")
    assert decode_subscription(encode_subscription(one), "i") == one


def test_each_version_of_a_subscription_has_what_it_can_say() -> None:
    one = Subscription(["t"], b"u", parts("t-1"), 7, "r")
    assert [decode_subscription(encode_subscription(one, version)) for version in range(4)] == [
        Subscription(["t"], b"u", []),
        Subscription(["t"], b"u", parts("t-1")),
        Subscription(["t"], b"u", parts("t-1"), 7),
        one,
    ]


def test_what_a_newer_client_wrote_is_read_as_far_as_it_is_known() -> None:
    newer = b"\0\x09" + encode_subscription(Subscription(["t"], rack_id="r"))[2:] + b"more"
    assert decode_subscription(newer) == Subscription(["t"], None, [], -1, "r")


@given(st.lists(partitions, unique=True), st.none() | st.binary(max_size=9))
def test_an_assignment_reads_back(found: list[TopicPartition], data: bytes | None) -> None:
    one = decode_assignment(encode_assignment(Assignment(found, data)))
    assert (sorted(one.partitions), one.user_data) == (sorted(found), data)


def test_no_bytes_are_an_empty_assignment_and_half_of_one_is_refused() -> None:
    assert decode_assignment(b"") == Assignment([])
    whole = encode_assignment(Assignment(parts("t-0", "u-1"), b"data"))
    for size in range(1, len(whole)):
        with pytest.raises(DecodeError):
            decode_assignment(whole[:size])


@given(st.lists(partitions, unique=True), st.integers(-1, 2**31 - 1))
def test_what_a_sticky_member_owned_reads_back_and_damage_says_nothing(
    owned: list[TopicPartition], generation: int
) -> None:
    data = encode_owned(owned, generation)
    partitions, told = decode_owned(data)
    assert (sorted(partitions), told) == (sorted(owned), generation)
    assert decode_owned(data[:-4]) == (partitions, None), "the first version had no generation"
    for size in range(len(data) - 4):
        assert decode_owned(data[:size]) == ([], -1)


def test_a_generation_in_the_user_data_counts_where_the_subscription_has_none() -> None:
    assignor = CooperativeStickyAssignor()
    assignor.on_assignment(Assignment([]), 9)
    data = assignor.subscription_user_data([])
    owned = parts("t-0")
    assert assignor.member_data(Subscription(["t"], data, owned)) == (owned, 9)
    assert assignor.member_data(Subscription(["t"], b"x", owned)) == (owned, -1)
    assert assignor.member_data(Subscription(["t"], None, owned)) == (owned, None)
    assert assignor.member_data(Subscription(["t"], data, owned, 3)) == (owned, 3)


@pytest.mark.parametrize("name", MAKERS)
def test_the_order_of_members_does_not_matter(name: str) -> None:
    group = Group(11)
    cluster = group.cluster()
    forth = MAKERS[name]().assign(cluster, group.members)
    back = MAKERS[name]().assign(cluster, dict(reversed(group.members.items())))
    assert forth == back
    assert all(one < two for one, two in pairwise(forth))
