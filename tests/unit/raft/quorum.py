"""A whole quorum on virtual time: nodes that die with their power, a network that loses, delays, doubles and cuts.

Every node has a clock, a disk and a life of its own; requests and responses cross as bytes. `Quorum.run` lets a seed's
faults happen while leaders append, then heals everything and asks for convergence. What is checked, all the time:
an epoch has one leader; what a node tells as committed is the same on every node, batch by batch, and never goes back;
a snapshot holds what was committed up to it. At the end: everybody has everything that anybody was told, the logs are
equal byte for byte, and a new record reaches all. `python -m tests.unit.raft.quorum FIRST LAST` plays many seeds.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from random import Random
from typing import Any, TypeVar
from unittest.mock import patch

from ottla.errors import NotController
from ottla.raft import (
    CommittedBatch,
    LeaderAndEpoch,
    RaftConfig,
    RaftNode,
    ReplicaKey,
    VoterNode,
    VoterSet,
    format_directory,
    messages,
)
from ottla.raft.voters import EMPTY_VOTERS
from ottla.records import batches
from ottla.sim import CHANGES, Moment
from ottla.sim.clock import VirtualClock
from ottla.sim.disk import VirtualDisk
from ottla.sim.life import Life
from ottla.sim.loop import VirtualLoop
from ottla.sim.network import VirtualNetwork
from ottla.sim.world import VirtualNodeWorld, VirtualWorld, node_world
from ottla.types import Uuid
from ottla.wire import Message, decode, encode
from ottla.wire.messages.vote import VoteRequest
from ottla.wire.metadata import VersionedRecord
from ottla.world import Address
from tests.unit.raft.nodes import DATA, numbers, record

CONFIG = RaftConfig(
    metadata_log_segment_bytes=900,
    metadata_max_retention_bytes=2500,
    controller_quorum_election_timeout_ms=150,
    controller_quorum_election_backoff_max_ms=80,
    controller_quorum_fetch_timeout_ms=300,
    controller_quorum_request_timeout_ms=250,
    # A batch at a time: an old epoch's come over before the new one's.
    controller_quorum_fetch_max_bytes=150,
    controller_quorum_fetch_snapshot_max_bytes=400,
)
T = TypeVar("T")

LISTENER = "CONTROLLER"
CLUSTER = "a cluster"
FETCH_WAIT_MS = 100
"""Shorter than Kafka's, as all times here: more elections a second."""
SECOND_US = 1_000_000


class Violation(AssertionError):
    """What must never happen has happened."""


def directory_of(node_id: int) -> Uuid:
    return Uuid(f"the directory {node_id:02}".encode())


class Truth:
    """What has been told as committed, by whoever was first, and who led which epoch."""

    def __init__(self) -> None:
        self.batches: list[CommittedBatch] = []
        """Without a gap, from offset 0 on."""
        self.index: dict[int, int] = {}
        """The place of the batch that begins at an offset."""
        self.leaders: dict[int, tuple[int, int]] = {}
        """For each epoch the node that led it, and in which of its lives."""

    @property
    def end_offset(self) -> int:
        return self.batches[-1].end_offset if self.batches else 0

    def lead(self, epoch: int, node_id: int, life: int) -> None:
        leader = self.leaders.setdefault(epoch, (node_id, life))
        if leader != (node_id, life):
            raise Violation(f"epoch {epoch} is led by node {node_id} in life {life}, and was by {leader}")

    def commit(self, node_id: int, batch: CommittedBatch) -> None:
        if batch.base_offset == self.end_offset:
            self.index[batch.base_offset] = len(self.batches)
            self.batches.append(batch)
            return
        place = self.index.get(batch.base_offset)
        if place is None or self.batches[place]._replace(timestamp=0) != batch._replace(timestamp=0):
            known = None if place is None else self.batches[place]
            raise Violation(f"node {node_id} is told {batch} at {batch.base_offset}, where others were told {known}")

    def numbers_below(self, offset: int) -> list[int]:
        return [n for one in self.batches if one.base_offset < offset for n in numbers(r for r, _ in one.records)]


