"""The faces of an admin: the same calls, blocking and not, and everything that Kafka's own has."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import Any

import pytest

import ottla.client.admin as front
from ottla.client.admin import Admin, AsyncAdmin, AsyncFakeAdmin, FakeAdmin
from ottla.errors import InvalidConfig

# The calls of Kafka 4.3's `Admin`, in its own spelling, and what differs in ours.
KAFKAS = """
abortTransaction addRaftVoter alterClientQuotas alterConsumerGroupOffsets alterPartitionReassignments
alterReplicaLogDirs alterShareGroupOffsets alterStreamsGroupOffsets alterUserScramCredentials clientInstanceId
close createAcls createDelegationToken createPartitions createTopics deleteAcls deleteConsumerGroupOffsets
deleteConsumerGroups deleteRecords deleteShareGroupOffsets deleteShareGroups deleteStreamsGroupOffsets
deleteStreamsGroups deleteTopics describeAcls describeClassicGroups describeClientQuotas describeCluster
describeConfigs describeConsumerGroups describeDelegationToken describeFeatures describeLogDirs
describeMetadataQuorum describeProducers describeReplicaLogDirs describeShareGroups describeStreamsGroups
describeTopics describeTransactions describeUserScramCredentials electLeaders expireDelegationToken
fenceProducers forceTerminateTransaction incrementalAlterConfigs listClientMetricsResources
listConfigResources listConsumerGroupOffsets listConsumerGroups listGroups listOffsets
listPartitionReassignments listShareGroupOffsets listStreamsGroupOffsets listTopics listTransactions metrics
removeMembersFromConsumerGroup removeRaftVoter renewDelegationToken unregisterBroker updateFeatures
"""
RENAMED = {"describe_delegation_token": "describe_delegation_tokens"}


def calls(face: type[object]) -> dict[str, Callable[..., Any]]:
    return {name: call for name, call in inspect.getmembers(face, inspect.isfunction) if not name.startswith("_")}


def snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name)


@pytest.mark.parametrize("name", KAFKAS.split())
def test_every_call_of_kafkas_admin_is_there(name: str) -> None:
    ours = snake_case(name)
    assert RENAMED.get(ours, ours) in calls(AsyncAdmin)


@pytest.mark.parametrize("name", sorted(calls(AsyncAdmin)))
def test_both_faces_have_the_same_call(name: str) -> None:
    """Same arguments, same defaults, same result, same sentence about it, but for how it ends."""
    waiting, blocking = calls(AsyncAdmin)[name], calls(Admin)[name]
    assert inspect.signature(waiting) == inspect.signature(blocking)
    assert waiting.__doc__
    if name != "close":
        assert waiting.__doc__ == blocking.__doc__


def test_neither_face_has_a_call_of_its_own() -> None:
    assert set(calls(AsyncAdmin)) == set(calls(Admin))


@pytest.mark.parametrize("name", sorted(calls(AsyncAdmin)))
def test_every_call_can_be_given_a_time_out(name: str) -> None:
    if name in ("close", "metrics"):
        return
    timeout = inspect.signature(calls(AsyncAdmin)[name]).parameters["timeout"]
    assert timeout.kind is inspect.Parameter.KEYWORD_ONLY
    assert timeout.default is None


def test_the_fakes_are_admins() -> None:
    assert issubclass(FakeAdmin, Admin)
    assert issubclass(AsyncFakeAdmin, AsyncAdmin)


def test_every_public_name_is_where_the_front_door_says() -> None:
    assert sorted(front.__all__) == sorted(front._HOME)
    for name, module in front._HOME.items():
        assert getattr(front, name) is getattr(import_module(f"ottla.client.admin.{module}"), name)
    assert set(front.__all__) <= set(dir(front))
    with pytest.raises(AttributeError, match="NoSuchThing"):
        getattr(front, "NoSuchThing")  # noqa: B009  a name that a type checker would refuse


def test_settings_are_checked_before_anything_is_started() -> None:
    with pytest.raises(InvalidConfig, match="bootstrap"):
        Admin()
    with pytest.raises(InvalidConfig, match=r"did you mean request\.timeout\.ms"):
        Admin(bootstrap_servers="localhost:9092", request_timeut_ms=5)
    with pytest.raises(InvalidConfig, match="cannot set both"):
        Admin(bootstrap_servers="localhost:9092", bootstrap_controllers="localhost:9093")
