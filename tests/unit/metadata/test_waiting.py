"""What waits at the controller: for a majority that does not come, for a deadline, for the end of a session."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.errors import DuplicateBrokerRegistration, NotController, RequestTimedOut
from ottla.raft import VoterSet
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse
from ottla.world import Address
from tests.unit.metadata.harness import Cluster

SESSION_MS = 9_000


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    for broker_id in (1, 2, 3):
        made.add_broker(broker_id)
    yield made
    made.quorum.holds_commits = False
    made.close()


def topic(name: str, timeout_ms: int = 5000) -> CreateTopicsRequest:
    return CreateTopicsRequest(topics=[CreatableTopic(name, 1, 1)], timeout_ms=timeout_ms)


def beat(cluster: Cluster, broker_id: int) -> BrokerHeartbeatRequest:
    epoch, offset = cluster.epochs[broker_id], cluster.loader.image.offset
    return BrokerHeartbeatRequest(broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=offset)


def wait_ms(cluster: Cluster, milliseconds: float) -> None:
    cluster.world.loop.run_until_complete(cluster.world.tasks.sleep_ms(milliseconds))


# Deadlines


def test_a_request_whose_records_are_not_committed_by_its_deadline_is_told_so(cluster: Cluster) -> None:
    """What it asked for may come true after that, as Kafka's timeouts always were."""
    cluster.quorum.holds_commits = True
    asked = cluster.begin(topic("late", timeout_ms=5000))
    wait_ms(cluster, 4990)
    assert not asked.done()
    wait_ms(cluster, 20)
    assert asked.done()
    with pytest.raises(RequestTimedOut):
        cluster.world.loop.run_until_complete(asked)
    cluster.quorum.holds_commits = False
    cluster.quorum.commit()
    assert "late" in cluster.loader.image.topics.by_name


def test_a_request_without_time_is_not_decided(cluster: Cluster) -> None:
    """Kafka's controller takes such a request from its queue only to find that its time is over."""
    records = len(cluster.quorum.records)
    for request in (topic("now", timeout_ms=0), DeleteTopicsRequest(topic_names=["a"], timeout_ms=0)):
        with pytest.raises(RequestTimedOut):
            cluster.world.loop.run_until_complete(cluster.controller.handle(request, version=5))
    assert len(cluster.quorum.records) == records


def test_a_deadline_of_the_caller_comes_before_that_of_the_request(cluster: Cluster) -> None:
    cluster.quorum.holds_commits = True
    now_ms = cluster.world.clock.monotonic_ms()
    handled = cluster.controller.handle(topic("short", timeout_ms=60_000), version=7, deadline_ms=now_ms + 100)
    with pytest.raises(RequestTimedOut):
        cluster.world.loop.run_until_complete(handled)
    assert cluster.world.clock.monotonic_ms() == now_ms + 100


def test_everything_that_waits_hears_of_a_lost_leadership(cluster: Cluster) -> None:
    cluster.quorum.holds_commits = True
    asked = [cluster.begin(topic(f"t{number}")) for number in range(5)]
    cluster.fail_over()
    for one in asked:
        with pytest.raises(NotController):
            cluster.world.loop.run_until_complete(one)
    assert not cluster.loader.image.topics.by_name


# Without a majority


def test_a_controller_without_a_majority_refuses_what_it_cannot_keep_and_hears_its_brokers(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster.controller._machine, "_parked_max", 20)
    cluster.quorum.holds_commits = True
    asked = [cluster.begin(topic(f"t{number}", timeout_ms=600_000)) for number in range(30)]
    batches = len(cluster.quorum.batches)
    assert [one.done() for one in asked] == [False] * 20 + [True] * 10
    with pytest.raises(NotController):
        cluster.world.loop.run_until_complete(asked[-1])
    for _ in range(10):
        wait_ms(cluster, SESSION_MS / 5)
        for broker_id in (1, 2, 3):
            assert cluster.begin(beat(cluster, broker_id)).done(), "its answer rests on what is committed"
    assert len(cluster.quorum.batches) == batches, "no session has expired, and what goes by the clock is refused"
    cluster.quorum.holds_commits = False
    cluster.quorum.commit()
    wait_ms(cluster, SESSION_MS / 2)
    assert len(cluster.loader.image.topics.by_name) == 20
    assert not any(broker.is_fenced for broker in cluster.loader.image.brokers.values())
    assert len(cluster.quorum.batches) > batches, "what goes by the clock goes on"