class Watch:
    """A listener that holds everything it is told against the truth."""

    def __init__(self, truth: Truth, node_id: int) -> None:
        self.truth = truth
        self.node_id = node_id
        self.next_offset = 0
        self.last_epoch = 0
        self.is_leader = False
        self.violation: Violation | None = None

    def on_commit(self, batches: list[CommittedBatch]) -> None:
        try:
            for batch in batches:
                if batch.base_offset != self.next_offset:
                    raise Violation(f"node {self.node_id} is told {batch.base_offset} after {self.next_offset}")
                self.truth.commit(self.node_id, batch)
                self.next_offset = batch.end_offset
                self.last_epoch = batch.epoch
        except Violation as violation:
            self.violation = violation
            raise

    def on_snapshot(self, records: Iterable[VersionedRecord], *, offset: int, epoch: int, timestamp_ms: int) -> None:
        found = numbers(one for one, _ in records)
        try:
            if offset + 1 < self.next_offset or offset + 1 > self.truth.end_offset:
                raise Violation(f"node {self.node_id} loads a snapshot to {offset} at {self.next_offset}")
            if found != self.truth.numbers_below(offset + 1):
                raise Violation(f"node {self.node_id} loads a snapshot to {offset} that holds {found}")
        except Violation as violation:
            self.violation = violation
            raise
        self.next_offset = offset + 1
        self.last_epoch = epoch

    def on_leader(self, epoch: int) -> None:
        self.is_leader = True

    def on_resign(self) -> None:
        self.is_leader = False


class Member:
    """One computer of the quorum, and the node that lives on it."""

    def __init__(self, quorum: Quorum, node_id: int, *, is_voter: bool) -> None:
        self.quorum = quorum
        self.id = node_id
        self.is_voter = is_voter
        self.clock = VirtualClock()
        quorum.loop.attach(self.clock)
        self.disk = VirtualDisk(Random(f"{quorum.seed} disk {node_id}"), self.clock)
        self.disk.make_dirs(DATA)
        self.disk.sync_dir("/")
        self.host = quorum.network.add_host(f"node-{node_id}")
        self.life_count = 0
        self.life: Life | None = None
        self.world: VirtualNodeWorld
        self.raft: RaftNode
        self.watch: Watch
        self.high_watermark = 0
        self.is_started = False

    @property
    def is_alive(self) -> bool:
        return self.life is not None and not self.life.is_over

    def start(self) -> None:
        quorum = self.quorum
        self.life_count += 1
        life = self.life = Life(f"node {self.id} life {self.life_count}", self.disk, self.on_crash)
        seed = f"{quorum.seed} node {self.id} life {self.life_count}"
        self.world = node_world(quorum.network, self.host, self.clock, self.disk, life, seed)
        self.is_started = False
        self.high_watermark = 0
        self.watch = Watch(quorum.truth, self.id)
        self.raft = RaftNode(
            self.world,
            CONFIG,
            DATA,
            node_id=self.id,
            directory_id=directory_of(self.id),
            voters=EMPTY_VOTERS if quorum.is_formatted else quorum.voters,
            listeners={LISTENER: quorum.addresses[self.id]} if self.is_voter else {},
            cluster_id=CLUSTER,
            listener_name=LISTENER,
            bootstrap=list(quorum.addresses.values()) if quorum.is_formatted else [],
            channel=Channel(quorum, self),
            can_become_voter=self.is_voter,
        )
        self.raft.subscribe(self.watch)
        self.raft.watch(self.on_leader_change)
        task = quorum.loop.create_task(self._begin(), context=life.context.copy())
        life.tasks.append(task)
        task.add_done_callback(self._on_begun, context=life.context)

    async def _begin(self) -> None:
        await self.raft.start()
        self.is_started = True

    def _on_begun(self, task: Any) -> None:
        assert self.life is not None
        self.life.tasks.remove(task)
        if not task.cancelled() and isinstance(task.exception(), Exception):
            self.quorum.failures.append(f"node {self.id} does not start: {task.exception()!r}")

    def on_leader_change(self, leader: LeaderAndEpoch) -> None:
        if leader.leader_id != self.id:
            return
        quorum = self.quorum
        try:
            quorum.truth.lead(leader.epoch, self.id, self.life_count)
        except Violation as violation:
            quorum.failures.append(str(violation))
        if quorum.is_faulty and (quorum.is_rolling or quorum.chance.random() < 0.5):
            # Leaders that are gone after a few messages leave logs that differ at their ends.
            life, chance = self.life_count, quorum.chance
            messages_ms = quorum.delay_us_max / 1000 * chance.choice((chance.uniform(0, 1.5), chance.uniform(1, 4)))
            quorum.after_ms(
                messages_ms + chance.uniform(0, 8),
                lambda: self.fall() if self.life_count == life and self.is_alive and quorum.is_faulty else None,
            )

    def fall(self) -> None:
        """Die young, or be cut off while whoever was so before comes back."""
        quorum = self.quorum
        if quorum.is_rolling:
            quorum.cuts = {pair for other in quorum.members for pair in ((self.id, other), (other, self.id))}
        else:
            self.kill(is_power_cut=quorum.chance.random() < 0.3)

    def on_crash(self) -> None:
        """The disk has killed the node."""
        self.kill(is_power_cut=True)

    def kill(self, *, is_power_cut: bool, returns: bool = True) -> None:
        if not self.is_alive:
            return
        assert self.life is not None
        self.life.end()
        if is_power_cut:
            self.disk.crash()
        else:
            self.disk.process_crash()
        self.disk.clear_faults()
        if returns:
            self.quorum.after_ms(self.quorum.chance.choice((5, 30, 300, 1000)), self.restart)

    def restart(self) -> None:
        if not self.is_alive:
            self.start()

    def check(self) -> None:
        if self.is_alive and self.is_started:
            if self.watch.violation is not None:
                raise self.watch.violation
            if self.raft.failure is not None:
                raise Violation(f"node {self.id} has failed: {self.raft.failure!r}") from self.raft.failure
            if self.raft.high_watermark < self.high_watermark:
                raise Violation(f"node {self.id}: the high watermark went back from {self.high_watermark}")
            self.high_watermark = self.raft.high_watermark


