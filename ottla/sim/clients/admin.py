"""An administrator: makes, deletes and grows topics, deletes records, and looks whether all that is so.

Also the surveyor, which reads a whole node after each start, before anybody else may, and compares it with the history.
"""

from __future__ import annotations

from collections.abc import Mapping

from ottla.errors import (
    InvalidReplicaAssignment,
    InvalidReplicationFactor,
    TopicAlreadyExists,
    UnknownTopicId,
    UnknownTopicOrPartition,
    error_class,
)
from ottla.sim.clients.client import Client, Topic
from ottla.sim.clients.link import LOST
from ottla.sim.history import PartitionHistory, Value, Violation, read_values
from ottla.types import ZERO_UUID, Uuid
from ottla.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse, DeleteTopicState
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

EARLIEST, LATEST = -2, -1
CREATE_VERSION = 7
DELETE_VERSION = 6
FETCH_VERSION = 13
LIST_VERSION = 7
SURVEY_BYTES = 1 << 20
PATIENCE_MS = 20_000
"""How long a node that has come back may be without leaders."""


class Admin(Client):
    """See the module."""

    async def create(
        self,
        name: str,
        partition_count: int,
        configs: Mapping[str, str] | None = None,
        *,
        replicas: list[int] | None = None,
    ) -> Topic | None:
        """Make a topic; None when it cannot be known whose topic of that name is there."""
        assignments = (
            [CreatableReplicaAssignment(index, replicas) for index in range(partition_count)] if replicas else []
        )
        topic = CreatableTopic(
            name,
            -1 if replicas else partition_count,
            -1 if replicas else 1,
            assignments,
            [CreatableTopicConfig(key, value) for key, value in (configs or {}).items()],
        )
        is_first = True
        while True:
            try:
                response: CreateTopicsResponse = await self.ask(
                    CreateTopicsRequest([topic], timeout_ms=10_000), CREATE_VERSION
                )
            except LOST:
                is_first = False
                await self.pause()
                continue
            (result,) = response.topics
            if result.error_code == 0:
                self.trace(f"{self.name} made {name} {result.topic_id}")
                self.history.created[result.topic_id] = name
                return Topic(name, result.topic_id, partition_count)
            error = error_class(result.error_code)
            if error is TopicAlreadyExists and not is_first:
                return (await self.topics([name])).get(name)  # an earlier try that was not answered
            # While the broker is fenced, or on its way out, there is nowhere to put a topic.
            if not error.retriable and error not in (InvalidReplicaAssignment, InvalidReplicationFactor):
                raise Violation(f"{self.name}: making {name} is answered with {error.name}: {result.error_message}")
            await self.pause()

    async def delete(self, topic: Topic) -> None:
        """Delete a topic by its id; returns when it is known to be gone."""
        self.history.doomed.add(topic.id)
        self.history.created.pop(topic.id, None)
        is_first = True
        while True:
            try:
                response: DeleteTopicsResponse = await self.ask(
                    DeleteTopicsRequest([DeleteTopicState(None, topic.id)], timeout_ms=10_000), DELETE_VERSION
                )
            except LOST:
                is_first = False
                await self.pause()
                continue
            (result,) = response.responses
            code = result.error_code
            if code == 0 or (code in (UnknownTopicId.code, UnknownTopicOrPartition.code) and not is_first):
                self.trace(f"{self.name} deleted {topic.name} {topic.id}")
                self.history.deleted.add(topic.id)
                return
            if not error_class(code).retriable or code in (UnknownTopicId.code, UnknownTopicOrPartition.code):
                raise Violation(f"{self.name}: deleting {topic.name} is answered with {error_class(code).name}")
            await self.pause()

    async def delete_records(self, partition: PartitionHistory, offset: int) -> None:
        """Let a partition begin at an offset that was acknowledged; what comes of it is seen later."""
        partition.deleted_to = max(partition.deleted_to, offset)
        topic = DeleteRecordsTopic(partition.topic, [DeleteRecordsPartition(partition.index, offset)])
        try:
            response: DeleteRecordsResponse = await self.ask(DeleteRecordsRequest([topic], timeout_ms=10_000))
        except LOST:
            return
        ((found,),) = ([*one.partitions] for one in response.topics)
        if not found.error_code and found.low_watermark < offset:
            raise Violation(f"{self.name}: {partition} begins at {found.low_watermark} after deleting to {offset}")

    # The survey

    async def survey(self, *, may_lose: bool) -> None:
        """Compare all that a node serves after its start with what is known of it. Raises `Violation`."""
        topics = await self.topics()
        for topic_id, name in self.history.created.items():
            deadline_ms = self.world.clock.monotonic_ms() + PATIENCE_MS
            while name not in topics or topics[name].id != topic_id:
                # It may have no leader yet: the broker has only just come back.
                if self.world.clock.monotonic_ms() > deadline_ms:
                    raise Violation(f"topic {name} {topic_id} was made and is not there: {topics.get(name)}")
                await self.pause()
                topics = await self.topics()
        for topic in topics.values():
            if topic.id in self.history.deleted:
                raise Violation(f"topic {topic.name} {topic.id} was deleted and is there")
            if topic.name.startswith("__") or topic.name in self.history.judged_elsewhere:
                continue
            for index in range(topic.partition_count):
                await self._survey_partition(topic, index, may_lose=may_lose)
        self.trace(f"{self.name} has seen {len(topics)} topics")

    async def _survey_partition(self, topic: Topic, index: int, *, may_lose: bool) -> None:
        history = self.history.partition(topic.name, topic.id, index)
        if history.replicated_to is not None:
            return  # its follower is out of reach, so its high watermark waits
        start = await self._offset_of(history, EARLIEST)
        end = await self._offset_of(history, LATEST)
        found: dict[int, Value] = {}
        offset = start
        while offset < end:
            part = await self._read(topic, history, offset)
            if not part:
                raise Violation(f"{history} ends at {end} and serves nothing at {offset}")
            found |= part
            offset = max(found) + 1
        self.history.after_restart(history, start, end, found, may_lose=may_lose)
        await self._check_timestamps(history, found)

    async def _offset_of(self, history: PartitionHistory, timestamp: int) -> int:
        partition = ListOffsetsPartition(partition_index=history.index, timestamp=timestamp)
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(history.topic, [partition])])
        deadline_ms = self.world.clock.monotonic_ms() + PATIENCE_MS
        while True:
            response: ListOffsetsResponse = await self.ask(request, LIST_VERSION)
            ((found,),) = ([*topic.partitions] for topic in response.topics)
            if not found.error_code:
                return found.offset
            error = error_class(found.error_code)
            if not error.retriable or self.world.clock.monotonic_ms() > deadline_ms:
                raise Violation(f"{history} answers {error.name} to ListOffsets {timestamp}")
            await self.pause()

    async def _read(self, topic: Topic, history: PartitionHistory, offset: int) -> dict[int, Value]:
        asked = FetchPartition(partition=history.index, fetch_offset=offset, partition_max_bytes=SURVEY_BYTES)
        response: FetchResponse = await self.ask(
            FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic.name, topic.id, [asked])]), FETCH_VERSION
        )
        ((found,),) = ([*one.partitions] for one in response.responses)
        if response.error_code or found.error_code:
            code = response.error_code or found.error_code
            raise Violation(f"{history} answers {error_class(code).name} to a fetch at {offset}")
        data = found.records
        return read_values(
            history,
            b"" if data is None else data,  # type: ignore[arg-type]
            position=offset,
            high_watermark=found.high_watermark,
        )

    async def _check_timestamps(self, history: PartitionHistory, found: dict[int, Value]) -> None:
        """Look one time up and compare with what was read."""
        # As in Kafka, a time that lies in a segment below the log start is looked for there alone, and in vain.
        if history.is_append_time or history.deleted_to or not found:
            return
        wanted = found[self.chance.choice(list(found))].timestamp + self.chance.randrange(-20, 20)
        expected = next((offset for offset, value in found.items() if value.timestamp >= wanted), -1)
        got = await self._offset_of(history, wanted)
        if got != expected:
            raise Violation(f"{history}: the first record at or after {wanted} is at {expected}, and told as {got}")


