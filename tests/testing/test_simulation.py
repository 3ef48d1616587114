"""`ottla.testing.simulation`: programs on virtual time, from seeds, with faults; and the page about it."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from ottla.client import AsyncConsumer, AsyncProducer, Producer, TopicPartition
from ottla.errors import KafkaError
from ottla.sim import NotVirtual
from ottla.testing import ClusterError
from ottla.testing.simulation import FAULTS, SimulatedKafka, SimulationError, seeds, simulate

PAGE = Path(__file__).parents[2] / "docs" / "testing" / "simulation.md"


def test_the_examples_of_the_page_find_the_bug_and_pass_the_correct_program() -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 5
    names: dict[str, Any] = {}
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert "never charged" in str(names["found"])
    (how, trace) = names["found"].__notes__
    seed = int(re.search(r"seed (\d+);", how)[1])  # type: ignore[index]
    assert "fault: process" in trace
    with pytest.raises(AssertionError, match="never charged"):
        simulate(names["naive"], seed=seed, faults=FAULTS)


async def writes_and_reads(cluster: SimulatedKafka) -> list[tuple[int, bytes]]:
    await cluster.create_topic("records", partitions=2, cleanup_policy="delete")
    written = cluster.spawn(_write, cluster, name="writer")
    found: list[tuple[int, bytes]] = []
    async with AsyncConsumer[bytes, bytes](
        bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest"
    ) as consumer:
        await consumer.assign([TopicPartition("records", index) for index in range(2)])
        while len(found) < 40:
            found += [(record.partition, record.value) for record in await consumer.poll(1.0)]
    assert await written == "done"
    return sorted(found)


async def _write(cluster: SimulatedKafka) -> str:
    async with AsyncProducer(bootstrap_servers=cluster.bootstrap_servers, delivery_timeout_ms=300_000) as producer:
        for number in range(40):
            await (await producer.send("records", b"%d" % number, partition=number % 2))
            await asyncio.sleep(cluster.random.uniform(0, 1))
    return "done"


NODE_FAULTS = [fault for fault in FAULTS if fault != "process"]


@pytest.mark.parametrize("seed", seeds(8))
def test_a_program_sees_every_record_once_whatever_happens_to_the_cluster(seed: int) -> None:
    found = simulate(writes_and_reads, seed=seed, faults=NODE_FAULTS)
    assert found == sorted((number % 2, b"%d" % number) for number in range(40))


def _digest(seed: int) -> str:
    runs: list[SimulatedKafka] = []

    async def program(cluster: SimulatedKafka) -> None:
        runs.append(cluster)
        await writes_and_reads(cluster)

    simulate(program, seed=seed, faults=NODE_FAULTS)
    return f"{runs[0]._trace.digest} {runs[0].now_ms()}"


def test_a_seed_replays_exactly_after_other_runs_and_under_any_hash_seed() -> None:
    """Whatever numbers clients before, whatever order sets have: the whole trace is the same."""
    told = {_digest(3), _digest(3)}
    for hash_seed in ("1", "4242"):
        done = subprocess.run(
            [sys.executable, "-c", "from tests.testing.test_simulation import _digest; print(_digest(3))"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        )
        told.add(done.stdout.strip())
    assert len(told) == 1
    assert _digest(4) not in told


def test_everything_of_asyncio_that_only_waits_works_and_takes_no_real_time() -> None:
    async def program(cluster: SimulatedKafka) -> list[str]:
        said: list[str] = []
        queue: asyncio.Queue[str] = asyncio.Queue(maxsize=1)
        event, lock, semaphore = asyncio.Event(), asyncio.Lock(), asyncio.Semaphore(1)

        async def talk(name: str) -> str:
            async with lock, semaphore:
                await asyncio.sleep(100)
                await queue.put(name)
            return name

        async def listen() -> None:
            while len(said) < 2:
                said.append(await queue.get())
            event.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(listen())
            group.create_task(talk("one"))
            group.create_task(talk("two"))
        await asyncio.wait_for(event.wait(), 1)
        said += await asyncio.gather(talk("three"), asyncio.sleep(1, "four"))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(50):
                await asyncio.Event().wait()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.sleep(100), 10)
        done, _ = await asyncio.wait([asyncio.create_task(asyncio.sleep(5, "five"))], timeout=10)
        said += [task.result() for task in done]
        condition = asyncio.Condition()
        async with condition:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(condition.wait(), 1)
        shielded = asyncio.ensure_future(asyncio.shield(asyncio.sleep(1, "six")))
        said.append(await shielded)
        assert cluster.now_ms() > 360_000
        return said

    begun = time.monotonic()
    assert simulate(program, seed=1) == ["one", "two", "three", "four", "five", "six"]
    assert time.monotonic() - begun < 20


async def _thread(_: SimulatedKafka) -> None:
    await asyncio.to_thread(time.sleep, 1)


async def _socket(_: SimulatedKafka) -> None:
    await asyncio.open_connection("localhost", 9092)


async def _raw_socket(_: SimulatedKafka) -> None:
    with socket.socket() as one:
        await asyncio.get_running_loop().sock_connect(one, ("localhost", 9092))


async def _subprocess(_: SimulatedKafka) -> None:
    await asyncio.create_subprocess_exec("true")


async def _blocking(cluster: SimulatedKafka) -> None:
    Producer(bootstrap_servers=cluster.bootstrap_servers)


@pytest.mark.parametrize(
    ("program", "line"),
    [
        (_thread, "run_in_executor needs a thread, and virtual time has none"),
        (_socket, "create_connection needs a real socket, and the virtual network has none"),
        (_raw_socket, "sock_connect needs a real socket"),
        (_subprocess, "subprocess_exec needs the real system"),
        (_blocking, "virtual time has no threads, so what blocks cannot run on it: use the Async clients"),
    ],
)
def test_what_is_real_is_refused_in_one_line(
    program: Callable[[SimulatedKafka], Coroutine[Any, Any, None]], line: str
) -> None:
    with pytest.raises(RuntimeError, match=line) as found:
        simulate(program, seed=1)
    assert "\n" not in str(found.value)
    assert issubclass(found.type, NotVirtual) or program is _blocking


def test_a_process_that_is_killed_runs_no_finally_and_its_connections_close() -> None:
    said: list[str] = []

    async def worker(cluster: SimulatedKafka) -> None:
        try:
            async with AsyncProducer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                await (await producer.send("records", b"one"))
                said.append("sent")
                await asyncio.sleep(1_000)
        finally:
            said.append("finally")

    async def program(cluster: SimulatedKafka) -> list[str]:
        await cluster.create_topic("records")
        process = cluster.spawn(worker, cluster)
        assert await cluster.until(lambda: said == ["sent"], 10)
        assert len(cluster.network.open_connections()) > 0
        process.kill()
        await asyncio.sleep(2_000)
        assert not process.is_running
        assert cluster.network.open_connections() == []
        return list(said)

    assert simulate(program, seed=1) == ["sent"]


def test_a_supervised_process_is_begun_again_when_it_is_killed_and_when_it_fails() -> None:
    lives: list[int] = []

    async def worker() -> str:
        lives.append(len(lives))
        await asyncio.sleep(5)
        if len(lives) == 2:
            raise KafkaError("as when a coordinator is away for too long")
        await asyncio.sleep(5)
        return f"life {len(lives)}"

    async def program(cluster: SimulatedKafka) -> str:
        process = cluster.spawn(worker, restarts=True)
        await asyncio.sleep(2)
        process.kill()
        assert not process.is_done
        result: str = await process
        return result

    assert simulate(program, seed=1) == "life 3"


def test_what_any_process_raises_fails_the_run_and_names_the_seed() -> None:
    async def worker() -> None:
        await asyncio.sleep(1)
        raise ValueError("a mistake")

    async def program(cluster: SimulatedKafka) -> None:
        cluster.spawn(worker, restarts=True)
        await asyncio.sleep(100)

    with pytest.raises(ValueError, match="a mistake") as found:
        simulate(program, seed=77)
    assert "OTTLA_SEED=77" in found.value.__notes__[0]
    assert "worker-0 begins" in found.value.__notes__[1]


def test_a_program_that_does_not_end_is_told_so() -> None:
    async def waits(_: SimulatedKafka) -> None:
        await asyncio.Event().wait()

    async def spins(_: SimulatedKafka) -> None:
        while True:
            await asyncio.sleep(0)

    with pytest.raises(SimulationError, match="has not come to an end in 60 s of virtual time"):
        simulate(waits, seed=1, limit_s=60)
    with pytest.raises(SimulationError, match=r"calls at .* without time passing"):
        simulate(spins, seed=1)


def test_nodes_are_broken_and_mended_by_hand() -> None:
    async def program(cluster: SimulatedKafka) -> None:
        await cluster.create_topic("records")
        for breaking in (cluster.kill, cluster.pause, cluster.cut):
            async with AsyncProducer(
                bootstrap_servers=cluster.bootstrap_servers, max_block_ms=2_000, delivery_timeout_ms=3_000,
                request_timeout_ms=1_000, linger_ms=0,
            ) as producer:  # fmt: skip
                breaking()
                with pytest.raises((KafkaError, TimeoutError)):
                    await (await producer.send("records", b"no"))
                cluster.resume()
                cluster.heal()
                await cluster.restart()
                await cluster.until(lambda: False, 20)
                await (await producer.send("records", b"yes"))
        await cluster.stop("node")
        assert cluster.cluster.running == []

    simulate(program, seed=2)


def test_a_fault_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ClusterError, match="there is no fault 'earthquake': choose from kill, stop"):
        simulate(writes_and_reads, seed=1, faults=["earthquake"])


def test_the_environment_chooses_the_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OTTLA_SEED", raising=False)
    monkeypatch.delenv("OTTLA_SEEDS", raising=False)
    assert list(seeds(3)) == [0, 1, 2]
    assert list(seeds(2, first=10)) == [10, 11]
    monkeypatch.setenv("OTTLA_SEEDS", "4")
    assert list(seeds(2)) == [0, 1, 2, 3]
    monkeypatch.setenv("OTTLA_SEED", "17")
    assert list(seeds(2)) == [17]


@pytest.mark.parametrize("seed", seeds(2))
def test_three_nodes_keep_every_record_whatever_happens_to_them(seed: int) -> None:
    found = simulate(writes_and_reads, seed=seed, nodes=3, faults=NODE_FAULTS)
    assert found == sorted((number % 2, b"%d" % number) for number in range(40))
