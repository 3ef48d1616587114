"""`SimulatedCluster`: several nodes on one network, each with its own clock, disk, processor and troubles.

The nodes here are quorums of one, side by side: what is shown is that what happens to one of them happens to it alone,
and that everything together is still decided by the seed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from random import Random

import pytest

from ottla.client import AsyncAdmin, AsyncConsumer, AsyncProducer, NewTopic, TopicPartition
from ottla.sim import Cpu, VirtualLoop, VirtualNetwork, client_world
from ottla.sim.clock import START_MS
from ottla.sim.cluster import SimulatedCluster, layout
from ottla.sim.logs import LogCapture
from ottla.sim.trace import Trace

NAMES = ("one", "two", "three")


class Course:
    """Three lone nodes and a client of each, which writes all the time and then reads everything again."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.loop = VirtualLoop()
        self.trace = Trace(lambda: self.loop.now_us)
        self.network = VirtualNetwork(self.loop, Random(f"{seed} network"), self.trace)
        self.errors: list[str] = []
        self.logs = LogCapture(self.trace, self.errors.append)
        settings = {name: layout(1, name=name)[name] for name in NAMES}
        self.cluster = SimulatedCluster(self.network, settings, self.logs, self.trace, str(seed))
        self.acknowledged: dict[str, list[tuple[int, bytes]]] = {name: [] for name in NAMES}
        self.gaps_ms: dict[str, int] = dict.fromkeys(NAMES, 0)
        """The longest time between two acknowledgements."""
        self.found: dict[str, list[tuple[int, bytes]]] = {}
        self.is_over = False

    def run(self, trouble: Callable[[Course], Awaitable[None]]) -> Course:
        with self.logs:
            try:
                self.loop.run_until_complete(self._main(trouble))
            finally:
                self.logs.is_muted = True
                for life in self.lives:
                    life.end()
                self.cluster.kill()
                self.loop.close()
        return self

    async def _main(self, trouble: Callable[[Course], Awaitable[None]]) -> None:
        worlds = {name: client_world(self.network, f"client of {name}", str(self.seed)) for name in NAMES}
        self.lives = [world.life for world in worlds.values()]
        assert await self.cluster.start() == list(NAMES)
        work = {name: world.tasks.spawn(self._write(name), name) for name, world in worlds.items()}
        self.worlds = worlds
        await trouble(self)
        self.is_over = True
        for task in work.values():
            await task
        reads = [world.tasks.spawn(self._read(name), f"read {name}") for name, world in worlds.items()]
        for task in reads:
            await task

    async def sleep_ms(self, delay_ms: float) -> None:
        done = self.loop.create_future()
        self.loop.call_later(delay_ms / 1000, done.set_result, None)
        await done

    async def _write(self, name: str) -> None:
        world = self.worlds[name].as_client
        servers = f"{name}:9092"
        async with AsyncAdmin(bootstrap_servers=servers, world=world) as admin:
            (await admin.create_topics([NewTopic("records", 1, 1)])).all()
        async with AsyncProducer(
            bootstrap_servers=servers, world=world, request_timeout_ms=3_000, delivery_timeout_ms=300_000
        ) as producer:
            number = 0
            before_ms = world.clock.monotonic_ms()
            while not self.is_over:
                value = f"{name} {number}".encode()
                told = await (await producer.send("records", value))
                self.acknowledged[name].append((told.offset, value))
                now_ms = world.clock.monotonic_ms()
                self.gaps_ms[name] = max(self.gaps_ms[name], now_ms - before_ms)
                before_ms = now_ms
                number += 1
                await world.tasks.sleep_ms(20)

    async def _read(self, name: str) -> None:
        world = self.worlds[name].as_client
        found: list[tuple[int, bytes]] = []
        async with AsyncConsumer[bytes, bytes](bootstrap_servers=f"{name}:9092", world=world) as consumer:
            partition = TopicPartition("records", 0)
            await consumer.assign([partition])
            consumer.seek_to_beginning([partition])
            while len(found) < len(self.acknowledged[name]):
                found += [(record.offset, record.value) for record in await consumer.poll(1.0)]
        self.found[name] = found

    def check(self) -> None:
        assert not self.errors
        for name in NAMES:
            assert len(self.acknowledged[name]) > 20, f"{name} was not used"
            assert self.found[name] == self.acknowledged[name], name


async def kill_one(course: Course) -> None:
    await course.sleep_ms(2_000)
    course.cluster["two"].kill(is_power_loss=False)
    await course.sleep_ms(3_000)
    assert course.cluster.running == ["one", "three"]
    assert await course.cluster.start("two") == ["two"]
    await course.sleep_ms(5_000)


async def pause_one(course: Course) -> None:
    await course.sleep_ms(2_000)
    course.cluster.pause("two")
    await course.sleep_ms(8_000)
    course.cluster.resume()
    await course.sleep_ms(5_000)


async def cut_one(course: Course) -> None:
    await course.sleep_ms(2_000)
    name = course.network.links.mute("two")
    await course.sleep_ms(8_000)
    course.network.heal(name)
    await course.sleep_ms(15_000)


async def stop_one(course: Course) -> None:
    await course.sleep_ms(2_000)
    assert await course.cluster.stop("two") == ["two"]
    await course.sleep_ms(4_000)
    await course.cluster.start("two")
    await course.sleep_ms(4_000)


