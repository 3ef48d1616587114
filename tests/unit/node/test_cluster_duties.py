"""What three nodes do by themselves: remove deleted topics, move leaders back, and off a disk that has failed."""

from __future__ import annotations

from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from tests.unit.node.trio import Trio


def leaders(cluster: Trio) -> list[int]:
    topic = cluster.controller.loader.image.topics.by_name["t"]
    return [topic.partitions[index].leader for index in sorted(topic.partitions)]


def other_than_controller(cluster: Trio) -> int:
    return next(node_id for node_id in (1, 2, 3) if node_id != cluster.controller.config.node_id)


def test_a_topic_that_was_deleted_is_gone_from_a_broker_that_was_absent_when_it_returns() -> None:
    with Trio() as cluster:
        cluster.create("t", [[1, 2, 3]])
        absent = other_than_controller(cluster)
        cluster.nodes.kill(f"node{absent}")
        request = DeleteTopicsRequest([DeleteTopicState("t")], timeout_ms=30_000)
        response = cluster.run(cluster.controller.controller.handle(request, version=6))
        assert isinstance(response, DeleteTopicsResponse)
        assert response.responses[0].error_code == 0
        cluster.pass_seconds(1)
        assert not cluster.controller.replicas.logs.logs
        disk = cluster.nodes[f"node{absent}"].disk
        assert disk.exists("/data/a/t-0"), "nobody has told it yet"
        cluster.run(cluster.nodes.start(f"node{absent}"))
        cluster.pass_seconds(1)
        node = cluster.node(absent)
        assert "t" not in node.replicas.by_name
        assert not node.replicas.logs.logs
        assert not disk.exists("/data/a/t-0")


def test_leaders_move_back_to_preferred_replicas_on_schedule_and_not_before() -> None:
    """`auto.leader.rebalance.enable`, every `leader.imbalance.check.interval.seconds`."""
    with Trio({"leader.imbalance.check.interval.seconds": "60"}) as cluster:
        cluster.create("t", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        absent = other_than_controller(cluster)
        cluster.nodes.kill(f"node{absent}")
        cluster.pass_seconds(12)
        assert absent not in leaders(cluster)
        cluster.run(cluster.nodes.start(f"node{absent}"))
        cluster.pass_seconds(5)
        assert absent not in leaders(cluster), "it is in sync, and it is not time yet"
        cluster.pass_seconds(61)
        assert leaders(cluster) == [1, 2, 3]


def test_the_schedule_of_moving_back_goes_by_the_controller_and_not_by_the_imbalance() -> None:
    """As in Kafka 4.3: every interval from when the controller began to lead. In older ones the interval began when an
    imbalance was noticed."""
    with Trio({"leader.imbalance.check.interval.seconds": "60"}) as cluster:
        cluster.create("t", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        absent = other_than_controller(cluster)
        cluster.pass_seconds(35)
        cluster.nodes.kill(f"node{absent}")
        cluster.pass_seconds(12)
        cluster.run(cluster.nodes.start(f"node{absent}"))
        cluster.pass_seconds(5)
        assert absent not in leaders(cluster), "it is in sync, and it is not time yet"
        cluster.pass_seconds(10)
        assert leaders(cluster) == [1, 2, 3]


def test_leaders_stay_where_they_are_without_auto_leader_rebalance() -> None:
    settings = {"leader.imbalance.check.interval.seconds": "10", "auto.leader.rebalance.enable": "false"}
    with Trio(settings) as cluster:
        cluster.create("t", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        absent = other_than_controller(cluster)
        cluster.nodes.kill(f"node{absent}")
        cluster.pass_seconds(12)
        cluster.run(cluster.nodes.start(f"node{absent}"))
        cluster.pass_seconds(30)
        assert absent not in leaders(cluster)


def test_a_failed_log_directory_moves_its_leaders_away_and_no_others() -> None:
    with Trio({"log.dirs": "/data/a,/data/b"}) as cluster:
        cluster.create("t", [[1, 2, 3], [1, 3, 2], [1, 2, 3], [1, 3, 2]])
        cluster.pass_seconds(2)
        replicas = cluster.node(1).replicas
        second = replicas.logs.directories[1]
        lost = [one.partition.partition for one in replicas.logs.logs.values() if one.log_dir is second]
        assert 0 < len(lost) < 4
        second.take_offline("testing", OSError("this disk is made to fail"))
        replicas.check_directories()
        cluster.pass_seconds(2)
        assert [index for index, leader in enumerate(leaders(cluster)) if leader != 1] == sorted(lost)
        assert all(leader in (1, 2, 3) for leader in leaders(cluster))
        assert cluster.node(1).shared.failure is None, "the other directory serves"
