"""Brokers with very many partitions: what concerns them is as large as they are, is cut into batches, and survives a
controller that is replaced in the middle. What does not concern them costs nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ottla.errors import NotController
from ottla.metadata import NO_LEADER, PartitionImage
from ottla.metadata.control.elections import Elections
from ottla.wire.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.wire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
from tests.unit.metadata.harness import CLUSTER_ID, Cluster

BATCH = 100
PARTITIONS = 450
SESSION_MS = 10_000


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    """Three brokers, and a topic on the first two of them that is more than a batch of the log."""
    monkeypatch.setattr("ottla.metadata.controller.RECORDS_PER_BATCH_MAX", BATCH)
    made = Cluster()
    for broker_id in (1, 2, 3):
        made.add_broker(broker_id)
    create(made, "wide", [[1, 2]] * PARTITIONS)
    yield made
    made.close()


def create(cluster: Cluster, name: str, replicas: list[list[int]]) -> None:
    topic = CreatableTopic(name, -1, -1)
    topic.assignments = [CreatableReplicaAssignment(index, ids) for index, ids in enumerate(replicas)]
    answer = cluster.ask(CreateTopicsRequest(topics=[topic]), CreateTopicsResponse).topics[0]
    assert answer.error_code == 0, answer


def partitions(cluster: Cluster, name: str = "wide") -> list[PartitionImage]:
    return list(cluster.loader.image.topics.by_name[name].partitions.values())


def beat(cluster: Cluster, broker_id: int, **wants: Any) -> BrokerHeartbeatRequest:
    return BrokerHeartbeatRequest(
        broker_id=broker_id,
        broker_epoch=cluster.epochs[broker_id],
        current_metadata_offset=cluster.loader.image.offset,
        **wants,
    )


def is_fenced(cluster: Cluster, broker_id: int) -> bool:
    return cluster.loader.image.brokers[broker_id].is_fenced


def sizes(cluster: Cluster, start: int) -> list[int]:
    return [len(batch.records) for batch in cluster.quorum.batches[start:]]


def test_a_broker_with_very_many_partitions_is_fenced_in_several_batches(cluster: Cluster) -> None:
    start = len(cluster.quorum.batches)
    assert cluster.heartbeat(1, want_fence=True).is_fenced
    assert sizes(cluster, start) == [BATCH] * 4 + [PARTITIONS - 4 * BATCH + 1], "the fence comes last"
    assert {one.leader for one in partitions(cluster)} == {2}
    assert not cluster.heartbeat(1).is_fenced


@pytest.mark.parametrize("replicas", [[1, 2], [1], [2, 1]])
def test_an_expired_broker_with_very_many_partitions_is_fenced_in_several_decisions(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch, replicas: list[int]
) -> None:
    """100,000 partitions had held the loop for seconds. Leaders go first, and what others ask has its turn between."""
    monkeypatch.setattr("ottla.metadata.control.elections.PARTITIONS_PER_ROUND_MAX", BATCH)
    create(cluster, "more", [replicas] * PARTITIONS)
    seen: list[int] = []
    update = Elections._update

    def watched(self: Elections, chosen: Any, **who: int) -> Any:
        chosen = list(chosen)
        seen.append(len(chosen))
        return update(self, chosen, **who)

    monkeypatch.setattr(Elections, "_update", watched)
    start = len(cluster.quorum.batches)
    for _ in range(8):
        cluster.pass_ms(SESSION_MS / 5)
        cluster.heartbeat(2)
        cluster.heartbeat(3)
    assert is_fenced(cluster, 1)
    both = partitions(cluster) + partitions(cluster, "more")
    assert 1 not in {one.leader for one in both}
    assert [one.leader for one in partitions(cluster)] == [2] * PARTITIONS
    assert {one.isr for one in partitions(cluster)} == {(2,)}
    leaving = [size for size in sizes(cluster, start) if size > 1]
    assert sum(leaving) >= 2 * PARTITIONS
    assert max(leaving) <= BATCH + 1
    if replicas != [1]:  # those that nobody else has cannot leave their ISR, and are looked at once more at the end
        assert max(seen) <= BATCH


def test_what_a_client_asks_for_stays_one_batch_however_large(cluster: Cluster) -> None:
    start = len(cluster.quorum.batches)
    create(cluster, "other", [[1]] * PARTITIONS)
    assert sizes(cluster, start) == [PARTITIONS + 1]
    request = DeleteTopicsRequest(topic_names=["wide", "other"], timeout_ms=1000)
    answer = cluster.ask(request, DeleteTopicsResponse, version=5)
    assert [one.error_code for one in answer.responses] == [0, 0]
    assert not cluster.loader.image.topics.by_name


def test_a_broker_with_very_many_partitions_is_unregistered_and_returns(cluster: Cluster) -> None:
    assert cluster.ask(UnregisterBrokerRequest(broker_id=2), UnregisterBrokerResponse).error_code == 0
    assert {one.isr for one in partitions(cluster)} == {(1,)}
    cluster.register(2)
    assert not cluster.heartbeat(2).is_fenced


def test_a_fencing_that_was_cut_off_is_done_again_by_the_next_controller(cluster: Cluster) -> None:
    cluster.quorum.holds_commits = True
    fenced = cluster.begin(beat(cluster, 1, want_fence=True))
    cluster.quorum.commit(2)
    cluster.fail_over()
    with pytest.raises(NotController):
        cluster.world.loop.run_until_complete(fenced)
    leaders = [one.leader for one in partitions(cluster)]
    assert leaders == [2] * 2 * BATCH + [1] * (PARTITIONS - 2 * BATCH)
    assert not is_fenced(cluster, 1), "the fence came last, and is lost"
    for _ in range(8):
        cluster.pass_ms(SESSION_MS / 5)
        cluster.heartbeat(2)
        cluster.heartbeat(3)
    assert is_fenced(cluster, 1)
    assert {one.leader for one in partitions(cluster)} == {2}


def test_an_unfencing_that_was_cut_off_leaves_no_partition_without_a_leader(cluster: Cluster) -> None:
    """The next controller finds the broker unfenced, and would have no other reason to look at what it could lead."""
    for broker_id in (1, 2):
        cluster.heartbeat(broker_id, want_fence=True)
    assert {one.leader for one in partitions(cluster)} == {NO_LEADER}
    cluster.quorum.holds_commits = True
    cluster.begin(beat(cluster, 2))
    cluster.quorum.commit(2)
    assert {one.leader for one in partitions(cluster)} == {2, NO_LEADER}
    cluster.fail_over()
    assert {one.leader for one in partitions(cluster)} == {2}


def test_a_controlled_shutdown_that_was_cut_off_goes_on_with_the_next_controller(cluster: Cluster) -> None:
    cluster.quorum.holds_commits = True
    cluster.begin(beat(cluster, 1, want_shut_down=True))
    cluster.quorum.commit(2)
    cluster.fail_over()
    assert cluster.loader.image.brokers[1].is_shutting_down
    assert {one.leader for one in partitions(cluster)} == {1, 2}
    assert not cluster.heartbeat(1, want_shut_down=True).should_shut_down
    assert {one.leader for one in partitions(cluster)} == {2}
    assert not cluster.heartbeat(1, want_shut_down=True).should_shut_down, "the others have not heard yet"
    cluster.heartbeat(2)
    cluster.heartbeat(3)
    assert cluster.heartbeat(1, want_shut_down=True).should_shut_down


def test_the_registration_of_a_broker_that_was_killed_comes_after_all_that_follows_from_its_end(
    cluster: Cluster,
) -> None:
    """A cut in between leaves the old registration, and the broker registers again. It is the controller's own, whose
    earlier life is over for certain: nobody waits for its session to end."""
    cluster.fail_over()
    cluster.quorum.holds_commits = True
    epoch = cluster.loader.image.brokers[1].epoch
    start = len(cluster.quorum.batches)
    registration = BrokerRegistrationRequest(
        broker_id=1,
        cluster_id=CLUSTER_ID,
        incarnation_id=cluster.directories[1],
        listeners=[Listener("PLAINTEXT", "localhost", 9093, 0)],
        features=[Feature(name, *levels) for name, levels in cluster.loader.image.brokers[1].features.items()],
        log_dirs=[cluster.directories[1]],
    )
    cluster.begin(registration)
    assert sizes(cluster, start) == [BATCH] * 4 + [PARTITIONS - 4 * BATCH + 1]
    cluster.quorum.commit(2)
    cluster.fail_over()
    assert cluster.loader.image.brokers[1].epoch == epoch
    assert {one.leader for one in partitions(cluster)} == {1, 2}
    cluster.register(1)
    assert cluster.loader.image.brokers[1].epoch > epoch
    assert {one.leader for one in partitions(cluster)} == {2}


# What it costs


class Counter:
    """Counts the calls of a method."""

    def __init__(self, patch: pytest.MonkeyPatch, owner: Any, name: str) -> None:
        self.count = 0
        original = getattr(owner, name)

        def counted(*args: Any, **named: Any) -> Any:
            self.count += 1
            return original(*args, **named)

        patch.setattr(owner, name, counted)

    def since(self) -> int:
        count, self.count = self.count, 0
        return count


def test_an_event_about_a_broker_costs_its_own_partitions(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    create(cluster, "narrow", [[3, 2]] * 7)
    looked_at = Counter(monkeypatch, Elections, "changer")
    changed = Counter(monkeypatch, PartitionImage, "changed_by")
    cluster.heartbeat(3, want_fence=True)
    assert looked_at.since() == 7
    assert changed.since() == 2 * 7, "once by the controller, once by the image"
    cluster.heartbeat(3)
    assert (looked_at.since(), changed.since()) == (0, 0), "nothing was without a leader"
    records = len(cluster.quorum.records)
    for _ in range(10):
        for broker_id in (1, 2, 3):
            cluster.heartbeat(broker_id)
    assert (looked_at.since(), changed.since(), len(cluster.quorum.records) - records) == (0, 0, 0)
