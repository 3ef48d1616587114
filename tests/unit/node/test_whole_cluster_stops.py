"""A whole cluster that is stopped at once, as Ctrl-C on `ottla cluster up` does it."""

from __future__ import annotations

from tests.unit.node.trio import Trio


def test_the_last_node_does_not_wait_for_those_that_are_gone() -> None:
    """The active controller waited five seconds for somebody to take over, and a broker nine for a controller."""
    with Trio() as cluster:
        cluster.create("t", [[1, 2, 3], [2, 3, 1], [3, 1, 2]])
        begun_us = cluster.loop.now_us
        assert sorted(cluster.run(cluster.nodes.stop())) == ["node1", "node2", "node3"]
        assert (cluster.loop.now_us - begun_us) / 1_000_000 < 7, "it was 11.3"
        cluster.run(cluster.nodes.start())
        cluster.pass_seconds(3)
        isrs = [one.isr for one in cluster.node(1).loader.image.topics.by_name["t"].partitions.values()]
        assert [sorted(isr) for isr in isrs] == [[1, 2, 3]] * 3
