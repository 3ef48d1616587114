"""Lives that stand still: paused as by SIGSTOP, or with a processor that is busy, or behind a slow disk."""

from __future__ import annotations

import asyncio
from contextvars import Context
from random import Random

import pytest

from ottla.sim import Cpu, Life, VirtualClock, VirtualLoop, VirtualTasks, virtual_node_world
from tests.unit.sim.pair import Pair


def pass_ms(loop: VirtualLoop, ms: float) -> None:
    done: list[int] = []
    loop.call_later(ms / 1000, done.append, 1, context=Context())
    loop.run_until(lambda: bool(done))


def test_nothing_of_a_paused_life_runs_and_then_all_of_it_late_and_in_order() -> None:
    loop = VirtualLoop()
    life = Life("node")
    clock = VirtualClock()
    loop.attach(clock)
    tasks = VirtualTasks(loop, life, Random(1), clock)
    done: list[tuple[str, int]] = []

    async def work() -> None:
        while len(done) < 20:
            await tasks.sleep_ms(10)
            done.append(("task", clock.monotonic_ms()))

    tasks.spawn(work(), "work")
    tasks.later(15, lambda: done.append(("timer", clock.monotonic_ms())))
    tasks.later(12, lambda: done.append(("earlier timer", clock.monotonic_ms())))
    tasks.in_thread(lambda: done.append(("thread", clock.monotonic_ms())))
    loop.pause(life)
    pass_ms(loop, 1_000)
    assert not done, "neither timers nor tasks nor threads"
    assert clock.monotonic_ms() == 1_000, "its time goes on"
    loop.resume(life)
    pass_ms(loop, 5)
    assert [what for what, _ in done] == ["thread", "earlier timer", "timer"]
    pass_ms(loop, 20)
    assert done[3] == ("task", 1_010), "its sleep begins when it runs"


def test_a_paused_life_can_be_killed() -> None:
    loop = VirtualLoop()
    life = Life("node")
    tasks = VirtualTasks(loop, life, Random(1), VirtualClock())
    done: list[str] = []
    tasks.later(10, lambda: done.append("never"))
    loop.pause(life)
    pass_ms(loop, 100)
    life.end()
    loop.resume(life)
    pass_ms(loop, 100)
    assert not done


def test_a_paused_host_is_silent_and_what_is_sent_to_it_waits_in_its_buffers() -> None:
    pair = Pair()
    life = pair.worlds[1].life
    pair.loop.pause(life)
    pair.caller.stream.send([b"are you there?"])
    pair.pass_ms(60_000)
    assert not pair.called.received
    assert not pair.caller.closed, "its system acknowledges what it takes in"
    assert pair.called.stream.other.unsent_bytes == 0
    late = pair.call()
    assert len(pair.accepted) == 1, "its system opens connections, and nobody takes them"
    late.stream.send([b"and you?"])
    pair.pass_ms(10_000)
    pair.loop.resume(life)
    pair.pass_ms(100)
    assert [bytes(end.received) for end in pair.accepted] == [b"are you there?", b"and you?"]


def test_the_window_of_a_paused_host_fills() -> None:
    pair = Pair()
    window = pair.ends[0].pace.window_bytes
    pair.loop.pause(pair.worlds[1].life)
    pair.caller.stream.send([bytes(window + 5_000)])
    pair.pass_ms(30_000)
    assert pair.caller.stream.unsent_bytes == 5_000
    pair.loop.resume(pair.worlds[1].life)
    pair.pass_ms(100_000)
    assert len(pair.called.received) == window + 5_000


