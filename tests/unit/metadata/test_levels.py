"""Feature levels, directory ids and topic names, against what Kafka 4.3.1 advertises and formats."""

from __future__ import annotations

from random import Random

import pytest

from ottla.errors import InvalidTopicException
from ottla.metadata import (
    LOST,
    MIGRATING,
    SUPPORTED_FEATURES,
    UNASSIGNED,
    MetadataVersion,
    bootstrap_records,
    check_topic_name,
    default_levels,
    random_uuid,
)
from ottla.metadata.directories import is_online, is_reserved
from ottla.metadata.levels import metadata_changed, missing_dependency
from ottla.sim import virtual_world
from ottla.types import Uuid
from ottla.wire.json_form import to_json


def test_the_levels_of_a_new_cluster_are_those_that_kafka_formats() -> None:
    forms = [to_json(record, version) for record, version in bootstrap_records()]
    assert [(form["name"], form["featureLevel"]) for form in forms] == [
        ("metadata.version", 30),
        ("eligible.leader.replicas.version", 1),
        ("group.version", 1),
        ("share.version", 1),
        ("streams.version", 1),
        ("transaction.version", 2),
    ]
    assert default_levels(22) == {"metadata.version": 22, "group.version": 1}
    assert default_levels(7) == {"metadata.version": 7}
    assert all(SUPPORTED_FEATURES[form["name"]].includes(form["featureLevel"]) for form in forms)


def test_a_level_allows_what_kafka_allows_at_it() -> None:
    versions = {level: MetadataVersion(level).register_broker_record_version for level in (7, 8, 16, 17, 29, 30)}
    assert versions == {7: 1, 8: 2, 16: 2, 17: 3, 29: 3, 30: 4}
    partitions = {level: MetadataVersion(level).partition_record_version for level in (16, 17, 22, 23, 30)}
    assert partitions == {16: 0, 17: 1, 22: 1, 23: 2, 30: 2}
    assert [MetadataVersion(level).name for level in (7, 20, 30)] == ["3.3-IV3", "3.8-IV0", "4.3-IV0"]


def test_a_downgrade_loses_metadata_only_across_a_level_that_changed_it() -> None:
    assert metadata_changed(30, 29)
    assert metadata_changed(29, 30)
    assert not metadata_changed(29, 23)
    assert metadata_changed(29, 22)
    assert not metadata_changed(30, 30)


def test_eligible_leader_replicas_need_records_that_carry_them() -> None:
    reason = missing_dependency("eligible.leader.replicas.version", 1, {"metadata.version": 22})
    assert reason is not None
    assert "depends on metadata.version level 23" in reason
    assert missing_dependency("eligible.leader.replicas.version", 1, {"metadata.version": 23}) is None


def test_directories_are_online_unless_lost_or_failed() -> None:
    known, other = Uuid(b"known directory."), Uuid(b"other directory.")
    assert is_online(known, [known])
    assert not is_online(other, [known])
    assert is_online(other, []), "a broker that has told of none predates directory ids"
    assert is_online(UNASSIGNED, [known])
    assert is_online(MIGRATING, [known])
    assert not is_online(LOST, [])
    assert all(is_reserved(directory) for directory in (MIGRATING, UNASSIGNED, LOST, Uuid(15 * b"\0" + b"c")))
    assert not is_reserved(Uuid(15 * b"\0" + b"d"))


def test_random_ids_never_look_like_an_option_and_are_those_of_the_seed() -> None:
    world = virtual_world(Random(5))
    made = [random_uuid(world) for _ in range(2000)]
    assert len(set(made)) == 2000
    assert not any(str(one).startswith("-") for one in made)
    assert all(one[6] >> 4 == 4 and one[8] >> 6 == 2 for one in made), "version 4, variant 2, as Java makes them"
    assert made == [random_uuid(world) for world in [virtual_world(Random(5))] for _ in range(2000)]


@pytest.mark.parametrize("name", ["a", "A.b_c-9", "a" * 249, "...", "__consumer_offsets"])
def test_a_good_name_is_accepted(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "a b", "ä", "a/b", "a\n", "a\0", "a:b"])
def test_a_bad_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidTopicException, match="Topic name is invalid"):
        check_topic_name(name)