@pytest.mark.parametrize("trouble", [kill_one, pause_one, cut_one, stop_one])
@pytest.mark.parametrize("seed", range(2))
def test_trouble_of_one_node_is_silence_to_its_clients_and_nothing_to_the_others(
    seed: int, trouble: Callable[[Course], Awaitable[None]]
) -> None:
    course = Course(seed).run(trouble)
    course.check()
    assert course.gaps_ms["two"] > 1_800
    assert max(course.gaps_ms["one"], course.gaps_ms["three"]) < 1_500


def test_all_nodes_die_together_and_return_in_any_order() -> None:
    for seed in range(3):

        async def kill_all(course: Course) -> None:
            chance = Random(course.seed)
            for _ in range(2):
                await course.sleep_ms(2_000)
                course.cluster.kill(is_power_loss=False)
                assert course.cluster.running == []
                for name in chance.sample(NAMES, len(NAMES)):
                    await course.cluster.start(name)
                    await course.sleep_ms(chance.randrange(1_000))
            await course.sleep_ms(6_000)

        course = Course(seed).run(kill_all)
        course.check()
        assert [node.life_count for node in course.cluster] == [3, 3, 3]


def test_every_node_has_a_clock_of_its_own() -> None:
    async def change(course: Course) -> None:
        course.cluster["one"].clock.jump_ms(-60_000)
        course.cluster["two"].clock.set_drift_ppm(50_000)
        await course.sleep_ms(10_000)

    course = Course(1).run(change)
    course.check()
    true_ms = START_MS + course.loop.now_us // 1000
    one, two, three = (node.clock.now_ms() - true_ms for node in course.cluster)
    assert one == -60_000
    assert 450 < two < 2_000
    assert three == 0


def test_a_node_with_a_slow_processor_and_one_with_a_slow_disk_are_slow_and_right() -> None:
    async def slow(course: Course) -> None:
        await course.sleep_ms(2_000)
        course.cluster["one"].slow_disk({"write": (5_000, 20_000), "sync": (100_000, 400_000)})
        await course.sleep_ms(6_000)
        course.cluster.mend_disks()

    course = Course(1)
    course.cluster["two"].cpu = Cpu(Random(2), usual_us=(1_000, 8_000), stall_us=(50_000, 300_000), stall_chance=0.02)
    course.run(slow)
    course.check()
    counts = {name: len(course.acknowledged[name]) for name in NAMES}
    assert counts["one"] < counts["three"]
    assert counts["two"] < 0.7 * counts["three"], counts


def test_a_disk_that_kills_its_node_kills_no_other() -> None:
    async def crash(course: Course) -> None:
        await course.sleep_ms(2_000)
        course.cluster["three"].disk.crash_at(5, kinds=["write"], moment="during")
        await course.sleep_ms(2_000)
        assert course.cluster.running == ["one", "two"]
        await course.cluster.start()
        await course.sleep_ms(3_000)

    Course(4).run(crash).check()


def test_a_minority_leaves_a_majority_of_voters_and_brokers() -> None:
    loop = VirtualLoop()
    logs = LogCapture(print, print)
    for name, controllers in (("combined", 0), ("separated", 5)):
        settings = layout(5, controller_count=controllers)
        network = VirtualNetwork(loop, Random(1))
        cluster = SimulatedCluster(network, settings, logs, lambda line: None, name)
        assert len(cluster) == 5 + controllers
        sizes = set()
        for seed in range(50):
            gone = cluster.minority(Random(seed))
            sizes.add(len(gone))
            left = [node for node in cluster.nodes if node not in gone]
            assert cluster.is_majority(left)
            assert not cluster.is_majority(gone)
            assert 2 * sum(one in cluster.brokers for one in left) > len(cluster.brokers)
        assert sizes == {1, 2}


def test_settings_of_a_cluster_name_every_voter_and_no_id_twice() -> None:
    combined = layout(3)
    assert list(combined) == ["node1", "node2", "node3"]
    voters = "1@node1:9093,2@node2:9093,3@node3:9093"
    assert {one["controller.quorum.voters"] for one in combined.values()} == {voters}
    assert {one["process.roles"] for one in combined.values()} == {"broker,controller"}
    apart = layout(3, controller_count=3, settings={"log.dirs": "/data/x,/data/y"})
    assert [one["node.id"] for one in apart.values()] == ["1", "2", "3", "101", "102", "103"]
    assert [one["process.roles"] for one in apart.values()] == 3 * ["broker"] + 3 * ["controller"]
    assert "9092" not in apart["controller1"]["listeners"]
    assert apart["node1"]["log.dirs"] == "/data/x,/data/y"


def _digest(seed: int) -> str:
    async def trouble(course: Course) -> None:
        await kill_one(course)
        await pause_one(course)

    course = Course(seed)
    course.cluster["one"].cpu = Cpu(Random(1), usual_us=(0, 500))
    course.run(trouble)
    return f"{course.trace.digest} {course.loop.step_count} {course.loop.now_us}"


def test_a_cluster_replays_exactly_under_any_hash_seed() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", "from tests.sim.test_cluster import _digest; print(_digest(5))"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "4242")
    }
    assert len(digests) == 1
    assert len(digests.pop().split()) == 3
