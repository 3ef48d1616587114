"""`metadata.log.max.snapshot.interval.ms` on whole nodes: a quiet cluster makes snapshots, and starts from them."""

from __future__ import annotations

from tests.unit.node.trio import Trio

INTERVAL_S = 20


def snapshot_offsets(cluster: Trio) -> list[int]:
    """Up to where the newest snapshot of each node goes; -1 for none."""
    found = [cluster.node(node_id).raft.latest_snapshot_id for node_id in (1, 2, 3)]
    return [-1 if one is None else one.offset for one in found]


def test_every_node_makes_a_snapshot_when_its_time_has_come_and_starts_from_it() -> None:
    with Trio({"metadata.log.max.snapshot.interval.ms": str(INTERVAL_S * 1000)}) as cluster:
        cluster.create("t", [[1, 2, 3]])
        cluster.pass_seconds(INTERVAL_S - 5)
        assert snapshot_offsets(cluster) == [-1, -1, -1]
        cluster.pass_seconds(8)
        first = snapshot_offsets(cluster)
        assert min(first) > 0
        cluster.pass_seconds(INTERVAL_S - 12)
        assert snapshot_offsets(cluster) == first, "the next is due an interval later"
        cluster.pass_seconds(14)
        second = snapshot_offsets(cluster)
        assert all(later > earlier for earlier, later in zip(first, second, strict=True))
        cluster.nodes.kill()
        cluster.run(cluster.nodes.start())
        assert all(now >= before for now, before in zip(snapshot_offsets(cluster), second, strict=True))
        for node_id in (1, 2, 3):
            assert "t" in cluster.node(node_id).loader.image.topics.by_name


def test_without_an_interval_no_time_is_too_long() -> None:
    with Trio({"metadata.log.max.snapshot.interval.ms": "0"}) as cluster:
        cluster.create("t", [[1, 2, 3]])
        cluster.pass_seconds(2 * INTERVAL_S)
        assert snapshot_offsets(cluster) == [-1, -1, -1]
