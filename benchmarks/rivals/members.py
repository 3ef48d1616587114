"""Members of groups, by the thousand: the load of the group benchmarks, in a process of its own.

`run(job)` runs one job in a new process (`python -m benchmarks.rivals.members JOB`) and returns what it measured.
Members speak the protocol over bare links and do what a client does: find the coordinator, join, sync, send heartbeats,
join again when told. What is measured is how long the broker lets them wait and what it computes meanwhile.
"""

from __future__ import annotations

import asyncio
import json
import struct
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field

from benchmarks.rivals.link import Link
from benchmarks.rivals.process import TICK_S, cpu_s, resident_bytes
from ottla.errors import (
    CoordinatorLoadInProgress,
    CoordinatorNotAvailable,
    MemberIdRequired,
    NotCoordinator,
    RebalanceInProgress,
    TopicAlreadyExists,
)
from ottla.wire.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse

TIMEOUT_S = 300.0
LOADING = {CoordinatorLoadInProgress.code, CoordinatorNotAvailable.code, NotCoordinator.code}
FAST_MS = 20.0
"""How often members that wait for a rebalance ask."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to do with groups of one broker."""

    kind: str
    address: str
    pid: int
    name: str
    """Groups and topics begin with it."""
    groups: int = 1
    members: int = 1
    partitions: int = 1
    rounds: int = 1
    heartbeat_ms: float = FAST_MS
    duration_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of it. `times_s` are of single rounds."""

    count: int
    wall_s: float
    broker_cpu_s: float
    client_cpu_s: float
    broker_bytes: int
    times_s: list[float] = field(default_factory=list)

    @property
    def median_s(self) -> float:
        return sorted(self.times_s)[len(self.times_s) // 2]


def run(job: Job) -> Outcome:
    """Run `job` in a new process."""
    command = [sys.executable, "-m", "benchmarks.rivals.members", json.dumps(asdict(job))]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=TIMEOUT_S)
    return Outcome(**json.loads(done.stdout))


# In the client's process


class _Meter:
    def __init__(self, job: Job) -> None:
        self._job = job
        self._client_s = time.process_time()
        self._broker_s = cpu_s(job.pid)
        self._wall_s = time.perf_counter()

    def read(self, count: int, times_s: list[float] | None = None) -> Outcome:
        return Outcome(
            count=count,
            wall_s=time.perf_counter() - self._wall_s,
            broker_cpu_s=max(TICK_S, cpu_s(self._job.pid) - self._broker_s),
            client_cpu_s=time.process_time() - self._client_s,
            broker_bytes=resident_bytes(self._job.pid),
            times_s=times_s or [],
        )


def _subscription(topic: str) -> bytes:
    """What a consumer says of itself when it joins: version 0, one topic, no user data."""
    name = topic.encode()
    return struct.pack(f">hih{len(name)}si", 0, 1, len(name), name, -1)


class ClassicMember:
    """One member of a classic group: joins, syncs, and joins again when a heartbeat tells it to."""

    def __init__(self, link: Link, group: str, topic: str) -> None:
        self.link = link
        self.group = group
        self.member_id = ""
        self.generation = -1
        self.member_count = 0
        self._metadata = _subscription(topic)

    async def join(self) -> None:
        while True:
            request = JoinGroupRequest(
                group_id=self.group,
                session_timeout_ms=45_000,
                rebalance_timeout_ms=60_000,
                member_id=self.member_id,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol("range", self._metadata)],
            )
            joined = await self.link.ask(request, 9, JoinGroupResponse)
            self.member_id = joined.member_id or self.member_id
            if joined.error_code == MemberIdRequired.code:
                continue
            if joined.error_code in (RebalanceInProgress.code, *LOADING):
                await asyncio.sleep(0.01)
                continue
            assert joined.error_code == 0, joined
            self.generation = joined.generation_id
            count = b"%d" % len(joined.members)
            sync = SyncGroupRequest(
                group_id=self.group,
                generation_id=self.generation,
                member_id=self.member_id,
                protocol_type="consumer",
                protocol_name="range",
                assignments=[SyncGroupRequestAssignment(one.member_id, count) for one in joined.members],
            )
            synced = await self.link.ask(sync, 5, SyncGroupResponse)
            if synced.error_code == RebalanceInProgress.code:
                continue
            assert synced.error_code == 0, synced
            self.member_count = int(bytes(synced.assignment))
            return

    async def heartbeat(self) -> bool:
        """Whether the group is as it was."""
        request = HeartbeatRequest(group_id=self.group, generation_id=self.generation, member_id=self.member_id)
        answer = await self.link.ask(request, 4, HeartbeatResponse)
        assert answer.error_code in (0, RebalanceInProgress.code), answer
        return answer.error_code == 0

    async def stay_until(self, member_count: int, heartbeat_ms: float) -> None:
        """Return when the group has that many members, and this one its part."""
        while self.member_count != member_count:
            if not await self.heartbeat():
                await self.join()
            else:
                await asyncio.sleep(heartbeat_ms / 1000)


class ConsumerMember:
    """One member of a group of the consumer protocol: all it does is send heartbeats."""

    def __init__(self, link: Link, group: str, topic: str, number: int) -> None:
        self.link = link
        self.group = group
        self.topic = topic
        self.member_id = f"AAAAAAAAAAAAAAAAAA{number:04d}"
        self.epoch = 0
        self.owned: list[TopicPartitions] = []
        self._has_news = True

    @property
    def partition_count(self) -> int:
        return sum(len(one.partitions) for one in self.owned)

    async def heartbeat(self) -> None:
        """Send one, and take over what the answer assigns."""
        is_first = self.epoch == 0
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=self.member_id,
            member_epoch=self.epoch,
            rebalance_timeout_ms=60_000 if is_first else -1,
            subscribed_topic_names=[self.topic] if is_first else None,
            topic_partitions=self.owned if is_first or self._has_news else None,
        )
        answer = await self.link.ask(request, 1, ConsumerGroupHeartbeatResponse)
        if answer.error_code in LOADING:
            await asyncio.sleep(0.01)
            return
        assert answer.error_code == 0, answer
        self.epoch = answer.member_epoch
        self._has_news = answer.assignment is not None
        if answer.assignment is not None:
            self.owned = answer.assignment.topic_partitions

    async def leave(self) -> None:
        request = ConsumerGroupHeartbeatRequest(group_id=self.group, member_id=self.member_id, member_epoch=-1)
        await self.link.ask(request, 1, ConsumerGroupHeartbeatResponse)
        self.epoch = 0
        self.owned = []


async def _create_topic(job: Job) -> str:
    topic = f"{job.name}-topic"
    link = await Link.open(job.address)
    wanted = CreatableTopic(name=topic, num_partitions=job.partitions, replication_factor=1)
    made = await link.ask(CreateTopicsRequest(topics=[wanted], timeout_ms=60_000), 7, CreateTopicsResponse)
    assert made.topics[0].error_code in (0, TopicAlreadyExists.code), made
    await _find_coordinator(link, job.name)
    link.close()
    return topic


async def _find_coordinator(link: Link, group: str) -> None:
    """Wait until there is one: the first who asks has the topic created."""
    while True:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        found = await link.ask(request, 4, FindCoordinatorResponse)
        if found.coordinators[0].error_code == 0:
            return
        await asyncio.sleep(0.05)


async def classic_stable(job: Job) -> Outcome:
    """New groups, one after the other: the time until all members are in one generation."""
    topic = await _create_topic(job)
    links = [await Link.open(job.address) for _ in range(job.members)]
    times_s = []
    meter = _Meter(job)
    for round_ in range(job.rounds):
        members = [ClassicMember(link, f"{job.name}-{round_}", topic) for link in links]
        started = time.perf_counter()

        async def take_part(member: ClassicMember) -> None:
            await member.join()
            await member.stay_until(job.members, job.heartbeat_ms)

        await asyncio.gather(*map(take_part, members))
        times_s.append(time.perf_counter() - started)
    return meter.read(job.rounds, times_s)


async def classic_rebalance(job: Job) -> Outcome:
    """A large group whose last member leaves and comes back: the time until all are in one generation again."""
    topic = await _create_topic(job)
    members = [ClassicMember(await Link.open(job.address), f"{job.name}-large", topic) for _ in range(job.members)]

    async def take_part(member: ClassicMember) -> None:
        await member.join()
        await member.stay_until(job.members, job.heartbeat_ms)

    await asyncio.gather(*map(take_part, members))
    times_s = []
    meter = _Meter(job)
    for _ in range(job.rounds):
        newcomer = ClassicMember(await Link.open(job.address), f"{job.name}-large", topic)
        members.append(newcomer)
        started = time.perf_counter()
        waiting = [asyncio.create_task(member.stay_until(len(members), job.heartbeat_ms)) for member in members[:-1]]
        await newcomer.join()
        await newcomer.stay_until(len(members), job.heartbeat_ms)
        await asyncio.gather(*waiting)
        times_s.append(time.perf_counter() - started)
    return meter.read(job.rounds, times_s)


async def _settle(members: list[ConsumerMember], partition_count: int, heartbeat_ms: float) -> None:
    """Heartbeats of all until every partition is owned by one of them, evenly, and all are in one epoch."""
    most = -(-partition_count // len(members))

    def is_settled() -> bool:
        counts = [member.partition_count for member in members]
        return (
            sum(counts) == partition_count
            and max(counts) <= most
            and len({member.epoch for member in members}) == 1
            and not any(member._has_news for member in members)
        )

    async def beat(member: ConsumerMember) -> None:
        while not is_settled():
            await member.heartbeat()
            await asyncio.sleep(heartbeat_ms / 1000)

    await asyncio.gather(*map(beat, members))


async def consumer_stable(job: Job) -> Outcome:
    """The same as `classic_stable` with the consumer protocol."""
    topic = await _create_topic(job)
    links = [await Link.open(job.address) for _ in range(job.members)]
    times_s = []
    meter = _Meter(job)
    for round_ in range(job.rounds):
        members = [ConsumerMember(link, f"{job.name}-{round_}", topic, number) for number, link in enumerate(links)]
        started = time.perf_counter()
        await _settle(members, job.partitions, job.heartbeat_ms)
        times_s.append(time.perf_counter() - started)
    return meter.read(job.rounds, times_s)


async def consumer_rebalance(job: Job) -> Outcome:
    """The same as `classic_rebalance` with the consumer protocol."""
    topic = await _create_topic(job)
    group = f"{job.name}-large"
    members = [ConsumerMember(await Link.open(job.address), group, topic, number) for number in range(job.members)]
    await _settle(members, job.partitions, job.heartbeat_ms)
    times_s = []
    meter = _Meter(job)
    for _ in range(job.rounds):
        members.append(ConsumerMember(await Link.open(job.address), group, topic, len(members)))
        started = time.perf_counter()
        await _settle(members, job.partitions, job.heartbeat_ms)
        times_s.append(time.perf_counter() - started)
    return meter.read(job.rounds, times_s)


async def idle(job: Job) -> Outcome:
    """Many groups that do nothing but heartbeats: what the broker computes and holds meanwhile."""
    topic = await _create_topic(job)
    everyone: list[ClassicMember] = []

    async def take_part(member: ClassicMember) -> None:
        await member.join()
        await member.stay_until(job.members, FAST_MS)

    for number in range(job.groups):
        members = [
            ClassicMember(await Link.open(job.address), f"{job.name}-{number}", topic) for _ in range(job.members)
        ]
        await asyncio.gather(*map(take_part, members))
        everyone += members

    async def stay(member: ClassicMember, delay_s: float, end: float) -> int:
        await asyncio.sleep(delay_s)
        beats = 0
        while time.monotonic() < end:
            assert await member.heartbeat(), f"{member.group} rebalances"
            beats += 1
            await asyncio.sleep(job.heartbeat_ms / 1000)
        return beats

    meter = _Meter(job)
    end = time.monotonic() + job.duration_s
    step_s = job.heartbeat_ms / 1000 / len(everyone)
    beats = await asyncio.gather(*(stay(member, number * step_s, end) for number, member in enumerate(everyone)))
    return meter.read(sum(beats))


async def commit(job: Job) -> Outcome:
    """Consumers of one group each, that commit one partition's offset as soon as the commit before is answered."""
    topic = await _create_topic(job)
    members = [
        ClassicMember(await Link.open(job.address), f"{job.name}-{number}", topic) for number in range(job.members)
    ]
    await asyncio.gather(*(member.join() for member in members))

    async def work(member: ClassicMember, index: int) -> None:
        for offset in range(job.rounds):
            request = _commit_request(member.group, topic, [index % job.partitions], offset)
            request.member_id, request.generation_id_or_member_epoch = member.member_id, member.generation
            answer = await member.link.ask(request, 9, OffsetCommitResponse)
            assert answer.topics[0].partitions[0].error_code == 0, answer

    meter = _Meter(job)
    await asyncio.gather(*(work(member, index) for index, member in enumerate(members)))
    return meter.read(job.members * job.rounds)