class Channel:
    """How one node reaches the others."""

    def __init__(self, quorum: Quorum, sender: Member) -> None:
        self.quorum = quorum
        self.sender = sender

    def send(self, node_id: int, address: Address, request: Message, timeout_ms: float) -> Any:
        quorum, sender = self.quorum, self.sender
        promise = sender.world.tasks.promise()
        receiver = quorum.members[address.port]
        version = type(request).schema.versions.last
        data = encode(request, version)
        life = sender.life
        assert life is not None

        def fail() -> None:
            if not promise.done():
                promise.set_exception(TimeoutError("no answer in time"))

        def on_answer(answer: bytes) -> None:
            if not promise.done() and quorum.is_open(receiver.id, sender.id):
                promise.set_result(decode(type(messages.error_response(request, 0)), version, answer))

        def on_arrival() -> None:
            if not receiver.is_alive or not receiver.is_started or not quorum.is_open(sender.id, receiver.id):
                return
            told = receiver.raft.handle(decode(type(request), version, data), version=version, listener=LISTENER)
            told.add_done_callback(on_told)

        def on_told(done: Any) -> None:
            answer = encode(done.result(), version)
            quorum.cross(life.context, lambda: on_answer(answer))
            if quorum.is_faulty and isinstance(request, VoteRequest) and quorum.chance.random() < 0.1:
                # The vote is out; whatever the voter has not on its disk is gone.
                quorum.after_ms(0, lambda: receiver.kill(is_power_cut=True))

        def arrive() -> None:
            if receiver.is_alive:
                assert receiver.life is not None
                receiver.life.context.copy().run(lambda: quorum.loop.call_soon(on_arrival))

        sender.world.tasks.later(timeout_ms, fail)
        for _ in range(2 if quorum.chance.random() < quorum.doubling else 1):
            quorum.cross(None, arrive)
        return promise