class Operator(Admin):
    """An administrator at work: every now and then it changes something."""

    spare_topic = "spare"
    interval_ms = 2_000.0

    async def work(self) -> None:
        spare: Topic | None = None
        while not self.is_stopping:
            await self.world.tasks.sleep_ms(self.interval_ms * self.chance.uniform(0.1, 2))
            choice = self.chance.randrange(4)
            if choice == 0 and spare is None:
                spare = await self.create(self.spare_topic, self.chance.randint(1, 3), replicas=[1])
            elif choice == 1 and spare is not None:
                await self.delete(spare)
                spare = None
            elif choice == 2:
                await self._delete_some()
            else:
                self._check_listing(await self.topics())

    async def _delete_some(self) -> None:
        candidates = [
            one for one in self.history.partitions.values() if one.acknowledged and one.topic_id in self.history.created
        ]
        if candidates and self.history.may_delete_records:
            one = self.chance.choice(candidates)
            await self.delete_records(one, self.chance.choice(list(one.acknowledged)))

    def _check_listing(self, topics: Mapping[str, Topic]) -> None:
        gone: set[Uuid] = self.history.deleted
        for topic in topics.values():
            if topic.id in gone or topic.id == ZERO_UUID:
                raise Violation(f"{self.name}: {topic} is listed")