async def fill(job: Job) -> Outcome:
    """Committed offsets for every partition of a topic in many groups, without members."""
    topic = await _create_topic(job)
    link = await Link.open(job.address)
    meter = _Meter(job)
    for number in range(job.groups):
        request = _commit_request(f"{job.name}-{number}", topic, range(job.partitions), number)
        while True:
            answer = await link.ask(request, 9, OffsetCommitResponse)
            codes = {one.error_code for one in answer.topics[0].partitions}
            if codes.isdisjoint(LOADING):
                break
            await asyncio.sleep(0.01)  # a new broker, whose coordinators are not all there yet
        assert codes == {0}, answer
    return meter.read(job.groups * job.partitions)


async def fetch_all(job: Job) -> Outcome:
    """Ask for the offsets of all groups that `fill` made, until each is answered in full."""
    link = await Link.open(job.address)
    meter = _Meter(job)
    found = 0
    for number in range(job.groups):
        while True:
            asked = OffsetFetchRequestGroup(group_id=f"{job.name}-{number}", topics=None)
            answer = await link.ask(OffsetFetchRequest(groups=[asked], require_stable=False), 9, OffsetFetchResponse)
            group = answer.groups[0]
            if group.error_code in LOADING:
                await asyncio.sleep(0.002)
                continue
            assert group.error_code == 0, group
            found += sum(len(one.partitions) for one in group.topics)
            break
    assert found == job.groups * job.partitions, f"{found} offsets of {job.groups * job.partitions} are there"
    return meter.read(found)


def _commit_request(group: str, topic: str, partitions: range | list[int], offset: int) -> OffsetCommitRequest:
    return OffsetCommitRequest(
        group_id=group,
        member_id="",
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                partitions=[
                    OffsetCommitRequestPartition(index, committed_offset=offset, committed_metadata="")
                    for index in partitions
                ],
            )
        ],
    )


JOBS: dict[str, Callable[[Job], Awaitable[Outcome]]] = {
    "classic_stable": classic_stable,
    "classic_rebalance": classic_rebalance,
    "consumer_stable": consumer_stable,
    "consumer_rebalance": consumer_rebalance,
    "idle": idle,
    "commit": commit,
    "fill": fill,
    "fetch_all": fetch_all,
}


async def _main(job: Job) -> Outcome:
    return await JOBS[job.kind](job)


if __name__ == "__main__":
    print(json.dumps(asdict(asyncio.run(_main(Job(**json.loads(sys.argv[1])))))))