class Quorum:
    """Voters 1 to `voter_count` and observers above."""

    def __init__(
        self,
        seed: int,
        *,
        voter_count: int = 3,
        observer_count: int = 1,
        is_formatted: bool = False,
        is_faulty: bool = True,
    ) -> None:
        """`is_formatted` puts the voters into the log, as `storage format --initial-controllers` does."""
        self.seed = seed
        self.chance = Random(f"{seed} quorum")
        self.is_formatted = is_formatted
        self._patch = patch.object(messages, "FETCH_WAIT_MS_MAX", FETCH_WAIT_MS)
        self._context = copy_context()
        self.loop = VirtualLoop()
        self.network = VirtualNetwork(self.loop, Random(f"{seed} network"))
        self.truth = Truth()
        self.failures: list[str] = []
        self.next_number = 0
        self.addresses = {id: Address("host", id) for id in range(1, voter_count + 1)}
        self.voters = VoterSet.static(LISTENER, self.addresses)
        if is_formatted:
            self.voters = VoterSet.of(
                VoterNode(ReplicaKey(id, directory_of(id)), {LISTENER: address})
                for id, address in self.addresses.items()
            )
        self.cuts: set[tuple[int, int]] = set()
        """From whom nothing reaches whom."""
        self.loss = self.chance.choice((0, 0, 0.02, 0.1))
        self.doubling = self.chance.choice((0, 0.05))
        self.delay_us_max = self.chance.choice((2_000, 10_000, 40_000))
        self.is_rolling = self.chance.random() < 0.6
        """Whether each new leader is cut off soon, and the one before it comes back."""
        self.is_faulty = is_faulty
        self.snapshot_count = 0
        self.members = {
            id: Member(self, id, is_voter=id <= voter_count) for id in range(1, voter_count + observer_count + 1)
        }
        for member in self.members.values() if is_formatted else ():
            world = VirtualWorld(clock=member.clock, disk=member.disk, random=self.chance)
            format_directory(world, DATA, [], voters=self.voters if member.is_voter else None)

    # What members and channels use

    def after_ms(self, ms: float, call: Callable[[], object]) -> None:
        # In nobody's context: what a node asks for here outlives it.
        self.loop.call_at_us(self.loop.now_us + round(ms * 1000), call, context=self._context)

    def is_open(self, sender_id: int, receiver_id: int) -> bool:
        return (sender_id, receiver_id) not in self.cuts

    def cross(self, context: Any, call: Callable[[], object]) -> None:
        """Over the network: later, or never."""
        if self.is_faulty and self.chance.random() < self.loss:
            return
        delay_us = self.chance.randrange(100, self.delay_us_max if self.is_faulty else 2_000)
        self.loop.call_at_us(self.loop.now_us + delay_us, call, context=context or self._context)

    # A seed's history

    def run(self, seconds: float = 8) -> None:
        """Faults for a while, then healing, then convergence; raises `Violation`."""
        with self:
            self.plan_append()
            self._plan_fault()
            self.run_for(seconds)
            self._heal()
            self._converge()

    def __enter__(self) -> Quorum:
        self._patch.start()
        for member in self.members.values():
            member.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._patch.stop()
        for member in self.members.values():
            if member.life is not None:
                member.life.end()
        self.loop.close()

    def call(self, member: Member, call: Callable[[], T]) -> T:
        """What `call` returns in the life of a member."""
        found: list[T] = []
        self._in_life(member, lambda: found.append(call()))
        self.loop.run_until(lambda: bool(found))
        return found[0]

    def wait(self, is_done: Callable[[], bool], seconds: float = 20) -> None:
        """Run until it is so."""
        self.run_for(seconds, is_done)
        assert is_done(), self._describe()

    @property
    def leader(self) -> Member | None:
        """Who leads and knows it, if there is one."""
        found = [m for m in self.members.values() if m.is_alive and m.is_started and m.watch.is_leader]
        return found[0] if len(found) == 1 else None

    @property
    def is_settled(self) -> bool:
        """Whether everybody lives and follows the one leader."""
        leader, members = self.leader, self.members.values()
        return leader is not None and all(
            member.is_alive and member.is_started and member.raft.leader_id == leader.id for member in members
        )

    def run_for(self, seconds: float, is_done: Callable[[], bool] = lambda: False) -> None:
        end_us = self.loop.now_us + round(seconds * SECOND_US)
        self.loop.call_at_us(end_us, lambda: None)
        self.loop.run_until(lambda: self._check() or self.loop.now_us >= end_us or is_done())

    def _check(self) -> bool:
        if self.loop.step_count % 8 == 0:
            for member in self.members.values():
                member.check()
            if self.failures:
                raise Violation(self.failures[0])
        return False

    def plan_append(self) -> None:
        self.after_ms(self.chance.choice((1, 5, 20, 60)), self._append)

    def _append(self) -> None:
        self.plan_append()
        for member in self.members.values():
            if member.is_alive and member.is_started and member.watch.is_leader and self.chance.random() < 0.7:
                self._in_life(member, partial(self._append_to, member))
        if self.chance.random() < 0.05:
            member = self.chance.choice(list(self.members.values()))
            if member.is_alive and member.is_started and member.raft.failure is None:
                self._in_life(member, lambda: self._snapshot(member))

    def _in_life(self, member: Member, call: Callable[[], object]) -> None:
        assert member.life is not None
        self.loop.call_soon(call, context=member.life.context.copy())

    def _append_to(self, member: Member) -> None:
        with suppress(NotController):
            member.raft.append([record(self.next_number)])
            self.next_number += 1

    def _snapshot(self, member: Member) -> None:
        watch = member.watch
        if watch.next_offset > max(member.raft.log_start_offset, 5) and watch.next_offset <= member.raft.high_watermark:
            state = [record(number) for number in self.truth.numbers_below(watch.next_offset)]
            work = member.raft.create_snapshot(watch.next_offset, watch.last_epoch, state)
            self.snapshot_count += 1
            member.world.tasks.spawn(work, "snapshot")

    def _plan_fault(self) -> None:
        if self.is_faulty:
            self.after_ms(self.chance.choice((20, 100, 300, 800)) * (5 if self.is_rolling else 1), self._fault)

    def _fault(self) -> None:
        self._plan_fault()
        chance = self.chance
        alive = [member for member in self.members.values() if member.is_alive and member.is_started]
        if not self.is_faulty or not alive:
            return
        victim = chance.choice(alive)
        leaders = [member for member in alive if member.watch.is_leader]
        if leaders and chance.random() < 0.4:
            victim = chance.choice(leaders)
        match chance.choice(("kill", "power", "disk", "disk", "cut", "isolate", "heal", "heal", "resign", "slow")):
            case "kill":
                victim.kill(is_power_cut=False)
            case "power":
                victim.kill(is_power_cut=True)
            case "disk":
                moments: list[Moment] = ["before", "during", "after"]
                victim.disk.crash_at(chance.randrange(1, 30), kinds=CHANGES, moment=chance.choice(moments))
            case "cut":
                self.cuts.add((victim.id, chance.choice(list(self.members))))
            case "isolate":
                others = [id for id in self.members if id != victim.id]
                for other in chance.sample(others, chance.randrange(1, len(others) + 1)):
                    self.cuts |= {(victim.id, other), (other, victim.id)}
            case "heal":
                self.cuts.clear()
            case "resign":
                self._in_life(victim, lambda: victim.raft.resign("a test"))
            case "slow":
                victim.world.tasks.slow_thread_chance = chance.choice((0, 0.02, 0.3))

    def _heal(self) -> None:
        self.is_faulty = False
        self.cuts.clear()
        for member in self.members.values():
            member.disk.clear_faults()

    def _converge(self) -> None:
        """One leader, one high watermark, one log, and a new record reaches everybody."""
        self.run_for(20, lambda: self.is_settled)
        if not self.is_settled:
            raise Violation(f"no leader that all follow after healing: {self._describe()}")
        wanted = self.next_number + 20
        self.run_for(20, lambda: self.next_number >= wanted)
        end_offset = max(member.raft.log_end_offset for member in self.members.values())
        self.run_for(20, lambda: all(m.watch.next_offset >= end_offset for m in self.members.values()))
        for member in self.members.values():
            member.check()
            if member.watch.next_offset < end_offset:
                raise Violation(f"node {member.id} has not come to {end_offset} after healing: {self._describe()}")
        self._compare_logs()

    def _compare_logs(self) -> None:
        members = list(self.members.values())
        start = max(member.raft.log_start_offset for member in members)
        end = min(member.raft.high_watermark for member in members)
        contents = {member.id: self._content(member, start, end) for member in members}
        if len(set(contents.values())) != 1:
            raise Violation(f"the logs differ between {start} and {end}")

    def _content(self, member: Member, start: int, end: int) -> bytes:
        parts = []
        offset = start
        while offset < end:
            for batch in batches(member.raft._log.read(offset, 1 << 20)):
                if start <= batch.base_offset < end:
                    parts.append(bytes(batch.buffer[batch.position : batch.position + batch.size]))
                offset = batch.next_offset
        return b"".join(parts)

    def _describe(self) -> str:
        return "; ".join(
            f"{m.id}: {m.raft._core.state} log={m.raft.log_start_offset}..{m.raft.log_end_offset}"
            if m.is_alive and m.is_started
            else f"{m.id}: dead"
            for m in self.members.values()
        )


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    first, last = int(sys.argv[1]), int(sys.argv[2])
    for number in range(first, last):
        for voters in (3, 5):
            print(f"seed {number} with {voters} voters", flush=True)
            Quorum(number, voter_count=voters, is_formatted=number % 3 == 2).run()
