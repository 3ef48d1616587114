"""Leaving a group when nobody answers: in the time that was given, with one line in the log."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.client.group import OffsetAndMetadata, RebalanceKind
from ottla.client.group.classic_membership import ClassicMembership
from ottla.client.group.consumer_membership import ConsumerMembership
from ottla.client.group.heartbeats import MemberState
from ottla.client.group.membership import Membership
from ottla.types import TopicPartition
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse
from ottla.world import ClientWorld
from tests.support.broker_cluster import BrokerCluster
from tests.support.wire import Meddling
from tests.unit.client.group.face import Face

PLACE = TopicPartition("t", 0)


def membership_of(face: Face, protocol: str) -> Membership:
    """A member that has joined and owns a partition, without a coordinator that could have said so."""
    face.group._become(protocol)
    membership = face.group._membership
    assert membership is not None
    membership._own(frozenset({PLACE}))
    if isinstance(membership, ClassicMembership):
        member = membership.member
        member.join_request([("range", b"")])
        member.on_join(JoinGroupResponse(generation_id=3, protocol_name="range", leader="x", member_id="m"))
        member.on_sync(SyncGroupResponse(), member.identity)
    else:
        assert isinstance(membership, ConsumerMembership)
        membership.member.join()
        membership.member.epoch = 5
        membership.member.state = MemberState.STABLE
    return membership


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_consumer_that_closes_while_no_broker_answers_is_closed_in_its_time(protocol: str) -> None:
    """Auto-commit owes a commit, and the group a goodbye: both together take no longer than close may."""
    cluster = BrokerCluster(1, broker_count=1)
    cluster.create_topic("t")

    def silent(broker: Any, request: Any) -> Meddling:
        return Meddling(is_lost=True)

    async def main(world: ClientWorld) -> int:
        cluster.meddle = silent
        settings = {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "g", "group.protocol": protocol}
        face = Face(world, ["t"], {**settings, "enable.auto.commit": True, "request.timeout.ms": 2_000})
        membership_of(face, protocol)
        face.assignment = (PLACE,)
        face.consumed[PLACE] = OffsetAndMetadata(7)
        begun_ms = world.clock.monotonic_ms()
        event = face.group.begin_leave(3_000)
        assert event is not None
        assert event.kind is RebalanceKind.REVOKED
        await face.carry_out(event)
        await face.group.leave(3_000, is_closing=True)
        face.drop()
        return world.clock.monotonic_ms() - begun_ms

    took_ms = cluster.run(main)
    assert 1_000 <= took_ms <= 3_100
