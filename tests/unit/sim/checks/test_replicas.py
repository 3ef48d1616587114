"""`ottla/sim/checks/replicas.py`: on made-up logs, and on logs that a node has written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

import pytest

from ottla.client import AsyncAdmin, AsyncProducer, NewTopic
from ottla.records import build_batch
from ottla.sim import VirtualClock, VirtualDisk, VirtualLoop, VirtualNetwork, client_world
from ottla.sim.checks import (
    ReplicaLog,
    StoredBatch,
    check_equal,
    check_identical,
    check_prefix,
    check_sound,
    read_replicas,
)
from ottla.sim.cluster import SimulatedCluster, layout
from ottla.sim.history import Violation
from ottla.sim.logs import LogCapture


def replica(node: str, texts: Sequence[str], *, mark: int | None = None, start: int = 0) -> ReplicaLog:
    """A log of batches of two records, each with its text and the epoch that stands before a colon."""
    stored = [
        StoredBatch(2 * index, 2 * index + 2, int(text.partition(":")[0]), text.encode())
        for index, text in enumerate(texts)
    ]
    return ReplicaLog(node, "t-0", stored, 2 * len(stored) if mark is None else mark, start)


GOOD = replica("one", ["1:a", "1:b", "2:c"])


def test_replicas_may_differ_above_their_watermarks_and_below_their_starts() -> None:
    behind = replica("two", ["1:a", "1:b"])
    diverged = replica("three", ["1:a", "1:x", "1:y", "1:z"], mark=2)
    cut = replica("four", ["0:q", "1:b", "2:c"], start=2)
    check_equal([GOOD, behind, diverged, cut])
    check_prefix([GOOD, behind, cut])
    check_identical([GOOD, cut, replica("five", ["1:a", "1:b", "2:c"], mark=0)])


def test_a_replica_whose_records_went_with_the_power_has_nothing_to_compare() -> None:
    """Seed 471 of five nodes: records up to the middle of a batch had been deleted, and the rest was not synced."""
    emptied = replica("two", [], mark=6, start=3)
    emptied.forget_lost()
    assert check_equal([GOOD, emptied]) == check_equal([emptied, GOOD]) == 0


@pytest.mark.parametrize("check", [check_equal, check_identical, check_prefix])
def test_a_difference_below_the_watermark_is_found(check: Callable[[Sequence[ReplicaLog]], None]) -> None:
    with pytest.raises(Violation, match="t-0 of one and t-0 of two differ at 2, below 6"):
        check([GOOD, replica("two", ["1:a", "1:x", "2:c"])])
    with pytest.raises(Violation, match="differ at 0"):
        check([replica("two", ["2:a", "1:b", "2:c"]), GOOD])


@pytest.mark.parametrize("check", [check_equal, check_identical, check_prefix])
def test_a_hole_is_found_in_either_replica(check: Callable[[Sequence[ReplicaLog]], None]) -> None:
    holed = replace(GOOD, node="two", batches=[GOOD.batches[0], GOOD.batches[2]])
    for pair in ([GOOD, holed], [holed, GOOD]):
        with pytest.raises(Violation, match="has a batch at 2, below 6, and t-0 of two has none"):
            check(pair)


def test_a_replica_that_is_shorter_than_its_watermark_is_found() -> None:
    with pytest.raises(Violation, match="t-0 of one has a batch at 4"):
        check_equal([GOOD, replica("two", ["1:a", "1:b"], mark=6)])


def test_a_node_that_lost_power_is_held_to_what_its_disk_has_left() -> None:
    """Seed 17 of five nodes: the checkpoint was synced and the log was not."""
    for left in ([], GOOD.batches[:1], [GOOD.batches[0], GOOD.batches[2]]):
        lost = replace(GOOD, node="two", batches=left)
        lost.forget_lost()
        assert lost.high_watermark == (2 if left else 0)
        check_equal([GOOD, lost])
    differs = replica("two", ["1:x", "1:b"], mark=6)
    differs.forget_lost()
    with pytest.raises(Violation, match="differ at 0"):
        check_equal([GOOD, differs])


def test_replicas_at_rest_that_end_at_different_offsets_are_found() -> None:
    with pytest.raises(Violation, match="t-0 of one ends at 6, and t-0 of two at 4"):
        check_identical([GOOD, replica("two", ["1:a", "1:b"])])


def test_a_log_with_a_gap_or_an_epoch_that_goes_back_is_found() -> None:
    check_sound(GOOD)
    with pytest.raises(Violation, match="has offset 4 where 2 is next"):
        check_sound(replace(GOOD, batches=[GOOD.batches[0], GOOD.batches[2]]))
    with pytest.raises(Violation, match="has epoch 1 at offset 4, after 2"):
        check_sound(replica("one", ["1:a", "2:b", "1:c"]))


def test_what_a_power_loss_tore_is_left_out() -> None:
    disk = VirtualDisk(Random(1), VirtualClock())
    disk.make_dirs("/data/a/t-0")
    whole = build_batch([(0, 1_000, None, b"value", ())])
    for tail in (b"", whole[:30], bytes(200), whole[:-1] + b"!"):
        file = disk.open("/data/a/t-0/00000000000000000000.log", create=True)
        file.truncate(0)
        file.write_at(0, whole + tail)
        (found,) = read_replicas("one", disk, ["/data/a"])
        assert [batch.data for batch in found.batches] == [whole]
        assert (found.partition, found.high_watermark, found.log_start_offset, found.end_offset) == ("t-0", 0, 0, 1)


def test_a_nodes_logs_are_read_from_its_disk_with_their_ids_and_watermarks() -> None:
    loop = VirtualLoop()
    network = VirtualNetwork(loop, Random(1))
    errors: list[str] = []
    logs = LogCapture(lambda line: None, errors.append)
    settings = layout(1, settings={"log.dirs": "/data/a,/data/b"})
    cluster = SimulatedCluster(network, settings, logs, lambda line: None, "1")
    world = client_world(network, "client", "1")

    async def work() -> None:
        async with AsyncAdmin(bootstrap_servers="node:9092", world=world.as_client) as admin:
            (await admin.create_topics([NewTopic("records", 2, 1)])).all()
        async with AsyncProducer(bootstrap_servers="node:9092", world=world.as_client) as producer:
            for number in range(10):
                await (await producer.send("records", b"%d" % number, partition=number % 2))

    async def main() -> None:
        await cluster.start()
        await world.tasks.spawn(work(), "work")
        await cluster.stop()

    with logs:
        loop.run_until_complete(main())
    loop.close()
    found = read_replicas("node", cluster["node"].disk, ["/data/a", "/data/b"])
    ours = [one for one in found if one.partition.startswith("records-")]
    assert sorted(one.partition.split()[0] for one in ours) == ["records-0", "records-1"]
    assert len({one.partition.split()[1] for one in ours}) == 1, "the topic's id"
    for one in ours:
        check_sound(one)
        assert (one.log_start_offset, one.high_watermark, one.end_offset) == (0, 5, 5)
    check_equal([ours[0], replace(ours[0], node="twin")])
    assert any(one.partition.startswith("__cluster_metadata-0") for one in found)
    assert not errors
