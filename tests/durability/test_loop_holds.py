"""What the schedule of the logs costs those who wait for an answer: a whole node on a real disk, all of it at once.

The event loop is watched from inside while segments roll, are flushed, retained, compacted and removed: how long it was
held, and which calls to the device were made on it instead of in a thread.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from ottla.config import BrokerConfig
from ottla.node import Node, build
from ottla.wire.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.world import NodeWorld
from ottla.world.system import SystemDisk
from ottla.world.system_file import SystemFile
from ottla.world.system_loop import run_node
from tests.hostile.probe import UnloadedClock
from tests.support.logs import make_batch

LOAD_S = 3.0
HOLD_S_MAX = 0.25
"""Far above what it is, a few milliseconds. What a busy machine takes away is not counted: neither the time that the
loop waited for a processor, nor that of the device calls, which are judged by what they are for."""

SETTINGS = {
    "node.id": "1",
    "process.roles": "broker,controller",
    "listeners": "PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "controller.listener.names": "CONTROLLER",
    "controller.quorum.voters": "1@127.0.0.1:9093",
    "log.initial.task.delay.ms": "50",
    "log.retention.check.interval.ms": "100",
    "log.segment.delete.delay.ms": "50",
    "log.cleaner.backoff.ms": "50",
    "log.flush.scheduler.interval.ms": "50",
    "log.flush.offset.checkpoint.interval.ms": "100",
    "log.flush.start.offset.checkpoint.interval.ms": "100",
    "replica.high.watermark.checkpoint.interval.ms": "100",
}
TOPICS = {
    "retained": {"segment.bytes": "1048576", "retention.bytes": "2000000"},
    "compacted": {"cleanup.policy": "compact", "segment.bytes": "1048576", "min.cleanable.dirty.ratio": "0.01"},
    "flushed": {"segment.bytes": "1048576", "flush.ms": "20"},
}
PARTITION_COUNT = 4
ON_THE_LOOP = {
    ("sync", "topic id"): "the first append to a log that was made a moment ago: whose it is has to be durable first",
    ("sync", "roll"): "a roll of what was flushed already: the files' ends have to be, too, before the log goes on",
    ("sync", "swap_in"): "compacted segments take the place of others: each step is durable before the next",
    ("sync", "cleaner checkpoint"): "how far a log is compacted, written when that is done",
    ("sync", "deletion"): "segments that are deleted stay so after a power cut, or the log would begin earlier again",
}
"""The syncs that are left on the loop, and what they have to come before. One at a time: requests run in between."""

CALLERS = {
    "settle": "topic id",
    "roll": "roll",
    "swap_in": "swap_in",
    "_change": "cleaner checkpoint",
    "_remove": "deletion",
}


class Watch:
    """The device calls of one thread, by what they were for, and the longest time in which it did not come round."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: Counter[tuple[str, str]] = Counter()
        self.longest_s = 0.0
        self._thread: int | None = None
        self._clock = UnloadedClock()
        self._in_calls_s = 0.0
        for cls, name, kind in (
            (SystemFile, "sync", "sync"),
            (SystemDisk, "sync_dir", "sync"),
            (SystemDisk, "remove", "remove"),
            (SystemDisk, "remove_tree", "remove"),
        ):
            monkeypatch.setattr(cls, name, self._watched(getattr(cls, name), kind))

    def _watched(self, call: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def watched(*arguments: Any) -> Any:
            if threading.get_ident() != self._thread:
                return call(*arguments)
            self.calls[kind, _purpose(sys._getframe(1))] += 1
            began = self._clock.now_s()
            try:
                return call(*arguments)
            finally:
                self._in_calls_s += self._clock.now_s() - began

        return watched

    async def run(self) -> None:
        """Watch the loop that this runs in, until cancelled."""
        self._thread = threading.get_ident()
        self._clock = UnloadedClock(threading.get_native_id())
        last = self._clock.now_s()
        try:
            while True:
                await asyncio.sleep(0.001)
                now = self._clock.now_s()
                self.longest_s = max(self.longest_s, now - last - self._in_calls_s)
                last, self._in_calls_s = now, 0.0
        finally:
            self._thread = None


def _purpose(frame: FrameType | None) -> str:
    """The first caller that says what the call was for."""
    names = []
    while frame is not None:
        name = frame.f_code.co_name
        if name in CALLERS:
            return CALLERS[name]
        names.append(name)
        frame = frame.f_back
    return " < ".join(names[:6])


async def load(node: Node, watch: Watch) -> None:
    request = CreateTopicsRequest(timeout_ms=10_000)
    for name, configs in TOPICS.items():
        settings = [CreatableTopicConfig(key, value) for key, value in configs.items()]
        request.topics.append(CreatableTopic(name, PARTITION_COUNT, 1, [], settings))
    response = await node.broker.controller.send(request, version=7)
    assert isinstance(response, CreateTopicsResponse)
    assert [topic.error_code for topic in response.topics] == [0, 0, 0]
    while any(len(node.replicas.by_name.get(name, ())) < PARTITION_COUNT for name in TOPICS):
        await asyncio.sleep(0.01)  # many new logs are begun one after the other
    watching = asyncio.ensure_future(watch.run())
    end = time.monotonic() + LOAD_S
    count = 0
    while time.monotonic() < end:
        count += 1
        now_ms = time.time_ns() // 1_000_000
        for name in TOPICS:
            batch = make_batch(*[b"x" * 1000] * 50, key=b"%d" % (count % 50), timestamp=now_ms)
            node.replicas.by_name[name][count % PARTITION_COUNT].append(bytearray(batch))
        await asyncio.sleep(0.001)
    watching.cancel()
    await asyncio.wait([watching])


def test_the_schedule_of_the_logs_does_not_hold_the_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(monkeypatch)
    config = BrokerConfig({**SETTINGS, "log.dirs": str(tmp_path)})
    seen: dict[str, Any] = {}

    async def main(world: NodeWorld, stop: object) -> None:
        node = build(config, world)
        node.format_if_new()
        await node.start()
        try:
            await load(node, watch)
            for name in TOPICS:
                seen[name] = [one.log for one in node.replicas.by_name[name].values()]
            retained, compacted, flushed = seen["retained"][0], seen["compacted"][0], seen["flushed"][0]
            assert retained.log_start_offset > 0, "nothing was retained"
            assert len(compacted.segments) < len(flushed.segments), "nothing was compacted"
            assert flushed.recovery_point > retained.log_start_offset, "nothing was flushed"
        finally:
            await node.stop()

    run_node(main)
    assert {call for call in watch.calls if call not in ON_THE_LOOP} == set()
    assert watch.longest_s < HOLD_S_MAX