def test_calls_that_cost_time_come_one_after_another_and_timers_are_late() -> None:
    loop = VirtualLoop()
    busy, idle = Life("busy"), Life("idle")
    busy.cost_us = Cpu(Random(1), usual_us=(1_000, 1_000)).cost_us
    done: list[tuple[str, int]] = []
    for life in (busy, idle):
        tasks = VirtualTasks(loop, life, Random(1), VirtualClock())
        for number in range(3):
            tasks.soon(lambda number=number, life=life: done.append((f"{life.name} {number}", loop.now_us)))  # type: ignore[misc]
        tasks.later(1.5, lambda life=life: done.append((f"{life.name} timer", loop.now_us)))  # type: ignore[misc]
    pass_ms(loop, 100)
    assert [one for one in done if one[0].startswith("busy")] == [
        ("busy 0", 0),
        ("busy 1", 1_000),
        ("busy 2", 2_000),
        ("busy timer", 3_000),
    ]
    assert [one for one in done if one[0].startswith("idle")] == [
        ("idle 0", 0),
        ("idle 1", 0),
        ("idle 2", 0),
        ("idle timer", 1_500),
    ]


def test_a_busy_life_that_is_paused_goes_on_where_it_was() -> None:
    loop = VirtualLoop()
    life = Life("node")
    life.cost_us = Cpu(Random(1), usual_us=(1_000, 1_000)).cost_us
    tasks = VirtualTasks(loop, life, Random(1), VirtualClock())
    done: list[int] = []
    for _ in range(4):
        tasks.soon(lambda: done.append(loop.now_us))
    pass_ms(loop, 1.5)
    loop.pause(life)
    pass_ms(loop, 10)
    assert done == [0, 1_000]
    loop.resume(life)
    pass_ms(loop, 10)
    assert done == [0, 1_000, 11_500, 12_500]


def test_a_task_resumes_a_busy_life_whose_tasks_were_held_back(caplog: pytest.LogCaptureFixture) -> None:
    loop = VirtualLoop()
    life = Life("node")
    life.cost_us = Cpu(Random(1), usual_us=(0, 0)).cost_us
    tasks = VirtualTasks(loop, life, Random(1), VirtualClock())
    done: list[str] = []

    async def work() -> None:
        done.append("worked")

    async def resume() -> None:
        loop.pause(life)
        tasks.spawn(work(), "work")
        await asyncio.sleep(0.1)
        loop.resume(life)
        done.append("resumed")

    loop.create_task(resume(), context=Context())
    pass_ms(loop, 200)
    assert done == ["resumed", "worked"], caplog.text


def test_a_processor_stalls_now_and_then() -> None:
    cpu = Cpu(Random(1), usual_us=(10, 20), stall_us=(50_000, 90_000), stall_chance=0.1)
    costs = [cpu.cost_us() for _ in range(1_000)]
    stalls = [cost for cost in costs if cost >= 50_000]
    assert 50 < len(stalls) < 200
    assert all(10 <= cost <= 20 for cost in costs if cost < 50_000)
    assert Cpu(Random(1)).cost_us() == Cpu(Random(1)).cost_us()


def test_a_slow_disk_delays_who_waits_for_it_in_a_thread_one_after_another_and_nobody_else() -> None:
    world = virtual_node_world(1)
    disk, tasks, loop = world.disk, world.tasks, world.loop
    tasks.slow_thread_chance = 0
    file = disk.open("/file", create=True)
    disk.slow_down({"sync": (500_000, 500_000)}, Random(1))
    told: list[tuple[str, int]] = []

    async def sync(name: str) -> None:
        await tasks.in_thread(file.sync)
        told.append((name, loop.now_us))

    async def other() -> None:
        await asyncio.sleep(0.1)
        told.append(("other", loop.now_us))

    for work in (sync("first"), sync("second"), other()):
        tasks.spawn(work, "work")
    loop.run_until(lambda: len(told) == 3)
    assert told[0] == ("other", 100_000)
    assert told[1][1] == pytest.approx(500_000, abs=10_000)
    assert told[2][1] == pytest.approx(1_000_000, abs=10_000)
    disk.mend()
    assert disk.take_time_us(loop.now_us) == 0