def test_a_broker_that_could_not_be_fenced_for_lack_of_room_is_fenced_later(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster.controller._machine, "_parked_max", 2)
    cluster.quorum.holds_commits = True
    for number in range(3):
        cluster.begin(topic(f"t{number}", timeout_ms=600_000))
    wait_ms(cluster, SESSION_MS * 2)
    cluster.quorum.holds_commits = False
    cluster.quorum.commit()
    wait_ms(cluster, SESSION_MS)
    assert all(broker.is_fenced for broker in cluster.loader.image.brokers.values())


# Heartbeats


def test_a_heartbeat_does_not_wait_behind_what_others_have_asked(cluster: Cluster) -> None:
    cluster.quorum.holds_commits = True
    cluster.begin(topic("slow"))
    answered = cluster.begin(beat(cluster, 2))
    assert answered.done()
    response = cluster.world.loop.run_until_complete(answered)
    assert isinstance(response, BrokerHeartbeatResponse)
    assert not response.is_fenced


def test_a_heartbeat_waits_for_the_record_that_lets_its_broker_serve(cluster: Cluster) -> None:
    cluster.heartbeat(2, want_fence=True)
    cluster.quorum.holds_commits = True
    first, second = cluster.begin(beat(cluster, 2)), cluster.begin(beat(cluster, 2))
    assert not first.done()
    assert not second.done(), "it wrote nothing, and rests on what the first wrote"
    cluster.quorum.commit()
    for one in (first, second):
        response = cluster.world.loop.run_until_complete(one)
        assert isinstance(response, BrokerHeartbeatResponse)
        assert not response.is_fenced


def test_what_a_refused_decision_would_have_done_to_a_session_is_not_remembered(cluster: Cluster) -> None:
    """The append fails: the broker is still fenced, and its next heartbeat finds it so and unfences it."""
    cluster.heartbeat(2, want_fence=True)

    def refuse(records: object) -> int:
        raise NotController("Append failed because the replica is not the current leader")

    append, cluster.controller._machine._append = cluster.controller._machine._append, refuse
    with pytest.raises(NotController):
        cluster.heartbeat(2)
    cluster.controller._machine._append = append
    assert not cluster.heartbeat(2).is_fenced
    assert not cluster.loader.image.brokers[2].is_fenced


# Sessions


def test_a_new_controller_gives_every_broker_a_whole_session(cluster: Cluster) -> None:
    wait_ms(cluster, SESSION_MS * 0.9)
    cluster.fail_over()
    wait_ms(cluster, SESSION_MS * 0.9)
    assert not any(broker.is_fenced for broker in cluster.loader.image.brokers.values())
    wait_ms(cluster, SESSION_MS * 0.3)
    assert all(broker.is_fenced for broker in cluster.loader.image.brokers.values()), "its own as well"


def test_a_killed_broker_may_return_when_its_session_is_over_and_the_controllers_own_at_once(cluster: Cluster) -> None:
    cluster.fail_over()
    assert cluster.register(1).error_code == 0
    with pytest.raises(DuplicateBrokerRegistration):
        cluster.register(2)
    wait_ms(cluster, SESSION_MS + 1)
    assert cluster.register(2).error_code == 0


def test_the_own_broker_is_not_taken_for_gone_when_it_has_been_heard_of(cluster: Cluster) -> None:
    cluster.fail_over()
    cluster.heartbeat(1)
    with pytest.raises(DuplicateBrokerRegistration):
        cluster.register(1)


# The quorum


def test_the_voters_of_now_are_asked_and_not_those_of_the_start(cluster: Cluster) -> None:
    request = UpdateFeaturesRequest(feature_updates=[FeatureUpdateKey("group.version", 0, False, 2)])
    cluster.quorum.voters = VoterSet.static("CONTROLLER", {1: Address("a", 1), 2: Address("b", 1)})
    answer = cluster.ask(request, UpdateFeaturesResponse)
    assert answer.error_message is not None
    assert "controller 2 has not registered" in answer.error_message
    cluster.quorum.voters = VoterSet.static("CONTROLLER", {1: Address("a", 1)})
    assert cluster.ask(request, UpdateFeaturesResponse).error_code == 0
